"""Random keys of worlds: a seed shared by all worlds, and seeds or world numbers of their own."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES

WORLDS, STEPS = 40, 60  # one pack and 8 worlds left over; episodes last at most 25 steps


def make(device):
    return gymnasium.make_vec("WarpCartPole-v1", num_envs=WORLDS, device=device, array="numpy", max_episode_steps=25)


def observations(env):
    generator = np.random.default_rng(0)
    return np.stack([env.step(generator.integers(0, 2, WORLDS))[0] for _ in range(STEPS)])


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def shared(device):
    """Observations of worlds that share one seed."""
    env = make(device)
    env.reset(seed=5)
    return observations(env)


@pytest.mark.parametrize("field", ["seed", "world_id"])
def test_setting_the_same_keys_gives_the_same_episodes(shared, device, field):
    env = make(device)
    env.reset(seed=5)
    env.unwrapped.set_state(env.unwrapped.get_state(field))
    np.testing.assert_array_equal(observations(env), shared)


@pytest.mark.parametrize(("field", "value"), [("seed", 6), ("world_id", 1000)])
def test_a_new_key_changes_a_worlds_starts_from_its_next_episode_on(shared, device, field, value):
    env = make(device)
    env.reset(seed=5)
    given = env.unwrapped.get_state(field)[field]
    given[3] = value
    env.unwrapped.set_state({field: given})
    seen = observations(env)
    others = np.arange(WORLDS) != 3
    np.testing.assert_array_equal(seen[:, others], shared[:, others])
    assert np.array_equal(seen[0, 3], shared[0, 3])
    assert not np.array_equal(seen[-1, 3], shared[-1, 3])


def test_a_copied_world_starts_the_same_episodes_as_its_source(device):
    env = make(device)
    env.reset(seed=5)
    env.unwrapped.copy_worlds([3], [8])
    generator = np.random.default_rng(0)
    for _ in range(STEPS):
        actions = generator.integers(0, 2, WORLDS)
        actions[8] = actions[3]
        obs = env.step(actions)[0]
        np.testing.assert_array_equal(obs[8], obs[3])


def test_a_reset_of_all_worlds_with_one_seed_replaces_their_own_seeds(shared, device):
    env = make(device)
    env.reset(seed=list(range(WORLDS)))
    env.reset(seed=5)
    np.testing.assert_array_equal(observations(env), shared)


def test_a_partial_reset_with_a_seed_keeps_the_other_worlds_seeds(shared, device):
    env = make(device)
    env.reset(seed=5)
    env.reset(seed=9, options={"reset_mask": np.arange(WORLDS) == 3})
    seen = observations(env)
    others = np.arange(WORLDS) != 3
    np.testing.assert_array_equal(seen[:, others], shared[:, others])
    assert not np.array_equal(seen[-1, 3], shared[-1, 3])


def test_worlds_with_equal_keys_have_equal_episodes(device):
    env = make(device)
    env.reset(seed=[5] * WORLDS)
    for _ in range(STEPS):  # several episodes
        obs = env.step(np.zeros(WORLDS, np.int32))[0]
        np.testing.assert_array_equal(obs, np.broadcast_to(obs[0], obs.shape))
