"""Returns and lengths of finished episodes, by kernels with the same bits on every device and for any number of threads.

The kernels are in ``kernels/returns/episodes.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import launches
from gpu_vecenv.backend.source import EPISODES
from gpu_vecenv.train.returns.scan import episode_sums

TILE = 4096
"""Transitions of a team, ``GV_TILE`` of the kernels."""

SMALL = 1 << 14
"""Below this many transitions a second CPU thread saves less time than it takes to wake it."""


class EpisodeStats(nn.Module):
    """Sums the rewards of each row of one policy, and averages the sums when episodes end.

    An episode counts once for each row whose agent took part in it. The return of an agent that leaves early ends there; its
    episode ends with that of its world. The sums and the last episodes are buffers, so that a checkpoint loses nothing.
    """

    totals: Tensor
    recent: Tensor
    num_recent: Tensor

    def __init__(self, shape: int | tuple[int, ...], window: int = 100):
        """Start with empty episodes.

        Args:
            shape: shape of the rewards of one step, (n,) or n for n rows.
            window: number of last episodes to average over.
        """
        super().__init__()
        # Three sums of each row's episode so far: return, steps, and steps that the agent took part in.
        axes = (shape,) if isinstance(shape, int) else shape
        self.register_buffer("totals", torch.zeros(3, *axes, dtype=torch.float32, device="cpu"))
        self.register_buffer("recent", torch.zeros(2, window, dtype=torch.float32, device="cpu"))
        self.register_buffer("num_recent", torch.zeros((), dtype=torch.int64, device="cpu"))

    @torch.no_grad()
    def update(self, reward: Tensor, finished: Tensor, valid: Tensor) -> Tensor:
        """Add a rollout.

        Args:
            reward: float32 (T, ...).
            finished: bool (T, ...), the episode of the row's world ended in the step.
            valid: bool (T, ...), the agent took part in the step; rewards of other steps may hold anything.

        Returns:
            float32 (4,): mean return of an agent and mean length in steps of the world's episode, over the episodes that ended in
            the rollout, then over the last episodes that ended in this rollout or before. Returns are undiscounted. A mean of
            nothing is NaN.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: an array does not fit.
        """
        sums, counted = episode_sums(reward, valid, finished, self.totals)
        device, size, window = counted.device, counted.numel(), self.recent.shape[1]
        tiles, means = -(-size // TILE), torch.empty(4, dtype=torch.float32, device=device)
        ended = torch.empty(2, tiles * TILE, dtype=torch.float32, device=device)
        counts = torch.empty(tiles, dtype=torch.int32, device=device)
        totals = torch.empty(2, tiles, dtype=torch.float64, device=device)
        args = _Args(size=size, num_worlds=tiles, num_agents=1, tiles=tiles, window=window)
        for name, array in (
            ("sums", sums), ("finished", counted), ("ended", ended), ("counts", counts), ("totals", totals),
            ("recent", self.recent), ("num_recent", self.num_recent), ("means", means),
        ):  # fmt: skip
            setattr(args, name, array.data_ptr())
        program = launches(EPISODES, device)
        if tiles:
            program.launch("gv_list", args, tiles, size < SMALL)
        args.num_worlds = 1
        program.launch("gv_take", args, 1, True)
        return means


class _Args(ctypes.Structure):
    """``GvArgs`` of ``kernels/returns/episodes.cu``, which asserts its size."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "sums", "finished", "ended", "counts", "totals", "recent", "num_recent", "means", "invalid_actions",
        )),
        ("size", ctypes.c_int64),
        *((name, ctypes.c_int32) for name in ("num_worlds", "num_agents", "tiles", "window")),
    )  # fmt: skip
