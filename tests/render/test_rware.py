"""Pictures of the robot warehouse, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.rware.floor import floor_of
from gpu_vecenv.envs.rware.render import Renderer
from gpu_vecenv.envs.rware.spec import SPEC
from gpu_vecenv.render.style import DARK, LIGHT, Style, mix

TOP = 48  # height of the line above the floor
CELL = 44  # pixels of a cell by default
LEFT = 104  # margin beside the default floor


def shelf_colour(palette, requested):
    return palette.green if requested else mix(palette.sky, palette.surface, 0.5)


def robot_colour(palette, loaded):
    return palette.vermilion if loaded else mix(palette.mark, palette.vermilion, 0.6)


def draw(places=((0, 0), (0, 10)), directions=(0, 0), carrying=(-1, -1), requests=(0,), idle=5, palette=DARK, **given):
    params = SPEC.resolve({"n_agents": len(places), "request_queue_size": len(requests), **given})
    shelves = floor_of(params).homes.copy()
    for place, shelf in zip(places, carrying, strict=True):
        if shelf >= 0:
            shelves[shelf] = place
    state = {
        "agent_pos": np.array(places),
        "agent_dir": np.array(directions),
        "carrying": np.array(carrying),
        "shelf_pos": shelves,
        "request_queue": np.array(requests),
        "inactive_steps": np.int32(idle),
        "t": np.int32(7),
    }
    return Renderer(params, Style(palette)).frame(state)


def find(picture, colour):
    """Cells (x, y) of the default floor with pixels of exactly `colour`, and the number of those pixels."""
    rows, columns = np.nonzero((picture[TOP:-60] == colour).all(axis=2))
    cells, counts = np.unique(np.stack([(columns - LEFT) // CELL, rows // CELL], 1), axis=0, return_counts=True)
    return {tuple(cell): count for cell, count in zip(cells.tolist(), counts.tolist(), strict=True)}


@pytest.mark.parametrize("params", [{}, {"shelf_rows": 3, "shelf_columns": 5}, {"layout": "xg" * 90}, {"layout": "x\ng"}])
def test_a_frame_has_its_dtype_and_is_not_too_large(params):
    picture = draw(((0, 0),), (0,), (-1,), **params, request_queue_size=0)
    assert picture.dtype == np.uint8 and picture.shape[2] == 3
    assert picture.shape[0] <= 800 and 648 <= picture.shape[1] <= 700


@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_shelves_stand_in_their_cells_and_requested_ones_are_green(palette):
    picture = draw(requests=(3, 30), palette=palette)
    homes = floor_of(SPEC.resolve({})).homes.tolist()
    green = [tuple(homes[3]), tuple(homes[30])]
    assert sorted(find(picture, shelf_colour(palette, True))) == sorted(green)
    assert sorted(find(picture, shelf_colour(palette, False))) == sorted({tuple(home) for home in homes} - {*green})


def test_a_loaded_robot_has_its_shelf_and_another_colour():
    picture = draw(((6, 0), (0, 10)), carrying=(4, -1))
    assert list(find(picture, robot_colour(DARK, True))) == [(6, 0)]
    assert list(find(picture, robot_colour(DARK, False))) == [(0, 10)]
    assert (6, 0) in find(picture, shelf_colour(DARK, False))


@pytest.mark.parametrize(("direction", "ahead"), list(enumerate([(0, -8), (0, 8), (-8, 0), (8, 0)])))
def test_a_line_shows_the_direction(direction, ahead):
    picture = draw(((4, 0), (0, 10)), (direction, 0))
    x, y = LEFT + round(4.5 * CELL), TOP + round(0.5 * CELL)
    for step in ([0, -8], [0, 8], [-8, 0], [8, 0]):
        assert (tuple(picture[y + step[1], x + step[0]]) == DARK.page) == (tuple(step) == ahead)


def test_goals_are_marked_and_a_ring_shows_a_collision():
    assert sorted(find(draw(), DARK.faded)) == [(4, 10), (5, 10)]
    assert not find(draw(), DARK.mark) and list(find(draw(((3, 0), (3, 0))), DARK.mark)) == [(3, 0)]


def test_the_line_above_shows_the_time_since_a_delivery():
    first, later, none = draw(idle=5), draw(idle=6), draw(idle=0)
    assert (first[:TOP] != later[:TOP]).any() and (first[:TOP] != none[:TOP]).any()
    np.testing.assert_array_equal(first[TOP:], later[TOP:])
