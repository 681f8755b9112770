"""Pictures of level-based foraging, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.foraging.render import BOARD, HEADER, HEIGHT, MARGIN, WIDTH, Renderer
from gpu_vecenv.render.style import DARK, LIGHT, Style


def draw(places=((0, 0), (7, 7)), levels=(1, 2), food=((3, 4, 2),), spawned=2, t=0, rows=8, cols=8, palette=DARK):
    board = np.zeros((rows, cols), np.int32)
    for row, col, level in food:
        board[row, col] = level
    state = {"player_pos": np.array(places), "player_level": np.array(levels), "food": board, "food_spawned": spawned, "t": t}
    params = {"rows": rows, "cols": cols, "players": len(places), "max_episode_steps": 50}
    return Renderer(params, Style(palette)).frame(state)


def cells(picture, colour, rows=8, cols=8, least=30):
    """Cells of a board with at least some pixels of exactly a colour."""
    cell = BOARD / max(rows, cols)
    left, top = (WIDTH - cell * cols) / 2, HEADER + MARGIN + (BOARD - cell * rows) / 2
    y, x = np.nonzero((picture == colour).all(axis=2))
    inside = (x > left) & (x < left + cols * cell) & (y > top) & (y < top + rows * cell)
    found, counts = np.unique(np.stack([(y[inside] - top) // cell, (x[inside] - left) // cell]), axis=1, return_counts=True)
    return {(int(row), int(col)) for (row, col), count in zip(found.T, counts, strict=True) if count >= least}


@pytest.mark.parametrize("palette", [DARK, LIGHT])
def test_apples_and_players_are_in_their_cells(palette):
    picture = draw(((0, 0), (7, 2)), food=((3, 4, 2), (1, 6, 3)), palette=palette)
    assert picture.shape == (HEIGHT, WIDTH, 3) and picture.dtype == np.uint8
    assert cells(picture, palette.vermilion) == {(3, 4), (1, 6)}
    assert cells(picture, palette.ink, least=300) == {(0, 0), (7, 2)}


@pytest.mark.parametrize(("rows", "cols", "least"), [(3, 9, 300), (9, 3, 300), (40, 40, 1)])
def test_boards_of_all_forms_are_centred(rows, cols, least):
    picture = draw(((0, cols - 1),), (1,), ((rows - 2, 1, 1),), rows=rows, cols=cols)
    assert cells(picture, DARK.vermilion, rows, cols) == {(rows - 2, 1)}
    assert cells(picture, DARK.ink, rows, cols, least) == {(0, cols - 1)}


def test_the_largest_board_has_a_picture():
    picture = draw(((0, 254),), (1,), ((253, 1, 1),), rows=255, cols=255)
    assert (picture != draw(((9, 254),), (1,), ((253, 1, 1),), rows=255, cols=255)).any()


def test_players_in_one_cell_are_all_drawn():
    def heads(*places):
        row = draw(places, (1,) * len(places), food=())[round(HEADER + MARGIN + BOARD / 16 - 0.2 * BOARD / 8 / len(places))]
        return np.count_nonzero(np.diff((row == DARK.ink).all(axis=1).astype(int)) == 1)

    assert [heads((0, 0)), heads((0, 0), (0, 0)), heads(*[(0, 0)] * 3)] == [1, 2, 3]


def test_every_part_of_the_state_changes_the_frame():
    first = draw()
    for other in (draw(((0, 1), (7, 7))), draw(levels=(1, 3)), draw(food=((3, 4, 3),)), draw(spawned=5), draw(t=3)):
        assert (first != other).any()


def test_the_end_of_the_food_is_marked():
    assert not (draw() == DARK.mark).all(axis=2).any()
    assert (draw(food=()) == DARK.mark).all(axis=2).any()
