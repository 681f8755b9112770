"""AgileRL's own training functions with vector envs of this package, and the steps that they store."""

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.adapters.cartpole_replay import FIRST, check_episode_steps

pytest.importorskip("agilerl", reason="AgileRL needs an environment of its own: docs/adapters/agilerl.md")

works, limit = (lambda what, mark=mark: mark("AgileRL", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore")

WORLDS, LIMIT = 8, 15
"""Worlds of a short run, and a time limit that some random episodes of CartPole reach and others do not."""


def make(worlds=WORLDS, autoreset_mode="next_step", **options):
    return gymnasium.make_vec(
        "gpu_vecenv:WarpCartPole-v1",
        num_envs=worlds,
        device="cpu",
        array="numpy",
        autoreset_mode=autoreset_mode,
        **options,
    )


def gymnasiums(autoreset_mode):
    """Gymnasium's own CartPole in Gymnasium's own vector env, in which AgileRL's limits are the same."""
    mode = {"autoreset_mode": gymnasium.vector.AutoresetMode[autoreset_mode.upper()]}
    return gymnasium.make_vec("CartPole-v1", WORLDS, "sync", vector_kwargs=mode, max_episode_steps=LIMIT)


def ours(autoreset_mode):
    return make(autoreset_mode=autoreset_mode, max_episode_steps=LIMIT)


def ppo(env, **options):
    from agilerl.algorithms import PPO

    return PPO(env.single_observation_space, env.single_action_space, num_envs=env.num_envs, **options)


def train_ppo(env, agent, **options):
    from agilerl.training.train_on_policy import train_on_policy

    agents, _ = train_on_policy(env, "WarpCartPole-v1", "PPO", [agent], verbose=False, **options)
    return agents[0]


def train_dqn(env, memory, agent_options=None, **options):
    from agilerl.algorithms import DQN
    from agilerl.training.train_off_policy import train_off_policy

    agent = DQN(env.single_observation_space, env.single_action_space, learn_step=8, **(agent_options or {}))
    agents, _ = train_off_policy(env, "WarpCartPole-v1", "DQN", [agent], memory, verbose=False, **options)
    return agents[0]


# ---- learning -------------------------------------------------------------------------------------------------------


@works("`train_on_policy` with PPO on a vector env of `gymnasium.make_vec`, which learns CartPole")
def test_ppo_learns_cartpole():
    torch.manual_seed(0)
    np.random.seed(0)
    env = make(16)
    agent = ppo(env, learn_step=1024, batch_size=128, lr=1e-3, update_epochs=8)
    before = agent.test(env, max_steps=500)
    learned = train_ppo(env, agent, max_steps=16384, evo_steps=4096, eval_steps=500)
    print(f"mean returns: {before} untrained, then {learned.fitness}")
    assert before < 60  # random actions have about 22
    assert max(learned.fitness) > 100
    env.close()


@works("`train_off_policy` with DQN on a vector env of `gymnasium.make_vec`, which learns CartPole")
def test_dqn_learns_cartpole():
    from agilerl.components.replay_buffer import ReplayBuffer

    torch.manual_seed(0)
    np.random.seed(0)
    env = make()
    settings = {"batch_size": 64, "lr": 1e-3, "gamma": 0.95, "tau": 0.01, "double": True}
    run = {"max_steps": 12_000, "evo_steps": 4000, "eval_steps": 500, "eps_decay": 0.995}
    learned = train_dqn(env, ReplayBuffer(20_000), settings, **run)
    print(f"mean returns: {learned.fitness}")
    assert max(learned.fitness) > 100  # random actions have about 22
    env.close()


# ---- steps that AgileRL stores --------------------------------------------------------------------------------------


def stored_steps(env):
    """Fields of the replay buffer of a short run of DQN, for each world: arrays with a row for each step."""
    from agilerl.components.replay_buffer import ReplayBuffer

    memory = ReplayBuffer(2000)
    train_dqn(env, memory, max_steps=800, evo_steps=800, eval_steps=1)
    env.close()
    stored = memory.storage[: len(memory)]
    names = ("obs", "action", "reward", "next_obs", "done")
    rows = {name: stored[name].numpy().reshape(800 // WORLDS, WORLDS, -1) for name in names}
    return [{name: values[:, world] if values.shape[2] > 1 else values[:, world, 0] for name, values in rows.items()}
            for world in range(WORLDS)]  # fmt: skip


def steps_of_episodes(world):
    """Indices of rows of next-step mode that are steps of an episode, and of those between two episodes."""
    inside = np.ones(len(world["reward"]), bool)
    inside[world["reward"] == 0] = False  # each step of CartPole has the reward 1
    return np.flatnonzero(inside), np.flatnonzero(~inside)


@works("`train_off_policy` in next-step mode stores the true last observation of each episode, and marks terminations only")
def test_steps_of_episodes_in_the_replay_memory_are_those_of_gymnasium():
    ends = []
    for world in stored_steps(ours("next_step")):
        inside, _ = steps_of_episodes(world)
        ends += check_episode_steps(*(world[name][inside] for name in ("obs", "action", "next_obs", "done")), LIMIT)
    assert ends.count("terminated") >= 5 and ends.count("truncated") >= 5


@limit("`train_off_policy` in next-step mode: AgileRL also stores the step between two episodes, from the last observation to "
       "the next episode's first, with reward 0")  # fmt: skip
@pytest.mark.parametrize("env_of", [ours, gymnasiums])
def test_the_replay_memory_has_steps_between_episodes(env_of):
    count = 0
    for world in stored_steps(env_of("next_step")):
        _, between = steps_of_episodes(world)
        for row in between:
            np.testing.assert_array_equal(world["obs"][row], world["next_obs"][row - 1])
            assert np.abs(world["next_obs"][row]).max() <= FIRST and not world["done"][row]
        count += len(between)
    assert count >= 10


@limit("`train_off_policy` in the default autoreset mode: AgileRL stores the next episode's first observation as the last one, "
       "and bootstraps from it at time limits")  # fmt: skip
@pytest.mark.parametrize("env_of", [ours, gymnasiums])
def test_the_default_mode_gives_first_observations_for_last_ones(env_of):
    wrong = 0
    for world in stored_steps(env_of("same_step")):
        first = np.abs(world["obs"]).max(axis=1) <= FIRST
        ends = 1 + np.flatnonzero(first[1:] & (np.abs(world["obs"][:-1]).max(axis=1) > 2 * FIRST))
        for row in ends - 1:  # the step before an episode's first observation
            np.testing.assert_array_equal(world["next_obs"][row], world["obs"][row + 1])
            wrong += not world["done"][row]
    assert wrong >= 5


@limit("PPO's advantages: AgileRL cuts them one step before the end of an episode, and bootstraps from the last observation even "
       "if the episode terminated")  # fmt: skip
@pytest.mark.parametrize("env_of", [ours, gymnasiums])
def test_advantages_of_ppo_end_one_step_too_early(env_of):
    env = env_of("next_step")
    agent, seen = ppo(env, learn_step=320, gae_lambda=0.0, gamma=0.5), []
    learn = agent.learn

    def spy(*args, **options):
        stored = agent.rollout_buffer.buffer
        seen.append({name: stored[name].numpy().copy() for name in ("rewards", "dones", "values", "advantages")})
        return learn(*args, **options)

    agent.learn = spy
    train_ppo(env, agent, max_steps=320, evo_steps=320, eval_steps=1)
    (fields,) = seen
    rewards, dones, values, advantages = (fields[name] for name in ("rewards", "dones", "values", "advantages"))
    steps, worlds = np.nonzero(dones[1:-1])
    steps += 1  # ends with a step before and after
    assert len(steps) >= 10
    before = steps - 1
    np.testing.assert_allclose(advantages[before, worlds], rewards[before, worlds] - values[before, worlds], rtol=1e-4)
    bootstrapped = rewards + 0.5 * np.roll(values, -1, axis=0) - values
    np.testing.assert_allclose(advantages[steps, worlds], bootstrapped[steps, worlds], rtol=1e-4)
    env.close()
