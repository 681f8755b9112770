"""Options that have other names now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import ConfigError

FORMER_EXECUTORS: Mapping[str, Mapping[str, Any]] = {
    "auto": {"kernels": "auto"},
    "eager": {"kernels": "torch", "graph": False},
    "graph": {"kernels": "torch", "graph": True},
    "fused": {"kernels": "fused", "graph": True},
}
"""Values of ``executor``, which chose both options before they had names of their own, and what stands for each now."""


def refuse_former(options: Mapping[str, object]) -> None:
    """Raise ConfigError for ``executor`` among options; the error names what takes its place."""
    if "executor" in options:
        executor = options["executor"]
        now = FORMER_EXECUTORS.get(executor, {}) if isinstance(executor, str) else {}
        stands = f" ({', '.join(f'{name}={value!r}' for name, value in now.items())} stands for {executor!r})" if now else ""
        expected = f"kernels ('auto', 'torch' or 'fused') and graph (True or False) in its place{stands}"
        raise ConfigError(f"executor: expected {expected}, got {abbreviated(executor)}")


def renamed(options: Any) -> Any:
    """Return the options of a run with what stands for a former ``executor`` now."""
    former = options.get("executor") if isinstance(options, Mapping) else None
    if not isinstance(former, str) or former not in FORMER_EXECUTORS:
        return options
    return {**{name: value for name, value in options.items() if name != "executor"}, **FORMER_EXECUTORS[former]}
