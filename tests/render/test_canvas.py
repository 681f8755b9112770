"""The drawing surface, measured on the pixels that it makes."""

import math
import subprocess
import sys

import numpy as np
import pytest

from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.render.canvas import Canvas, find_renderer
from gpu_vecenv.render.style import DARK, mix


def test_empty_canvas_is_background():
    picture = Canvas(30, 20, DARK.surface).to_array()
    assert picture.shape == (20, 30, 3)
    assert picture.dtype == np.uint8
    assert (picture == DARK.surface).all()


@pytest.mark.parametrize("radius", [3.0, 7.5, 20.0])
def test_disc_has_its_area_and_centre(radius):
    canvas = Canvas(64, 64, (0, 0, 0))
    canvas.disc((30.0, 34.0), radius, (255, 255, 255))
    weight = canvas.to_array()[..., 0] / 255
    rows, columns = np.mgrid[:64, :64] + 0.5  # pixel k spans k to k + 1
    assert weight.sum() == pytest.approx(math.pi * radius**2, rel=0.06)
    assert (weight * columns).sum() / weight.sum() == pytest.approx(30.0, abs=0.1)
    assert (weight * rows).sum() / weight.sum() == pytest.approx(34.0, abs=0.1)


def test_ring_is_open():
    canvas = Canvas(40, 40, (0, 0, 0))
    canvas.ring((20, 20), 15, (255, 255, 255), 2)
    picture = canvas.to_array()
    assert picture[20, 20].tolist() == [0, 0, 0]
    assert picture[20, 6].tolist() == [255, 255, 255]
    assert picture[20, 2].tolist() == [0, 0, 0]


def test_rectangle_covers_exactly_its_pixels():
    canvas = Canvas(20, 20, (0, 0, 0))
    canvas.rectangle(4, 6, 10, 16, (255, 0, 0))
    expected = np.zeros((20, 20, 3), np.uint8)
    expected[6:16, 4:10] = (255, 0, 0)
    np.testing.assert_array_equal(canvas.to_array(), expected)


FAR = [1e10, -1e10, 1e30, math.inf, math.nan]


@pytest.mark.parametrize("far", FAR)
@pytest.mark.parametrize(
    "draw",
    [
        lambda canvas, far: canvas.line((0, 0, far, 1), DARK.ink),
        lambda canvas, far: canvas.polygon([(0, 0), (1, far), (2, 2)], DARK.ink),
        lambda canvas, far: canvas.disc((far, 0), 1, DARK.ink),
        lambda canvas, far: canvas.ring((0, far), 1, DARK.ink),
        lambda canvas, far: canvas.cross((0, far), 1, DARK.ink),
        lambda canvas, far: canvas.rectangle(0, 0, far, 1, DARK.ink),
        lambda canvas, far: canvas.text((far, 0), "far", 20),
    ],
)
def test_a_coordinate_too_far_away_is_refused(draw, far):
    """Pillow counts pixels in 32 bits: it draws such a shape at another place, without an error."""
    with pytest.raises(ParameterError, match=r"coordinates from -\S+ to \S+ pixels, got"):
        draw(Canvas(20, 20), far)


def test_shapes_outside_the_picture_draw_nothing_in_it():
    canvas = Canvas(20, 20)
    expected = canvas.to_array()
    canvas.disc((1e8, -1e8), 5, DARK.ink)
    canvas.rectangle(1e8, 3, 2e8, 9, DARK.ink)
    np.testing.assert_array_equal(canvas.to_array(), expected)


@pytest.mark.parametrize("radius", [1e6, math.inf, math.nan])
def test_a_radius_that_cannot_be_drawn_is_refused(radius):
    with pytest.raises(ParameterError, match="radius up to 131072 pixels, got"):
        Canvas(20, 20).disc((0, 0), radius, DARK.ink)


def test_empty_rectangle_draws_nothing():
    canvas = Canvas(20, 20, (0, 0, 0))
    canvas.rectangle(4, 6, 4, 16, (255, 0, 0))
    assert not canvas.to_array().any()


def test_slanted_edges_are_smooth():
    canvas = Canvas(40, 40, (0, 0, 0))
    canvas.polygon([(2, 2), (38, 10), (10, 38)], (255, 255, 255))
    shades = np.unique(canvas.to_array())
    assert len(shades) > 2


def test_flat_points_equal_pairs():
    pairs, flat = Canvas(20, 20), Canvas(20, 20)
    pairs.line([(1, 2), (15, 9), (3, 18)], DARK.sky, 2)
    flat.line([1, 2, 15, 9, 3, 18], DARK.sky, 2)
    np.testing.assert_array_equal(pairs.to_array(), flat.to_array())


def test_copy_is_independent():
    canvas = Canvas(20, 20)
    twin = canvas.copy()
    twin.cross((10, 10), 6, DARK.ink, 2)
    assert (canvas.to_array() == DARK.page).all()
    assert (twin.to_array() != DARK.page).any()


def test_right_anchored_text_ends_at_its_anchor():
    canvas = Canvas(80, 40)
    canvas.text((60, 30), "120", 20, DARK.ink, "rs")
    columns = np.nonzero((canvas.to_array() != DARK.page).any(axis=(0, 2)))[0]
    assert 55 <= columns.max() <= 60
    assert columns.min() > 10


def test_mix_goes_from_background_to_colour():
    assert mix((10, 20, 30), (200, 100, 0), 0.0) == (200, 100, 0)
    assert mix((10, 20, 30), (200, 100, 0), 1.0) == (10, 20, 30)
    assert mix((0, 0, 0), (200, 100, 0), 0.5) == (100, 50, 0)


def test_missing_pillow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r'Pillow: pip install "gpu-vecenv\[render\]"'):
        Canvas(10, 10)


def test_importing_the_module_does_not_import_pillow():
    code = "import sys, gpu_vecenv.render.canvas, gpu_vecenv.render.video; print('PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_renderer_of_a_folder_is_found(tmp_path):
    (tmp_path / "render.py").write_text("class Renderer:\n    mark = 7\n")
    assert find_renderer(tmp_path).mark == 7


def test_a_folder_without_a_renderer_raises_an_error(tmp_path):
    with pytest.raises(ParameterError, match="there is no such file"):
        find_renderer(tmp_path)


def test_a_render_file_without_the_class_raises_an_error(tmp_path):
    (tmp_path / "render.py").write_text("Renderer = 3\n")
    with pytest.raises(ParameterError, match="class Renderer"):
        find_renderer(tmp_path)
