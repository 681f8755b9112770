"""The keyword ``preset`` of vector envs."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ParameterError

CARTPOLE = "WarpCartPole-v1"
KEYWORDS = {"array": "numpy", "autoreset_mode": "next_step", "copy": True}


def make(**options):
    return gymnasium.make_vec(CARTPOLE, num_envs=3, device="cpu", **options)


def test_a_preset_gives_the_env_of_its_keywords():
    env, expected = make(preset="rllib", max_episode_steps=4), make(**KEYWORDS, max_episode_steps=4)
    np.testing.assert_array_equal(env.reset(seed=2)[0], expected.reset(seed=2)[0])
    before = []
    for step in range(12):
        actions = np.array([step % 2, 1, 0])
        results, wanted = env.step(actions), expected.step(actions)
        for one, other in zip(results[:4], wanted[:4], strict=True):
            assert type(one) is np.ndarray
            np.testing.assert_array_equal(one, other)
        assert results[4].keys() == wanted[4].keys() == set()
        before.append((results[0], results[0].copy()))
    for obs, copied in before:  # later steps did not write to earlier results
        np.testing.assert_array_equal(obs, copied)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("mode", ["next_step", "NextStep", AutoresetMode.NEXT_STEP])
def test_keywords_equal_to_those_of_the_preset_are_accepted(mode):
    env = make(preset="rllib", array="numpy", autoreset_mode=mode, copy=True)
    assert env.unwrapped.autoreset_mode is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize(
    "name, value, expected",
    [
        ("array", "torch", "'numpy'"),
        ("autoreset_mode", "same_step", "'next_step'"),
        ("autoreset_mode", AutoresetMode.DISABLED, "'next_step'"),
        ("autoreset_mode", "next", "one of next_step, same_step"),
        ("copy", False, "True"),
        ("copy", 1, "True"),
    ],
)
def test_a_keyword_that_differs_from_the_preset_is_refused(name, value, expected):
    with pytest.raises(ParameterError, match=f"{name}.*{expected}"):
        make(preset="rllib", **{name: value})


@pytest.mark.parametrize("preset", ["RLlib", "", 3, ["rllib"], True])
def test_an_unknown_preset_is_refused(preset):
    with pytest.raises(ParameterError, match="preset must be one of 'rllib', or None; got"):
        make(preset=preset)


def test_no_preset_is_the_default():
    assert make(preset=None).unwrapped.autoreset_mode is make().unwrapped.autoreset_mode is AutoresetMode.SAME_STEP


def test_single_envs_have_no_preset():
    with pytest.raises(ParameterError, match='a preset is for vector envs.*gym_env_vectorize_mode="vector_entry_point"'):
        gymnasium.make(CARTPOLE, preset="rllib")
    assert gymnasium.make(CARTPOLE, preset=None).reset(seed=1)[0].shape == (4,)


def test_copies_and_specs_keep_the_preset():
    env = make(preset="rllib")
    env.reset(seed=5)
    copied = pickle.loads(pickle.dumps(env.unwrapped))
    assert (copied.array, copied.autoreset_mode) == ("numpy", AutoresetMode.NEXT_STEP)
    again = gymnasium.make_vec(EnvSpec.from_json(env.spec.to_json()), num_envs=2)
    assert (again.unwrapped.array, again.unwrapped.autoreset_mode) == ("numpy", AutoresetMode.NEXT_STEP)
