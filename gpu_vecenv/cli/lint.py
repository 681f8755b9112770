"""The command ``lint``: rules for kernels, by the text of files and envs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.cli.key_value import help_option
from gpu_vecenv.errors import HookError, ParameterError
from gpu_vecenv.testing.lint import lint_env, lint_file
from gpu_vecenv.testing.subject import Subject


def lint(targets: tyro.conf.Positional[Annotated[tuple[str, ...], help_option("", "TARGET ...")]]) -> int:
    """Look for broken rules in the text of hooks, with file and line: races, doubles, lost locals, barriers that lanes skip.

    Example: gpu-vecenv lint envs/tag/tag.cu WarpRice-v0

    An env tells more than a file: its roles, its headers, and for hooks in Python the types of all names.

    Args:
        targets: files of C++, ids of envs, or MODULE:ID.

    Returns:
        0 if no rule is broken, else 1.
    """
    if not targets:
        raise ParameterError("expected files, ids of envs or MODULE:ID, got none.")
    broken_rules = [line for target in targets for line in violations(target)]
    print("\n".join(broken_rules) or f"no broken rule in {', '.join(targets)}")
    return 1 if broken_rules else 0


def violations(target: str) -> list[str]:
    """Return the broken rules of a file or an env as ``FILE:LINE: MESSAGE``."""
    path = Path(target)
    if path.suffix in (".cu", ".h", ".cuh", ".py") or path.exists():
        return [f"{path}:{line}: {message}" for line, message in lint_file(path)]
    try:
        return lint_env(Subject(target).layout())
    except HookError as error:
        return [str(error)]
