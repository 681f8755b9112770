"""Scenes: expressions against NumPy, what is kept of an episode, and pictures against calls of a canvas."""

import numpy as np
import pytest

from gpu_vecenv.errors import SpecError
from gpu_vecenv.render.canvas import Canvas
from gpu_vecenv.render.expressions import Now, blend, choose, cos, field, floor, largest, pick, sin, smallest, sqrt, total
from gpu_vecenv.render.scene import NEVER, OneOf, Pictures, Scene, Written
from gpu_vecenv.render.scene_renderer import Memory, SceneRenderer
from gpu_vecenv.render.style import DARK, LIGHT, make_style, mix

X = np.array([1.5, -2.0, 3.0])


def value(number, **state):
    return Now({"x": X, "m": np.arange(6.0).reshape(2, 3), "t": np.int32(0), **state}).value(number.json)


def test_operators_are_those_of_numpy():
    one, two = field("x", 0), field("x", 1)
    pairs = [
        (one + two * 2 - 1, -3.5), (1 - one / two, 1.75), (two % 3, 1.0), (two // 3, -1.0), (-abs(two), -2.0),
        (floor(two / 3), -1),
        ((one > two) + (one >= 1.5) + (two < one) + (two <= one), 4), (one.is_(1.5) & ~(one < two) | (one > 9), 1),
        (sqrt(one) * sin(one) + cos(one), np.sqrt(1.5) * np.sin(1.5) + np.cos(1.5)), (choose(one > 2, 5, two), -2),
    ]  # fmt: skip
    for number, expected in pairs:
        assert value(number) == pytest.approx(expected)


def test_reductions_and_their_indices():
    matrix = np.arange(6.0).reshape(2, 3)
    assert value(total(3, lambda i: field("x", i) * i)) == (X * [0, 1, 2]).sum()
    assert value(largest(2, lambda i: smallest(3, lambda k: field("m", i, k) * field("x", k)))) == (matrix * X).min(1).max()
    assert value(total(0, lambda i: field("x", i))) == 0 and value(total(4, lambda i: 2)) == 8


def test_colours_follow_the_state():
    ink, palette = Scene(1, 1).palette, LIGHT
    chosen = pick((ink.sky, ink.green, ink.mark), field("x", 2) - 2)
    now = Now({"x": X})
    assert now.colours(chosen.json, 1, palette) == [palette.green]
    assert now.colours(blend(ink.sky, ink.page, 0.25).json, 2, palette) == [mix(palette.sky, palette.page, 0.25)] * 2
    with pytest.raises(SpecError, match="a palette has the colours page, .*, got 'teal'"):
        _ = ink.teal


def test_python_cannot_branch_on_the_state():
    with pytest.raises(SpecError, match="a scene cannot branch in Python on a number of the state"):
        _ = 1 if field("x", 0) > 0 else 2
    scene = Scene(10, 10)
    with pytest.raises(SpecError, match="cannot be inside another one"), scene.each(2), scene.each(3):
        pass


def test_events_are_remembered_for_an_episode():
    scene = Scene(1, 1)
    before = scene.before(2, lambda i: field("on", i))
    ages = scene.age(2, lambda i: (before[i] > 0) & (field("on", i) < 1))
    late = scene.now(1, lambda i: total(2, lambda k: ages[k] < NEVER))
    scene.held(1, lambda i: field("on", i) + 2, lambda i: before[i] > field("on", i))
    assert late[0].json[0] == "remembered"
    memory, seen = Memory(scene.memory), []
    for time, on in enumerate([(1, 0), (1, 1), (0, 1), (0, 1), (1, 0)]):
        memory.follow({"on": np.array(on)}, time)
        seen.append([number for values in memory.values[1:] for number in values.tolist()])
    assert seen == [[NEVER, NEVER, 0, 3], [NEVER, NEVER, 0, 3], [0, NEVER, 1, 2], [1, NEVER, 1, 2], [2, 0, 2, 2]]


class Drawn(SceneRenderer):
    """A picture of all shapes."""

    def pictures(self, params):
        scene = Scene(120, 80)
        ink = scene.palette
        scene.rectangle(0, 0, 60, 80, ink.surface, corner=5)
        with scene.each(3) as i:
            scene.disc((20 + 30 * i, 40 + field("x", i)), 8, choose(i < 1, ink.sky, ink.green), field("x", i) > 0)
            scene.text((20 + 30 * i, 40), [Written(field("x", i), ".1f")], 8, anchor="mm")
        scene.ring((60, 40), 20 + field("x", 0), ink.mark, 2)
        scene.cross((60, 40), 6, ink.faded, 2)
        scene.polygon((100, 60, 110, 60, 105, 70 + field("x", 0)), ink.ink)
        scene.line([(0, 70), (field("x", 2) * 10, 75)], ink.border, 3)
        scene.text((5, 78), ["t ", OneOf(field("t"), ("zero", "one"))], 8, ink.muted)
        return Pictures((scene,))


@pytest.mark.parametrize(("theme", "scale"), [("dark", 1.0), ("light", 1.5)])
def test_a_scene_is_drawn_as_the_same_calls_of_a_canvas(theme, scale):
    style = make_style(theme, scale)
    canvas, ink = Canvas(120, 80, style=style), style.palette
    canvas.rectangle(0, 0, 60, 80, ink.surface, corner=5)
    for i, x in enumerate(X.tolist()):
        if x > 0:
            canvas.disc((20 + 30 * i, 40 + x), 8, ink.green if i else ink.sky)
        canvas.text((20 + 30 * i, 40), f"{x:.1f}", 8, anchor="mm")
    canvas.ring((60, 40), 21.5, ink.mark, 2)
    canvas.cross((60, 40), 6, ink.faded, 2)
    canvas.polygon((100, 60, 110, 60, 105, 71.5), ink.ink)
    canvas.line((0, 70, 30, 75), ink.border, 3)
    canvas.text((5, 78), "t one", 8, ink.muted)
    found = Drawn({}, style).frame({"x": X, "t": np.int32(1)})
    np.testing.assert_array_equal(found, canvas.to_array())


class Curves(SceneRenderer):
    """A curve of x[0], and a trail."""

    def pictures(self, params):
        scene, ink = Scene(100, 60), Scene(1, 1).palette
        scene.curve((10, 10, 90, 50), field("t") / 8, field("x", 0), ink.sky, area=ink.grid, when=field("x", 0) >= 0)
        with scene.each(1):
            scene.trail((10 + 10 * field("t"), 55), 10, 4, ink.mark)
        panel = Scene(100, 20)
        panel.text((2, 15), [Written(field("t"))], 10)
        return Pictures((scene, Scene(20, 60)), (panel, scene))


def walk(renderer, values, episode=0, kind="frame"):
    for t, x in enumerate(values):
        picture = getattr(renderer, kind)({"x": np.array([x]), "t": np.int32(t), "episode": np.int32(episode)})
    return picture


def test_curves_and_trails_are_those_of_the_episode():
    old = Curves({})
    grown = walk(old, [0, 1, 2, -1, 4])
    assert grown.shape == (60, 120, 3) and walk(Curves({}), [0, 1], kind="scene").shape == (80, 100, 3)
    for colour in (DARK.sky, DARK.grid):
        columns = np.nonzero((grown[10:50] == colour).all(axis=2))[1]
        assert columns.min() in range(9, 15) and columns.max() in range(49, 56)  # 4 / 8 of the box, and the dot
    np.testing.assert_array_equal(walk(old, [0, 3], episode=1), walk(Curves({}), [0, 3], episode=1))
    once, twice = Curves({}), Curves({})
    np.testing.assert_array_equal(walk(once, [0, 1, 2]), walk(twice, [0, 1, 2]))
    state = {"x": np.array([2]), "t": np.int32(2), "episode": np.int32(0)}
    np.testing.assert_array_equal(twice.frame(state), once.frame(state))
