"""Pages in which an env plays with the policies of runs."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.backend.wasm import wasm_module
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.canvas import find_renderer, import_pillow
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.config import TrainConfig, resolve_new
from gpu_vecenv.train.config.checks import check_fields, count, integer
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.policies.page import page_policy
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import Game, game_of
from gpu_vecenv.train.runner.opponents import Opponent
from gpu_vecenv.train.runner.players import Players
from gpu_vecenv.train.storage.policy_map import RANDOM
from gpu_vecenv.train.storage.wrapped_env import as_wrapped
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.web.page_data import env_data, make_record, usual_worlds
from gpu_vecenv.web.page_file import page_files, write_page
from gpu_vecenv.web.page_params import sliders
from gpu_vecenv.web.policy_program import POLICY, program_plan

MAX_WORLDS = 10_000
"""Most worlds of a page, each of which is a picture of at least some pixels."""

MAX_SEED = 2**53 - 1
"""Largest seed, a whole number of JavaScript."""

MAX_RATE = 60
"""Most steps a second at first."""

STILL_STEPS = 20
"""Steps before the picture for browsers that run no scripts."""


@dataclasses.dataclass(frozen=True)
class PageOptions:
    """Options of a page."""

    worlds: int | None = None
    """Worlds of its wall; None for about 1,000 agents, at least 4 worlds."""
    seed: int = 0
    """First seed of its worlds."""
    rate: int = 15
    """Steps a second at first."""
    role: str | None = None
    """Role of the agent that the visitor steers; None for the first one."""
    plays: bool = False
    """The visitor steers an agent from the start."""

    def __post_init__(self) -> None:
        """Check ranges."""
        check_fields(self, {
            "worlds": count(MAX_WORLDS).or_none(), "seed": integer(0, MAX_SEED), "rate": count(MAX_RATE),
        })  # fmt: skip


class PageContent(NamedTuple):
    """Env and policies of a page. A file of it has no code, and a page is made of it without the run."""

    env_id: str
    """Id of the env."""
    params: dict[str, Any]
    """Its parameters, as they were given."""
    policies: dict[str, Any]
    """``policies`` by name and ``spans`` of agents, as ``policy.js`` has them."""
    weights: np.ndarray
    """Weights of all policies, float32."""

    def write(self, path: Path) -> None:
        """Write a file ``.npz``.

        Raises:
            ParameterError: a parameter that JSON cannot hold.
            OSError: the file cannot be written.
        """
        try:
            text = json.dumps([self.env_id, self.params, self.policies])
        except TypeError as error:
            raise ParameterError(f"{self.env_id}: expected parameters that JSON can hold: {error}.") from error
        with atomic_file(path) as partial:
            np.savez_compressed(partial, weights=self.weights, text=np.array(text))

    @classmethod
    def read(cls, path: Path) -> PageContent:
        """Read a file that ``write()`` wrote."""
        with np.load(path) as file:
            env_id, params, policies = json.loads(str(file["text"]))
            return cls(env_id, params, policies, file["weights"])


class Page(NamedTuple):
    """A page that was written."""

    path: Path
    """The file, or the folder."""
    num_bytes: int
    """Bytes of its files."""
    worlds: int
    """Worlds of its wall."""


def page(
    target: str | Path | TrainConfig | None,
    out: str | Path,
    policy_map: Mapping[str, str] | None = None,
    opponents: Mapping[str, Opponent] | None = None,
    options: PageOptions | None = None,
    **changes: Any,
) -> Page:
    """Write a page in which worlds of an env run in a browser, with policies of runs.

    Args:
        target: a run's folder, a checkpoint file, a config, or None, as in ``evaluate()``.
        out: a file that ends with ``.html``, or else a folder.
        policy_map: see ``evaluate()``.
        opponents: see ``evaluate()``.
        options: options of the page.
        **changes: config fields to change, see ``evaluate()``.

    Raises:
        ConfigError: an option is out of range, or a policy that a page cannot have.
        ParameterError: the env has values by world, wrappers, or a renderer whose pictures are no data.
        CheckpointError, PolicyMapError: see ``evaluate()``.
        MissingExtraError: Pillow or the compiler of the extra ``web`` is missing.
        CompileError: the kernels do not compile.
        OSError: a file cannot be written.
    """
    options = PageOptions() if options is None else options
    return write(game_of(target, policy_map, opponents, {**changes, "device": "cpu"}), Path(out), options)


def everyone_random(config: TrainConfig) -> dict[str, str]:
    """Return a policy map in which all roles act at random."""
    with contextlib.closing(make_env(resolve_new(config), 1)) as env:
        return dict.fromkeys(env.role_counts, RANDOM)


def write(game: Game, out: Path, options: PageOptions) -> Page:
    """Write the page of a game; see ``page()``."""
    return write_content(content_of(game), out, options)


def content_of(game: Game) -> PageContent:
    """Return env and policies of a game.

    Raises:
        ConfigError: a policy that a page cannot have.
        ParameterError: the env has wrappers.
    """
    with contextlib.closing(make_env(game.config, 1)) as env:
        if wrapped := as_wrapped(env):
            raise ParameterError(f"page: expected an env without wrappers, got {', '.join(wrapped.wrappers)}.")
        policies, weights = _policies(game.players(env, False))
    return PageContent(game.config.env_id, game.config.env_kwargs, policies, weights)


def write_content(content: PageContent, out: Path, options: PageOptions) -> Page:
    """Write the page of an env and its policies; see ``page()``."""
    config = resolve_new(TrainConfig(content.env_id, device="cpu", env_kwargs=content.params))
    with contextlib.closing(make_env(config, 1)) as env:
        layout = env.layout
    worlds = options.worlds or usual_worlds(layout)
    roles = [role for role, count in layout.role_counts.items() if count]
    if options.role is not None and options.role not in roles:
        raise ParameterError(f"role: expected one of {roles}, got {options.role!r}.")
    kernels = wasm_module(layout.spec)
    data = {**env_data(layout, worlds), **content.policies, "program": program_plan(), "sliders": sliders(layout),
            "record": _record(layout, worlds), "seed": options.seed, "rate": options.rate, "role": options.role,
            "plays": options.plays}  # fmt: skip
    weights = content.weights.astype("<f4").tobytes()
    files = page_files(data, kernels, wasm_module(POLICY), weights, _still(layout, options.seed))
    return Page(out, write_page(files, out, layout.spec.name), worlds)


def _policies(players: Players) -> tuple[dict[str, Any], np.ndarray]:
    """Return the policies by name and the agents that they act for, as ``policy.js`` has them, and all weights."""
    plans, spans, parts = {}, [], list[np.ndarray]()
    groups = players.collector.env.layout.groups
    for name, rows in players.rows.items():
        policy = players.acting[name]
        assert isinstance(policy, Policy)  # the actors of players are policies
        plan = page_policy(policy, rows.group, name)
        plans[name] = {"numbers": plan.numbers, "arrays": plan.arrays, "first": sum(map(len, parts)), "count": len(plan.weights)}
        parts.append(plan.weights)
        for span in rows.spans:
            role, first, agents = span.members.role, span.members.lo, span.agents
            index = next((k for k, group in enumerate(groups) if group.role == role), 0)
            number = span.first_agent + first
            spans.append({"policy": name, "role": role, "group": index, "first": first if groups[index].role else number,
                          "agents": agents, "number": number})  # fmt: skip
    return {"policies": plans, "spans": spans}, np.concatenate(parts)


def _record(layout: Layout, worlds: int) -> Any:
    with contextlib.closing(GpuVectorEnv(layout.spec, num_worlds=worlds, device="cpu", array="numpy", **layout.params)) as env:
        return make_record(env)


def _still(layout: Layout, seed: int) -> bytes:
    """Return a picture of a world after some random steps, as PNG; one pixel without a renderer."""
    image = import_pillow().Image
    picture = image.new("RGB", (1, 1))
    if (layout.spec.kernel.parent / "render.py").is_file():
        renderer = find_renderer(layout.spec.kernel.parent)(layout.params)
        with contextlib.closing(GpuVectorEnv(layout.spec, num_worlds=1, device="cpu", array="numpy", **layout.params)) as env:
            env.reset(seed=seed)
            env.rollout(num_steps=STILL_STEPS)
            picture = image.fromarray(renderer.frame({name: values[0] for name, values in env.get_state().items()}))
        width, height = picture.size
        picture = picture.resize((400, math.ceil(400 * height / width))).quantize(16)
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()
