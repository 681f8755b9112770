"""Counts the operations that a function dispatches, and compares its results for several numbers of torch's threads."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


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


def assert_same_bits(function):
    """Assert that ``function()``, a list of tensors, returns the same bits with one to four threads, and again."""
    want = function()
    for threads in (2, 3, 4, 1):
        torch.set_num_threads(threads)  # the fixture one_thread restores it
        for got, expected in zip(function(), want, strict=True):
            assert got.dtype == expected.dtype
            assert torch.equal(got.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0))
