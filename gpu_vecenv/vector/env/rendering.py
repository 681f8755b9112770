"""Pictures of a vector env."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.notebook import picture_html, png
from gpu_vecenv.render.style import Style
from gpu_vecenv.render.worlds import MAX_TILES, WorldRenderers
from gpu_vecenv.spec.validation import abbreviated, host_array, whole_number
from gpu_vecenv.vector.worlds.worlds import Worlds

NOTEBOOK_WORLDS = 4
"""Most worlds in the picture that a notebook shows."""

NOTEBOOK_WIDTH = 720


class Rendering:
    """Draws the worlds of an env: a frame for each env as in Gymnasium, or one picture of many worlds.

    Args:
        worlds: the worlds.
        style: colours and scale.

    Attributes:
        style: the argument of this name.
    """

    def __init__(self, worlds: Worlds, style: Style) -> None:
        self._worlds, self.style = worlds, style
        self._renderers = self._renderers_of(worlds.num_worlds)

    def frames(self) -> tuple[np.ndarray, ...]:
        """Draw one uint8 (H, W, 3) frame an env; rows of a world get the same one."""
        frames = self._renderers.frames(self._worlds.state.on_host())
        return tuple(frames[world] for world in self._worlds.view.world_of_env)

    def picture(self, worlds: int) -> np.ndarray:
        """Draw the first worlds in one picture with one legend, uint8 (H, W, 3).

        Raises:
            ParameterError: ``worlds`` is out of range, or a state cannot be drawn.
        """
        count = whole_number(worlds)
        if count is None or not 1 <= count <= MAX_TILES:
            raise ParameterError(f"worlds must be an integer from 1 to {MAX_TILES}, got {abbreviated(worlds)}.")
        return self._renderers.first(min(count, self._worlds.num_worlds)).picture(self._worlds.state.on_host())

    def html(self) -> str:
        """Return the picture of the first worlds that a notebook shows."""
        worlds = self._worlds
        count = min(NOTEBOOK_WORLDS, worlds.num_worlds)
        state: dict[str, Any] = {name: host_array(array[:count]) for name, array in worlds.state.fields.items()}
        # New renderers, because those of the env keep trails of the pictures that it drew.
        picture = self._renderers_of(count).picture(state)
        hidden = worlds.num_worlds - count
        caption = f"<p>The first {count} worlds; {hidden:,} more are not drawn.</p>" if hidden else ""
        width = NOTEBOOK_WIDTH if count > 1 else NOTEBOOK_WIDTH // 2
        return picture_html(png([picture], width=width), width) + caption

    def _renderers_of(self, num_worlds: int) -> WorldRenderers:
        layout = self._worlds.view.layout
        return WorldRenderers(layout.spec, layout.params, num_worlds, self.style)
