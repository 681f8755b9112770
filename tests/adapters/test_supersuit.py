"""PettingZoo, SuperSuit and Stable-Baselines3 together: agents of Tag as rows of SB3's vector env."""

import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.adapters.pettingzoo import PettingZooEnv

supersuit = pytest.importorskip("supersuit")
from stable_baselines3 import PPO  # noqa: E402

works, limit = (lambda what, mark=mark: mark("SuperSuit", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

CHASE = {
    "num_taggers": 1,
    "num_runners": 3,
    "episode_length": 30,
    "grid_length": 10,
    "tagging_distance": 0.08,
    "skill_level_runner": 0.3,
    "max_acceleration": 1.0,
    "min_acceleration": -1.0,
    "num_acceleration_levels": 4,
    "num_turn_levels": 4,
    "flatten_actions": True,
    "use_full_observation": True,
    "extended_observation": True,
}
"""A small game of Tag in which runners are slow, so that a tagger that chases them tags more than one that moves at random."""


def make(**options):
    return PettingZooEnv("WarpTag-v0", device="cpu", **{**CHASE, **options})


def rows(worlds, **options):
    """Agents of some worlds as rows of SB3, as SuperSuit's documentation makes them."""
    env = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.black_death_v3(make(**options)))
    return supersuit.concat_vec_envs_v1(env, worlds, num_cpus=1, base_class="stable_baselines3")


@works("black_death_v3 and pettingzoo_env_to_vec_env_v1: zeros for agents that left, until the episode ends")
def test_rows_of_supersuit_hold_the_results_of_the_env():
    env, plain = supersuit.pettingzoo_env_to_vec_env_v1(supersuit.black_death_v3(make())), make()
    names, ends, tags = plain.possible_agents, 0, 0
    obs, _ = env.reset(seed=3)
    mine, _ = plain.reset(seed=3)
    np.testing.assert_array_equal(obs, [mine[name] for name in names])
    generator = np.random.default_rng(0)
    for _ in range(100):
        actions = generator.integers(25, size=len(names))
        acting = [name for name in names if name in plain.agents]
        results = plain.step({name: actions[names.index(name)] for name in acting})
        obs, reward, terminated, truncated, _ = env.step(actions)
        np.testing.assert_array_equal(reward, [results[1].get(name, 0) for name in names])
        tags += (np.array(reward[1:]) < 0).sum()
        if not acting:  # SuperSuit's step after the end, in which it resets the env
            assert terminated.all() and truncated.all()
            results = plain.reset()
            ends += 1
        np.testing.assert_array_equal(obs, [results[0].get(name, np.zeros_like(obs[0])) for name in names])
    assert ends >= 2 and tags >= 1


@works("concat_vec_envs_v1, with a copy of the env for each world, and PPO of Stable-Baselines3 on its rows")
def test_ppo_trains_on_rows_of_copied_worlds():
    env = rows(4)
    obs = env.reset()
    assert obs.shape == (16, 28) and len({row.tobytes() for row in obs[::4]}) == 4  # copies draw different starts
    model = PPO("MlpPolicy", env, n_steps=40, batch_size=80, n_epochs=1)
    before = torch.cat([weight.detach().flatten().clone() for weight in model.policy.parameters()])
    model.learn(2 * 16 * 40)
    after = torch.cat([weight.detach().flatten() for weight in model.policy.parameters()])
    assert model.num_timesteps == 1280 and after.isfinite().all() and not torch.equal(before, after)


@limit("a seed for PPO on its rows: its vector env has no seed()")
def test_supersuit_has_no_seed():
    with pytest.raises(AttributeError, match="seed"):
        PPO("MlpPolicy", rows(1), seed=0)


def tags(model, roles, episodes=100):
    """Mean number of runners tagged in an episode in which a policy acts for some roles and the others act at random."""
    env, generator, count = make(), np.random.default_rng(0), 0
    for seed in range(episodes):
        obs, _ = env.reset(seed=seed)
        while env.agents:
            names = list(env.agents)
            chosen, _ = model.predict(np.stack([obs[name] for name in names]))
            random = generator.integers(25, size=len(names))
            by_policy = [name.split("_")[0] in roles for name in names]
            obs, reward, _, _, _ = env.step(dict(zip(names, np.where(by_policy, chosen, random), strict=True)))
            count += sum(reward[name] < -5 for name in names if name.startswith("runner"))  # the penalty of a tag is 10
    return count / episodes


@pytest.mark.slow
@pytest.mark.timeout(600)
@works("SB3's PPO on its rows learns Tag: its tagger tags more than 1.6 times as many runners as a random one")
def test_the_tagger_learns():
    torch.manual_seed(1)
    np.random.seed(1)
    model = PPO("MlpPolicy", rows(16), n_steps=64, batch_size=512, n_epochs=10, learning_rate=1e-3, gamma=0.95, ent_coef=0.003)
    model.learn(400_000)
    at_random, learned = (tags(model, roles) for roles in ((), ("tagger",)))
    print(f"runners tagged in an episode: {at_random} at random, {learned} with the learned tagger")
    assert learned > 1.6 * at_random
