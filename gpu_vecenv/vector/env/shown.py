"""How a vector env is printed, and shown in a notebook."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Box, Space

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.render.notebook import picture_html, png, table_html
from gpu_vecenv.render.worlds import WorldRenderers
from gpu_vecenv.spec.given import host_array
from gpu_vecenv.vector.env.drawn import DrawnEnv
from gpu_vecenv.vector.env.one_caller import one_caller

if TYPE_CHECKING:
    from gymnasium.vector import AutoresetMode

    from gpu_vecenv.spec.layout import Layout
    from gpu_vecenv.spec.params import Params

DRAWN_WORLDS = 4
"""Most worlds in the picture of an env."""

PICTURE_WIDTH = 720


class ShownEnv(DrawnEnv):
    """Base of a vector env that prints one line, and shows a table and a picture of its first worlds in a notebook."""

    if TYPE_CHECKING:
        layout: Layout
        params: Params
        num_envs: int
        num_agents: int
        role_counts: dict[str, int]
        single_observation_space: Space
        single_action_space: Space
        view: str
        array: str
        device: str
        autoreset_mode: AutoresetMode
        _started: bool
        closed: bool

    def __repr__(self) -> str:
        """Name, size, device."""
        return f"GpuVectorEnv({self.env_spec.name}, num_envs={self.num_envs}, view={self.view}, device={self.device})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows, without the picture if it cannot be drawn."""
        picture = ""
        if self._started and not self.closed:
            # Such as no Pillow, no renderer, a shape too far away to draw, a graph that is captured, or a call of another thread.
            with contextlib.suppress(GpuVecenvError):
                picture = self._picture()
        return table_html(self._rows()) + picture

    def _rows(self) -> dict[str, object]:
        roles = ", ".join(f"{role}: {count:,}" for role, count in self.role_counts.items())
        rows: dict[str, object] = {
            "env": self.env_spec.name,
            "worlds": f"{self.num_worlds:,}",
            "agents in a world": roles if len(self.role_counts) > 1 or self.num_agents > 1 else 1,
        }
        for group in self.layout.groups:
            name = f" of a {group.role}" if group.role else "" if self.num_agents == 1 else " of an agent"
            shared = f", and {_text(group.shared)} in common" if group.shared is not None else ""
            rows[f"observation{name}"] = _text(group.observation) + shared
            rows[f"action{name}"] = _text(group.action) + (", with masks" if group.masked else "")
        rows["view"] = f"{self.view}, leading axis {self.num_envs:,}"
        rows["arrays"] = f"{self.array}, on {self.device}"
        rows["autoreset"] = self.autoreset_mode.name.lower()
        return rows

    @one_caller
    def _picture(self) -> str:
        self.worlds.require_wait("a picture")
        count = min(DRAWN_WORLDS, self.num_worlds)
        state: dict[str, Any] = {name: host_array(array[:count]) for name, array in self.worlds.state.fields.items()}
        # New renderers, because those of the env keep trails of the pictures that it drew.
        picture = WorldRenderers(self.env_spec, self.params, count, self._renderers.style).picture(state)
        hidden = self.num_worlds - count
        caption = f"<p>The first {count} worlds; {hidden:,} more are not drawn.</p>" if hidden else ""
        width = PICTURE_WIDTH if count > 1 else PICTURE_WIDTH // 2
        return picture_html(png([picture], width=width), width) + caption


def _text(space: Space) -> str:
    """Return a space in a few words; the bounds of a Box only if all its numbers have the same."""
    if not isinstance(space, Box):
        return repr(space)
    low, high = space.low.min(), space.high.max()
    same = space.low.max() == low and space.high.min() == high and space.is_bounded()
    return f"{space.dtype} {space.shape}" + (f", from {low:g} to {high:g}" if same else "")
