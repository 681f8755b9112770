"""``call``, ``get_attr`` and ``set_attr`` beside those of Gymnasium's SyncVectorEnv over single envs."""

from functools import partial

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.errors import ParameterError, ShapeError, UnknownAttributeError

NAME = "WarpCartPole-v1"


@pytest.fixture
def pair():
    ours = gymnasium.make_vec(NAME, num_envs=3, device="cpu", array="numpy", render_mode="rgb_array")
    theirs = gymnasium.vector.SyncVectorEnv([partial(gymnasium.make, NAME, render_mode="rgb_array")] * 3)
    for env in (ours, theirs):
        env.reset(seed=[4, 5, 6])
    yield ours, theirs
    for env in (ours, theirs):
        env.close()


@pytest.mark.parametrize("name", ["observation_space", "action_space", "render_mode"])
def test_attributes_are_those_of_gymnasium(pair, name):
    ours, theirs = pair
    assert ours.get_attr(name) == theirs.get_attr(name) == ours.call(name)
    assert len(ours.get_attr(name)) == 3


def test_call_draws_each_env(pair):
    ours, theirs = pair
    for mine, frame, other in zip(ours.call("render"), ours.render(), theirs.call("render"), strict=True):
        np.testing.assert_array_equal(mine, frame)
        assert mine.shape == other.shape


def test_parameters_are_attributes(pair):
    ours, _ = pair
    assert ours.get_attr("gravity") == (ours.params["gravity"],) * 3


def test_unknown_names_raise_the_kind_of_error_that_gymnasium_raises(pair):
    for env in pair:
        for call in (env.get_attr, env.call):
            with pytest.raises(AttributeError, match="no_such_name"):
                call("no_such_name")
    ours, _ = pair
    with pytest.raises(UnknownAttributeError, match="It has: .*gravity.*render"):
        ours.set_attr("no_such_name", 1)


def test_set_attr_takes_one_value_or_one_for_each_env_and_no_new_one(pair):
    ours, theirs = pair
    gravity = ours.params["gravity"]
    ours.set_attr("gravity", gravity)
    ours.set_attr("gravity", [gravity] * 3)
    ours.set_attr("render_mode", "rgb_array")
    with pytest.raises(ParameterError, match=r"gravity is read-only, got 1\.5"):
        ours.set_attr("gravity", [gravity, 1.5, gravity])
    for env in (ours, theirs):
        with pytest.raises(ValueError, match="3"):
            env.set_attr("gravity", [gravity] * 2)
    with pytest.raises(ShapeError):
        ours.set_attr("gravity", [gravity] * 2)
