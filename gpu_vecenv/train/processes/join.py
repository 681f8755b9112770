"""Joins the processes that ``torchrun`` started, or another launcher with the same variables."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from gpu_vecenv.train.errors import ConfigError, LostRankError
from gpu_vecenv.train.processes.direct import direct_sums
from gpu_vecenv.train.processes.group import POLL_S, Processes
from gpu_vecenv.train.processes.launcher import VARIABLES, num_processes, number
from gpu_vecenv.train.processes.signs import Signs

TIMEOUT = timedelta(minutes=30)
"""Time limit of a sum over processes. Signs of life end a run long before; a rank may compile kernels while others wait."""


def own_device(device: str) -> str:
    """Return the device of this process: ``cpu``, or the GPU with the number of this process on its host.

    Args:
        device: ``auto``, ``cpu`` or ``cuda``, or a device of a run that goes on, whose number does not count.
    """
    kind = device.partition(":")[0]
    if kind == "cpu" or not torch.cuda.is_available():
        return kind
    return f"cuda:{number('LOCAL_RANK', 0) % torch.cuda.device_count()}"


@contextlib.contextmanager
def joined(device: str = "auto", even_alone: bool = False) -> Iterator[Processes | None]:
    """Join the processes of a run for the block; all of them enter it, and leave it together.

    Sums of tensors on GPUs are NCCL's, and those of small ones are direct where all processes are on one host, see
    ``DirectSums``. If two processes of a host share a GPU, they are gloo's, because NCCL refuses that.

    Args:
        device: see ``own_device()``.
        even_alone: make a group of one process, too.

    Yields:
        The processes; None if this one is alone.

    Raises:
        ConfigError: a variable of the launcher is missing or no number, or ``GPU_VECENV_SUMS`` has an unknown value.
        LostRankError: a process is gone.
    """
    if num_processes() == 1 and not even_alone:
        yield None
        return
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise ConfigError(f"processes: expected the variables {', '.join(VARIABLES)}, which torchrun sets, got none of {missing}")
    processes = _join(own_device(device))
    try:
        yield processes
        processes.leave()
    except BaseException as error:
        if not isinstance(error, LostRankError):
            processes.signs.fail(f"{type(error).__name__}: {error}")
        raise
    processes.signs.close()
    dist.destroy_process_group()


def _join(device: str) -> Processes:
    launchers, rank, count = next(rendezvous("env://", timeout=TIMEOUT))
    store = _of_this_start(launchers, rank, count)
    signs = Signs(rank, count, PrefixStore("signs", store))
    dist.init_process_group("gloo", store=PrefixStore("group", store), rank=rank, world_size=count, timeout=TIMEOUT)
    words = PrefixStore("words", store)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
        on_this_host = number("LOCAL_WORLD_SIZE", 1)
        if on_this_host <= torch.cuda.device_count():
            group = dist.new_group(backend="nccl", timeout=TIMEOUT)
            return Processes(rank, count, "nccl", words, signs, group, direct_sums(group, device, on_this_host))
    return Processes(rank, count, "gloo", words, signs)


def _of_this_start(store: Store, rank: int, count: int) -> Store:
    """Return a part of the launcher's store for these processes alone.

    After a restart, torchrun's store still has the words of the processes before, and nothing that all of them know tells the
    starts apart. So the first process makes a name, and answers each process that asks for it under a name of its own.

    Args:
        store: the launcher's store.
        rank: number of this process.
        count: number of processes.
    """
    mark = uuid.uuid4().hex
    if rank:
        store.set(f"asks/{rank}", mark)
        name = store.get(f"answer/{mark}").decode()  # waits for it
        store.add(f"joined/{name}", 1)
        return PrefixStore(name, store)
    until = time.monotonic() + TIMEOUT.total_seconds()
    while store.add(f"joined/{mark}", 0) < count - 1:
        for other in range(1, count):
            if store.check([f"asks/{other}"]):  # it may be that of a process before, which asks no more
                store.set(f"answer/{store.get(f'asks/{other}').decode()}", mark)
        if time.monotonic() > until:
            raise LostRankError(f"rank 0 of {count}: not all other processes joined within {TIMEOUT}")
        time.sleep(POLL_S)
    return PrefixStore(mark, store)
