"""Rollouts of single-agent worlds by one kernel: a policy acts, and the env steps, without a launch between two steps."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import TYPE_CHECKING

from gymnasium.vector import AutoresetMode

from gpu_vecenv.backend.build_kind import build_kind
from gpu_vecenv.backend.programs import Call
from gpu_vecenv.spec.struct import is_single
from gpu_vecenv.train.fused.act import FusedActor
from gpu_vecenv.train.fused.tile_plan import GROUP_ROWS, WORKERS, Sizes, rollout_program
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.row_states import RowStates

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

MAX_GROUPS = 4
"""Most groups of a tile; a group is a warp with 16 worlds."""

MOST_SHARED = 4
"""With more tiles than so many for each multiprocessor, each group has worlds of its own."""


def whole_rollout(
    env: GpuVectorEnv, rollout: Rollout, fused: FusedActor, states: RowStates | None = None
) -> FusedRollout | None:
    """Return what fills a rollout by one launch, or None if env and policy must be launched in every step.

    Args:
        env: vector env without wrappers.
        rollout: the slabs, of all worlds.
        fused: the one policy of the run.
        states: its states, if it has one.
    """
    fits = is_single(env.env_spec) and env.autoreset_mode is AutoresetMode.SAME_STEP and not fused.sizes.split
    if not fits or build_kind().debug:  # programs have no debug build, in which hooks print and indices are checked
        return None
    return FusedRollout(env, rollout, fused, states)


class FusedRollout:
    """Fills the slabs of a rollout by one launch, with the bits of ``FusedActor.act()`` and ``env.step()`` in turn.

    A CUDA graph can record a call if another call was made before.
    """

    def __init__(self, env: GpuVectorEnv, rollout: Rollout, fused: FusedActor, states: RowStates | None = None) -> None:
        """Prepare the launch.

        Args:
            env: env of single-agent worlds that a lane can hold, in same-step mode; bound to the rollout before the first call.
            rollout: the slabs, of all worlds.
            fused: the policy.
            states: its states, which the launch reads and overwrites; None for a policy without a state.
        """
        (slabs,) = rollout.groups
        self._env, self._fused, self._steps = env, fused, rollout.num_steps
        self._slabs = slabs
        sizes = fused.sizes  # a GRU has one tile
        if states is None:
            sizes = _tiles(sizes, env.num_worlds, fused.multiprocessors, fused.alone)
        self._shared_bytes, self._teams = sizes.rollout_memory.shared_bytes, -(-env.num_worlds // sizes.rows)
        self._call = Call(
            rollout_program(sizes, env.layout), slabs.action.device, steps=self._steps, action=slabs.action,
            log_prob=slabs.log_prob, state=None if states is None else states.now,
        )  # fmt: skip

    def __call__(self) -> None:
        """Fill the slabs from slot 0 on."""
        struct = self._env.worlds.begin_rollout(self._steps)
        ctypes.memmove(self._call.args.env, struct.ctypes.data, struct.nbytes)
        self._fused.point(self._call.args, self._fused.addresses(0))
        self._call.launch("gv_rollout_with_policy", self._teams, self._env.num_worlds, self._shared_bytes)


def _tiles(sizes: Sizes, num_worlds: int, multiprocessors: int, alone: bool) -> Sizes:
    """Return sizes with the rows of a tile, and the workers that share it.

    Few worlds get small tiles, so that more multiprocessors work, and several groups share the network of a tile. With many
    worlds a multiprocessor has many groups, which hide each other's latencies. A run that shares the GPU with others (``alone``
    is False) gets large tiles, so that it leaves multiprocessors to the others.
    """
    if not alone:
        return replace(sizes, rows=GROUP_ROWS * MAX_GROUPS)
    if num_worlds <= GROUP_ROWS * multiprocessors * MOST_SHARED:
        return replace(sizes, rows=GROUP_ROWS, workers=WORKERS)
    count = 1
    while count < MAX_GROUPS and num_worlds > GROUP_ROWS * count * multiprocessors:
        count *= 2
    return replace(sizes, rows=GROUP_ROWS * count)
