"""Checks that an env is right, for tests of envs in this package and in others.

``check_env()`` runs all of them, as ``gpu-vecenv check`` does. Each takes a ``Subject``, returns a few words on what it did, and
raises ``CheckError`` with the first difference, or ``NotRunError`` with the reason.
"""

from gpu_vecenv.testing.contract import check_autoreset, check_reset, check_values
from gpu_vecenv.testing.errors import CheckError, NotRunError
from gpu_vecenv.testing.golden import check_golden, record_golden
from gpu_vecenv.testing.gpu_code import check_ptx, check_registers
from gpu_vecenv.testing.lint import check_lint
from gpu_vecenv.testing.python_hooks import check_python_hooks
from gpu_vecenv.testing.reference import Reference, check_reference
from gpu_vecenv.testing.report import Report, Result, check_env
from gpu_vecenv.testing.same_bits import (
    check_compilers,
    check_debug,
    check_gpu,
    check_rollouts,
    check_team,
    check_teams,
    check_threads,
    check_unoptimised,
    check_wasm,
    check_worlds,
)
from gpu_vecenv.testing.sanitize import check_bounds, check_races
from gpu_vecenv.testing.subject import Subject

__all__ = [
    "CheckError", "NotRunError", "Reference", "Report", "Result", "Subject", "check_autoreset", "check_bounds", "check_compilers",
    "check_debug", "check_env", "check_golden", "check_gpu", "check_lint", "check_ptx", "check_python_hooks", "check_races",
    "check_reference", "check_registers", "check_reset", "check_rollouts", "check_team", "check_teams", "check_threads",
    "check_unoptimised", "check_values", "check_wasm", "check_worlds", "record_golden",
]  # fmt: skip
