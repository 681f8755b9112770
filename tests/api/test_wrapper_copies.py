"""Pickles and copies of wrappers and of their statistics."""

import copy
import io
import pickle

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv
from gpu_vecenv.vector.wrappers.normalize import RunningMoments
from gpu_vecenv.vector.wrappers.wrapper import DeviceWrapper
from tests.api.envs import MODES, random_actions
from tests.devices import DEVICES, JAX
from tests.trees import assert_trees_equal, to_host

ARRAYS = ["numpy", "torch", JAX]
COPIERS = {"deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda value: pickle.loads(pickle.dumps(value))}


def double(values):
    return 2 * values


WRAPPERS = {
    "EpisodeStatistics": gpu_vecenv.EpisodeStatistics,
    "NormalizeObservation": gpu_vecenv.NormalizeObservation,
    "NormalizeReward": gpu_vecenv.NormalizeReward,
    "ClipAction": gpu_vecenv.ClipAction,
    "ClipReward": lambda env: gpu_vecenv.ClipReward(env, -4, -0.5),
    "TransformObservation": lambda env: gpu_vecenv.TransformObservation(env, double),
    "TransformReward": lambda env: gpu_vecenv.TransformReward(env, double),
}


def pendulum(array, device="cpu", **options):
    return gymnasium.make_vec("WarpPendulum-v1", num_envs=5, max_episode_steps=7, device=device, array=array, **options)


def play(env, steps, seed=0):
    """Results on the host of steps with random actions. Final observations of envs whose episode goes on are 0."""
    results = []
    for actions in random_actions(env, steps, seed):
        *arrays, info = env.step(3 * actions)
        flat = {f"{name}/{key}": value for name, group in info.items() if isinstance(group, dict) for key, value in group.items()}
        single = {name: value for name, value in info.items() if not isinstance(value, dict)}
        result = to_host({**dict(enumerate(arrays)), **single, **flat})
        if "final_obs" in result:
            result["final_obs"][~result["_final_obs"]] = 0
        results.append(result)
    return results


def assert_alike(left, right):
    for mine, theirs in zip(left, right, strict=True):
        assert_trees_equal(mine, theirs)


def test_every_wrapper_of_the_package_is_listed():
    public = {name for name in gpu_vecenv.__all__ if isinstance(wrapper := getattr(gpu_vecenv, name), type)
              and issubclass(wrapper, DeviceWrapper)}  # fmt: skip
    assert public == WRAPPERS.keys()


@pytest.mark.parametrize("array", [pytest.param("numpy", marks=pytest.mark.slow), "torch", JAX])
@pytest.mark.parametrize("copier", COPIERS)
@pytest.mark.parametrize("name", WRAPPERS)
def test_a_copy_of_a_wrapper_continues_as_the_original_does(name, copier, array):
    """The copy is stepped first, so memory that both shared would change what the original gives."""
    env = WRAPPERS[name](pendulum(array))
    env.reset(seed=3)
    play(env, 9)
    again = COPIERS[copier](env)
    assert type(again) is type(env) and again.unwrapped is not env.unwrapped
    assert again.observation_space == env.observation_space and again.action_space == env.action_space
    left, right = play(again, 12, seed=1), play(env, 12, seed=1)
    assert_alike(left, right)
    assert any(result[3].any() for result in left)  # episodes ended


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copier", COPIERS)
def test_a_copy_of_all_wrappers_together_continues_as_the_original_does(copier, mode, device):
    env = pendulum("torch", device, autoreset_mode=mode)
    for wrap in WRAPPERS.values():
        env = wrap(env)
    env.reset(seed=3)
    play(env, 9)
    again = COPIERS[copier](env)
    assert_alike(play(again, 12, seed=1), play(env, 12, seed=1))


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("wrapper, name", [("NormalizeObservation", "obs_rms"), ("NormalizeReward", "return_rms")])
def test_pickled_statistics_are_those_of_the_original_and_go_on(wrapper, name, array):
    env, other = WRAPPERS[wrapper](pendulum(array)), WRAPPERS[wrapper](pendulum(array))
    env.reset(seed=3)
    play(env, 9)
    again = copy.deepcopy(env)
    moments = pickle.loads(pickle.dumps(getattr(env, name)))
    setattr(again, name, moments)
    assert_alike(play(again, 5, seed=1), play(env, 5, seed=1))
    setattr(other, name, moments)
    assert getattr(other, name) is moments


@pytest.mark.parametrize("device", DEVICES)
def test_torch_stores_statistics(device):
    env = gpu_vecenv.NormalizeObservation(pendulum("torch", device))
    env.reset(seed=3)
    file = io.BytesIO()
    torch.save({"obs_rms": env.obs_rms, "weights": torch.ones(2)}, file)
    for options in ({"weights_only": False}, {"weights_only": False, "map_location": "cpu"}):
        file.seek(0)
        stored = torch.load(file, **options)["obs_rms"]
        assert stored.mean.device.type == options.get("map_location", torch.device(device).type)
        evaluation = gpu_vecenv.NormalizeObservation(pendulum("torch", stored.mean.device.type))
        evaluation.obs_rms, evaluation.update_running_mean = stored, False
        expected = (env.unwrapped.observe().cpu() - env.obs_rms.mean.cpu()) / (env.obs_rms.var.cpu() + 1e-8) ** 0.5
        torch.testing.assert_close(evaluation.reset(seed=3)[0].cpu(), expected.float())
    with torch.serialization.safe_globals([RunningMoments]):
        file.seek(0)
        np.testing.assert_array_equal(torch.load(file)["obs_rms"].var.cpu(), env.obs_rms.var.cpu())
