"""Pictures of worlds: one renderer a world, as a renderer remembers trails from frame to frame."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpu_vecenv.render import find_renderer
from gpu_vecenv.spec import EnvSpec, Params


class WorldRenderers:
    """Renderers of all worlds of an env."""

    def __init__(self, env_spec: EnvSpec, params: Params, num_worlds: int) -> None:
        renderer = find_renderer(env_spec.kernel.parent)
        self._renderers = [renderer(params) for _ in range(num_worlds)]

    def frames(self, state: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """One uint8 (H, W, 3) frame a world, from state arrays with the leading axis worlds."""
        return [
            renderer.frame({name: array[world] for name, array in state.items()})
            for world, renderer in enumerate(self._renderers)
        ]
