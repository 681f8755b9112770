"""``PettingZooEnv`` of envs whose roles have spaces of their own, a shared part or masks."""

import warnings

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, state_test
from pettingzoo.utils import TerminateIllegalWrapper, parallel_to_aec

from gpu_vecenv.adapters.pettingzoo import PettingZooEnv
from gpu_vecenv.errors import ActionError, ArrayTypeError, ParameterError, ShapeError
from tests.adapters import role_cases
from tests.adapters.role_cases import CASES, by_role, last_of_episode, vector_env
from tests.devices import DEVICES
from tests.marks import slow_but

works, limit = (lambda what, mark=mark: mark("PettingZoo", what) for mark in (pytest.mark.works, pytest.mark.limit))


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    role_cases.register(monkeypatch, tmp_path)


def make(name, device="cpu", **options):
    env_id, params = CASES[name]
    env = PettingZooEnv(env_id, device=device, **{**params, **options})
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(i)
    return env


def sample(env, infos):
    """Random actions within the masks."""
    return {agent: env.action_space(agent).sample(infos[agent].get("action_mask")) for agent in env.agents}


@works("roles with spaces of their own and masks pass parallel_api_test, parallel_seed_test, state_test and the AEC api_test")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", slow_but(list(CASES)[:2], CASES))
def test_upstreams_tests(name, device):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(make(name, device), num_cycles=30)
        parallel_seed_test(lambda: make(name, device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on spaces, such as one size for all agents
        state_test(parallel_to_aec(make(name)), make(name))
        api_test(parallel_to_aec(make(name)), num_cycles=30)


@works("action masks by agent, in the form that sample() of its action space takes")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_episodes_equal_those_of_the_vector_env(name, device):
    """Several episodes of actions within the masks, compared with a vector env in same-step mode."""
    env, plain = make(name, device), vector_env(name)
    layout = plain.layout
    masked = {role: group for group in layout.groups for role in [group.role] * bool(group.role) or plain.role_counts}
    obs, info = plain.reset(seed=7)
    forbidden = 0
    for episode in range(3):
        seen, infos = env.reset(seed=7 if episode == 0 else None)
        while True:
            expected = by_role(plain, obs), by_role(plain, info["action_mask"])
            forbidden += compare(seen, infos, env.agents, *expected, masked)
            actions = sample(env, infos)
            joint = {r: np.stack([actions[f"{r}_{i}"] for i in range(n)])[None] for r, n in plain.role_counts.items()}
            if not plain.layout.by_role:
                joint = np.concatenate(list(joint.values()), axis=1).reshape(plain.action_space.shape)
            obs, reward, terminated, truncated, info = plain.step(joint)
            acting = list(env.agents)
            seen, rewards, ended, cut, infos = env.step(actions)
            rewards_by_role = by_role(plain, info.get("agent_reward", reward))
            for role, values in rewards_by_role.items():
                assert [rewards[f"{role}_{i}"] for i in range(values.shape[1])] == values[0].tolist()
            assert set(ended.values()) == {bool(terminated[0])} and set(cut.values()) == {bool(truncated[0])}
            if terminated[0] or truncated[0]:
                last = last_of_episode(plain, obs, info, "final_obs")
                compare(seen, infos, acting, last, by_role(plain, info["final_action_mask"]), masked)
                assert env.agents == []
                break
    assert forbidden > 10


def compare(seen, infos, agents, obs, masks, groups):
    """Compare observations and masks by agent with arrays by role; return the number of forbidden choices."""
    assert list(seen) == list(infos) == agents == [f"{role}_{i}" for role in obs for i in range(obs[role].shape[1])]
    forbidden = 0
    for agent in agents:
        role, i = agent.rsplit("_", 1)
        assert seen[agent].tobytes() == obs[role][0, int(i)].tobytes() and seen[agent].dtype == np.float32
        assert infos[agent].keys() == ({"action_mask"} if role in masks else set())
        if role in masks:
            given = infos[agent]["action_mask"]
            entries = given if isinstance(given, tuple) else (given,)
            assert all(entry.dtype == np.int8 for entry in entries) and len(entries) == groups[role].num_entries
            assert np.concatenate([entries[k] for k in groups[role].masked]).tolist() == masks[role][0, int(i)].tolist()
            assert all(entries[k].all() for k in range(len(entries)) if k not in groups[role].masked)
            forbidden += sum(int((entry == 0).sum()) for entry in entries)
    return forbidden


@works("roles with unlike observations and actions; a shared part is in each observation")
def test_agents_have_the_spaces_of_their_role():
    town, pot = make("town"), make("pot")
    assert town.possible_agents == ["citizen_0", "citizen_1", "citizen_2", "citizen_3", "mayor_0"]
    assert town.observation_space("citizen_1") == Box(-np.inf, np.inf, (4,)) and town.action_space("citizen_1") == Discrete(3)
    assert town.observation_space("mayor_0") == Box(-np.inf, np.inf, (5,)) and town.action_space("mayor_0") == Box(0, 1, (2,))
    assert town.action_space("citizen_0") is not town.action_space("citizen_1")
    assert pot.observation_space("player_0") == Box(-np.inf, np.inf, (3,))
    for env in (town, pot):
        obs, _ = env.reset(seed=0)
        assert all(env.observation_space(agent).contains(values) for agent, values in obs.items())


def test_actions_of_a_role_without_agents_in_the_game_are_zero():
    env, plain = make("town"), vector_env("town")
    env.reset(seed=2)
    plain.reset(seed=2)
    env.agents = ["mayor_0"]
    tax = np.array([0.5, 1], np.float32)
    seen, *_ = env.step({"mayor_0": tax})
    obs, *_ = plain.step({"citizen": np.zeros((1, 4), np.int32), "mayor": tax[None, None]})
    assert list(seen) == ["mayor_0"] and seen["mayor_0"].tobytes() == obs["mayor"].tobytes()


@limit("TerminateIllegalWrapper: it needs an env that is written for PettingZoo's AEC API")
def test_pettingzoos_wrapper_for_illegal_actions_fails():
    env = TerminateIllegalWrapper(parallel_to_aec(make("one agent of a role")), illegal_reward=-5)
    env.reset(seed=0)
    last, *_ = env.last()
    with pytest.raises(AttributeError, match="_cumulative_rewards"):
        env.step(int(last[0]))  # repeats the last choice, which is forbidden


def test_misuse_raises_typed_errors_that_name_the_role():
    env = make("town")
    _, infos = env.reset(seed=0)
    good = sample(env, infos)
    with pytest.raises(ParameterError, match=r"missing \['mayor_0'\]"):
        env.step({agent: action for agent, action in good.items() if agent != "mayor_0"})
    with pytest.raises(ShapeError, match="actions of mayor"):
        env.step({**good, "mayor_0": np.zeros(3, np.float32)})
    with pytest.raises(ArrayTypeError, match="actions of citizen"):
        env.step({agent: action if agent == "mayor_0" else 0.5 for agent, action in good.items()})
    with pytest.raises(ActionError, match="got 3"):
        env.step({**good, "citizen_3": 3})
