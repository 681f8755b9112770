"""All worlds of one env on one device: their memory and the launches of their kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from gpu_vecenv.backend.base import Backend
from gpu_vecenv.backend.memory import Memory
from gpu_vecenv.errors import ActionError, SequenceError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.validation import Array
from gpu_vecenv.vector.inputs.actions import KernelActions
from gpu_vecenv.vector.inputs.autoreset import KERNEL_MODE
from gpu_vecenv.vector.inputs.rollout_plan import RolloutPlan
from gpu_vecenv.vector.outputs.choices import require_choices
from gpu_vecenv.vector.outputs.outputs import OutputArrays, Outputs
from gpu_vecenv.vector.outputs.views import View
from gpu_vecenv.vector.worlds.arguments import Arguments
from gpu_vecenv.vector.worlds.reset_pool import ResetPool
from gpu_vecenv.vector.worlds.state import State


class Worlds:
    """Arrays of all worlds, and one method for each kernel.

    Methods take arguments that were checked before. They expect one caller at a time and a reset before the first step.
    ``GpuVectorEnv`` checks all of this. Results are arrays on the device.

    Args:
        view: number of worlds, and shapes of public arrays.
        backend: compiled kernels of the env on a device.
        output_memory: allocator of the arrays that a reset, a step or a rollout writes.
        autoreset_mode: one of Gymnasium's modes.
        copy: True to write fresh arrays in every call, False to write one persistent set.

    Attributes:
        memory: memory of the state.
        state: the state fields.
        outputs: the arrays that the next call writes.
        pool: the reset pool.
        arguments: the argument struct of the kernels.
    """

    def __init__(self, view: View, backend: Backend, output_memory: Memory, autoreset_mode: AutoresetMode, copy: bool) -> None:
        self.view, self.backend, self.output_memory = view, backend, output_memory
        self.num_worlds = view.num_worlds
        self.memory = backend.memory
        self.state = State(view.layout, view.num_worlds, self.memory)
        self.outputs = Outputs(view, output_memory, autoreset_mode is AutoresetMode.SAME_STEP, copy)
        self.pool = ResetPool(view.layout, self.memory)
        addresses = self.state.addresses() | self.pool.addresses()
        self.arguments = Arguments(view, self.memory, addresses, KERNEL_MODE[autoreset_mode])

    # ---- steps ------------------------------------------------------------------------------------------------

    def reset(
        self, keys: tuple[np.ndarray, np.ndarray] | None, mask: np.ndarray | None, options: np.ndarray
    ) -> OutputArrays:
        """Start new episodes.

        Args:
            keys: ``seed`` and ``world_id`` of all worlds, as ``world_keys()`` returns them; None to keep the present ones.
            mask: bool (num_worlds,), worlds to reset; None for all.
            options: float32, the reset options as ``read_options()`` returns them.
        """
        if keys is not None:
            self.state.set_keys(*keys, mask)
        results = self.outputs.for_reset(partial=mask is not None)
        self.arguments.set_reset(mask, options)
        self.arguments.set_outputs(results)
        self.backend.launch("gv_reset", self.arguments.struct, self.num_worlds)
        return results

    def step(self, actions: KernelActions | list[KernelActions]) -> OutputArrays:
        """Advance every world by one step.

        Args:
            actions: what ``ActionReader.read()`` or ``RoleActions.read()`` returns.

        Raises:
            SequenceError: the bound slabs are full.
        """
        results = self.outputs.for_step()
        self.arguments.set_actions(actions)
        self.arguments.set_outputs(results)
        self.backend.launch("gv_step", self.arguments.struct, self.num_worlds)
        return results

    def rollout(self, plan: RolloutPlan) -> OutputArrays:
        """Advance every world by the steps of a plan, in one launch; results have the leading axis steps.

        Raises:
            SequenceError: bound slabs have no room for the steps.
            OutOfMemoryError: the device has no room for the results.
        """
        results = self.outputs.for_rollout(plan.num_steps, plan.keep)
        drawn = [0] * len(plan.strides)
        if plan.draw:
            arrays = results.actions if plan.keep else self.outputs.actions_of_a_step()
            drawn = [self.output_memory.address(array) for array in arrays]
        self.arguments.set_actions(plan.actions)
        self.arguments.set_rollout(plan.num_steps, plan.strides, drawn)
        self.arguments.set_outputs(results)
        self.backend.launch("gv_rollout", self.arguments.struct, self.num_worlds)
        self.outputs.end_rollout(results)
        return results

    def begin_rollout(self, num_steps: int) -> np.ndarray:
        """Return the argument struct of a rollout by a kernel of the caller, which fills the next slots of the bound slabs.

        The struct is that of ``arguments``, and the next call overwrites it.

        Raises:
            SequenceError: bound slabs have no room for the steps.
        """
        self.arguments.set_outputs(self.outputs.for_rollout(num_steps, False))
        return self.arguments.struct

    # ---- state ------------------------------------------------------------------------------------------------

    def observe(self) -> dict[int, Array]:
        """Observations and masks of the present state in fresh arrays, by their index in ``Results``."""
        arrays, results = self.outputs.new_carried(), self.outputs.results
        self._observe("gv_observe", arrays)
        return {results.indices[name]: array for name, array in zip(results.carried, arrays, strict=True)}

    def last(self) -> dict[int, Array]:
        """The last observations and masks, by their index in ``Results``; the next call may overwrite them."""
        arrays, results = self.outputs.last_carried() or (), self.outputs.results
        return {results.indices[name]: array for name, array in zip(results.carried, arrays, strict=True)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Overwrite the fields given, and replace the last observation by that of the new state; errors as in ``State.set()``."""
        self.state.set(state)
        if "pool_entry" in state:
            self.pool.forget_entries()
        self._observe("gv_observe", self.outputs.new_last_obs())

    def set_params(self, changed: Layout) -> None:
        """Take parameters that change no sizes, see ``changed_layout()``, from the next step on; the state stays as it is."""
        layout = self.view.layout
        self.arguments.set_numbers(layout, changed)
        layout.take_numbers(changed)

    def copy(self, sources: np.ndarray, overlap: bool, fork: tuple[int, int] | None) -> None:
        """Copy worlds onto others, and replace the last observation by that of the new state.

        Args:
            sources: int32 (num_worlds,), the world to copy into each world, -1 for none.
            overlap: True if some world is both a source and a target.
            fork: new seed of the copies and ``world_id`` of world 0; None to keep the random keys of the originals.
        """
        fields = self.state.copies() if overlap else list(self.state.fields.values())
        self.state.unshare_keys()
        self.arguments.set_copy(sources, fields, fork)
        self._observe("gv_copy", self.outputs.new_last_obs())

    def _observe(self, kernel: str, arrays: Sequence[Array]) -> None:
        """Launch a kernel that writes observations and masks and no other output."""
        for name, array in zip(self.outputs.results.carried, arrays, strict=True):
            self.arguments.set(**{name: self.output_memory.address(array)})
        self.backend.launch(kernel, self.arguments.struct, self.num_worlds)

    # ---- checks -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise ActionError if kernels counted invalid actions since the last check. Waits for the device."""
        count = int(self.memory.to_numpy(self.arguments.invalid)[0])
        if count:
            with self.memory.here():
                self.arguments.invalid[...] = 0
            raise ActionError(f"{count} actions were out of range or NaN since the last check; each acted as index 0.")

    def check_step(self, results: OutputArrays) -> None:
        """Raise ActionError as ``check()`` does, and for a mask in the results that allows no choice. Waits for the device."""
        self.check()
        require_choices(self.view.layout, self.outputs.results, self.output_memory, results.arrays)

    def require_capturable(self, waits: str = "") -> None:
        """Raise SequenceError if a CUDA graph is being captured and a step cannot be part of it.

        Args:
            waits: the env's option that makes each step wait for the device; "" if it has none.
        """
        if waits:
            self.require_wait(f"a step with {waits}", "make another env")
        if self.outputs.fresh and self.backend.capturing():
            raise SequenceError("copy=True allocates in every step, which a CUDA graph cannot do; use bind() or copy=False.")

    def require_wait(self, call: str, remedy: str = "call it before or after the capture") -> None:
        """Raise SequenceError, with the name of a call that waits for the device, if a CUDA graph is being captured."""
        if not self.backend.may_wait():
            raise SequenceError(f"{call} waits for the device, which a CUDA graph cannot do; {remedy}.")

    def replay(self, graph: Any, num_steps: int) -> None:
        """Run a CUDA graph whose steps write the bound slabs."""
        self.outputs.rewind()
        graph.replay()
        self.outputs.move_to(num_steps)
