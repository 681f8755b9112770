"""Themes and scales of pictures."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.style import DARK, LIGHT, Style, make_style
from gpu_vecenv.render.worlds import WorldRenderers
from tests.ids import EVERY_ID


def draw(name, **options):
    env = gymnasium.make_vec(name, 1, device="cpu", array="numpy", render_mode="rgb_array", **options)
    env.reset(seed=3)
    (frame,) = env.render()
    env.close()
    return frame


def present(picture, colour):
    return (picture == colour).all(axis=2).any()


@pytest.mark.parametrize("name", EVERY_ID)
def test_every_env_has_both_themes_and_any_scale(name):
    dark, light = draw(name), draw(name, render_theme="light")
    assert present(dark, DARK.page) and not present(dark, LIGHT.page)
    assert present(light, LIGHT.page) and present(light, LIGHT.ink) and not present(light, DARK.page)
    height, width, _ = dark.shape
    for scale in (0.5, 1.5):
        scaled = draw(name, render_scale=scale)
        assert scaled.shape == (height * scale, width * scale, 3)
        # A picture at another scale shows the same: every 40 x 40 pixels have about the same mean colour.
        size = int(40 * scale)
        parts = [p[: k * (h // k), : k * (w // k)].reshape(h // k, k, w // k, k, 3).mean(axis=(1, 3), dtype=float)
                 for p, k, (h, w, _) in ((dark, 40, dark.shape), (scaled, size, scaled.shape))]  # fmt: skip
        assert np.abs(parts[0] - parts[1]).mean() < 2


def test_a_canvas_has_the_size_times_the_scale():
    for scale, radius in ((1.0, 10), (0.5, 5), (3.0, 30)):
        canvas = Canvas(60, 40, (0, 0, 0), Style(DARK, scale))
        canvas.disc((30, 20), 10, (255, 255, 255))
        picture = canvas.to_array()[..., 0] / 255
        assert picture.shape == (40 * scale, 60 * scale)
        assert picture.sum() == pytest.approx(np.pi * radius**2, rel=0.06)


@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_accents_differ_in_brightness(palette):
    """Rec. 709 luma stands in for the brightness seen by people who do not see hue."""
    accents = (palette.vermilion, palette.sky, palette.mark, palette.surface)
    luma = sorted(np.array(accents) @ (0.2126, 0.7152, 0.0722))
    assert np.diff(luma).min() > 30


@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_text_has_the_contrast_of_wcag_aa(palette):
    """W3C, Web Content Accessibility Guidelines 2.2, section 1.4.3: at least 4.5."""

    def luminance(colour):
        parts = np.array(colour) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)

    for ink in (palette.ink, palette.muted, palette.mark):
        for behind in (palette.page, palette.surface):
            low, high = sorted((luminance(ink), luminance(behind)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"theme": "blue"}, "theme must be one of 'dark', 'light', got 'blue'"),
        ({"scale": 0}, "scale must be a number from 0.1 to 8; got 0"),
        ({"scale": float("nan")}, "scale must be a number from 0.1 to 8; got nan"),
        ({"scale": "2"}, "scale must be a number from 0.1 to 8; got '2'"),
    ],
)
def test_unsuitable_styles_raise_errors(options, message):
    with pytest.raises(ParameterError, match=message):
        make_style(**options)
    keywords = {f"render_{name}": value for name, value in options.items()}
    with pytest.raises(ParameterError, match=f"render_{message}"):
        gymnasium.make_vec("WarpCartPole-v1", **keywords)


def test_a_single_env_has_its_style():
    env = gymnasium.make("WarpCartPole-v1", render_mode="rgb_array", render_theme="light", render_scale=0.5)
    env.reset(seed=0)
    frame = env.render()
    assert frame.shape == (240, 360, 3) and present(frame, LIGHT.page)


def test_a_renderer_without_styles_draws_the_default_only(monkeypatch):
    class Plain:
        def __init__(self, params):
            pass

        def frame(self, state):
            return np.zeros((4, 6, 3), np.uint8)

    monkeypatch.setattr("gpu_vecenv.render.worlds.find_renderer", lambda folder: Plain)
    env = gymnasium.make_vec("WarpCartPole-v1", 2, device="cpu", array="numpy").unwrapped
    env.reset(seed=0)
    assert env.picture().shape == (4, 6 + 4 + 6, 3)  # without a legend
    styled = WorldRenderers(env.env_spec, env.params, 2, make_style("light"))
    with pytest.raises(ParameterError, match="takes no style; expected theme dark and scale 1"):
        styled.frames(env.get_state())
