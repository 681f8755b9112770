"""Scratch that library calls of kernels need, for declarations in specs."""

MIN_CELLS, MAX_CELLS, MAX_SORTED = 416, 1025, 32
"""``GV_MIN_CELLS``, ``GV_MAX_CELLS`` and ``GV_MAX_SORTED`` of ``kernels/lib``."""


def neighbours_floats(agents: int, k: int) -> int:
    """Return the floats of scratch of a search for the k nearest others, as ``gv_neighbours_floats`` does in kernels."""
    return MAX_CELLS + (agents + 1) // 2 if agents >= MIN_CELLS else (agents * min(k, MAX_SORTED) + 1) // 2
