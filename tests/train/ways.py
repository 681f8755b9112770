"""Ways to run iterations: which kernels compute, and if an iteration is a CUDA graph."""

WAYS = {
    "eager": {"kernels": "torch", "graph": False},
    "graph": {"kernels": "torch", "graph": True},
    "fused": {"kernels": "fused", "graph": True},
}
"""Options of a run by way."""
