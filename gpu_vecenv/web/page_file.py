"""Files of a page: one HTML file that opens from disk, or a folder that any server serves."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.web.plan import Json

FOLDER = Path(__file__).parent
SCRIPTS = ("worlds.js", "scene.js", "sha256.js", "policy.js", "steering.js", "stage.js", "panel.js", "page.js")
"""Scripts of a page, each after those that it imports."""

STYLE = "page.css"
DATA, KERNELS, POLICIES, WEIGHTS, STILL = "data.json", "kernels.wasm", "policy.wasm", "weights.bin", "still.png"
"""Files of a page beside its scripts."""


def page_files(data: Json, kernels: bytes, policies: bytes, weights: bytes, still: bytes) -> dict[str, bytes]:
    """Return the files that the scripts of a page load, by name, and the picture for browsers that run no scripts."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return {DATA: text.encode(), KERNELS: kernels, POLICIES: policies, WEIGHTS: weights, STILL: still}


def write_page(files: Mapping[str, bytes], out: Path, title: str) -> int:
    """Write a page, and return its bytes.

    Args:
        files: see ``page_files()``.
        out: a file that ends with ``.html``, or else a folder, whose page is ``index.html``.
        title: title of the page.

    Raises:
        OSError: a file cannot be written.
    """
    if out.suffix == ".html":
        out.parent.mkdir(parents=True, exist_ok=True)
        written = {out: one_file(files, title).encode()}
    else:
        out.mkdir(parents=True, exist_ok=True)
        scripts = {name: (FOLDER / name).read_bytes() for name in (*SCRIPTS, STYLE)}
        link = f'<link rel="stylesheet" href="{STYLE}">'
        page = _page(title, link, STILL, f'<script type="module" src="{SCRIPTS[-1]}"></script>').encode()
        written = {out / name: content for name, content in {**scripts, **files, "index.html": page}.items()}
    for path, content in written.items():
        with atomic_file(path) as partial:
            partial.write_bytes(content)
    return sum(map(len, written.values()))


def one_file(files: Mapping[str, bytes], title: str) -> str:
    """Return a page as one text. Its files are elements that ``load()`` of ``page.js`` finds by their names."""
    # No text in JSON, scripts or base64 may end its element.
    elements = [
        f'<script type="application/json" id="{name}">{_in_script(content.decode())}</script>'
        if name == DATA
        else f'<script type="text/plain" id="{name}">{base64.b64encode(gzip.compress(content, mtime=0)).decode()}</script>'
        for name, content in files.items()
        if name != STILL
    ]
    still = f"data:image/png;base64,{base64.b64encode(files[STILL]).decode()}"
    script = f'<script type="module">{_in_script(joined_scripts())}</script>'
    return _page(title, f"<style>{(FOLDER / STYLE).read_text()}</style>", still, "\n".join([*elements, script]))


def joined_scripts(names: tuple[str, ...] = SCRIPTS) -> str:
    """Return scripts as one module without their comments. Their names are in one scope, so no two of them define the same."""
    left_out = re.compile(r"^export |^import .*\n|^ *//.*\n|^ */\*\*(?:(?!\*/)[\s\S])*\*/\n", re.MULTILINE)
    return "\n".join(left_out.sub("", (FOLDER / name).read_text()) for name in names)


def _in_script(text: str) -> str:
    return text.replace("</", "<\\/")


def _page(title: str, style: str, still: str, scripts: str) -> str:
    text = (FOLDER / "page.html").read_text()
    for name, value in (("TITLE", html.escape(title)), ("STYLE", style), ("STILL", still), ("SCRIPTS", scripts)):
        text = text.replace(f"<!-- {name} -->", value)
    return text
