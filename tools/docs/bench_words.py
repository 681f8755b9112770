"""Names of the ways to step in tables and plots of ``gpu-vecenv bench``."""

from __future__ import annotations

PATHS = {
    "python_copy_false": "steps from Python",
    "python_one_thread": "steps from Python, one thread",
    "python_copy_true": "steps from Python, fresh arrays",
    "python_bind": "steps from Python, bound slabs",
    "graph": "steps in a CUDA graph",
    "rollout": "rollouts, given actions",
    "rollout_random": "rollouts, random actions, stored",
    "rollout_unkept": "rollouts, random actions, not stored",
}
"""This library's ways to step, in order."""

PEERS = {
    ("Gymnasium", "vector_entry_point"): "steps from Python (NumPy)",
    ("EnvPool", "sync"): "steps from Python",
    ("gymnax", "scan"): "scan, not stored",
    ("gymnax", "stacked"): "scan, stored",
    ("gymnax", "step"): "steps from Python",
    ("WarpDrive", "step and reset"): "steps and resets from Python",
}
"""Ways of other libraries in plots."""


def named(library: str, path: str) -> str:
    """Library and way, in words where the way has some."""
    return f"{library}: {PEERS.get((library, path), PATHS.get(path, path))}"
