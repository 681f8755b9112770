"""Episode statistics on the device, compared with Gymnasium's wrapper."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from gpu_vecenv import GpuVectorEnv
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.vector.wrappers.stats import EpisodeStatistics
from tests.api.envs import MODES, VIEWS, host, make, random_actions
from tests.devices import JAX
from tests.roles import town


@pytest.mark.parametrize("array", ["numpy", "torch", JAX])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_statistics_equal_those_of_gymnasiums_wrapper(name, view, mode, array):
    ours = EpisodeStatistics(make(name, view=view, autoreset_mode=mode, array=array, tagging_distance=0.3)
                             if name == "tag" else make(name, autoreset_mode=mode, array=array))  # fmt: skip
    theirs = RecordEpisodeStatistics(make(name, view=view, autoreset_mode=mode, tagging_distance=0.3)
                                     if name == "tag" else make(name, autoreset_mode=mode))  # fmt: skip
    ours.reset(seed=1)
    theirs.reset(seed=1)
    episodes = 0
    over = np.zeros(ours.num_envs, bool)
    for step, action in enumerate(random_actions(ours, 60)):
        if mode == "disabled" and over.any():
            ours.reset(options={"reset_mask": torch.as_tensor(over) if array == "torch" else over})
            theirs.reset(options={"reset_mask": over})
        elif step == 25:  # in the middle of episodes
            mask = np.zeros(ours.num_envs, bool)
            world_rows(ours, mask, world=1)
            ours.reset(options={"reset_mask": mask})
            theirs.reset(options={"reset_mask": mask})
        *_, terminated, truncated, info = ours.step(action)
        expected = theirs.step(action)[-1]
        over = host(info["_episode"])
        np.testing.assert_array_equal(over, expected.get("_episode", np.zeros(ours.num_envs, bool)))
        if mode != "disabled":
            np.testing.assert_array_equal(over, host(terminated) | host(truncated))
        if over.any():
            episodes += 1
            np.testing.assert_allclose(host(info["episode"]["r"])[over], expected["episode"]["r"][over], atol=1e-4)
            np.testing.assert_array_equal(host(info["episode"]["l"])[over], expected["episode"]["l"][over])
            assert (info["episode"]["r"].dtype, info["episode"]["l"].dtype) in (
                (np.float32, np.int32), (torch.float32, torch.int32))  # fmt: skip
    assert episodes > 5


@pytest.mark.parametrize("array", ["numpy", "torch", JAX])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_stays_in_its_episode(bad, mode, array):
    """World 0 of two gets such a reward in its first and its third episode; the third one is ended by a reset."""
    options = {"num_envs": 2, "max_episode_steps": 3, "device": "cpu", "autoreset_mode": mode}
    ours = EpisodeStatistics(gymnasium.make_vec("WarpPendulum-v1", array=array, **options))
    theirs = RecordEpisodeStatistics(gymnasium.make_vec("WarpPendulum-v1", array="numpy", **options))
    for env in (ours, theirs):
        env.reset(seed=1)
    finished, over = [], np.zeros(2, bool)
    for step in range(24):
        for env in (ours, theirs):
            if mode == "disabled" and over.any():
                env.reset(options={"reset_mask": over})
            elif step == 11:
                env.reset()
            if step in (1, 9):
                state = host(env.unwrapped.get_state("state")["state"]).copy()
                state[0, 1] = bad  # the reward is minus the square of the speed
                env.unwrapped.set_state({"state": state})
        info, expected = (env.step(np.zeros((2, 1), np.float32))[-1] for env in (ours, theirs))
        over = host(info["_episode"])
        np.testing.assert_array_equal(over, expected.get("_episode", np.zeros(2, bool)))
        if over.any():
            np.testing.assert_allclose(host(info["episode"]["r"])[over], expected["episode"]["r"][over], rtol=1e-5)
            finished.append(host(info["episode"]["r"])[0])
    assert not np.isfinite(finished[0]) and np.isfinite(finished[1:]).sum() >= 3


def test_a_world_that_was_set_finished_has_no_episode_to_tell_of():
    env = GpuVectorEnv(town.SPEC, num_worlds=2, device="cpu", array="numpy", autoreset_mode="disabled", max_episode_steps=3)
    statistics = EpisodeStatistics(env)
    statistics.reset(seed=0)
    env.set_state({"terminated": np.array([1, 0], np.uint8)})
    for steps in (1, 2, 3):
        info = statistics.step(env.action_space.sample())[-1]
        assert info["_episode"].tolist() == [False, steps == 3]
    assert info["episode"]["l"][1] == 3


def world_rows(env, mask, world):
    """Set ``mask`` for the envs of one world."""
    inner = env.unwrapped
    if inner.view == "worlds" or inner.num_agents == 1:
        mask[world] = True
        return
    for role, rows in inner.role_rows.items():
        count = inner.role_counts[role]
        mask[rows.start + world * count : rows.start + (world + 1) * count] = True


def test_an_episode_is_counted_once_while_its_world_waits_for_a_reset():
    env = EpisodeStatistics(make("cartpole", autoreset_mode="disabled", max_episode_steps=2))
    env.reset(seed=0)
    seen = []
    for _ in range(5):
        info = env.step(np.zeros(3, int))[-1]
        seen.append(info["_episode"].all())
    assert seen == [False, True, False, False, False]


def test_returned_statistics_are_never_written_again():
    env = EpisodeStatistics(make("cartpole", copy=False))
    env.reset(seed=0)
    info = env.step(np.zeros(3, int))[-1]
    kept = info["episode"]["r"], info["episode"]["l"], info["_episode"]
    copies = [value.copy() for value in kept]
    for _ in range(12):
        env.step(np.zeros(3, int))
    for value, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(value, copy)


def test_envs_of_other_packages_raise_an_error():
    with pytest.raises(ParameterError, match="wraps an env of this package, got CartPoleVectorEnv"):
        EpisodeStatistics(gymnasium.make_vec("CartPole-v1"))
