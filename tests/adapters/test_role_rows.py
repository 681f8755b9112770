"""Adapters on ``RoleRows``, compared with RoleRows stepped directly."""

import pytest
import torch

from gpu_vecenv import GpuVectorEnv, RoleRows
from gpu_vecenv.errors import ParameterError
from tests.roles.town import SPEC

WORLDS, CITIZENS, LIMIT = 3, 4, 5


def make(role, **options):
    given = {"num_worlds": WORLDS, "num_citizens": CITIZENS, "max_episode_steps": LIMIT, "device": "cpu", **options}
    others = {"citizen": lambda obs, mask: mask[..., 1].int(), "mayor": lambda obs: 0 * obs[..., :2] + 0.25}
    return RoleRows(GpuVectorEnv(SPEC, **given), role, {name: policy for name, policy in others.items() if name != role})


def run(role, reset, step, one, other):
    """Step the adapter and RoleRows beside each other; yield the results of both for each step."""
    plain = make(role)
    assert torch.equal(reset(), plain.reset(seed=9)[0])
    for t in range(2 * LIMIT):
        actions = one if t % 2 else other
        obs, reward, terminated, truncated, info = plain.step(actions)
        yield step(actions), (obs, reward, terminated, truncated, info)


WORK, REST = torch.ones(WORLDS * CITIZENS, dtype=torch.int64), torch.zeros(WORLDS * CITIZENS, dtype=torch.int64)
LOW, HIGH = torch.full((WORLDS, 2), 0.125), torch.full((WORLDS, 2), 0.75)


def test_rl_games_has_rows_of_a_role():
    pytest.importorskip("rl_games")
    from gpu_vecenv.adapters.rl_games import RlGamesEnv

    env = RlGamesEnv(make("citizen"), seed=9)
    info = env.get_env_info()
    assert info["agents"] == env.get_number_of_agents() == CITIZENS and info["state_space"].shape == (4 * CITIZENS,)
    assert (info["observation_space"].shape, info["action_space"].n) == ((4,), 3)
    ends = 0
    for (obs, reward, done, infos), expected in run("citizen", lambda: env.reset()["obs"], env.step, WORK, REST):
        assert torch.equal(obs["obs"], expected[0]) and torch.equal(obs["states"], expected[0].reshape(WORLDS, -1))
        assert torch.equal(reward, expected[1]) and torch.equal(done, expected[2] | expected[3])
        assert torch.equal(infos["time_outs"], expected[3] & ~expected[2])
        ends += int(done.sum())
    assert ends == 2 * WORLDS * CITIZENS
    mayor = RlGamesEnv(make("mayor"), seed=9)
    assert mayor.reset().shape == (WORLDS, CITIZENS + 1) and mayor.step(LOW)[1].shape == (WORLDS,)


def test_skrl_has_rows_of_a_role():
    pytest.importorskip("skrl")
    from skrl.utils import set_seed

    from gpu_vecenv.adapters.skrl import SkrlEnv, SkrlMultiAgentEnv

    set_seed(9)
    env = SkrlEnv(make("citizen"))
    assert (env.num_envs, env.num_agents, env.action_space.n) == (WORLDS * CITIZENS, 1, 3)
    for (obs, reward, terminated, truncated, infos), expected in run(
        "citizen", lambda: env.reset()[0], lambda actions: env.step(actions[:, None]), WORK, REST
    ):
        assert torch.equal(obs, expected[0]) and torch.equal(reward[:, 0], expected[1])
        assert torch.equal(terminated[:, 0], expected[2]) and torch.equal(truncated[:, 0], expected[3])
        assert torch.equal(infos["ended"][:, 0], expected[4]["_final_obs"])
        assert torch.equal(infos["action_mask"], expected[4]["action_mask"])
    with pytest.raises(ParameterError, match="SkrlMultiAgentEnv needs an env with view='worlds', got 'agents'"):
        SkrlMultiAgentEnv(make("citizen"))
    with pytest.raises(ParameterError, match="SkrlMultiAgentEnv needs the same spaces for all agents, and citizen and mayor"):
        SkrlMultiAgentEnv(make("citizen").env)


def test_rsl_rl_has_rows_of_a_role_with_a_box():
    pytest.importorskip("rsl_rl")
    from gpu_vecenv.adapters.rsl_rl import RslRlEnv

    env = RslRlEnv(make("mayor"), seed=9)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (WORLDS, 2, LIMIT)
    for (obs, reward, done, extras), expected in run("mayor", lambda: env.get_observations()["policy"], env.step, LOW, HIGH):
        assert torch.equal(obs["policy"], expected[0]) and torch.equal(reward, expected[1])
        assert torch.equal(done, expected[2] | expected[3])
        assert torch.equal(extras["time_outs"], expected[3] & ~expected[2])
    steps = torch.tensor([1, 3, 4])
    env.episode_length_buf = steps
    assert torch.equal(env.episode_length_buf, steps.int())
    assert torch.equal(env.get_observations()["policy"][:, -1], steps.float())  # the mayor observes the time
    assert env.step(LOW)[2].tolist() == [False, False, True]
    with pytest.raises(ParameterError, match="the action space must be a Box, got Discrete"):
        RslRlEnv(make("citizen"))
