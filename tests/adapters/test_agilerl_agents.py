"""AgileRL's multi-agent training functions on Tag, through the PettingZoo adapter."""

from functools import partial

import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.adapters.pettingzoo import parallel_env
from gpu_vecenv.errors import ParameterError

pytest.importorskip("agilerl", reason="AgileRL needs an environment of its own: docs/adapters/agilerl.md")

works, limit = (lambda what, mark=mark: mark("AgileRL", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore")

TAG = {"num_taggers": 1, "num_runners": 2, "episode_length": 12, "grid_length": 4.0, "tagging_distance": 0.2}
STEPS = 128


def make(**options):
    """A game of Tag in which tagged runners stay, unless options say otherwise."""
    options = {"runner_exits_game_after_tagged": False, **TAG, **options}
    if not options.get("continuous_actions"):
        options["flatten_actions"] = True
    return parallel_env("WarpTag-v0", device="cpu", **options)


def agent_of(algorithm, env, **options):
    """An algorithm of AgileRL for the agents of a game."""
    import agilerl.algorithms

    names = env.possible_agents
    observed, acted = [env.observation_space(name) for name in names], [env.action_space(name) for name in names]
    return getattr(agilerl.algorithms, algorithm)(observed, acted, agent_ids=names, batch_size=32, **options)


def train_ippo(env, agent):
    """Train for some steps; return the experiences of each update: dicts by agent of lists with an array for each step."""
    from agilerl.training.train_multi_agent_on_policy import train_multi_agent_on_policy

    seen, learn = [], agent.learn

    def spy(experiences):
        seen.append(dict(zip(("obs", "action", "log_prob", "reward", "done", "value"), experiences[:6], strict=True)))
        return learn(experiences)

    agent.learn = spy
    run = {"max_steps": STEPS, "evo_steps": STEPS, "eval_steps": 20, "sum_scores": False, "verbose": False}
    train_multi_agent_on_policy(env, "WarpTag-v0", "IPPO", [agent], **run)
    return seen


def train_off_policy(env, agent):
    """Train for some steps; return the replay buffer's fields, dicts by agent of arrays with a row for each step."""
    from agilerl.components.replay_buffer import ReplayBuffer
    from agilerl.training.train_multi_agent_off_policy import train_multi_agent_off_policy

    memory = ReplayBuffer(2 * STEPS)
    run = {"max_steps": STEPS, "evo_steps": STEPS, "eval_steps": 20, "sum_scores": False, "verbose": False}
    train_multi_agent_off_policy(env, "WarpTag-v0", agent.algo, [agent], memory, **run)
    assert len(memory) == STEPS
    stored = memory.storage[:STEPS]
    fields = ("obs", "reward", "next_obs", "done")
    return {field: {name: stored[field][name].numpy() for name in agent.agent_ids} for field in fields}


def record_steps(env):
    """Record results of a game's later calls: a list to which ``reset`` adds its observations and ``step`` its five dicts."""
    calls, reset, step = [], env.reset, env.step

    def recorded_reset(*args, **options):
        obs, info = reset(*args, **options)
        calls.append((obs,))
        return obs, info

    def recorded_step(actions):
        calls.append(step(actions))
        return calls[-1]

    env.reset, env.step = recorded_reset, recorded_step
    return calls


def weights(agent):
    return torch.cat([p.detach().flatten().clone() for actor in agent.actors.values() for p in actor.parameters()])


def vector_env(kind, function):
    """A game for AgileRL: as it is, or four in processes of their own."""
    from agilerl.vector import AsyncPettingZooVecEnv

    return AsyncPettingZooVecEnv([function] * 4) if kind == "processes" else function()


# ---- what works -----------------------------------------------------------------------------------------------------


@works("`train_multi_agent_on_policy` with IPPO on Tag, one game or several in `AsyncPettingZooVecEnv` (runs)")
@pytest.mark.parametrize("kind", ["one game", "processes"])
def test_ippo_trains_on_tag(kind):
    agent = agent_of("IPPO", make(), learn_step=64)
    before = weights(agent)
    seen = train_ippo(vector_env(kind, make), agent)
    assert len(seen) == STEPS // 64 and set(seen[0]["reward"]) == {"tagger_0", "runner_0", "runner_1"}
    assert weights(agent).isfinite().all() and not weights(agent).equal(before)


@works("`train_multi_agent_off_policy` with MADDPG and MATD3 on Tag, with discrete or continuous actions (runs)")
@pytest.mark.parametrize("algorithm, continuous, kind", [("MADDPG", True, "one game"), ("MADDPG", False, "processes"),
                                                         ("MATD3", True, "processes"), ("MATD3", False, "one game")])  # fmt: skip
def test_off_policy_algorithms_train_on_tag(algorithm, continuous, kind):
    function = partial(make, continuous_actions=continuous)
    agent = agent_of(algorithm, function(), learn_step=8, vect_noise_dim=4 if kind == "processes" else 1)
    before = weights(agent)
    train_off_policy(vector_env(kind, function), agent)
    assert weights(agent).isfinite().all() and not weights(agent).equal(before)


@works("observations, actions and rewards of games reach the training functions unchanged")
def test_the_training_functions_get_the_results_of_the_env():
    env = make()
    calls = record_steps(env)
    seen = train_ippo(env, agent_of("IPPO", make(), learn_step=64))
    steps = [call for call in calls if len(call) == 5][:STEPS]
    for name in env.possible_agents:
        rewards = np.ravel([reward for experiences in seen for reward in experiences["reward"][name]])
        np.testing.assert_array_equal(rewards, [step[1][name] for step in steps])
        assert rewards.any()
    env = make()
    calls = record_steps(env)
    stored = train_off_policy(env, agent_of("MADDPG", make(), learn_step=8))
    before, results = [], []
    for first, second in zip(calls, calls[1:], strict=False):
        if len(second) == 5:
            before.append(first[0])
            results.append(second)
    for name in env.possible_agents:
        np.testing.assert_array_equal(stored["obs"][name], [obs[name] for obs in before[:STEPS]])
        np.testing.assert_array_equal(stored["reward"][name][:, 0], [step[1][name] for step in results[:STEPS]])


@works("agents that leave, with SuperSuit's `black_death_v3` around the game (runs)")
@pytest.mark.parametrize("algorithm", ["IPPO", "MADDPG"])
def test_games_that_agents_leave_train_through_supersuit(algorithm):
    supersuit = pytest.importorskip("supersuit")
    env = supersuit.black_death_v3(make(runner_exits_game_after_tagged=True))
    agent = agent_of(algorithm, env, learn_step=64)
    before = weights(agent)
    (train_ippo if algorithm == "IPPO" else train_off_policy)(env, agent)
    assert weights(agent).isfinite().all() and not weights(agent).equal(before)


# ---- limits ---------------------------------------------------------------------------------------------------------


@limit("agents that leave: AgileRL also gives actions for agents that have left, with its `AsyncAgentsWrapper` too")
@pytest.mark.parametrize("algorithm, wrapped", [("IPPO", False), ("IPPO", True), ("MADDPG", False)])
def test_agilerl_acts_for_agents_that_left(algorithm, wrapped):
    from agilerl.wrappers.agent import AsyncAgentsWrapper

    torch.manual_seed(0)
    env = make(runner_exits_game_after_tagged=True)
    agent = agent_of(algorithm, env, learn_step=64)
    with pytest.raises(ParameterError, match=r"missing \[\], unexpected \['runner_"):
        (train_ippo if algorithm == "IPPO" else train_off_policy)(env, AsyncAgentsWrapper(agent) if wrapped else agent)


@limit("IPPO: AgileRL drops the flags of a game's end, so advantages go on into the next game")
def test_ippo_sees_no_end_of_a_game():
    env = make()
    calls = record_steps(env)
    seen = train_ippo(env, agent_of("IPPO", make(), learn_step=64))
    steps = [call for call in calls if len(call) == 5][:STEPS]
    assert sum(step[3]["tagger_0"] for step in steps) == STEPS // 12
    assert not any(np.any(done) for experiences in seen for dones in experiences["done"].values() for done in dones)


@limit("MADDPG, MATD3: AgileRL stores the next game's first observation as the last one, and bootstraps from it at time limits")
def test_the_replay_memory_has_the_first_observation_of_the_next_game():
    env = make()
    calls = record_steps(env)
    stored = train_off_policy(env, agent_of("MADDPG", make(), learn_step=8))
    steps = [(step, after) for step, after in zip(calls, calls[1:], strict=False) if len(step) == 5][:STEPS]
    ends = [row for row, (step, _) in enumerate(steps) if step[3]["tagger_0"]]
    assert len(ends) == STEPS // 12
    for name in env.possible_agents:
        assert not stored["done"][name].any()
        for row in ends:
            step, after = steps[row]
            np.testing.assert_array_equal(stored["next_obs"][name][row], after[0][name])
            assert not np.array_equal(after[0][name], step[0][name])
