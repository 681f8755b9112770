"""Rewards of a caller's function, and those of teams, compared with the env's own."""

import copy
import warnings

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from tests.devices import DEVICES

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 5, "step_reward_for_runner": 0.5, "step_penalty_for_tagger": -0.25}


def made(reward, device="cpu", view="worlds", array="torch", name="WarpTag-v0", params=TAG, **options):
    options = {"num_worlds": 4, "device": device, "view": view, "array": array, "reward": reward, **params, **options}
    env = gymnasium.make_vec(name, **options).unwrapped
    env.reset(seed=3)
    return env


def actions_of(env, steps):
    generator = np.random.default_rng(0)
    return generator.integers(0, 21, (steps, *env.action_space.shape)).astype(np.int32)


def twice_and_place(agent_reward, terminated, truncated, metrics, state):
    return 2 * agent_reward + 0.01 * state["loc_x"] + truncated.unsqueeze(1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("array", ["torch", "numpy"])
@pytest.mark.parametrize("view", ["worlds", "agents"])
def test_rewards_are_what_the_function_returns(view, array, device):
    env, plain = made(twice_and_place, device, view, array), made(None, device, "worlds", array)
    rows = {role: rows for role, rows in env.role_rows.items()} if view == "agents" else {}
    for step, actions in enumerate(actions_of(plain, 6)):
        by_view = actions
        if rows:
            by_view = np.empty((20, 2), np.int32)
            by_view[rows["tagger"]], by_view[rows["runner"]] = actions[:, :2].reshape(-1, 2), actions[:, 2:].reshape(-1, 2)
        *_, reward, _, _, info = env.step(by_view)
        _, _, _, truncated, own_info = plain.step(actions)
        place = np.asarray(torch.as_tensor(plain.get_state("loc_x")["loc_x"]).cpu())
        own_rewards, ended = (np.asarray(torch.as_tensor(x).cpu()) for x in (own_info["agent_reward"], truncated))
        expected = 2 * own_rewards + np.float32(0.01) * place + ended[:, None]
        got = np.asarray(torch.as_tensor(info["agent_reward"] if view == "worlds" else reward).cpu())
        if rows:
            got = np.concatenate([got[each].reshape(4, -1) for each in rows.values()], axis=1)
        else:
            np.testing.assert_allclose(np.asarray(torch.as_tensor(reward).cpu()), expected.mean(1), rtol=1e-5)
        np.testing.assert_allclose(got, expected, rtol=1e-6)
        assert ended.any() == (step == 4)


def test_a_team_has_the_mean_reward_of_its_role():
    env, plain = made("team"), made(None)
    for actions in actions_of(env, 5):
        team, alone = (torch.as_tensor(each.step(actions)[4]["agent_reward"]) for each in (env, plain))
        assert torch.allclose(team[:, :2], alone[:, :2].mean(1, keepdim=True).expand(-1, 2))
        assert torch.allclose(team[:, 2:], alone[:, 2:].mean(1, keepdim=True).expand(-1, 3))


@pytest.mark.parametrize("array", ["torch", "numpy"])
@pytest.mark.parametrize("copies", [True, False])
def test_a_rollout_gives_what_single_steps_give_and_says_why(copies, array):
    env, single = (made(twice_and_place, array=array, copy=copies) for _ in range(2))
    actions = actions_of(env, 6)
    with pytest.warns(UserWarning, match="rollout.. makes its steps one at a time, because the env has a reward function"):
        whole = env.rollout(actions)
    for step, each in enumerate(actions):
        obs, reward, terminated, truncated, info = single.step(each)
        for ours, theirs in zip(whole[:4], (obs, reward, terminated, truncated), strict=True):
            np.testing.assert_array_equal(ours[step], theirs)
        np.testing.assert_array_equal(whole[4]["agent_reward"][step], info["agent_reward"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        drawn = env.rollout(num_steps=3)
    plain = made(None, array=array, copy=copies)
    plain.rollout(actions)
    for step in range(3):  # random actions are those of rollouts of one step
        np.testing.assert_array_equal(drawn[4]["actions"][step], plain.rollout(num_steps=1)[4]["actions"][0])


def test_metrics_of_episodes_and_single_agents_are_given(tmp_path):
    seen = {}

    def counted(agent_reward, terminated, truncated, metrics, state):
        seen.update(reward=agent_reward.shape, flags=terminated.shape, state=state["state"].shape, metrics=dict(metrics))
        return -agent_reward

    env = made(counted, name="WarpCartPole-v1", params={})
    assert env.step(torch.zeros(4, dtype=torch.int32))[1].tolist() == [-1.0] * 4
    assert seen == {"reward": (4, 1), "flags": (4,), "state": (4, 4), "metrics": {}}


def test_copies_keep_the_function():
    env = made("team")
    other = copy.deepcopy(env)
    actions = actions_of(env, 1)[0]
    assert torch.equal(env.step(actions)[1], other.step(actions)[1])


@pytest.mark.parametrize(("reward", "error", "text"), [
    (3, ParameterError, "reward must be a function, 'team' or None, got 3"),
    ("teams", ParameterError, "reward must be a function, 'team' or None, got 'teams'"),
    (lambda agent_reward: agent_reward, ParameterError,
     r"reward must be a function of agent_reward, terminated, truncated, metrics, state, got one of \(agent_reward\)"),
    (lambda *_: None, ArrayTypeError, "reward must return a tensor of float32 on cpu, got NoneType"),
    (lambda reward, *_: reward.double(), ArrayTypeError, "got float64 on cpu"),
    (lambda reward, *_: reward.mean(1), ShapeError, r"reward must return the shape \(4, 5\), got \(4,\)"),
])  # fmt: skip
def test_functions_that_do_not_fit_are_refused(reward, error, text):
    with pytest.raises(error, match=text):
        made(reward).step(torch.zeros(4, 5, 2, dtype=torch.int32))


@pytest.mark.gpu
def test_the_function_is_part_of_a_captured_graph():
    env, single = made(twice_and_place, "cuda:0"), made(twice_and_place, "cuda:0")
    graph = gpu_vecenv.capture_steps(env, 6)
    actions = torch.as_tensor(actions_of(single, 6), device="cuda")
    graph.actions.copy_(actions)
    graph.replay()
    rewards = torch.stack([single.step(each)[1] for each in actions])
    assert torch.equal(graph.outputs["reward"], rewards)
