"""Wrappers on the device, compared with Gymnasium's and with loops over all samples."""

from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers import vector as wrappers
from gymnasium.wrappers.utils import RunningMeanStd

import gpu_vecenv
from gpu_vecenv.errors import ArrayTypeError, DeviceError, ParameterError, SequenceError, ShapeError
from gpu_vecenv.vector.wrappers.normalize import RunningMoments
from tests.api.envs import MODES, host, make, random_actions
from tests.devices import DEVICES, JAX

ARRAYS = ["numpy", "torch", JAX]


def steps_of(env, count=60, mode="same_step", seed=1):
    """Yield the results of a reset and of steps with random actions; ended envs are reset if autoreset is disabled."""
    obs, info = env.reset(seed=seed)
    yield obs, None, None, None, info, np.ones(env.num_envs, bool)
    ended = np.zeros(env.num_envs, bool)
    for step, action in enumerate(random_actions(env, count)):
        if mode == "disabled" and ended.any() and step % 3 == 0:
            obs, info = env.reset(options={"reset_mask": ended})
            yield obs, None, None, None, info, ended
            ended = np.zeros(env.num_envs, bool)
        results = env.step(action)
        yield *results, ~ended if mode == "disabled" else np.ones(env.num_envs, bool)
        if mode == "disabled":
            ended |= host(results[2]) | host(results[3])


def moments(samples, axis=0):
    """Mean and variance of samples and of the 1e-4 samples with mean 0 and variance 1 that Gymnasium begins with."""
    samples = np.asarray(samples, np.float64)
    total = len(samples) + 1e-4
    mean = samples.sum(axis) / total
    return mean, ((samples**2).sum(axis) + 1e-4) / total - mean**2


# ---- observations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("name, view", [("cartpole", "worlds"), ("tag", "worlds"), ("tag", "agents")])
def test_observations_equal_those_of_gymnasiums_wrapper(name, view, array):
    """In next-step mode, the only one that Gymnasium's wrapper takes, and with its statistics in float64 like ours."""
    options = {"view": view, "autoreset_mode": "next_step"}
    ours = gpu_vecenv.NormalizeObservation(make(name, array=array, **options))
    theirs = wrappers.NormalizeObservation(wrappers.TransformObservation(make(name, **options), np.float64))
    assert ours.observation_space == theirs.observation_space
    theirs.obs_rms = RunningMeanStd(shape=theirs.single_observation_space.shape, dtype=np.float64)
    for step, (left, right) in enumerate(zip(steps_of(ours), steps_of(theirs), strict=True)):
        if step == 50:
            ours.update_running_mean = theirs.update_running_mean = False
        np.testing.assert_allclose(host(left[0]), right[0], rtol=1e-5, atol=5e-4 if array == "jax" else 1e-5)  # JAX has float32
        assert left[0].dtype in (np.float32, torch.float32)
    np.testing.assert_allclose(host(ours.obs_rms.mean), theirs.obs_rms.mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(host(ours.obs_rms.var), theirs.obs_rms.var, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mode", MODES)
def test_each_observation_of_an_episode_counts_once(mode, array):
    ours = gpu_vecenv.NormalizeObservation(make("cartpole", array=array, autoreset_mode=mode))
    plain = make("cartpole", autoreset_mode=mode)
    seen, finals = [], 0
    for left, right in zip(steps_of(ours, mode=mode), steps_of(plain, mode=mode), strict=True):
        obs, *_, info, is_new = right
        seen += list(obs[is_new])
        if "final_obs" in info:
            seen += list(info["final_obs"][info["_final_obs"]])
        mean, var = moments(seen)
        exact = 1e-6 if array == "jax" else 1e-9  # JAX has float32
        np.testing.assert_allclose(host(ours.obs_rms.mean), mean, rtol=1e-6, atol=exact)
        np.testing.assert_allclose(host(ours.obs_rms.var), var, rtol=1e-6, atol=exact)
        np.testing.assert_allclose(host(left[0]), (obs - mean) / np.sqrt(var + 1e-8), rtol=1e-4, atol=1e-5)
        if "final_obs" in info:
            ended = info["_final_obs"]
            finals += ended.sum()
            expected = (info["final_obs"] - mean) / np.sqrt(var + 1e-8)
            np.testing.assert_allclose(host(left[4]["final_obs"])[ended], expected[ended], rtol=1e-4, atol=1e-5)
    assert float(ours.obs_rms.count) == pytest.approx(len(seen) + 1e-4)
    assert finals > 5 or mode != "same_step"


def test_rows_of_final_obs_without_an_end_do_not_reach_the_statistics():
    """Slabs that the caller filled with NaN keep it where no episode ended."""
    env = gpu_vecenv.NormalizeObservation(make("cartpole", array="torch", max_episode_steps=3))
    shape = env.single_observation_space.shape
    env.unwrapped.bind(obs=torch.zeros(9, 3, *shape), final_obs=torch.full((8, 3, *shape), torch.nan))
    env.reset(seed=0)
    for _ in range(8):
        obs = env.step(torch.zeros(3, dtype=torch.int64))[0]
    assert obs.isfinite().all() and float(env.obs_rms.count) == pytest.approx(9 * 3 + 2 * 3 + 1e-4)


def test_statistics_can_be_kept_and_shared():
    env = gpu_vecenv.NormalizeObservation(make("cartpole", array="torch"))
    for _ in steps_of(env):
        pass
    other = gpu_vecenv.NormalizeObservation(make("cartpole", array="torch"))
    other.obs_rms, other.update_running_mean = env.obs_rms, False
    before = env.obs_rms.mean
    obs = other.reset(seed=5)[0]
    assert env.obs_rms.mean is before
    expected = (make("cartpole", array="torch").reset(seed=5)[0] - before) / (env.obs_rms.var + 1e-8).sqrt()
    torch.testing.assert_close(obs, expected.float())


# ---- rewards ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("name, view", [("cartpole", "worlds"), ("tag", "worlds"), ("tag", "agents")])
def test_rewards_equal_those_of_gymnasiums_wrapper(name, view, mode, array):
    options = {"view": view, "autoreset_mode": mode}
    ours = gpu_vecenv.NormalizeReward(make(name, array=array, **options), gamma=0.9)
    theirs = wrappers.NormalizeReward(make(name, **options), gamma=0.9)
    seen = 0
    for step, (left, right) in enumerate(zip(steps_of(ours), steps_of(theirs), strict=True)):
        if step == 0:
            continue
        if step == 50:
            ours.update_running_mean = theirs.update_running_mean = False
        np.testing.assert_allclose(host(left[1]), right[1], rtol=1e-5, atol=1e-5)
        assert left[1].dtype in (np.float32, torch.float32)
        ended = right[2] | right[3]
        seen += ended.sum()
        theirs.accumulated_reward[ended] = 0  # in next-step mode, Gymnasium's wrapper carries it into the next episode
    assert seen > 5
    np.testing.assert_allclose(float(ours.return_rms.var), theirs.return_rms.var, rtol=1e-5)


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mode", MODES)
def test_sums_of_rewards_start_anew_in_each_episode(mode, array):
    limits = {"autoreset_mode": mode, "max_episode_steps": 7}
    ours = gpu_vecenv.NormalizeReward(make("cartpole", array=array, **limits), gamma=0.9)
    sums, seen, in_episode = np.zeros(3), [], np.ones(3, bool)
    for _, reward, terminated, truncated, _, is_new in steps_of(ours, mode=mode):
        if reward is None:
            in_episode |= is_new
            continue
        for i in range(3):
            if in_episode[i]:  # every step of CartPole has reward 1
                sums[i] = 1 if host(terminated)[i] else 0.9 * sums[i] + 1
                seen.append(sums[i])
            if ended := bool(host(terminated)[i] | host(truncated)[i]):
                sums[i] = 0
            in_episode[i] = mode == "same_step" or not ended
        mean, var = moments(seen)
        assert float(ours.return_rms.var) == pytest.approx(var, rel=1e-6)
    assert float(ours.return_rms.count) == pytest.approx(len(seen) + 1e-4)


@pytest.mark.parametrize("array", ARRAYS)
def test_a_partial_reset_starts_only_its_sums_anew(array):
    env = gpu_vecenv.NormalizeReward(make("cartpole", array=array, autoreset_mode="disabled"), gamma=1.0)
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros(3, int))
    env.reset(options={"reset_mask": np.array([True, False, False])})
    env.step(np.zeros(3, int))
    assert float(env.return_rms.var) == pytest.approx(moments([1, 1, 1, 2, 2, 2, 1, 3, 3])[1], rel=1e-6)


# ---- clipping and functions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", ARRAYS)
def test_actions_are_clipped_to_the_bounds(array):
    """MountainCarContinuous takes no action beyond its bounds; its cost is 0.1 times the square of the action."""
    env = gpu_vecenv.ClipAction(gymnasium.make_vec("WarpMountainCarContinuous-v0", num_envs=3, device="cpu", array=array))
    env.reset(seed=0)
    given = np.array([[-7.0], [0.5], [30.0]], np.float32)
    for actions in (given, given.tolist(), torch.from_numpy(given)):
        reward = env.step(actions)[1]
        np.testing.assert_allclose(host(reward), -0.1 * np.array([1, 0.25, 1]), rtol=1e-5)
    assert given[0, 0] == -7
    assert env.action_space.shape == (3, 1) and not np.isfinite(env.action_space.high).any()
    assert env.unwrapped.action_space.high.max() == 1


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("low, high", [(-1, 1), (None, -0.5), (-0.5, None)])
def test_rewards_are_clipped_like_by_gymnasiums_wrapper(low, high, array):
    make_pendulum = lambda array: gymnasium.make_vec("WarpPendulum-v1", num_envs=3, device="cpu", array=array)  # noqa: E731
    ours = gpu_vecenv.ClipReward(make_pendulum(array), low, high)
    theirs = wrappers.ClipReward(make_pendulum("numpy"), low, high)
    for left, right in zip(list(steps_of(ours, 9))[1:], list(steps_of(theirs, 9))[1:], strict=True):
        np.testing.assert_array_equal(host(left[1]), right[1])


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mode", MODES)
def test_functions_change_rewards_and_all_observations(mode, array):
    plain = make("cartpole", autoreset_mode=mode)
    ours = gpu_vecenv.TransformReward(make("cartpole", array=array, autoreset_mode=mode), lambda reward: 3 * reward)
    space = gymnasium.spaces.Box(0, 1, (2,))
    ours = gpu_vecenv.TransformObservation(ours, lambda obs: (obs[:, :2] + 1).clip(0, 1), space)
    assert ours.observation_space.shape == (3, 2) and ours.single_observation_space == space
    finals = 0
    for left, right in zip(steps_of(ours, mode=mode), steps_of(plain, mode=mode), strict=True):
        np.testing.assert_array_equal(host(left[0]), (right[0][:, :2] + 1).clip(0, 1))
        if right[1] is not None:
            np.testing.assert_array_equal(host(left[1]), 3 * right[1])
        if "final_obs" in right[4]:
            ended = right[4]["_final_obs"]
            np.testing.assert_array_equal(host(left[4]["final_obs"])[ended], (right[4]["final_obs"][ended][:, :2] + 1).clip(0, 1))
            finals += ended.sum()
    assert finals > 5 or mode != "same_step"


# ---- all wrappers together ----------------------------------------------------------------------------------------


def wrapped(**options):
    """Pendulum with the wrappers of CleanRL's continuous PPO."""
    env = gymnasium.make_vec("WarpPendulum-v1", num_envs=8, max_episode_steps=5, **options)
    env = gpu_vecenv.ClipAction(gpu_vecenv.EpisodeStatistics(env))
    env = gpu_vecenv.TransformObservation(gpu_vecenv.NormalizeObservation(env), lambda obs: obs.clip(-10, 10))
    return gpu_vecenv.ClipReward(gpu_vecenv.NormalizeReward(env, gamma=0.9), -10, 10)


class NoHost(torch.overrides.TorchFunctionMode):
    """Raises an error when a tensor is read by the host, except in the env: on the CPU, the host runs its steps.

    Args:
        env: the env whose own steps may read tensors.
    """

    def __init__(self, env=None):
        self.in_env = False
        if env is not None:
            self.step, env.step = env.step, self.step_env

    def step_env(self, actions):
        self.in_env = True
        try:
            return self.step(actions)
        finally:
            self.in_env = False

    READS = {getattr(torch.Tensor, name) for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__", "__int__",
                                                      "__index__", "__array__", "nonzero")} | {torch.nonzero}  # fmt: skip

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if self.in_env:
            return func(*args, **(kwargs or {}))
        by_mask = func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool
            for index in (args[1] if isinstance(args[1], tuple) else (args[1],))
        )
        if func in self.READS or by_mask:
            raise AssertionError(f"the host reads a tensor by {func.__name__}")
        return func(*args, **(kwargs or {}))


def test_the_mode_of_the_next_test_sees_reads():
    flags = torch.ones(2, dtype=torch.bool)
    for read in (lambda: flags[0].item(), lambda: bool(flags[0]), flags.numpy, flags.cpu, lambda: flags[flags], flags.tolist):
        with NoHost(), pytest.raises(AssertionError, match="the host reads"):
            read()


@pytest.mark.parametrize("mode", MODES)
def test_no_step_is_read_by_the_host(mode):
    env = wrapped(device="cpu", autoreset_mode=mode)
    env.reset(seed=0)
    with NoHost(env.unwrapped):
        for _ in range(12):
            env.step(torch.full((8, 1), 3.0))


@pytest.mark.gpu
@pytest.mark.parametrize("mode", MODES)
def test_no_step_waits_for_the_gpu(mode):
    env = wrapped(device="cuda:0", autoreset_mode=mode)
    env.reset(seed=0)
    actions = torch.full((8, 1), 3.0, device="cuda:0")
    env.step(actions)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(12):
            *results, info = env.step(actions)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(array.is_cuda for array in (*results, info["episode"]["r"], info["_episode"]))


@pytest.mark.parametrize("device", DEVICES)
def test_all_array_kinds_give_the_same(device):
    kinds = ["numpy", "torch", *(["cupy"] if device != "cpu" else [])]
    envs = [wrapped(device=device, array=kind) for kind in kinds]
    for env in envs:
        env.reset(seed=0)
    for action in random_actions(envs[0], 12):
        first, *others = (env.step(action) for env in envs)
        for other in others:
            for left, right in zip(first[:4], other[:4], strict=True):
                as_host = right.cpu().numpy() if isinstance(right, torch.Tensor) else right.get()
                np.testing.assert_allclose(left, as_host, rtol=1e-4, atol=1e-5)


# ---- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap, message", [
    (lambda env: gpu_vecenv.NormalizeObservation(env, epsilon=0), "epsilon must be a number above 0, got 0"),
    (lambda env: gpu_vecenv.NormalizeReward(env, epsilon=float("inf")), "epsilon must be a number above 0, got inf"),
    (lambda env: gpu_vecenv.NormalizeReward(env, gamma=1.5), "gamma must be a number from 0 to 1, got 1.5"),
    (lambda env: gpu_vecenv.NormalizeReward(env, gamma="a"), "gamma must be a number from 0 to 1, got 'a'"),
    (gpu_vecenv.ClipReward, "needs min_reward, max_reward or both"),
    (lambda env: gpu_vecenv.ClipReward(env, 2, 1), "min_reward must not be above max_reward, got 2 and 1"),
    (lambda env: gpu_vecenv.ClipReward(env, "a"), "min_reward must be a number or None, got 'a'"),
    (lambda env: gpu_vecenv.ClipReward(env, float("nan"), 1), "min_reward must be a number or None, got nan"),
    (lambda env: gpu_vecenv.ClipReward(env, 0, np.float32("nan")), "max_reward must be a number or None, got np.float32"),
    (lambda env: gpu_vecenv.TransformObservation(env, 3), "func must be a function, got 3"),
    (lambda env: gpu_vecenv.TransformReward(env, None), "func must be a function, got None"),
    (gpu_vecenv.ClipAction, "action space is a Box, got Discrete"),
])  # fmt: skip
def test_arguments_that_do_not_fit_raise_an_error(wrap, message):
    with pytest.raises(ParameterError, match=message):
        wrap(make("cartpole"))


@pytest.mark.parametrize("given, error, message", [
    (lambda: gpu_vecenv.NormalizeObservation(make("cartpole")).obs_rms, ArrayTypeError, 'have .* "torch", .* got "numpy"'),
    (lambda: gpu_vecenv.NormalizeReward(make("cartpole", array="torch")).return_rms, ShapeError, r"have .* \(4,\), got \(\)"),
    (lambda: RunningMoments(torch.zeros(4, dtype=torch.float64, device="meta")), DeviceError, "be on cpu, .*got arrays on meta"),
    (lambda: RunningMeanStd(shape=(4,)), ArrayTypeError, "be RunningMoments, got RunningMeanStd"),
    (lambda: None, ArrayTypeError, "be RunningMoments, got NoneType"),
])  # fmt: skip
def test_statistics_that_do_not_fit_raise_an_error(given, error, message):
    env = gpu_vecenv.NormalizeObservation(make("cartpole", array="torch"))
    before = env.obs_rms
    with pytest.raises(error, match=f"obs_rms must {message}"):
        env.obs_rms = given()
    assert env.obs_rms is before


def test_statistics_of_rewards_that_do_not_fit_raise_an_error():
    env = gpu_vecenv.NormalizeReward(make("cartpole"))
    with pytest.raises(ShapeError, match=r"return_rms must have the shape \(\), got \(4,\)"):
        env.return_rms = gpu_vecenv.NormalizeObservation(make("cartpole")).obs_rms
    with pytest.raises(ArrayTypeError, match='return_rms must have arrays of the kind "numpy", as the env, got "torch"'):
        env.return_rms = gpu_vecenv.NormalizeReward(make("cartpole", array="torch")).return_rms


@pytest.mark.parametrize("wrapper", [gpu_vecenv.NormalizeObservation, gpu_vecenv.NormalizeReward, gpu_vecenv.EpisodeStatistics])
def test_a_step_before_the_first_reset_raises_an_error(wrapper):
    inner = make("cartpole")
    inner.reset(seed=0)
    with pytest.raises(SequenceError, match=rf"call reset\(\) of {wrapper.__name__} before step\(\)"):
        wrapper(inner).step(np.zeros(3, int))


def test_envs_of_other_packages_raise_an_error():
    with pytest.raises(ParameterError, match="ClipReward wraps an env of this package, got CartPoleVectorEnv"):
        gpu_vecenv.ClipReward(gymnasium.make_vec("CartPole-v1"), 0, 1)


def test_wrappers_of_gymnasium_that_need_numpy_are_named_with_their_replacement():
    theirs = wrappers.TransformReward(wrappers.RecordEpisodeStatistics(make("cartpole", array="torch")), abs)
    with pytest.raises(ParameterError, match='RecordEpisodeStatistics computes with NumPy.*"torch"; use gpu_vecenv.EpisodeStat'):
        gpu_vecenv.NormalizeReward(theirs)
    gpu_vecenv.NormalizeReward(wrappers.RecordEpisodeStatistics(make("cartpole")))  # NumPy arrays fit


GYMNASIUMS = {
    wrappers.RecordEpisodeStatistics: MODES,
    wrappers.NormalizeObservation: ("next_step",),
    wrappers.NormalizeReward: MODES,
    partial(wrappers.TransformObservation, func=np.negative): ("next_step", "disabled"),
    wrappers.ClipAction: MODES,
    partial(wrappers.ClipReward, min_reward=-1): MODES,
    partial(wrappers.TransformReward, func=np.negative): MODES,
}
"""Gymnasium's wrappers, and the modes in which they take an env with NumPy arrays, as the documentation says."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrap, modes", GYMNASIUMS.items())
def test_gymnasiums_wrappers_take_numpy_arrays_in_the_modes_documented(wrap, modes, mode):
    env = gymnasium.make_vec("WarpPendulum-v1", num_envs=3, device="cpu", array="numpy", autoreset_mode=mode, max_episode_steps=7)
    if mode not in modes:
        with pytest.raises(ValueError, match="Expected .*autoreset_mode"):
            next(steps_of(wrap(env), mode=mode))
        return
    assert any(result[3].any() for result in steps_of(wrap(env), 20, mode=mode) if result[3] is not None)
