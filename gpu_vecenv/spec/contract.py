"""Contract of an env: its README.md, which ``help()`` of its package also shows."""

from __future__ import annotations

import re
from pathlib import Path


def with_contract(docstring: str | None, module_file: str) -> str:
    """Append the README.md in the folder of a module to its docstring, without HTML comments and pictures.

    Args:
        docstring: docstring of the module; None if Python runs without docstrings.
        module_file: the module's ``__file__``.

    Returns:
        Both texts; the docstring alone if the file cannot be read.
    """
    summary = docstring or ""
    try:
        readme = Path(module_file).with_name("README.md").read_text(encoding="utf-8")
    except OSError:
        return summary
    return (summary + "\n\n" + re.sub(r"<!--.*?-->\n|!\[.*?\]\(.*?\)\n\n", "", readme)).lstrip()
