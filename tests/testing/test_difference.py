"""The first difference of two runs, in words."""

from dataclasses import replace

import numpy as np
import pytest

from gpu_vecenv.errors import SpecError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing import CheckError
from gpu_vecenv.testing.difference import first_difference, require_equal
from tests.kernels.test_ptx import spec_of


def layout_of(name):
    spec = spec_of(name)
    return Layout(spec, spec.resolve({}))


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def zeros(*shape):
    return np.zeros(shape, np.float32)


WORDS = {
    "a name": ("Harvest-v0", "obs", zeros(4, 5, 79), (3, 4, 32), "world 3, agent 4, obs[32] `apple at 1, -2`"),
    "a reward of an agent": ("Harvest-v0", "agent_reward", zeros(4, 5), (3, 4), "world 3, agent 4, agent_reward"),
    "a reward of a world": ("Harvest-v0", "reward", zeros(4), (3,), "world 3, reward"),
    "a mask": ("Harvest-v0", "action_mask", zeros(4, 5, 5), (3, 2, 1), "world 3, agent 2, action_mask[1]"),
    "a field of agents": ("Harvest-v0", "state.x", zeros(4, 5), (3, 4), "world 3, agent 4, state x"),
    "a field of a grid": ("Harvest-v0", "state.apples", zeros(4, 8, 8), (3, 5, 4), "world 3, state apples[5, 4]"),
    "a number of the world": ("Pot-v0", "state.pot", zeros(4), (2,), "world 2, state pot"),
    "an agent of a role": ("Pot-v0", "obs.judge", zeros(4, 1, 1), (2, 0, 0), "world 2, judge 0, obs[0]"),
    "an own part": ("Pot-v0", "obs.player.own", zeros(4, 3, 1), (2, 1, 0), "world 2, player 1, obs of player, own part[0]"),
    "a shared part": ("Pot-v0", "obs.player.shared", zeros(4, 2), (2, 1), "world 2, obs of player, shared part[1]"),
    "a metric": ("Harvest-v0", "episode.eaten", zeros(4), (1,), "world 1, episode.eaten"),
    "one agent": ("WarpCartPole-v1", "obs", zeros(4, 4), (1, 2), "world 1, obs[2]"),
}


@pytest.mark.parametrize("case", WORDS)
def test_the_place_of_a_number(case):
    name, array, values, index, words = WORDS[case]
    found = first_difference(layout_of(name), {array: values}, {array: changed(values, index, -0.25)})
    assert found == f"{words}: 0.0 and -0.25"


def test_the_first_step_and_the_build_are_named():
    right = np.zeros((2, 5), np.int32)
    steps, wrong = [{"state.x": right}] * 3, [{"state.x": right}, *[{"state.x": changed(right, (1, 4), 7)}] * 2]
    with pytest.raises(CheckError, match=r"^step 1, world 1, agent 4, state x: 0 and 7; built with a team of 7\.$"):
        require_equal(layout_of("Harvest-v0"), steps, wrong, "built with a team of 7")
    with pytest.raises(CheckError, match="^after the reset, world 1, agent 4"):
        require_equal(layout_of("Harvest-v0"), steps[1:], wrong[1:], "built with a team of 7")
    require_equal(layout_of("Harvest-v0"), steps, steps, "")


def test_bits_are_compared_unless_there_is_a_tolerance():
    layout, one = layout_of("WarpCartPole-v1"), np.array([1.0, np.nan, 1e6], np.float32)
    near = np.array([np.nextafter(np.float32(1), np.float32(2)), np.nan, 1e6 + 1], np.float32)
    assert first_difference(layout, {"reward": one}, {"reward": near}) == "world 0, reward: 1.0 and 1.0000001"
    assert first_difference(layout, {"reward": one}, {"reward": near}, 1e-5) is None
    assert first_difference(layout, {"reward": one}, {"reward": changed(one, 2, 1e6 + 20)}, 1e-5) is not None
    assert first_difference(layout, {"reward": one}, {"reward": changed(one, 1, 0)}, 1e-5) is not None
    assert "shapes (3,) and (2,)" in first_difference(layout, {"reward": one}, {"reward": one[:2]})


@pytest.mark.parametrize(("names", "says"), [
    (lambda params: ["x"], "a list of 4 names, one for each feature"),
    (lambda params: "wxyz", "a list of 4 names, one for each feature"),
    (lambda params: {"car": ["x"] * 4}, "names by role, of ''"),
])  # fmt: skip
def test_names_of_features_that_do_not_fit_are_refused(names, says):
    spec = replace(spec_of("WarpCartPole-v1"), feature_names=names)
    with pytest.raises(SpecError, match=says):
        Layout(spec, spec.resolve({}))
