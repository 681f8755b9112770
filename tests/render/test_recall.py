"""Pictures of Recall, measured in the colours of their pixels."""

import numpy as np
import pytest

from gpu_vecenv.envs.recall.render import FAINT, ROWS, Renderer
from gpu_vecenv.render.style import DARK, LIGHT, Style, mix


def draw(cue=0, choice=-1, t=0, cues=4, delay=64, palette=DARK):
    state = {"cue": np.int32(cue), "choice": np.int32(choice), "t": np.int32(t)}
    return Renderer({"num_cues": cues, "delay": delay}, Style(palette)).frame(state)


def find(picture, colour, row):
    """Columns of the pixels that have exactly `colour` in the middle of a row of tiles."""
    height = round(ROWS[row]) - 30  # above the numbers
    return np.nonzero((picture[height] == colour).all(axis=1))[0]


def accents(palette):
    return palette.sky, palette.vermilion, palette.green, palette.sky


@pytest.mark.parametrize("cues", [2, 4, 40, 256])
def test_a_frame_has_its_shape_and_dtype(cues):
    picture = draw(cues - 1, 0, 3, cues)
    assert picture.shape == (400, 720, 3) and picture.dtype == np.uint8


@pytest.mark.parametrize("palette", [DARK, LIGHT])
@pytest.mark.parametrize("cue", range(4))
def test_the_cue_is_bright_at_the_start_and_faint_later(cue, palette):
    colour, places = accents(palette)[cue], []
    for t, shown in ((0, colour), (1, mix(colour, palette.surface, FAINT)), (65, mix(colour, palette.surface, FAINT))):
        columns = find(draw(cue, -1, t, palette=palette), shown, "cue")
        assert 90 < len(columns) == np.ptp(columns) + 1 < 115  # one tile
        places.append(columns.mean())
        assert not len(find(draw(cue, -1, t, palette=palette), shown, "action"))
    assert len(set(places)) == 1 and places[0] == pytest.approx(168 + 55 + 131 * cue, abs=3)


def test_an_action_is_faint_until_it_answers():
    for t, opacity in ((1, FAINT), (64, FAINT), (65, 1.0)):
        columns = find(draw(0, 2, t), mix(DARK.green, DARK.surface, opacity), "action")
        assert columns.mean() == pytest.approx(168 + 55 + 131 * 2, abs=3)


def test_the_question_frames_all_actions_and_a_right_answer_its_own():
    def marks(**state):
        return np.nonzero((draw(**state) == DARK.mark).all(axis=2)[190:340, 130:].any(axis=0))[0]

    whole, answer = marks(cue=1, choice=1, t=64), marks(cue=1, choice=1, t=65)
    assert np.ptp(whole) > 480 and 110 < np.ptp(answer) < 140
    for other in ({"t": 0}, {"cue": 1, "choice": 1, "t": 63}, {"cue": 1, "choice": 2, "t": 65}):
        assert not len(marks(**other))


def test_every_part_of_the_state_changes_the_frame():
    first = draw(0, 1, 5)
    for other in (draw(3, 1, 5), draw(0, 0, 5), draw(0, 1, 6)):  # cues 0 and 3 have one colour
        assert (first != other).any()


def test_a_frame_depends_on_its_state_only():
    kept = Renderer({"num_cues": 4, "delay": 64})
    kept.frame({"cue": 1, "choice": 1, "t": 65})
    kept.reset()
    np.testing.assert_array_equal(kept.frame({"cue": 0, "choice": 1, "t": 5}), draw(0, 1, 5))
