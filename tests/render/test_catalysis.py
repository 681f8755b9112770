"""Pictures of catalysis, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.catalysis.render import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MAP_TOP,
    RIGHT,
    SCALE_HEIGHT,
    SCALE_LEFT,
    SCALE_TOP,
    TOP,
    WIDTH,
    Maps,
    Renderer,
)  # fmt: skip
from gpu_vecenv.envs.catalysis.spec import SPEC, landscape
from gpu_vecenv.render.style import DARK, LIGHT, make_style, mix

HILL = np.zeros((7, 6, 5))
HILL[2:4, 1:3] = 4.0  # from x = 2 and y = 1 on, at every height
HILL[5, 4, 3] = -4.0
FIELD = {
    "landscape": HILL, "nx": 7, "ny": 6, "nz": 12, "z_slab_lower": 4, "z_slab_upper": 9, "initial_state": (0, 0, 4),
    "final_state": (6, 5, 8), "ienergy": 0.0, "episode_length": 40,
}  # fmt: skip
"""A landscape with a hill and a hole. Cells of a map have about 46 pixels."""


MAPS = Maps(SPEC.resolve(FIELD))


def energy_colour(palette, share):
    """Six bands of vermilion above the start, the strongest last, and six of sky below it."""
    band = min(max(int(np.floor(6 * share)), -6), 5)
    return mix(palette.vermilion if band >= 0 else palette.sky, palette.surface, 0.15 * abs(band + 0.5))


def renderer(theme="dark", **params):
    return Renderer(SPEC.resolve({**FIELD, **params}), make_style(theme))


def state(cell, t, cell2=(0, 0, 0), barrier=np.nan, **more):
    places = {"position": np.uint8([*cell, 0]), "position2": np.uint8([*cell2, 0])}
    return {**places, "t": np.int32(t), "episode_barrier": np.float32(barrier), **more}


def scene(path, theme="dark", **params):
    """The last scene of a path of cells."""
    drawn = renderer(theme, **params)
    for t, cell in enumerate(path):
        picture = drawn.scene(state(cell, t))
    return picture


def cell_pixels(picture, view, cell):
    """Corner of a cell of a map: pixels that neither a path nor an atom in the middle covers, without the edge."""
    x, y = view(cell)
    half = int((view((1, 0, cell[2]))[0] - view((0, 0, cell[2]))[0]) / 2) - 3
    return picture[round(y) - half : round(y) - half + 5, round(x) - half : round(x) - half + 5].reshape(-1, 3)


def find(picture, colour):
    """The (x, y) pixels of exactly a colour."""
    rows, columns = np.nonzero((picture == colour).all(axis=2))
    return np.stack([columns, rows], axis=1)


def in_maps(pixels):
    return pixels[pixels[:, 1] < SCALE_TOP - 6]


def in_profile(pixels):
    x, y = pixels.T
    return pixels[(x >= LEFT) & (x <= RIGHT) & (y >= TOP) & (y <= BOTTOM)]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_frame_is_a_scene_with_a_legend(theme):
    drawn, other = renderer(theme), renderer(theme)
    frame, picture = drawn.frame(state((1, 1, 5), 3)), other.scene(state((1, 1, 5), 3))
    assert picture.shape == (HEIGHT, WIDTH, 3) and frame.shape == (776, WIDTH, 3) and frame.dtype == np.uint8
    np.testing.assert_array_equal(frame[: len(picture)], picture)
    assert [entry.word for entry in drawn.legend] == ["atom", "target", "highest place"]


@pytest.mark.parametrize(("theme", "palette"), [("dark", DARK), ("light", LIGHT)])
def test_maps_have_the_colour_of_the_lowest_energy_behind_a_cell(theme, palette):
    """From above a column of the hill is high; from the side, ground behind the hill hides it. The hole shows in both."""
    picture = scene([(0, 0, 4)], theme)
    for view, cell, height in (
        (MAPS.from_above, (2, 1, 4), 4.0), (MAPS.from_above, (3, 2, 4), 4.0), (MAPS.from_above, (4, 1, 4), 0.0),
        (MAPS.from_above, (5, 4, 4), -4.0), (MAPS.from_the_side, (2, 0, 6), 0.0), (MAPS.from_the_side, (5, 0, 7), -4.0),
        (MAPS.from_the_side, (5, 0, 6), 0.0),
    ):  # fmt: skip
        expected = energy_colour(palette, height / 3.0)
        assert (cell_pixels(picture, view, cell) == expected).all(), (view.__name__, cell)


@pytest.mark.parametrize(("theme", "palette"), [("dark", DARK), ("light", LIGHT)])
def test_the_scale_has_the_colours_of_the_maps(theme, palette):
    picture, row = scene([(0, 0, 4)], theme), round(SCALE_TOP + SCALE_HEIGHT / 2)
    for share in (np.arange(12) + 0.5) / 6 - 1:
        at = round(SCALE_LEFT + (1 + share) / 2 * (RIGHT - SCALE_LEFT))
        assert tuple(picture[row, at]) == energy_colour(palette, share)


def test_the_height_of_the_barrier_is_above_the_curve():
    """However early the highest place is, its words cover nothing of the curve."""
    for path in ([(1, 0, 4), (2, 1, 4), (1, 1, 4)], [(0, 0, 4)] * 30 + [(2, 1, 4)], [(0, 0, 4)] * 9 + [(2, 1, 4)]):
        marks = in_profile(find(scene(path), DARK.mark))
        curve = in_profile(find(scene(path), DARK.sky))
        ring = curve[:, 1].min() - 12  # the ring around the highest place
        words = marks[marks[:, 1] < ring]
        assert len(words) > 30 and (words[:, 0] > LEFT).all() and (words[:, 0] < RIGHT).all()
        assert TOP < words[:, 1].min() and np.ptp(words[:, 1]) < 16


def test_targets_of_two_atoms_have_their_numbers():
    params = SPEC.resolve({"configuration": "two_atom_diffusion"})
    first, second = params["final_state"][:3], params["final_state"][3:]
    assert tuple(first[:2]) == tuple(second[:2])  # from above they are one
    maps = Maps(params)
    picture = Renderer(params).scene(state((4, 4, 10), 0, (4, 4, 11)))
    for view, cell in ((maps.from_above, first), (maps.from_the_side, first), (maps.from_the_side, second)):
        x, y = view(cell)
        assert (picture[round(y) - 8 : round(y) + 9, round(x) - 8 : round(x) + 9] == DARK.ink).all(-1).sum() > 8


def test_atom_and_target_are_in_their_cells_of_both_maps():
    cell = (1, 3, 6)
    picture = scene([cell])
    for colour, place in ((DARK.ink, cell), (DARK.green, FIELD["final_state"])):
        pixels = in_maps(find(picture, colour))
        pixels = pixels[pixels[:, 1] > MAP_TOP]
        for view, side in ((MAPS.from_above, pixels[:, 0] < WIDTH / 2), (MAPS.from_the_side, pixels[:, 0] > WIDTH / 2)):
            low, high = pixels[side].min(axis=0), pixels[side].max(axis=0)
            np.testing.assert_allclose((low + high + 1) / 2, view(place), atol=1.5)


def test_y_and_z_point_up():
    assert MAPS.from_above((0, 3, 4))[1] < MAPS.from_above((0, 2, 4))[1]
    assert MAPS.from_the_side((0, 3, 6))[1] < MAPS.from_the_side((0, 3, 5))[1]


def test_the_path_is_kept_and_cut_where_it_leaves_the_grid():
    path = [(0, 0, 4), (0, 1, 4), (6, 1, 4), (5, 1, 4)]
    lines = in_maps(find(scene(path), DARK.ink))

    def passes(view, *cell):
        return (np.abs(lines - view(cell)).max(axis=1) < 2).any()

    for view in (MAPS.from_above, MAPS.from_the_side):
        assert passes(view, 5.5, 1, 4) and not passes(view, 3, 1, 4)
    assert passes(MAPS.from_above, 0, 0.5, 4)
    straight = in_maps(find(scene([(1, 4, 4), (2, 4, 4), (3, 4, 4)]), DARK.ink))
    x, y = MAPS.from_above((2, 4, 4))
    assert (np.abs(straight - (x, y)).max(axis=1) < 2).any()  # the middle of the path, where no atom is


def test_the_profile_marks_the_highest_place_and_its_barrier():
    up_and_down = [(1, 0, 4), (2, 0, 4), (2, 1, 4), (2, 0, 4), (1, 0, 4)]
    marks = in_profile(find(scene(up_and_down), DARK.mark))
    middle = LEFT + (RIGHT - LEFT) * 2 / 20  # step 2 of 20
    ring = marks[np.abs(marks[:, 0] - middle) < 9]
    assert len(ring) > 50 and np.ptp(marks[:, 1]) > 80  # the arrow spans most of the profile
    assert abs(ring[:, 0].mean() - middle) < 1.5
    for view in (MAPS.from_above, MAPS.from_the_side):
        x, y = view((2, 1, 4))
        near = np.abs(in_maps(find(scene(up_and_down), DARK.mark)) - (x, y)).max(axis=1)
        assert (near < 24).sum() > 50
    flat = scene([(1, 0, 4), (0, 0, 4)])
    assert len(find(flat, DARK.mark)) == 0


def test_a_new_episode_forgets_the_path():
    drawn = renderer()
    for t, cell in enumerate([(1, 0, 4), (2, 1, 4), (3, 1, 4)]):
        drawn.scene(state(cell, t, episode=np.int32(0)))
    np.testing.assert_array_equal(drawn.scene(state((0, 0, 4), 0, episode=np.int32(1))), renderer().scene(state((0, 0, 4), 0)))
    np.testing.assert_array_equal(drawn.scene(state((0, 1, 4), 1, episode=np.int32(2))), renderer().scene(state((0, 1, 4), 1)))


def test_the_barrier_on_record_is_shown_if_frames_are_left_out():
    drawn, other = renderer(), renderer()
    recorded = drawn.scene(state((0, 1, 4), 9, barrier=4.0))
    assert (recorded != other.scene(state((0, 1, 4), 9))).any()


def test_an_atom_outside_the_slab_is_drawn_beyond_its_edge():
    flat = {"final_state": (6, 5, 4)}
    inside, outside = renderer(**flat), renderer(**flat)
    first, second = inside.scene(state((0, 0, 4), 0)), outside.scene(state((0, 0, 3), 0))
    assert (first != second).any()
    assert MAPS.from_the_side((0, 0, 3))[1] > MAPS.from_the_side((0, 0, 4))[1]
    assert MAPS.from_the_side((0, 0, 1)) == MAPS.from_the_side((0, 0, 3))


def test_the_map_of_two_atoms_changes_with_the_second():
    params = SPEC.resolve({"configuration": "two_atom_diffusion"})
    drawn, maps = Renderer(params), Maps(params)
    energies = landscape(params)
    start = energies[4, 4, 1, 4, 4, 2]
    for second in ((4, 4, 11), (1, 6, 9)):
        picture = drawn.scene(state((4, 4, 10), 0, second))
        lowest = energies[..., second[0], second[1], second[2] - 9].min(axis=2) - start
        for cell in ((0, 7, 9), (7, 0, 9), (6, 6, 9)):
            expected = energy_colour(DARK, lowest[cell[:2]] / (start - params["ienergy"]))
            assert (cell_pixels(picture, maps.from_above, cell) == expected).all()
