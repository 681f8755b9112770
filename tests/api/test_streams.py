"""Random numbers of worlds that share a stream, and of those that got one of their own."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES

WORLDS, STEPS = 40, 60  # not a whole number of blocks; some episodes end by their rules, all at 25 steps


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
    """What worlds with one seed observe."""
    env = make(device)
    env.reset(seed=5)
    return observations(env)


@pytest.mark.parametrize("field", ["seed", "world_id"])
def test_the_same_streams_of_their_own_give_the_same_episodes(shared, device, field):
    env = make(device)
    env.reset(seed=5)
    env.unwrapped.set_state(env.unwrapped.get_state(field))
    np.testing.assert_array_equal(observations(env), shared)


@pytest.mark.parametrize(("field", "value"), [("seed", 6), ("world_id", 1000)])
def test_a_world_given_another_stream_starts_elsewhere_from_its_next_episode(shared, device, field, value):
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


def test_a_copy_goes_on_as_its_original_through_new_episodes(device):
    env = make(device)
    env.reset(seed=5)
    env.unwrapped.copy_worlds([3], [8])
    generator = np.random.default_rng(0)
    for _ in range(STEPS):
        actions = generator.integers(0, 2, WORLDS)
        actions[8] = actions[3]
        obs = env.step(actions)[0]
        np.testing.assert_array_equal(obs[8], obs[3])


def test_a_new_seed_for_all_is_shared_again(shared, device):
    env = make(device)
    env.reset(seed=list(range(WORLDS)))
    env.reset(seed=5)
    np.testing.assert_array_equal(observations(env), shared)


def test_a_partial_reset_with_a_seed_leaves_the_other_worlds_theirs(shared, device):
    env = make(device)
    env.reset(seed=5)
    env.reset(seed=9, options={"reset_mask": np.arange(WORLDS) == 3})
    seen = observations(env)
    others = np.arange(WORLDS) != 3
    np.testing.assert_array_equal(seen[:, others], shared[:, others])
    assert not np.array_equal(seen[-1, 3], shared[-1, 3])


def test_worlds_given_one_seed_each_start_all_alike(device):
    env = make(device)
    env.reset(seed=[5] * WORLDS)
    for _ in range(STEPS):  # several episodes
        obs = env.step(np.zeros(WORLDS, np.int32))[0]
        np.testing.assert_array_equal(obs, np.broadcast_to(obs[0], obs.shape))
