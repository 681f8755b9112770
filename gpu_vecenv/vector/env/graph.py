"""CUDA graph of many steps of an env, with the calls of a policy between them. The host launches it once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv, VectorWrapper

from gpu_vecenv.errors import ArrayTypeError, ClosedError, DeviceError, ParameterError, SequenceError
from gpu_vecenv.spec.validation import abbreviated, require_steps
from gpu_vecenv.vector.env.reentrancy import guarded
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.outputs.results import OF_ACTIONS
from gpu_vecenv.vector.outputs.tree import tree_map

if TYPE_CHECKING:
    import torch

Policy = Callable[[Any], Any]
"""Returns actions for observations: tensors, or dicts of tensors if the arrays of the env are by role."""

WARM_UP = 3
"""Steps before a capture. In them, libraries that the policy calls initialise themselves."""


class CapturedSteps:
    """T steps of an env in a CUDA graph; made by ``capture_steps``.

    Attributes:
        actions: ``(T, *action_space.shape)``, actions that the policy writes in each step, or that the caller writes before a
            replay; a dict by role if the arrays of the env are by role. Their dtype is that of the policy's actions; without a
            policy float32, or the smallest of uint8, int16 and int32 that holds the choices.
        outputs: slabs that the steps write, by the names of ``GpuVectorEnv.bind``: ``obs``, ``action_mask`` and
            ``action_effects`` ``(T + 1, ...)``, the others ``(T, ...)``. ``obs[0]`` is the observation before the first step.
            Each replay overwrites them.
    """

    def __init__(
        self, env: GpuVectorEnv, graph: torch.cuda.CUDAGraph, num_steps: int, actions: Any, outputs: dict[str, Any]
    ) -> None:
        self._env, self._graph, self._guard, self._num_steps = env, graph, env._guard, num_steps
        self.actions, self.outputs = actions, outputs
        self._obs = env.worlds.outputs.bound_obs
        self._version = env.worlds.arguments.version

    @guarded
    def replay(self) -> None:
        """Advance the env by T steps from its present state, on the caller's current stream, without waiting for them.

        Between replays, ``reset``, ``step`` and ``set_state`` may be called as usual.

        Raises:
            ClosedError: the env was closed.
            SequenceError: other slabs were bound, or parameters that are not by world were changed, since the capture.
        """
        if self._env.closed:
            raise ClosedError(f"{self._env.env_spec.name} was closed; make a new env.")
        if self._env.worlds.outputs.bound_obs is not self._obs:
            raise SequenceError("the slabs that this graph writes are not bound any more; capture the steps again.")
        if self._env.worlds.arguments.version != self._version:
            raise SequenceError("set_params() changed parameters that this graph holds; capture the steps again.")
        self._env.worlds.replay(self._graph, self._num_steps)


def capture_steps(
    env: VectorEnv | VectorWrapper, num_steps: int, policy: Policy | None = None
) -> CapturedSteps:
    """Capture steps of an env on a GPU into one CUDA graph. The state of the env is unchanged until a replay.

    The steps write new slabs, which this function binds. Before the capture some steps run as a warm-up and are undone.

    Args:
        env: an env with torch arrays on a GPU, after its first reset, or a wrapper of one.
        num_steps: T.
        policy: returns actions for observations, both shaped as by ``GpuVectorEnv.step``, without waiting for the device. It
            is called T times, under ``no_grad``. If the env has masks, it is called with the observations and the masks. None
            for actions that the caller writes.

    Raises:
        DeviceError, ArrayTypeError: an env on the CPU, or an env whose arrays are not tensors.
        ParameterError: ``num_steps`` is not a positive integer, ``policy`` is no function, or ``debug=True``, which waits for the
            device in each step.
        SequenceError: before the first reset.
    """
    inner = getattr(env, "unwrapped", env)
    if not isinstance(inner, GpuVectorEnv):
        raise ParameterError(f"capture_steps() needs a GpuVectorEnv, got {type(inner).__name__}.")
    num_steps = require_steps(num_steps)
    if policy is not None and not callable(policy):
        raise ParameterError(f"policy must be a function or None, got {abbreviated(policy)}.")
    if inner.device == "cpu":
        raise DeviceError("a CUDA graph needs an env on a GPU, and this one is on cpu; call rollout() or step().")
    if inner.array != "torch":
        raise ArrayTypeError(f'capture_steps() needs an env with array="torch", got array={inner.array!r}.')
    if inner.debug:
        raise ParameterError("debug=True waits for the device in each step, which a CUDA graph cannot do; use debug=False.")
    import torch

    outputs = inner.worlds.outputs
    slabs = outputs.new_slabs(num_steps)
    state = inner.get_state()
    inner.bind(**slabs)
    seen = [slabs[name] for name in ("obs", "action_mask") if name in slabs]
    observed = [slabs[name] for name in ("obs", *OF_ACTIONS) if name in slabs]
    first = tree_map(lambda slab: slab[0].clone(), observed)
    callers_stream, side = torch.cuda.current_stream(inner.device), torch.cuda.Stream(inner.device)
    side.wait_stream(callers_stream)

    def step(t: int) -> None:
        now = tree_map(lambda slab: slab[t], actions)
        if policy is not None:
            tree_map(lambda to, chosen: to.copy_(chosen), now, policy(*tree_map(lambda slab: slab[t], seen)))
        inner.step(now)

    try:
        with torch.no_grad(), torch.cuda.stream(side):
            chosen = None if policy is None else policy(*first[: len(seen)])
            actions = _new_actions(inner, num_steps, chosen)
            for _ in range(WARM_UP):
                step(0)
                outputs.move_to(0)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=side):
                for t in range(num_steps):
                    step(t)
    finally:
        callers_stream.wait_stream(side)
        outputs.move_to(0)
        # set_state() overwrites obs[0] with an observation of the state. In Tag it lacks runners that the last step caught.
        inner.set_state(state)
        tree_map(lambda slab, before: slab[0].copy_(before), observed, first)
    return CapturedSteps(inner, graph, num_steps, actions, slabs)


def _new_actions(env: GpuVectorEnv, num_steps: int, chosen: Any) -> Any:
    """Zeros for the actions of all steps, in the dtype of the policy's actions, without one in the smallest that holds them.

    A copy of the policy's actions to a smaller dtype would wrap an index out of range to a valid one.
    """
    import torch

    arrays = env.worlds.outputs.new_actions(num_steps)
    chosen = arrays if chosen is None else chosen
    return tree_map(lambda array, choice: torch.zeros_like(array, dtype=choice.dtype), arrays, chosen)
