"""Code blocks of Markdown files: prints a quick-start command of README.md (``readme.py command 2``)."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its file, the heading above it, its language, its text and the number of its first line."""

    path: Path
    heading: str
    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """Every fenced block of a Markdown file, in order."""
    text = path.read_text()
    fenced = []
    for match in _FENCE.finditer(text):
        headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text[: match.start()]), re.MULTILINE)
        line = text.count("\n", 0, match.start(2)) + 1
        fenced.append(Block(path, headings[-1] if headings else "", match[1], match[2], line))
    return fenced


def quick_start() -> list[str]:
    """The commands under "Quick start" in README.md.

    Raises:
        ValueError: there are not exactly two blocks of one line each.
    """
    shell_blocks = [b for b in blocks(ROOT / "README.md") if b.heading == "Quick start" and b.language == "bash"]
    commands = [block.text.strip() for block in shell_blocks]
    if len(commands) != 2 or any("\n" in command for command in commands):
        raise ValueError(f"README.md must have two bash blocks of one line under Quick start, got {commands}.")
    return commands


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "command" or sys.argv[2] not in ("1", "2"):
        sys.exit("usage: readme.py command 1|2")
    print(quick_start()[int(sys.argv[2]) - 1])
