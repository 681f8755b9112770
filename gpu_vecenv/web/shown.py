"""Plans of some worlds of an env, with their parameters and pictures, for a page that shows them."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_vecenv.render.canvas import find_renderer, has_renderer
from gpu_vecenv.render.scene_renderer import SceneRenderer
from gpu_vecenv.render.worlds import world_params
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import Params
from gpu_vecenv.vector.outputs.views import View
from gpu_vecenv.web.plan import Json, make_plan


def plan_of_worlds(view: View, params: Params, worlds: Sequence[int]) -> Json:
    """Return the plan of some worlds of an env.

    Args:
        view: view of the whole env.
        params: its parameters, which may have changed since the view was made.
        worlds: numbers of the worlds, which become worlds 0, 1, ... of the plan.

    Returns:
        See ``make_plan()``; and ``pictures``, see ``Pictures.json``: one for each world if parameters were given by world, one
        for all worlds otherwise, and none if the env's pictures are not data.
    """
    spec, per_world = view.layout.spec, view.layout.per_world
    few = {name: values[list(worlds)] if name in per_world else values for name, values in params.items()}
    plan = make_plan(View(Layout(spec, few), len(worlds), view.by_agent))
    folder = spec.kernel.parent
    renderer = find_renderer(folder) if has_renderer(folder) else None
    kinds = range(len(worlds)) if per_world else range(1)
    if renderer is None or not issubclass(renderer, SceneRenderer):
        return plan | {"pictures": []}
    return plan | {"pictures": [renderer(world_params(spec, few, world)).describe() for world in kinds]}
