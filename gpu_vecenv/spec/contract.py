"""The contract of an env: its README.md, which ``help()`` of its package shows as well."""

from __future__ import annotations

import re
from pathlib import Path


def with_contract(docstring: str | None, module_file: str) -> str:
    """A docstring followed by the README.md beside the module, without its HTML comments.

    Args:
        docstring: the module's own; None where Python was told to leave docstrings out.
        module_file: the module's ``__file__``.

    Returns:
        Both texts; the docstring alone where there is no such file to read.
    """
    summary = docstring or ""
    try:
        readme = Path(module_file).with_name("README.md").read_text(encoding="utf-8")
    except OSError:
        return summary
    return (summary + "\n\n" + re.sub(r"<!--.*?-->\n", "", readme)).lstrip()
