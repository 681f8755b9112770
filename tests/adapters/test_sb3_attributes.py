"""Parameters and attributes by name: ``get_attr`` and ``set_attr`` of ``Sb3VecEnv``, and of single envs in wrappers."""

import copy

import gymnasium
import numpy as np
import pytest

import tests.roles  # noqa: F401  # registers Town
from gpu_vecenv import RoleRows
from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from gpu_vecenv.errors import ParameterError, UnknownAttributeError

CARTPOLE = "WarpCartPole-v1"


def rows_of_cartpole():
    return Sb3VecEnv(CARTPOLE, num_envs=3, device="cpu", gravity=5.0), "gravity", 5.0


def rows_of_a_role():
    inner = gymnasium.make_vec("Town-v0", num_envs=2, device="cpu", num_citizens=4)
    return Sb3VecEnv(RoleRows(inner, "citizen")), "num_citizens", 4


@pytest.mark.parametrize("make", [rows_of_cartpole, rows_of_a_role])
def test_parameters_are_read_and_never_changed(make):
    env, name, value = make()
    assert env.get_attr(name) == [value] * env.num_envs and env.get_attr(name, indices=[0, 1]) == [value] * 2
    env.set_attr(name, value)
    with pytest.raises(ParameterError, match=rf"{name} is read-only, got {value + 1}; make the env with another value\."):
        env.set_attr(name, value + 1)
    assert env.get_attr(name)[0] == value == env.get_attr("params")[0][name]


@pytest.mark.parametrize("make", [rows_of_cartpole, rows_of_a_role])
def test_other_attributes_cannot_be_changed(make):
    env, *_ = make()
    for name, value in (("device", "cuda"), ("render_mode", "rgb_array"), ("num_worlds", 1), ("action_space", None)):
        present = env.get_attr(name)
        with pytest.raises(ParameterError, match=f"{name} is read-only, got {value!r}; it cannot be changed"):
            env.set_attr(name, value)
        assert env.get_attr(name) == present


def test_unknown_names_raise_errors_that_list_the_parameters():
    env, *_ = rows_of_cartpole()
    for call in (env.get_attr, lambda name: env.set_attr(name, 1)):
        with pytest.raises(UnknownAttributeError, match="no attribute 'gravty'. It has: .*gravity"):
            call("gravty")
    assert env.has_attr("gravity") and not env.has_attr("gravty")


def test_spaces_are_those_of_a_row():
    for env, *_ in (rows_of_cartpole(), rows_of_a_role()):
        for name in ("observation_space", "action_space"):
            assert env.get_attr(name) == [getattr(env, name)] * env.num_envs


def test_a_single_env_refuses_another_value_of_a_parameter():
    env = gymnasium.make(CARTPOLE, gravity=5.0)
    sync = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make(CARTPOLE, gravity=5.0)] * 2)
    copied = copy.deepcopy(env)
    for change in (
        lambda: setattr(env.unwrapped, "gravity", 3.0),
        lambda: setattr(copied.unwrapped, "gravity", 3.0),
        lambda: env.set_wrapper_attr("gravity", 3.0),
        lambda: env.set_wrapper_attr("gravity", 3.0, force=False),
        lambda: sync.set_attr("gravity", 3.0),
    ):
        with pytest.raises(ParameterError, match=r"gravity is read-only, got 3\.0; make the env with another value"):
            change()
    env.unwrapped.gravity = 5.0
    env.unwrapped.colour = "red"
    sync.set_attr("colour", ["red", "blue"])
    assert env.get_wrapper_attr("colour") == "red" and sync.get_attr("colour") == ("red", "blue")
    assert not env.set_wrapper_attr("shape", "round", force=False)
    np.testing.assert_array_equal(env.reset(seed=1)[0], copied.reset(seed=1)[0])
