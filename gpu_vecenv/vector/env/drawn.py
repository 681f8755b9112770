"""Pictures of a vector env."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.worlds import MAX_TILES, WorldRenderers, warn_without_mode
from gpu_vecenv.spec.given import abbreviated, whole_number
from gpu_vecenv.vector.env.one_caller import OneCaller, one_caller

if TYPE_CHECKING:
    from gpu_vecenv.spec.env_spec import EnvSpec
    from gpu_vecenv.vector.worlds.worlds import Worlds


class DrawnEnv:
    """Base of a vector env that can be drawn: a frame for each env as in Gymnasium, or one picture of many worlds."""

    if TYPE_CHECKING:
        env_spec: EnvSpec
        num_worlds: int
        worlds: Worlds
        render_mode: str | None
        _guard: OneCaller
        _renderers: WorldRenderers

        def _require_started(self, call: str) -> None: ...

    @one_caller
    def render(self) -> tuple[np.ndarray, ...] | None:
        """Draw one uint8 (H, W, 3) frame an env; rows of a world get the same one. Without ``render_mode``, warn and return None.

        Raises ParameterError for a state of which a shape lies too far outside the picture, and for numbers that are not finite.
        """
        self._require_started("render()")
        if self.render_mode is None:
            warn_without_mode("make_vec", self.env_spec.name)
            return None
        frames = self._renderers.frames(self.worlds.state.on_host())
        return tuple(frames[world] for world in self.worlds.view.world_of_env)

    @one_caller
    def picture(self, worlds: int = 9) -> np.ndarray:
        """Draw the first worlds in one picture with one legend; works with every render mode and without one.

        Args:
            worlds: number of worlds to draw, at most 1,000; all, if there are fewer.

        Returns:
            The picture, uint8 (H, W, 3).

        Raises:
            ParameterError: ``worlds`` is out of range, or a state cannot be drawn, as in ``render()``.
            SequenceError: the env has not been reset.
            MissingExtraError: Pillow is not installed.
        """
        self._require_started("picture()")
        count = whole_number(worlds)
        if count is None or not 1 <= count <= MAX_TILES:
            raise ParameterError(f"worlds must be an integer from 1 to {MAX_TILES}, got {abbreviated(worlds)}.")
        return self._renderers.first(min(count, self.num_worlds)).picture(self.worlds.state.on_host())
