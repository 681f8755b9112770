"""A notebook as a page of the site: its text, code and stored outputs in Markdown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LANGUAGES = {".cu": "cuda", ".py": "python"}


def page(path: Path) -> str:
    """Return a notebook as Markdown. Tables and pictures of outputs are HTML, as in the notebook."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else _code(source))
        parts += [_output(output) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _code(source: str) -> str:
    """Return a block of code, in the language of the file if the cell writes one."""
    first = source.partition("\n")[0]
    language = LANGUAGES[Path(first.split()[1]).suffix] if first.startswith("%%writefile") else "python"
    return f"```{language}\n{source}\n```"


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _text("".join(output["text"]))
    data = output["data"]
    if "text/html" in data:
        return f"<div>{''.join(data['text/html'])}</div>"
    if "image/png" in data:
        content = "".join(data["image/png"]).replace("\n", "")
        return f'<img src="data:image/png;base64,{content}">'
    return _text("".join(data["text/plain"]))


def _text(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"
