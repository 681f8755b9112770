"""Tabs on the site. In the repository's Markdown they are blocks, one below the other, that also GitHub shows.

``<!-- tabs -->`` and ``<!-- /tabs -->`` stand around them, and each begins with a line such as ``**Python**``.
"""

from __future__ import annotations

import re
import textwrap

_TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- /tabs -->$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^\*\*([^*\n]+)\*\*$", re.MULTILINE)


def with_tabs(markdown: str) -> str:
    """Return a page with tabs as pymdownx writes them.

    Raises:
        ValueError: text between the marks that belongs to no tab.
    """
    return _TABS.sub(_tabs, markdown)


def _tabs(match: re.Match[str]) -> str:
    before, *parts = _TITLE.split(match[1])
    if before.strip() or not parts:
        raise ValueError(f"tabs must begin with a bold title, got {match[1][:60]!r}")
    tabs = zip(parts[::2], parts[1::2], strict=True)
    return "\n".join(f'=== "{title}"\n\n{textwrap.indent(text.strip(), "    ")}\n' for title, text in tabs)
