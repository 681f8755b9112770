"""The group of a run's processes: sums over them on the device, and words of the first one to the others."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Store

from gpu_vecenv.train.errors import LostRankError
from gpu_vecenv.train.processes.direct import DirectSums
from gpu_vecenv.train.processes.signs import Signs

POLL_S = 0.002
"""Seconds between two looks at a key or an event."""


class Processes:
    """One process of a run, with its calls to all of them. Each process makes the same calls in the same order.

    Attributes:
        rank: number of this process, from 0.
        count: number of processes.
        backend: ``gloo`` or ``nccl``, which adds up tensors of the run's device.
        direct: sums of small arrays on GPUs of one host; None: ``backend`` adds up all arrays.
        device: device of this process; None: the one that ``own_device()`` returns.
        collect: takes the sums that ``sum_then()`` is asked for, see ``LateSums``; None: they are made at once.
    """

    def __init__(
        self, rank: int, count: int, backend: str, store: Store, signs: Signs, group: dist.ProcessGroup | None = None,
        direct: DirectSums | None = None, host: dist.ProcessGroup | None = None,
    ) -> None:  # fmt: skip
        """Store the parts of a group; see ``joined()`` and ``OtherGroup``.

        Args:
            rank: number of this process.
            count: number of processes.
            backend: name of the back end of ``group``.
            store: words between processes, for this object alone.
            signs: signs of life of all processes.
            group: what adds up tensors of the device; None: torch's default group, which is gloo.
            direct: what adds up small tensors of the device; None: the group.
            host: what sends arrays of the host; None: torch's default group, which is gloo.
        """
        self.rank, self.count, self.backend, self.signs, self.direct = rank, count, backend, signs, direct
        self._store, self._group, self._host, self._words, self._leaves = store, group, host, 0, 0
        self.device: str | None = None
        self.collect: Callable[[Tensor, Callable[[Tensor], object]], None] | None = None

    def __deepcopy__(self, memo: object) -> Processes:
        """Return this object: a copy of a network is in the same group."""
        return self

    @property
    def is_first(self) -> bool:
        """True in the process that logs, saves, evaluates and draws."""
        return self.rank == 0

    @property
    def summed_by(self) -> str:
        """Name of the back end that adds up tensors of the device, in words."""
        return self.backend if self.direct is None else f"{self.backend}, small arrays directly"

    @property
    def can_be_captured(self) -> bool:
        """True if a CUDA graph can record sums."""
        return self.backend == "nccl"

    # ---- on the device -----------------------------------------------------------------------------------------------

    def sum(self, x: Tensor) -> Tensor:
        """Replace a contiguous tensor by its sum over all processes, and return it.

        Raises:
            LostRankError: a process is gone.
        """
        return self._reduced(x, dist.ReduceOp.SUM)

    def sum_then(self, x: Tensor, use: Callable[[Tensor], object]) -> None:
        """Add up a tensor over all processes, and call a function with the sum: at once, or later in a block of ``LateSums``.

        Args:
            x: float64 of any shape, which may be overwritten.
            use: gets the sum, a tensor of the same shape that it may overwrite.

        Raises:
            LostRankError: a process is gone.
        """
        if self.collect is None:
            use(self.sum(x))
        else:
            self.collect(x, use)

    def largest(self, x: Tensor) -> Tensor:
        """Replace a contiguous tensor by its largest values over all processes, and return it; see ``sum()``."""
        return self._reduced(x, dist.ReduceOp.MAX)

    def any(self, flags: Tensor) -> Tensor:
        """Return bool flags that are True where they are in any process; see ``sum()``."""
        return self.largest(flags.to(torch.uint8)).bool()

    def gathered(self, x: Tensor) -> Tensor:
        """Return the tensors of all processes, (count, *shape); see ``sum()``.

        They are a sum of arrays in which each process writes its own row, because gloo gathers no tensors of a GPU.
        """
        rows = x.new_zeros(self.count, *x.shape)
        rows[self.rank] = x
        return self.sum(rows)

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite tensors by those of the first process; see ``sum()``."""
        for tensor in tensors:
            contiguous = tensor.detach().contiguous()
            with self._errors():
                dist.broadcast(contiguous, 0, group=self._group)
            if contiguous.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(contiguous)

    def _reduced(self, x: Tensor, op: Any) -> Tensor:
        if self.direct is not None and op == dist.ReduceOp.SUM and self.direct.takes(x):
            self.direct.add_up(x)
            return x
        with self._errors():
            dist.all_reduce(x, op, group=self._group)
        return x

    def wait_for(self, event: torch.cuda.Event) -> None:
        """Wait for an event of the device, which never comes if a process is lost.

        Raises:
            LostRankError: a process is gone.
        """
        while not event.query():
            self.signs.require_all()
            time.sleep(POLL_S / 20)

    # ---- on the host -------------------------------------------------------------------------------------------------

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return what ``make()`` returns in the first process, which JSON can hold. The others wait as long as it takes.

        Raises:
            LostRankError: a process is gone.
        """
        self._words += 1
        key = f"word/{self._words}"
        if self.is_first:
            self._store.set(key, json.dumps(make()))
        with self._errors():
            self._wait_for_keys([key])
            return json.loads(self._store.get(key))

    def leave(self) -> None:
        """Wait until all processes are here. The first one, which may hold the store, goes when the others no longer ask it.

        Raises:
            LostRankError: a process is gone.
        """
        self._leaves += 1
        left, gone = (f"{word}/{self._leaves}" for word in ("left", "gone"))
        with self._errors():
            self._store.set(f"{left}/{self.rank}", "")
            self._wait_for_keys(f"{left}/{rank}" for rank in range(self.count))
            self._store.set(f"{gone}/{self.rank}", "")
            if self.is_first:
                self._wait_for_keys(f"{gone}/{rank}" for rank in range(self.count))

    def _wait_for_keys(self, keys: Iterable[str]) -> None:
        names = list(keys)
        while not self._store.check(names):
            self.signs.require_all()
            time.sleep(POLL_S)

    def to_first(self, content: bytes) -> list[bytes]:
        """Return the bytes of all processes in the first one, in order of rank; nothing in the others.

        Raises:
            LostRankError: a process is gone.
        """
        words = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        size = torch.tensor([len(words)], dtype=torch.int64, device="cpu")
        with self._errors():
            if not self.is_first:
                dist.send(size, 0, group=self._host)
                dist.send(words, 0, group=self._host)
                return []
            received = [content]
            for rank in range(1, self.count):
                dist.recv(size, rank, group=self._host)
                other = torch.empty(int(size), dtype=torch.uint8, device="cpu")
                dist.recv(other, rank, group=self._host)
                received.append(other.numpy().tobytes())
            return received

    def _errors(self) -> _Errors:
        return _Errors(self.signs)


class _Errors:
    """Context that raises LostRankError, which names the rank, for an error of a group or a store."""

    def __init__(self, signs: Signs) -> None:
        self._signs = signs

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, RuntimeError) or isinstance(error, LostRankError):
            return
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return  # what cannot be recorded is no loss
        raise self._signs.lost_rank_error(str(error)) from error


def rank_and_count(processes: Processes | None) -> tuple[int, int]:
    """Return the number of this process, and how many there are; (0, 1) for None, a process alone."""
    return (0, 1) if processes is None else (processes.rank, processes.count)
