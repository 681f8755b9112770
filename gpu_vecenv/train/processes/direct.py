"""Sums of small arrays over the GPUs of a host by one kernel, which reads the memory of the other GPUs directly.

A sum by NCCL passes from GPU to GPU. For the gradient of a small network, a kernel in which each GPU reads the arrays of all
others takes a fraction of that time. The kernel is torch's, on its symmetric memory. It adds in order of rank on each GPU, so all
get the same bits.
"""

from __future__ import annotations

import os
import warnings

import torch
import torch.distributed as dist
from torch import Tensor

from gpu_vecenv.backend.private import one_shot_sum
from gpu_vecenv.train.errors import ConfigError

VARIABLE = "GPU_VECENV_SUMS"
"""Variable of the environment: ``direct``, or ``nccl`` for sums by NCCL alone."""

COUNTS = (2, 4, 8)
"""Numbers of processes for which torch's kernel adds in order of rank."""

MOST_BYTES = 2**19
"""Largest array that is summed directly. Each GPU reads it from all others, while NCCL passes on parts of it."""

ALIGNED = 4
"""Numbers of a load of the kernel, at a multiple of which an array begins."""


class DirectSums:
    """Sums over the processes of a group, each of which has a GPU of the same host."""

    def __init__(self, group: dist.ProcessGroup, device: str) -> None:
        """Share memory with the other processes, which all do the same now.

        Raises:
            RuntimeError: this torch or these GPUs cannot do it.
        """
        self._add_up = one_shot_sum(group.group_name, MOST_BYTES // 4, torch.device(device))

    @staticmethod
    def takes(x: Tensor) -> bool:
        """True if a tensor can be summed directly, and is small enough to be worth it."""
        is_small = 0 < x.numel() * 4 <= MOST_BYTES and x.storage_offset() % ALIGNED == 0
        return is_small and x.dtype == torch.float32 and x.is_cuda

    def add_up(self, x: Tensor) -> None:
        """Replace a contiguous tensor by its sum over all processes."""
        self._add_up(x)


def direct_sums(
    group: dist.ProcessGroup, device: str, on_this_host: int, host: dist.ProcessGroup | None = None
) -> DirectSums | None:
    """Return the sums of a group; None if a process cannot make them, which it warns of, or ``GPU_VECENV_SUMS`` asks for NCCL.

    Args:
        group: all processes of the run, with a GPU each.
        device: GPU of this process.
        on_this_host: processes of this host.
        host: the same processes, for arrays of the host; None: torch's default group.

    Raises:
        ConfigError: the variable has another value.
    """
    asked = os.environ.get(VARIABLE) or "direct"
    if asked not in ("direct", "nccl"):
        raise ConfigError(f"{VARIABLE}: expected 'direct' or 'nccl', got {asked!r}")
    count, mine = group.size(), torch.device(device).index
    gpus = torch.zeros(count, dtype=torch.int64, device="cpu")
    gpus[group.rank()] = mine
    dist.all_reduce(gpus, group=host)
    sums, is_one_host = None, on_this_host == count
    can_read = is_one_host and all(torch.cuda.can_device_access_peer(mine, other) for other in gpus.tolist() if other != mine)
    if asked == "direct" and count in COUNTS and can_read:
        # The kernel needs no multicast of NVLink, which some hosts offer and then refuse.
        os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
        try:
            sums = DirectSums(group, device)
        except RuntimeError as error:  # the other processes may have succeeded, and then forget it
            warnings.warn(f"all sums over processes are NCCL's, which takes longer: {error}", stacklevel=2)
    succeeded = torch.tensor([sums is not None], dtype=torch.int32, device="cpu")
    dist.all_reduce(succeeded, dist.ReduceOp.MIN, group=host)
    return sums if succeeded.item() else None
