"""Gymnasium's requirements on vector envs: our envs and Gymnasium's take the same steps from the same states."""

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode

from tests.api.envs import ALIKE, DRAWN, MODES, SINGLES, length

LIMIT = 17
WORLDS = 6
SPREAD = {
    "WarpCartPole-v1": ([-2.35, -2, -0.2, -2], [2.35, 2, 0.2, 2]),
    "WarpAcrobot-v1": ([-3, -3, -4, -4], [3, 3, 4, 4]),
    "WarpMountainCar-v0": ([-1.19, -0.06], [0.49, 0.06]),
    "WarpMountainCarContinuous-v0": ([-1.19, -0.06], [0.44, 0.06]),
    "WarpPendulum-v1": ([-9, -8], [9, 8]),
}
"""Bounds of random states that some worlds are set to. Between them no episode has ended, but many soon end by their rules."""


def make(name, mode, num_envs=WORLDS, **options):
    return gymnasium.make_vec(name, num_envs=num_envs, device="cpu", array="numpy", autoreset_mode=mode, **options)


def assert_close(left, right):
    """Assert equality up to rounding: numbers reach 30, and Acrobot enlarges differences."""
    np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5)


def set_states(env, rows, states):
    """Overwrite the states of some worlds, and nothing else."""
    state = env.unwrapped.get_state()
    state["state"][rows] = states
    env.unwrapped.set_state(state)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SINGLES)
def test_steps_and_resets_match_stock_vector_envs(name, mode):
    ours = make(name, mode, max_episode_steps=LIMIT)
    theirs = gymnasium.make_vec(
        name.removeprefix("Warp"), WORLDS, "sync", {"autoreset_mode": AutoresetMode[mode.upper()]}, max_episode_steps=LIMIT
    )
    generator = np.random.default_rng(5)
    ours.action_space.seed(5)
    assert ours.reset(seed=1)[0].shape == theirs.reset(seed=1)[0].shape
    started, ended_before, kinds = np.ones(WORLDS, bool), np.zeros(WORLDS, bool), set()
    for _ in range(120):
        # Starts come from different generators, so both continue from ours. Some worlds get a random state.
        randomised = (generator.random(WORLDS) < 0.1) & ~ended_before
        drawn = generator.uniform(*SPREAD[name], (randomised.sum(), len(SPREAD[name][0])))
        set_states(ours, randomised, drawn.astype(np.float32))
        for row, state in enumerate(ours.unwrapped.get_state()["state"]):
            if started[row] or randomised[row]:
                theirs.envs[row].unwrapped.state = state.astype(np.float64)
        action = ours.action_space.sample()
        obs, reward, terminated, truncated, info = ours.step(action)
        their_obs, their_reward, their_terminated, their_truncated, their_info = theirs.step(action)
        ended = terminated | truncated
        np.testing.assert_array_equal(terminated, their_terminated)
        np.testing.assert_array_equal(truncated, their_truncated)
        assert_close(reward, their_reward)
        started = ended_before.copy()  # in next-step mode, the step after an end starts the next episode
        if mode == "same_step":
            started = ended
            np.testing.assert_array_equal(info["_final_obs"], their_info.get("_final_obs", np.zeros(WORLDS, bool)))
            for row in np.flatnonzero(ended):
                assert_close(info["final_obs"][row], their_info["final_obs"][row])
        assert_close(obs[~started], their_obs[~started])
        assert obs in theirs.observation_space
        ended_before = ended if mode == "next_step" else np.zeros(WORLDS, bool)
        if mode == "disabled":
            mask = ended | (generator.random(WORLDS) < 0.02)
            if mask.any():
                obs, info = ours.reset(options={"reset_mask": mask})
                their_obs, their_info = theirs.reset(options={"reset_mask": mask})
                assert info == their_info == {}
                assert_close(obs[~mask], their_obs[~mask])
                started = mask
        kinds |= set(zip(terminated.tolist(), truncated.tolist(), strict=True))
    assert (False, True) in kinds
    assert ((True, False) in kinds) == (name != "WarpPendulum-v1")


@pytest.mark.parametrize("sutton_barto_reward", [False, True])
def test_steps_and_resets_match_gymnasiums_vector_cartpole(sutton_barto_reward):
    count = 40
    options = {"max_episode_steps": 25, "sutton_barto_reward": sutton_barto_reward}
    ours, theirs = make("WarpCartPole-v1", "next_step", count, **options), CartPoleVectorEnv(count, **options)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    ours.reset(seed=3)
    theirs.reset(seed=3)
    ours.action_space.seed(3)
    fallen = timed = 0
    restarted = np.zeros(count, bool)
    for _ in range(150):
        theirs.state = ours.unwrapped.get_state()["state"].T.astype(np.float64)
        action = ours.action_space.sample()
        obs, reward, terminated, truncated, info = ours.step(action)
        expected = theirs.step(action)
        assert_close(obs[~restarted], expected[0][~restarted])
        assert np.abs(obs[restarted]).max(initial=0) <= 0.05
        for mine, other in zip((reward, terminated, truncated), expected[1:4], strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_array_equal(mine, other)
        assert info == expected[4] == {}
        restarted = terminated | truncated
        fallen, timed = fallen + terminated.sum(), timed + truncated.sum()
    assert fallen > 50 and timed > 20


@pytest.mark.parametrize("bad", [
    np.array([True]), np.array([True] * 4), np.array([[True] * 3]), np.zeros(3, bool), np.array([1, 1, 0]),
    np.array([1.0, 1.0, 0.0]),
])  # fmt: skip
def test_invalid_masks_raise_the_same_errors_as_stock_vector_envs(bad):
    ours, theirs = make("WarpCartPole-v1", "disabled", 3), gymnasium.make_vec("CartPole-v1", 3, "sync")
    raised = []
    for env in (ours, theirs):
        env.reset(seed=0)
        with pytest.raises((TypeError, ValueError)) as caught:
            env.reset(options={"reset_mask": bad})
        raised.append(caught.type)
    assert issubclass(*raised)


@pytest.mark.parametrize("name", ALIKE)
def test_a_partial_reset_with_seeds_resets_its_worlds_only(name):
    env = make(name, "disabled", 3)
    start, _ = env.reset(seed=[4, 5, 6])
    env.action_space.seed(0)
    for _ in range(3):
        last, *_ = env.step(env.action_space.sample())
    obs, _ = env.reset(seed=[4, 5, 9], options={"reset_mask": np.array([True, True, False])})
    np.testing.assert_array_equal(obs[:2], start[:2])
    np.testing.assert_array_equal(obs[2], last[2])


@pytest.mark.parametrize("name", DRAWN)
def test_resets_follow_gymnasiums_rules_for_seeds(name):
    env = make(name, "same_step", 4)
    assert isinstance(env.np_random_seed, int)  # an int even before the first reset
    first, _ = env.reset(seed=42)
    assert env.np_random_seed == 42
    second, _ = env.reset(seed=None)
    assert env.np_random_seed == 42  # without a seed, the next episode of the old one starts
    assert not np.array_equal(first, second)
    assert len(np.unique(first.reshape(4, -1), axis=0)) == 4  # worlds with one seed start in different states
    np.testing.assert_array_equal(env.reset(seed=42)[0], first)
    assert not np.array_equal(env.reset(seed=43)[0], first)


@pytest.mark.parametrize("name", ALIKE)
def test_a_step_takes_exactly_one_action_an_env(name):
    env = make(name, "disabled", 4)
    env.reset(seed=0)
    actions = env.action_space.sample()
    outputs = env.step(actions)[:4]
    assert [len(output) for output in outputs] == [4] * 4
    for wrong in (actions[:3], np.concatenate([actions, actions[:1]]), actions[None], 0):
        with pytest.raises(ValueError, match="actions must have shape"):
            env.step(wrong)
    assert env.get_state()["t"].tolist() == [1] * 4


TABLES = {
    "same_step": (
        # truncated  t after    episode    reward
        # (X)                              nonzero (y)
        ("-  -  -", (2, 1, 1), (0, 0, 0), "y  y  y"),
        ("X  -  -", (0, 2, 2), (1, 0, 0), "y  y  y"),
        ("-  X  X", (1, 0, 0), (1, 1, 1), "y  y  y"),
        ("-  -  -", (2, 1, 1), (1, 1, 1), "y  y  y"),
        ("X  -  -", (0, 2, 2), (2, 1, 1), "y  y  y"),
    ),
    "next_step": (
        ("-  -  -", (2, 1, 1), (0, 0, 0), "y  y  y"),
        ("X  -  -", (3, 2, 2), (0, 0, 0), "y  y  y"),
        ("-  X  X", (0, 3, 3), (1, 0, 0), "-  y  y"),
        ("-  -  -", (1, 0, 0), (1, 1, 1), "y  -  -"),
        ("-  -  -", (2, 1, 1), (1, 1, 1), "y  y  y"),
    ),
    "disabled": (
        ("-  -  -", (2, 1, 1), (0, 0, 0), "y  y  y"),
        ("X  -  -", (3, 2, 2), (0, 0, 0), "y  y  y"),
        ("X  X  X", (3, 3, 3), (0, 0, 0), "-  y  y"),
        ("X  X  X", (3, 3, 3), (0, 0, 0), "-  -  -"),
    ),
}
"""Expected values of three worlds after each step, by mode. Episodes last three steps; the first world is one step ahead."""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name in ALIKE if name not in ("WarpRecall-v0", "WarpForaging-v3", "WarpRware-v2")])
def test_steps_around_the_end_of_episodes_match_the_tables(name, mode):
    """Recall's episodes end by their rules, and few steps of foraging and of the warehouse are paid."""
    params = length(name, 3)
    if name == "WarpTag-v0":
        params["step_reward_for_runner"] = 0.5  # makes the reward of every step nonzero
    env = make(name, mode, 3, **params)
    env.reset(seed=2)
    env.unwrapped.set_state({"t": [1, 0, 0]})
    env.action_space.seed(3)
    for flags, t, episode, paid in TABLES[mode]:
        before = env.observe()
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        ended = np.array([flag == "X" for flag in flags.split()])
        state = env.get_state()
        np.testing.assert_array_equal(truncated, ended)
        assert not terminated.any()
        assert (state["t"].tolist(), state["episode"].tolist()) == (list(t), list(episode))
        rewards = info.get("agent_reward", reward[:, None])
        assert ["y" if one.any() else "-" for one in rewards] == paid.split()
        if mode == "same_step":
            np.testing.assert_array_equal(info["_final_obs"], ended)
            assert not any(np.array_equal(env.observe()[w], info["final_obs"][w]) for w in np.flatnonzero(ended))
        else:
            assert "final_obs" not in info
        unchanged = np.array([one == "-" for one in paid.split()]) & (mode == "disabled")
        np.testing.assert_array_equal(env.observe()[unchanged], before[unchanged])
