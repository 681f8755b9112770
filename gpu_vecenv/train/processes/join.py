"""Joins the processes that ``torchrun`` started, or another launcher with the same variables, or those of another library."""

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
    return _with_sums(device, number("LOCAL_WORLD_SIZE", 1), store, signs)


def _with_sums(
    device: str, on_this_host: int, store: Store, signs: Signs, host: dist.ProcessGroup | None = None
) -> Processes:
    """Return the processes with what adds up tensors of their devices.

    Args:
        device: device of this process.
        on_this_host: processes of this host.
        store: words between processes.
        signs: signs of life of all processes.
        host: see ``Processes``.
    """
    rank, count, words = signs.rank, signs.count, PrefixStore("words", store)
    if device.startswith("cuda"):
        torch.cuda.set_device(device)
        if on_this_host <= torch.cuda.device_count():
            group = dist.new_group(backend="nccl", timeout=TIMEOUT)
            return Processes(rank, count, "nccl", words, signs, group, direct_sums(group, device, on_this_host, host), host)
    return Processes(rank, count, "gloo", words, signs, host, host=host)


class OtherGroup:
    """The processes of torch's default group, which another library made and ends; all of them make the same calls.

    Signs of life are given from the start, or ``begin()``, to ``end()``. Outside, a process may end by itself.

    Attributes:
        processes: the processes.
    """

    def __init__(self, device: str, on_this_host: int, address: str) -> None:
        """Make groups and a store for the run beside those of the library.

        Args:
            device: device of this process, such as ``cuda:1``.
            on_this_host: processes of this host.
            address: address of the first process's host.

        Raises:
            ConfigError: ``GPU_VECENV_SUMS`` has an unknown value.
        """
        host = dist.new_group(backend="gloo", timeout=TIMEOUT)
        self._store, self._blocks = _store_of(host, address), 0
        self.processes = _with_sums(device, on_this_host, self._store, self._signs(), host)
        self.processes.device = device

    def _signs(self) -> Signs:
        self._blocks += 1
        return Signs(dist.get_rank(), dist.get_world_size(), PrefixStore(f"signs/{self._blocks}", self._store))

    def begin(self) -> None:
        """Give signs of life again."""
        self.processes.signs.close()
        self.processes.signs = self._signs()

    def end(self) -> None:
        """Wait until all processes are here, and give no signs of life from now on.

        Raises:
            LostRankError: a process is gone.
        """
        self.processes.leave()
        self.processes.signs.close()

    def fail(self, error: BaseException) -> None:
        """Tell the others of an error of this process, and give no signs of life from now on."""
        signs = self.processes.signs
        signs.close()  # first, because the program may catch the error, and then the thread must not end it
        if not isinstance(error, LostRankError):
            signs.fail(f"{type(error).__name__}: {error}")


def _store_of(host: dist.ProcessGroup, address: str) -> Store:
    """Return a store that the first process holds.

    Args:
        host: the processes, for arrays of the host.
        address: address of the first process's host.
    """
    make = dist.TCPStore  # type: ignore[attr-defined]  # torch's stubs lack it
    port = torch.zeros(1, dtype=torch.int64, device="cpu")
    store: Store | None = None
    if dist.get_rank() == 0:
        store = made = make(address, 0, is_master=True, wait_for_workers=False, timeout=TIMEOUT)
        port[0] = made.port
    dist.broadcast(port, 0, group=host)
    return store or make(address, int(port), is_master=False, timeout=TIMEOUT)


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
