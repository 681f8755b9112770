"""Steps of CartPole that a library stored, compared with Gymnasium's own CartPole."""

import gymnasium
import numpy as np

FIRST = 0.05
"""Largest number in the first observation of an episode."""


def check_episode_steps(obs, action, next_obs, terminated, limit):
    """Check stored steps of one world, in which an episode follows another; return the ends: False, "terminated", "truncated".

    Each next observation and termination must be those of Gymnasium's CartPole, each episode must begin with a first observation,
    and a time limit of ``limit`` steps ends an episode. The arguments are arrays with a row for each step.
    """
    game = gymnasium.make("CartPole-v1").unwrapped
    game.reset()
    ends, length = [], 0
    for row in range(len(obs)):
        if length == 0:
            assert np.abs(obs[row]).max() <= FIRST
        game.state, game.steps_beyond_terminated = tuple(np.float64(obs[row])), None
        true_obs, _, true_end, _, _ = game.step(int(action[row]))
        np.testing.assert_allclose(next_obs[row], true_obs, atol=1e-5)
        assert bool(terminated[row]) == true_end
        length += 1
        ends.append("terminated" if true_end else "truncated" if length == limit else False)
        if ends[-1]:
            length = 0
        elif row + 1 < len(obs):
            np.testing.assert_array_equal(obs[row + 1], next_obs[row])
    return ends
