"""Flags about the next actions in the present state of a vector env."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_vecenv.vector.one_caller import OneCaller, one_caller
from gpu_vecenv.vector.tree import Convert, nest

if TYPE_CHECKING:
    from gpu_vecenv.vector.results import Results
    from gpu_vecenv.vector.worlds import Worlds


class AdvisedEnv:
    """Base of a vector env that says which actions are allowed, and which of their entries have an effect."""

    if TYPE_CHECKING:
        worlds: Worlds
        _guard: OneCaller
        _places: Results
        _convert: Convert | None

        def _require_started(self, call: str) -> None: ...

    @one_caller
    def action_mask(self) -> Any:
        """Masks of the present state like ``info["action_mask"]``, in fresh arrays; None without masks. Changes nothing."""
        return self._flags("action_mask")

    @one_caller
    def action_effects(self) -> Any:
        """Flags of the present state like ``info["action_effects"]``, in fresh arrays; None without flags. Changes nothing."""
        return self._flags("action_effects")

    def _flags(self, name: str) -> Any:
        self._require_started(f"{name}()")
        place = self._places.public.get(name)
        return None if place is None else nest(place, self.worlds.observe(), self._convert)
