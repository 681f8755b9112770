"""A note for authors of envs whose hooks take ``(a, team)``, as before ``GvWorld``."""

from __future__ import annotations

import warnings
from pathlib import Path

from gpu_vecenv.backend.source import takes_old_hooks
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.vector.inputs.callers import level_of_caller

_NOTED: set[tuple[str, Path]] = set()
"""Names and kernels of the envs that were looked at."""


def note_old_hooks(spec: EnvSpec) -> None:
    """Warn once in a process about an env whose hooks take ``(a, team)``. The warning is a FutureWarning, which Python shows.

    Raises:
        CompileError: the kernel cannot be read.
    """
    env = spec.name, spec.kernel
    if env in _NOTED:
        return
    _NOTED.add(env)
    if takes_old_hooks(spec):
        warnings.warn(
            f"{spec.name}: the hooks in {spec.kernel.name} take (a, team), and this release is the last that compiles them. "
            'Include "world.h" and take GvWorld& w, as in env_step(GvWorld& w); docs/learn/own-env.md has the names.',
            FutureWarning,
            stacklevel=level_of_caller(),
        )
