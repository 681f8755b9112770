"""``call``, ``get_attr`` and ``set_attr`` beside those of Gymnasium's SyncVectorEnv over single envs."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch

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


@pytest.mark.parametrize("value", [
    9.8, np.float64(9.8), np.float32(9.8), np.array(9.8), [9.8] * 3, (9.8,) * 3, np.full(3, 9.8), torch.full((3,), 9.8),
])  # fmt: skip
def test_set_attr_takes_a_parameter_as_it_was_given(pair, value):
    """The parameter is 9.8 rounded to float32."""
    ours, _ = pair
    assert ours.params["gravity"] == float(np.float32(9.8)) != 9.8
    ours.set_attr("gravity", value)


@pytest.mark.parametrize("value, got", [
    (9.81, "9.81"), (np.array([9.8, 9.8, 1.5]), "1.5"), (float("nan"), "nan"), (True, "True"), ("a", "'a'"), (None, "None"),
    ({}, "{}"), (np.full((3, 2), 9.8), "array"), (1e99, "1e"),
])  # fmt: skip
def test_set_attr_refuses_other_values(pair, value, got):
    ours, _ = pair
    with pytest.raises(ParameterError, match=f"gravity is read-only, got .*{got}.*; make the env with another value"):
        ours.set_attr("gravity", value)


@pytest.mark.parametrize("values", [np.full(2, 9.8), torch.full((4,), 9.8), []])
def test_set_attr_refuses_another_number_of_values(pair, values):
    ours, _ = pair
    with pytest.raises(ShapeError, match=f"or 3 for as many envs, got {len(values)}"):
        ours.set_attr("gravity", values)


def test_set_attr_takes_a_parameter_by_world():
    lengths = [0.3, 0.5, 0.7]
    env = gymnasium.make_vec(NAME, num_envs=3, device="cpu", array="numpy", length=lengths)
    for values in (lengths, np.array(lengths), torch.tensor(lengths), env.get_attr("length"), env.params["length"]):
        env.set_attr("length", values)
    for values, got in ((0.3, "0.3"), ([0.3, 0.5, 0.9], r"\[0.3, 0.5, 0.9\]")):
        with pytest.raises(ParameterError, match=f"length is read-only, got {got};"):
            env.set_attr("length", values)


def test_set_attr_takes_explicit_starts():
    starts = [0.25, 0.5, 0.75]
    options = {f"starting_{name}": starts for name in ("location_x", "location_y", "directions")}
    env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device="cpu", array="numpy", num_taggers=1, num_runners=2, **options)
    env.set_attr("starting_location_x", list(starts))
    env.set_attr("starting_location_x", [np.array(starts)] * 2)
    with pytest.raises(ParameterError, match="starting_location_x is read-only"):
        env.set_attr("starting_location_x", [starts, starts[::-1]])


@pytest.mark.parametrize("name", [["gravity"], np.array(["gravity", "length"]), 3, None])
def test_names_that_are_no_str_raise_an_error(pair, name):
    ours, _ = pair
    for call in (ours.call, ours.get_attr, lambda name: ours.set_attr(name, 1)):
        with pytest.raises(UnknownAttributeError, match="the name of an attribute must be a str, got"):
            call(name)
