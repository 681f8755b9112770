"""Training with Tianshou's own PPO by id, and its form of games around the AEC form of Tag."""

import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.adapters.cartpole_replay import check_episode_steps

pytest.importorskip("tianshou.env")
pytest.importorskip("pettingzoo")

works, limit = (lambda what, mark=mark: mark("Tianshou", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

WORKERS, LIMIT = 8, 15
"""Workers of a training, and a time limit that some random episodes of CartPole reach and others do not."""


# ---- one agent ------------------------------------------------------------------------------------------------------


def experiment(steps, **options):
    """PPO of Tianshou's high-level API on CartPole by id."""
    from tianshou.highlevel.config import OnPolicyTrainingConfig
    from tianshou.highlevel.env import EnvFactoryRegistered, VectorEnvType
    from tianshou.highlevel.experiment import ExperimentConfig, PPOExperimentBuilder
    from tianshou.highlevel.params.algorithm_params import PPOParams

    envs = EnvFactoryRegistered(task="gpu_vecenv:WarpCartPole-v1", venv_type=VectorEnvType.DUMMY, **options)
    training = OnPolicyTrainingConfig(
        max_epochs=1,
        epoch_num_steps=steps,
        num_training_envs=WORKERS,
        num_test_envs=WORKERS,
        test_step_num_episodes=WORKERS,
        collection_step_num_env_steps=1024,
        update_step_num_repetitions=8,
        batch_size=128,
    )
    config = ExperimentConfig(seed=0, device="cpu", watch=False, persistence_enabled=False)
    builder = PPOExperimentBuilder(envs, config, training).with_ppo_params(PPOParams(lr=1e-3, gamma=0.99, gae_lambda=0.95))
    return builder.with_actor_factory_default((64, 64)).with_critic_factory_default((64, 64)).build()


def mean_return(world):
    return world.test_collector.collect(n_episode=2 * WORKERS, reset_before_collect=True).returns.mean()


@works("PPO, which learns CartPole by id with `PPOExperimentBuilder` and `EnvFactoryRegistered`")
def test_ppo_of_the_high_level_api_learns_by_id():
    pytest.importorskip("rliable", reason="Tianshou's high-level API needs rliable and joblib")
    cartpole = experiment(12_288)
    before = mean_return(cartpole.create_experiment_world())
    after = mean_return(cartpole.run().world)
    print(f"mean return: {before} untrained, {after} trained")
    assert before < 60  # random actions have about 22
    assert after > 100


@works("PPO stores the true last observation of each episode, and bootstraps at time limits only")
def test_ppo_bootstraps_at_time_limits_from_the_last_observation():
    pytest.importorskip("rliable", reason="Tianshou's high-level API needs rliable and joblib")
    world = experiment(1024, max_episode_steps=LIMIT).create_experiment_world()
    world.training_collector.collect(n_step=800, reset_before_collect=True)
    buffer, ends = world.training_collector.buffer, []
    for stored in buffer.buffers:  # one for each worker
        rows = slice(len(stored))
        ends += check_episode_steps(stored.obs[rows], stored.act[rows], stored.obs_next[rows], stored.terminated[rows], LIMIT)
    batch, indices = buffer.sample(0)
    ends = np.array(ends, object)
    np.testing.assert_array_equal(batch.truncated & ~batch.terminated, ends == "truncated")
    assert (ends == "terminated").sum() >= 10 and (ends == "truncated").sum() >= 10
    after = world.algorithm.critic(torch.as_tensor(batch.obs_next)).flatten().detach().numpy()
    returns = world.algorithm._preprocess_batch(batch, buffer, indices).returns.numpy()
    np.testing.assert_allclose(returns[ends == "terminated"], 1, rtol=1e-5)
    np.testing.assert_allclose(returns[ends == "truncated"], 1 + 0.99 * after[ends == "truncated"], rtol=1e-4)


# ---- several agents -------------------------------------------------------------------------------------------------


def make(**options):
    from tianshou.env import PettingZooEnv

    from gpu_vecenv.adapters import pettingzoo

    small = {"num_taggers": 1, "num_runners": 2, "episode_length": 12, "flatten_actions": True}
    return PettingZooEnv(pettingzoo.env("WarpTag-v0", device="cpu", **small, **options))


@works("its `PettingZooEnv` around `env()` of the PettingZoo adapter, in a `DummyVectorEnv` (runs)")
def test_the_wrapper_of_pettingzoo_plays_a_game_of_tag():
    from tianshou.env import DummyVectorEnv

    env = make()
    obs, _ = env.reset()
    turns, over = [obs["agent_id"]], False
    while not over and len(turns) < 100:
        obs, _, terminated, truncated, _ = env.step(0)
        over = terminated or truncated
        turns.append(obs["agent_id"])
    assert over and turns[:4] == ["tagger_0", "runner_0", "runner_1", "tagger_0"]
    workers = DummyVectorEnv([make] * 2)
    workers.reset()
    assert workers.step(np.zeros(2, int))[1].shape == (2, 3)
    workers.close()


def ppo(env):
    """PPO of one agent."""
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    class Network(Net):
        def forward(self, obs, state=None, info=None):
            return super().forward(obs.obs, state, info)  # beside the agent's name and its mask

    size = env.observation_space.shape
    actor = DiscreteActor(preprocess_net=Network(state_shape=size, hidden_sizes=[32]), action_shape=env.action_space.n)
    critic = DiscreteCritic(preprocess_net=Network(state_shape=size, hidden_sizes=[32]))
    policy = ProbabilisticActorPolicy(
        actor=actor, dist_fn=torch.distributions.Categorical, action_space=env.action_space, action_scaling=False
    )
    return PPO(policy=policy, critic=critic, optim=AdamOptimizerFactory())


@limit("training of games: PPO of each agent but the last of a round gets zeros for rewards, since Tianshou takes those that "
       "come right after the agent's own turn")  # fmt: skip
def test_multi_agent_ppo_misses_the_rewards_of_all_agents_but_the_last():
    from tianshou.algorithm.multiagent.marl import MultiAgentOnPolicyAlgorithm
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams

    torch.manual_seed(0)
    options = {"runner_exits_game_after_tagged": False, "step_reward_for_runner": 1.0, "step_penalty_for_tagger": -1.0}
    single = make(**options)
    names = list(single.agents)
    algorithm = MultiAgentOnPolicyAlgorithm(algorithms=[ppo(single) for _ in names], env=single)
    given = {}
    for name in names:
        of_agent = algorithm.get_algorithm(name)

        def spy(batch, buffer, indices, name=name, process=of_agent._preprocess_batch):
            given[name] = batch.rew.copy()
            return process(batch, buffer, indices)

        of_agent._preprocess_batch = spy
    workers = DummyVectorEnv([lambda: make(**options)] * 2)
    collector = Collector(algorithm, workers, VectorReplayBuffer(1000, 2))
    params = OnPolicyTrainerParams(
        training_collector=collector, max_epochs=1, epoch_num_steps=144, collection_step_num_env_steps=144,
        batch_size=32, update_step_num_repetitions=1, test_in_training=False, verbose=False, show_progress=False,
    )  # fmt: skip
    algorithm.run_training(params)
    assert [given[name].shape for name in names] == [(48,)] * 3
    assert (given["runner_1"] == 1).any()
    assert not given["tagger_0"].any() and not given["runner_0"].any()
    single.reset(seed=0)
    for _ in names:
        _, rewards, *_ = single.step(0)
    assert rewards[:2] == [-1, 1]  # the env gives them


@limit("agents that leave: Tianshou ends the game of its `PettingZooEnv` when the first agent is terminated")
def test_a_game_ends_for_tianshou_when_the_first_runner_is_tagged():
    env = make(tagging_distance=1.0, starting_location_x=[1, 2, 19], starting_location_y=[1, 1, 19])
    env.reset(seed=0)
    for turn in range(3):
        _, _, terminated, truncated, _ = env.step(0)
        assert terminated == (turn == 2) and not truncated
    assert env.env.terminations == {"tagger_0": False, "runner_0": True, "runner_1": False}  # the game itself goes on
