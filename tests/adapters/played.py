"""Learning with SB3's interface, judged by returns in Gymnasium's own env beside those of random actions."""

import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy


class RandomPolicy:
    """Uniform random actions, as a policy that SB3 evaluates."""

    def __init__(self, action_space):
        self.action_space = action_space

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return np.stack([self.action_space.sample() for _ in obs]), state


def mean_return(policy, env_id):
    """Mean return of 10 episodes in Gymnasium's env with the rules of ``env_id``."""
    env = make_vec_env(env_id.removeprefix("Warp"), n_envs=10, seed=9)
    env.action_space.seed(9)
    return evaluate_policy(policy or RandomPolicy(env.action_space), env, n_eval_episodes=10)[0]


def learns_to_play(model, env_id, steps):
    """Return True if learning takes a model past three times the return of random actions, or half of their cost.

    An untrained model must not be there: some random networks balance CartPole.
    """
    random = mean_return(None, env_id)
    goal = 3 * random if random > 0 else random / 2
    before, after = mean_return(model, env_id), mean_return(model.learn(steps), env_id)
    assert before < goal, f"choose another seed: {before} of the untrained model, goal {goal}"
    return after > goal
