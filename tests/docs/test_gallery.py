"""The gallery has a small animated preview of every env, which the env's own page shows, too."""

import re
from pathlib import Path

import pytest
from PIL import Image

from gpu_vecenv.registration import IDS
from tools.docs.env_tables import readmes

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery.md"
IMAGE = re.compile(r"^!\[(.+)\]\((.+)\)$", re.MULTILINE)


def images(page):
    """Alternative texts and files of the pictures of a page."""
    return [(alt, (page.parent / path).resolve()) for alt, path in IMAGE.findall(page.read_text())]


def test_the_gallery_shows_every_env_once():
    assert sorted(path.stem for _, path in images(GALLERY)) == [readme.parent.name for readme in readmes()]
    text = GALLERY.read_text()
    assert all(text.count(f"[`{name}`]") == 1 for name in IDS)


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: path.parent.name)
def test_the_page_of_an_env_begins_with_its_preview(readme):
    title, _, picture = readme.read_text().splitlines()[:3]
    assert title.startswith("# ") and IMAGE.fullmatch(picture)
    assert images(readme)[0] in images(GALLERY)  # the same text for people who do not see it


@pytest.mark.parametrize(("alt", "path"), images(GALLERY), ids=lambda value: getattr(value, "stem", ""))
def test_a_preview_is_short_small_and_moves(alt, path):
    assert path.stat().st_size < 400_000
    assert 20 <= len(alt) <= 90
    with Image.open(path) as image:
        assert image.width <= 800
        seconds, frames = 0.0, []
        for k in range(image.n_frames):
            image.seek(k)
            frames.append(image.convert("RGB").tobytes())
            seconds += image.info["duration"] / 1000
    assert 4 <= seconds <= 7
    assert len(set(frames)) > 0.5 * len(frames)
