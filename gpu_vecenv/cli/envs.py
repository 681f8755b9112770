"""The command ``envs``: a line for each id of this package."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from gymnasium.spaces import MultiDiscrete, Space

from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.env_spec import EnvSpec


def envs() -> int:
    """List the ids of this package, with agents, the action of an agent, and a description.

    Ids with parameters in their names, such as WarpForaging-8x8-2p-2f-coop-v3, are on the pages of their envs. An env of
    another package is named with the module that registers it: MODULE:ID.

    Example: gpu-vecenv envs

    Returns:
        0.
    """
    for line in lines():
        print(line)
    return 0


def _spelled(space: Space) -> str:
    """Return a space in a few words."""
    if isinstance(space, MultiDiscrete) and space.nvec.size > 4:
        choices = sorted({int(n) for n in space.nvec.flat})
        return f"{space.nvec.size} entries of {' or '.join(map(str, choices))}"
    return str(space).replace(", float32)", ")")


def lines() -> Iterator[str]:
    """Yield a line for each id, from the env's spec with default parameters and its module's docstring."""
    for name, arguments in IDS.items():
        module = importlib.import_module(arguments["vector_entry_point"].partition(":")[0])
        spec: EnvSpec = importlib.import_module(f"{module.__name__}.spec").SPEC
        params = spec.resolve({})
        agents = " + ".join(f"{count} {role}" for role, count in spec.role_counts(params).items())
        spaces = [role.action(params) for role in spec.groups if role.action is not None]
        action = " + ".join(map(_spelled, spaces))
        yield f"{name:29}{agents + ' ':24}{action + ' ':29}{(module.__doc__ or '').splitlines()[0]}"
