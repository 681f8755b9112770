"""Ids that stand for an env with parameters, as the packages that the env follows have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple


class Variant(NamedTuple):
    """An env with parameters under an id of its own.

    Attributes:
        env_id: id of the env in ``registration.IDS``.
        params: parameters of the env by name.
    """

    env_id: str
    params: Mapping[str, Any]


def _foraging() -> Iterator[tuple[str, Variant]]:
    """Yield the ids that lbforaging 2.0.0 registers, with "Warp" in front, and their arguments."""
    for size, players, foods, coop, near in product(range(5, 20), range(2, 10), range(1, 5), (True, False), (True, False)):
        name = f"WarpForaging{'-2s' if near else ''}-{size}x{size}-{players}p-{foods}f{'-coop' if coop else ''}-v3"
        params = {
            "players": players,
            "rows": size,
            "cols": size,
            "max_num_food": foods,
            "sight": 2 if near else size,
            "force_coop": coop,
        }
        yield name, Variant("WarpForaging-v3", params)


def _rware() -> Iterator[tuple[str, Variant]]:
    """Yield the ids that rware 2.0.0 registers for flat observations, with "Warp" in front, and their arguments."""
    sizes = {"tiny": (1, 3), "small": (2, 3), "medium": (2, 5), "large": (3, 5)}
    requests = {"-easy": 2.0, "": 1.0, "-hard": 0.5}
    for size, difficulty, agents in product(sizes, requests, range(1, 20)):
        rows, columns = sizes[size]
        params = {
            "shelf_rows": rows,
            "shelf_columns": columns,
            "n_agents": agents,
            "request_queue_size": int(agents * requests[difficulty]),
        }
        yield f"WarpRware-{size}-{agents}ag{difficulty}-v2", Variant("WarpRware-v2", params)


VARIANTS: dict[str, Variant] = {**dict(_foraging()), **dict(_rware())}
"""Every variant by its id."""
