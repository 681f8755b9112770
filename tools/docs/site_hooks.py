"""MkDocs hooks: the site has the layout of the repository, so links between files work in both."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from notebook_page import page  # MkDocs imports a hook with its folder on the path
from tabs import with_tabs

OUTSIDE_DOCS = ("*.md", "LICENSE", "CITATION.cff", "benchmarks/*.md", "benchmarks/notes/*.md", "envs/*/README.md",
                "examples/*.py", "tutorials/*.md", "tutorials/*.ipynb")  # fmt: skip
"""Files outside of ``docs/`` that the site includes."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace patterns in the navigation with the matching files."""
    root, nav = Path(config.config_file_path).parent, config.nav or []
    named = set(re.findall(r"[\w./-]+\.md", str(nav)))

    def expand(entry: Any) -> list[Any]:
        if isinstance(entry, dict):
            ((title, inside),) = entry.items()
            inside = [page for item in inside for page in expand(item)] if isinstance(inside, list) else inside
            return [{title: inside}] if inside else []
        if "*" not in entry:
            return [entry]
        return sorted({path.relative_to(root).as_posix() for path in root.glob(entry)} - named)

    config.nav = [page for entry in nav for page in expand(entry)]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Give each file its path in the repository, and each notebook a page that its README links to."""
    root = Path(config.config_file_path).parent
    paths = [path for pattern in OUTSIDE_DOCS for path in sorted(root.glob(pattern))]
    for file in [file for file in files if file.src_dir == config.docs_dir]:
        files.remove(file)
        paths.append(Path(config.docs_dir, file.src_uri))
    for path in paths:
        files.append(File.generated(config, path.relative_to(root).as_posix(), abs_src_path=str(path)))
    for path in sorted(root.glob("tutorials/*.ipynb")):
        uri = path.relative_to(root).with_suffix(".md").as_posix()
        files.append(File.generated(config, uri, content=page(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to notebooks lead to their pages, and make tabs of blocks in two languages."""
    return re.sub(r"\]\(([\w./-]+)\.ipynb\)", r"](\1.md)", with_tabs(markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Remove Sphinx roles in front of names in docstrings."""
    return re.sub(r":\w+:(?=<code>)", "", html)
