"""Pot, whose players observe a part alike, against its reference; spaces and slabs of the shared part."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from gpu_vecenv.errors import ParameterError, ShapeError
from tests.devices import DEVICES
from tests.roles.shared import Pot
from tests.trees import assert_trees_equal, map_tree

MODES = ("same_step", "next_step", "disabled")


def make(num_worlds=4, **options):
    return gymnasium.make_vec("Pot-v0", num_envs=num_worlds, **{"device": "cpu", "array": "numpy", **options}).unwrapped


def assert_observed(pot, obs, mask, w):
    expected, allowed = pot.observe()
    assert_trees_equal(map_tree(lambda array: array[w], obs), map_tree(np.float32, expected))
    np.testing.assert_array_equal(mask["player"][w], allowed)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("players", [1, 3, 40])
def test_every_step_is_that_of_the_reference(players, mode, device):
    env = make(num_players=players, full=2 * players, max_episode_steps=9, autoreset_mode=mode, device=device)
    obs, info = env.reset(seed=2)
    pots = [Pot(purse, 2 * players, 9) for purse in env.get_state("purse")["purse"]]
    generator = np.random.default_rng(players)
    done, ends = np.zeros((4, 2), bool), np.zeros(2, int)
    for _ in range(60):
        for w, pot in enumerate(pots):
            assert_observed(pot, obs, info["action_mask"], w)
        actions = {"player": generator.integers(0, 3, (4, players)), "judge": generator.integers(0, 2, (4, 1))}
        obs, reward, terminated, truncated, info = env.step(actions)
        waits = done.any(1)
        for w, pot in enumerate(pots):
            pay, *done[w] = (
                (np.zeros(players + 1), *(done[w] & (mode == "disabled")))
                if waits[w]
                else pot.step(actions["player"][w], actions["judge"][w, 0])
            )
            np.testing.assert_array_equal(info["agent_reward"][w], pay)
            np.testing.assert_allclose(reward[w], pay.mean(), rtol=1e-6)
            assert [terminated[w], truncated[w]] == done[w].tolist()
            if mode == "same_step" and done[w].any():
                assert_observed(pot, info["final_obs"], info["final_action_mask"], w)
        ends += done[~waits].sum(0)
        restart = done.any(1) if mode == "same_step" else waits
        if mode == "disabled" and restart.any():
            obs, info = env.reset(options={"reset_mask": restart})
        purses = env.get_state("purse")["purse"]
        for w in np.flatnonzero(restart):
            pots[w].reset(purses[w])
        done[restart] = False
    assert ends.all()


def test_the_shared_part_is_a_space_of_a_world():
    env = make(3)
    shared, own, judge = (Box(-np.inf, np.inf, shape) for shape in ((2,), (3, 1), (1, 1)))
    assert env.single_observation_space == Dict(player=Dict(shared=shared, own=own), judge=judge)
    obs, _ = env.reset(seed=0)
    assert env.observation_space.contains(obs)
    assert obs["player"]["shared"].shape == (3, 2) and obs["player"]["own"].shape == (3, 3, 1)
    assert_trees_equal(obs, env.observe())


def test_slabs_of_the_shared_part_have_no_axis_of_agents():
    env, single = make(array="torch"), make(array="torch")
    slabs = {"player": {"shared": torch.zeros(6, 4, 2), "own": torch.zeros(6, 4, 3, 1)}, "judge": torch.zeros(6, 4, 1, 1)}
    env.bind(obs=slabs)
    for each in (env, single):
        each.reset(seed=1)
    expected = single.rollout(num_steps=5)
    env.rollout(expected[4]["actions"])
    assert torch.equal(slabs["player"]["shared"][1:], expected[0]["player"]["shared"])
    assert torch.equal(slabs["player"]["own"][1:], expected[0]["player"]["own"])
    own = slabs["player"]["own"]
    with pytest.raises(ParameterError, match="bound obs of player must be a dict with the keys shared, own"):
        env.bind(obs={**slabs, "player": own})
    with pytest.raises(ShapeError, match=r"shared.* \(T \+ 1, 4, 2\)"):
        env.bind(obs={**slabs, "player": {"shared": torch.zeros(6, 4, 3, 2), "own": own}})
