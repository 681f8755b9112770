"""MkDocs hooks: the site has the layout of the repository, so links between files work in both.

Links to files that are no pages, such as modules, lead to the repository, whose address is the setting ``repo_url``. In a site
without that address they are plain text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url
from notebook_page import page  # MkDocs imports a hook with its folder on the path
from play_pages import write_pages
from tabs import with_tabs

OUTSIDE_DOCS = ("*.md", "LICENSE", "CITATION.cff", "benchmarks/*.md", "benchmarks/notes/*.md", "envs/*/README.md",
                "examples/*.py", "tutorials/*.md", "tutorials/*.ipynb")  # fmt: skip
"""Files outside of ``docs/`` that the site includes."""


FIRST = ("docs/learn/trained-policy.md",)
"""Pages that a search shows before others with the same words in their headings, such as recipes."""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([\w./-]+)(#[\w-]*)?\)")
"""A link to a file of the repository: its text, its path and its heading."""


def _numbered(path: str) -> tuple[str, int, str]:
    """Return what sorts names that begin with a number by that number: folder, number, name."""
    folder, _, name = path.rpartition("/")
    number = re.match(r"\d+", name)
    return folder, int(number[0]) if number else 0, name


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
        found = {path.relative_to(root).as_posix() for path in root.glob(entry)} - named
        return [re.sub(r"\.ipynb$", ".md", path) for path in sorted(found, key=_numbered)]

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
        files.append(File.generated(config, uri, content=page(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to notebooks lead to pages, links to files that are no pages to the repository; make tabs of two languages.

    Material's search multiplies the weights of a page by its boost.
    """
    root, repository = Path(config.config_file_path).parent.resolve(), (config.repo_url or "").rstrip("/")
    if page.file.src_uri in FIRST:
        page.meta["search"] = {"boost": 2}
    if repository:
        markdown = markdown.replace("https://REPOSITORY", repository)

    def lead(link: re.Match[str]) -> str:
        text, target, heading = link[1], re.sub(r"\.ipynb$", ".md", link[2]), link[3] or ""
        path = (root / page.file.src_uri).parent.joinpath(target).resolve()
        uri = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
        if not path.exists() or files.get_file_from_path(uri):
            return f"[{text}]({target}{heading})"
        return f"[{text}]({repository}/blob/HEAD/{uri}{heading})" if repository else text

    return LINK.sub(lead, with_tabs(with_games(markdown, page)))


# ---- pages that play ----------------------------------------------------------------------------------------------

PREVIEW = re.compile(r"^!\[[^\]]*\]\(figures/gallery/(\w+)\.webp\)\n", re.MULTILINE)
"""A film of the gallery, by the folder of its env."""

command = ""


def on_startup(command: str, **_: Any) -> None:  # the parameter has MkDocs' name
    """Note the command of MkDocs."""
    globals()["command"] = command


def with_games(markdown: str, page: Page) -> str:
    """Put the page that plays an env behind its film in the gallery, and behind the title of its own page."""
    env = re.fullmatch(r"envs/(\w+)/README\.md", page.file.src_uri)
    if page.file.src_uri == "docs/gallery.md":
        return PREVIEW.sub(lambda film: f"{film[0]}\n{_game(film[1], page)}\n", markdown)
    if env is None:
        return markdown
    title, line, rest = markdown.partition("\n")
    return f"{title}{line}\n{_game(env[1], page)}\n{rest}"


def _game(name: str, page: Page) -> str:
    address = get_relative_url(f"play/{name}.html", page.file.url)
    frame = f'<iframe src="{address}" loading="lazy" title="{name}, played in the browser"></iframe>'
    return f'<details class="play"{" open" * (name == "tag")}><summary>Play it here</summary>{frame}</details>\n'


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages that play. They take a minute, so ``mkdocs serve`` has none."""
    if command == "serve":
        get_plugin_logger("games").info("pages that play are written by mkdocs build alone")
        return
    for _ in write_pages(Path(config.site_dir) / "play"):
        pass


def on_page_content(html: str, **_: Any) -> str:
    """Remove what only Sphinx reads in docstrings: roles in front of names, and the second colon above a block of code."""
    html = re.sub(r"::(?=</p>\s*<(?:div|pre))", ":", html)
    return re.sub(r":\w+:(?=<code>)", "", html)
