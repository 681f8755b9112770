"""The gallery has a small animated preview of every env, which the env's own page shows, too."""

import re
from pathlib import Path

import pytest
import tyro
from PIL import Image

from gpu_vecenv.registration import IDS
from tools.docs import gallery
from tools.docs.env_tables import readmes

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery.md"
FILM = "tag"
"""The preview at the top of the README, which shows every step and is larger."""
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
    assert path.stat().st_size < (3_000_000 if path.stem == FILM else 400_000)
    assert 20 <= len(alt) <= 90
    with Image.open(path) as image:
        assert image.width <= 800
        durations, frames = [], set()
        for k in range(image.n_frames):
            image.seek(k)
            frames.add(image.convert("RGB").tobytes())
            durations.append(image.info["duration"])
    assert 4_000 <= sum(durations) <= (10_000 if path.stem == FILM else 7_000)
    assert len(frames) > 0.5 * len(durations)
    if path.stem == FILM:
        assert (len(durations), {*durations[:-1]}) == (201, {40})  # an episode from its start on, 25 frames a second


@pytest.mark.parametrize(("words", "message"), [
    (["tagg"], "no env has the folder tagg"), (["--run", "runs/tag"], "name its folder"),
    (["tag", "recall", "--run", "runs/tag"], "name its folder"),
])  # fmt: skip
def test_unknown_envs_and_a_run_of_no_single_env_are_refused(words, message, monkeypatch):
    monkeypatch.setattr(gallery, "write", None)
    monkeypatch.setattr("sys.argv", ["gallery.py", *words])
    with pytest.raises(SystemExit, match=message):
        tyro.cli(gallery.main)
