"""Pages under Learn are a path: each ends with a link to the page that follows it in the site, and the start lists all."""

import re
from pathlib import Path

import pytest

from tests.docs.site import NAV

ROOT = Path(__file__).resolve().parents[2]
LEARN = next(entry["Learn"] for entry in NAV if "Learn" in entry)
PATH = [page for page in LEARN if isinstance(page, str) and "*" not in page]


def next_of(page):
    """Paths that the last paragraph of a page links to, from the top of the repository."""
    last = (ROOT / page).read_text().strip().split("\n\n")[-1]
    assert last.startswith("**Next:**"), f"{page} must end with its next page"
    return [((ROOT / page).parent / link).resolve().relative_to(ROOT).as_posix() for link in re.findall(r"\]\(([^)#]+)", last)]


@pytest.mark.parametrize(("page", "following"), list(zip(PATH[:-1], PATH[1:], strict=True)))
def test_each_page_leads_to_the_next(page, following):
    assert next_of(page) == [following]


def test_the_path_goes_on_behind_its_last_page():
    assert next_of(PATH[-1]) == ["docs/gallery.md", "docs/how-it-works.md"]


def test_every_page_is_on_the_path_and_in_the_list_of_the_start():
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs" / "learn").glob("*.md")}
    assert set(PATH) == pages | {"docs/index.md"}
    listed = re.findall(r"\]\((learn/[\w-]+\.md)\)", (ROOT / "docs" / "index.md").read_text().partition("\n## What")[0])
    assert [f"docs/{page}" for page in listed] == PATH[1:]
