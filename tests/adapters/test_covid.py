"""``RoleRows`` on COVID-19: rows of governors or of the planner, with masks, give the results of the vector env."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv import RoleRows, whole_obs

WORLDS, STEPS = 2, 9
AGENTS = {"governor": 51, "planner": 1}


def vector_env():
    options = {"episode_length": 7, "action_cooldown": 3, "subsidy_interval": 2, "device": "cpu", "array": "numpy"}
    return gymnasium.make_vec("WarpCovid-v0", num_envs=WORLDS, **options).unwrapped


def lowest_allowed(obs, mask):
    """A function for the other role: the lowest choice that its mask allows."""
    return mask.argmax(-1)


def flat(value, rows):
    """Arrays (worlds, agents, ...) as rows; of parts, the shared one first."""
    value = whole_obs(value) if isinstance(value, dict) else value
    return value.reshape(rows, *value.shape[2:])


@pytest.mark.parametrize("role", AGENTS)
def test_rows_have_the_results_of_the_vector_env(role):
    other = next(name for name in AGENTS if name != role)
    env, plain = RoleRows(vector_env(), role, {other: lowest_allowed}), vector_env()
    count = AGENTS[role]
    first = sum(list(AGENTS.values())[: list(AGENTS).index(role)])
    seen, info = env.reset(seed=4)
    obs, expected = plain.reset(seed=4)
    generator, forbidden = np.random.default_rng(0), 0
    for _ in range(STEPS):
        mask = expected["action_mask"][role]
        np.testing.assert_array_equal(seen, flat(obs[role], WORLDS * count))
        np.testing.assert_array_equal(info["action_mask"], flat(mask, WORLDS * count))
        actions = (generator.random(mask.shape) * mask).argmax(-1)
        forbidden += int((~mask).sum())
        seen, reward, terminated, truncated, info = env.step(actions.reshape(-1))
        chosen = {role: actions, other: lowest_allowed(obs[other], expected["action_mask"][other])}
        obs, _, ended, cut, expected = plain.step(chosen)
        np.testing.assert_array_equal(reward, flat(expected["agent_reward"][:, first : first + count], WORLDS * count))
        np.testing.assert_array_equal([terminated, truncated], np.repeat([ended, cut], count, axis=1))
        if ended.any() or cut.any():
            np.testing.assert_array_equal(info["episode"]["deaths"], np.repeat(expected["episode"]["deaths"], count))
    assert forbidden > 0 and plain.get_state()["episode"].tolist() == [1, 1]
