"""Data of a page on an env, as JSON: its plan, pictures, agents, controls, and the hash of a recorded trajectory."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.canvas import find_renderer
from gpu_vecenv.render.controls import HELD, Controls, plain_controls
from gpu_vecenv.render.expressions import REDUCTIONS
from gpu_vecenv.render.plain import plain_pictures
from gpu_vecenv.render.scene_renderer import SceneRenderer
from gpu_vecenv.render.style import THEMES
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import step_limit
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.inputs.autoreset import KERNEL_MODE
from gpu_vecenv.vector.outputs.views import View
from gpu_vecenv.web.plan import Json, make_plan

RECORD_STEPS = 100
"""Steps of the recorded trajectory."""

HASHED = ("reward", "terminated", "truncated")
"""Results of a step that are hashed after the state."""


def env_data(layout: Layout, worlds: int) -> Json:
    """Return what ``page.js`` reads of an env; ``gpu_vecenv/web/page.js`` has the type.

    Args:
        layout: the env.
        worlds: worlds of the page.

    Raises:
        ParameterError: values by world, or a renderer whose pictures are no data.
    """
    if layout.per_world:
        names = ", ".join(layout.per_world)
        raise ParameterError(f"{layout.spec.name}: expected one number for all worlds of a page, got {names} by world.")
    kind = renderer_kind(layout)
    renderer = None if kind is None else kind(layout.params)
    return {
        "env": layout.spec.name,
        "plan": make_plan(View(layout, worlds, by_agent=False)),
        "modes": {mode.name.lower(): number for mode, number in KERNEL_MODE.items() if mode is not AutoresetMode.NEXT_STEP},
        "pictures": pictures_of(layout, kind),
        "palettes": {name: palette._asdict() for name, palette in THEMES.items()},
        "groups": [_group(layout, group) for group in layout.groups],
        "roles": roles_of(layout),
        "controls": controls_of(layout, renderer),
    }


# ---- pictures -----------------------------------------------------------------------------------------------------


def renderer_kind(layout: Layout) -> type[SceneRenderer] | None:
    """Return the class of the renderer of an env; None without ``render.py``.

    Raises:
        ParameterError: its pictures are no data.
    """
    folder = layout.spec.kernel.parent
    if not (folder / "render.py").is_file():
        return None
    renderer = find_renderer(folder)
    if not issubclass(renderer, SceneRenderer):
        raise ParameterError(
            f"{layout.spec.name}: a page draws pictures that are data; expected a Renderer derived from SceneRenderer in "
            f"{folder / 'render.py'}, got {renderer.__name__} of {renderer.__bases__[0].__name__}."
        )
    return renderer


def pictures_of(layout: Layout, kind: type[SceneRenderer] | None) -> Json:
    """Return the pictures of an env as data. The variables are numbered anew, so equal pictures are equal data."""
    if kind is not None:
        return renumbered(kind(layout.params).describe())
    shapes = [(field.name, layout.state_shape(field, 1)[1:]) for field in layout.spec.state]
    return renumbered(plain_pictures(layout.spec.name, step_limit(layout.params), shapes).json)


def renumbered(json: Json) -> Json:
    """Return a description with the numbers of its variables from 1 on, in the order in which they are met."""
    new_numbers: dict[int, int] = {}

    def new(number: int) -> int:
        return new_numbers.setdefault(number, len(new_numbers) + 1)

    def walk(part: Any) -> Any:
        if isinstance(part, Mapping):
            return {key: new(value) if key == "variable" else walk(value) for key, value in part.items()}
        if not isinstance(part, list | tuple):
            return part
        if len(part) == 2 and part[0] == "i" and isinstance(part[1], int):
            return ["i", new(part[1])]
        if len(part) == 4 and isinstance(part[0], str) and part[0] in REDUCTIONS:
            return [part[0], new(part[1]), part[2], walk(part[3])]
        return [walk(each) for each in part]

    result: Json = walk(json)
    return result


# ---- agents -------------------------------------------------------------------------------------------------------


def agents_of(layout: Layout, group: Group) -> int:
    """Return the agents of a group in a world."""
    return group.count if group.role else layout.num_agents


def _group(layout: Layout, group: Group) -> Json:
    return {
        "prefix": group.prefix, "count": agents_of(layout, group), "features": group.num_features, "shared": group.num_shared,
        "maskColumns": group.num_choices, "entries": group.num_entries, "choices": list(group.choices),
        "continuous": group.continuous, "obs": f"{group.prefix}obs", "sharedObs": f"{group.prefix}shared_obs",
        "mask": f"{group.prefix}action_mask",
    }  # fmt: skip


def roles_of(layout: Layout) -> list[Json]:
    """Return for each role with agents its name, group, number of agents, and the first one's number in group and world."""
    roles, number = [], 0
    for role, count in layout.role_counts.items():
        index = next((k for k, group in enumerate(layout.groups) if group.role == role), 0)
        first = 0 if layout.groups[index].role else number
        if count:
            roles.append({"name": role, "group": index, "first": first, "agents": count, "number": number})
        number += count
    return roles


def controls_of(layout: Layout, renderer: SceneRenderer | None) -> dict[str, Json]:
    """Return the controls by role."""
    by_role = {} if renderer is None else dict(renderer.controls(layout.params, HELD))
    if unknown := sorted({*by_role} - {*layout.role_counts}):
        raise ParameterError(f"{layout.spec.name}: controls(): expected roles out of {list(layout.role_counts)}, got {unknown}.")
    for role in roles_of(layout):
        group = layout.groups[role["group"]]
        if role["name"] not in by_role and (plain := _plain_controls(group)) is not None:
            by_role[role["name"]] = plain
        if role["name"] in by_role and len(by_role[role["name"]].entries) > group.num_entries:
            got = len(by_role[role["name"]].entries)
            raise ParameterError(f"{layout.spec.name}: controls(): expected at most {group.num_entries} entries, got {got}.")
    return {role: steered.json for role, steered in by_role.items()}


def _plain_controls(group: Group) -> Controls | None:
    box = group.action if isinstance(group.action, Box) else None
    bounds = [] if box is None else [*zip(box.low.reshape(-1).tolist(), box.high.reshape(-1).tolist(), strict=True)]
    return plain_controls(group.choices, bounds)


# ---- the record ---------------------------------------------------------------------------------------------------


def make_record(env: GpuVectorEnv[np.ndarray], seed: int = 0) -> Json | None:
    """Return the hash of a trajectory of random actions; None if the actions have no bounds to draw between.

    Args:
        env: NumPy arrays in the worlds view, in same-step mode, as many worlds as the page has.
        seed: seed of the worlds.
    """
    if not env.worlds.arguments.can_draw:
        return None
    digest = hashlib.sha256()
    env.reset(seed=seed)
    for _ in range(RECORD_STEPS):
        _, *results = env.rollout(num_steps=1)
        state = env.get_state()
        for values in itertools.chain((state[field.name] for field in env.layout.state), results[: len(HASHED)]):
            digest.update(np.ascontiguousarray(values).tobytes())
    return {"seed": seed, "steps": RECORD_STEPS, "hashed": list(HASHED), "sha256": digest.hexdigest()}


def usual_worlds(layout: Layout) -> int:
    """Return the worlds of a page for which no number is asked: about 1,000 agents, at least 4 worlds."""
    return max(4, min(1_000, math.floor(1_000 / layout.num_agents)))
