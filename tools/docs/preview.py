"""Makes docs/figures/preview.png, which a link to the site shows when it is shared: the name of the project beside a game of Tag.

    python tools/docs/preview.py

The picture is the last frame of Tag's preview in the gallery, so run it after tools/docs/gallery.py.
"""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from gpu_vecenv.render.style import DARK

FIGURES = Path(__file__).resolve().parents[2] / "docs" / "figures"
SIZE = (1280, 640)
LINES = ("Thousands of worlds with", "many agents each", "on one GPU, for Gymnasium,", "and a trainer beside them")


def picture() -> Image.Image:
    """The picture, in RGB."""
    canvas = Image.new("RGB", SIZE, DARK.page)
    with Image.open(FIGURES / "gallery" / "tag.webp") as game:
        game.seek(game.n_frames - 1)
        frame = game.convert("RGB")
    canvas.paste(frame, (SIZE[0] - frame.width - 48, (SIZE[1] - frame.height) // 2))
    draw = ImageDraw.Draw(canvas)
    draw.text((56, 190), "gpu_vecenv", DARK.ink, ImageFont.load_default(72))
    for row, line in enumerate(LINES):
        draw.text((56, 300 + 42 * row), line, DARK.muted, ImageFont.load_default(32))
    return canvas


if __name__ == "__main__":
    picture().save(FIGURES / "preview.png", optimize=True)
