"""Returns of a policy in Gymnasium's own env, and those of random actions, for tests of learning with SB3's interface."""

import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


class RandomPolicy:
    """Uniform random actions, as a policy that SB3 evaluates."""

    def __init__(self, action_space):
        self.action_space = action_space

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return np.stack([self.action_space.sample() for _ in obs]), state


def mean_returns(model, env_id):
    """Mean returns of 10 episodes in Gymnasium's env with the rules of ``env_id``, of a model and of random actions."""
    env = make_vec_env(env_id.removeprefix("Warp"), n_envs=10, seed=9)
    env.action_space.seed(9)
    return [evaluate_policy(policy, env, n_eval_episodes=10)[0] for policy in (model, RandomPolicy(env.action_space))]
