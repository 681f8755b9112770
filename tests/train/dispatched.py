"""Counts the operations that a function dispatches, finds host reads, and compares results for numbers of torch's threads."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gpu_vecenv.backend import programs


class HostReads(TorchDispatchMode):
    """Fails on operations whose result, or whose result's shape, the host must wait for; ``tolist()`` is none on the CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        assert name not in {"_local_scalar_dense", "item", "nonzero", "masked_select", "unique2", "is_nonzero", "equal"}, name
        if name in {"index", "index_put", "index_put_"}:
            assert all(x is None or x.dtype not in (torch.bool, torch.uint8) for x in args[1]), f"{name} by a bool tensor"
        return func(*args, **(kwargs or {}))


class _Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def operations(function):
    """Return the number of operations other than views."""
    with _Counter() as counter:
        function()
    return counter.count


class _Idle:
    """Launches that run nothing."""

    def launch(self, name, args, teams, small, shared_bytes):
        pass


def idle_kernels(monkeypatch):
    """Let kernels of updates do nothing, so that they take tensors of the device "meta"."""
    monkeypatch.setattr(programs, "launches", lambda program, device: _Idle())


def assert_same_bits(function):
    """Assert that ``function()``, a list of tensors, returns the same bits with one to four threads, and again."""
    want = function()
    for threads in (2, 3, 4, 1):
        torch.set_num_threads(threads)  # the fixture one_thread restores it
        for got, expected in zip(function(), want, strict=True):
            assert got.dtype == expected.dtype
            assert torch.equal(got.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0))
