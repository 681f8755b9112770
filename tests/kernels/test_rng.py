"""Random numbers: the generator against published answers, and the counters and keys of draws."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES

# Random123's kat_vectors, philox4x32 with 10 rounds: counter, key, answer.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]  # fmt: skip


def philox(key, counter):
    """Philox4x32-10 after Salmon et al. (2011), in Python's integers."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c0, c1, c2, c3 = counter
    for _ in range(10):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (second >> 32) ^ c1 ^ k0, second & 0xFFFFFFFF, (first >> 32) ^ c3 ^ k1, first & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1, c2, c3


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_philox_gives_the_published_answers(call, counter, key, answer):
    words = call("philox", np.array([[*key, *counter]]), dtype=np.uint32, width=4)
    assert tuple(int(word) for word in words[0]) == answer
    assert philox(key[1] << 32 | key[0], counter) == answer


def test_uniform_is_exactly_the_high_24_bits(call):
    words = np.concatenate([[0, 255, 256, 2**31, 2**32 - 1], np.random.default_rng(0).integers(0, 2**32, 100_000)])
    values = call("uniform", words, dtype=np.uint32)
    np.testing.assert_array_equal(values.astype(np.float64), (words >> 8) / 2**24)
    assert values[0] == 0.0 and values[4] == 1 - 2**-24


@pytest.mark.parametrize("device", DEVICES)
def test_a_start_is_drawn_from_seed_world_and_episode(device):
    """World w of episode e draws agent i's start from counter (world_id, e, t, purpose and agent), with the seed as key."""
    seed, side = 2**40 + 17, 8.0
    env = gymnasium.make_vec(
        "WarpTag-v0", num_envs=3, num_taggers=2, num_runners=3, grid_length=side, device=device, array="numpy", first_world=5
    )
    for episode in range(3):
        env.reset(seed=seed if episode == 0 else None)
        state = env.unwrapped.get_state()
        for w in range(3):
            for i in range(5):
                words = philox(seed, (5 + w, episode, 0, i))
                assert state["loc_x"][w, i] == side * (words[0] >> 8) / 2**24
                assert state["loc_y"][w, i] == side * (words[1] >> 8) / 2**24
                assert state["direction"][w, i] == np.float32((words[2] >> 30) * np.float32(np.pi / 2))


DRAWN = {
    "cartpole": ("WarpCartPole-v1", {"num_envs": 5}),
    "cartpole, two packs and 6 worlds": ("WarpCartPole-v1", {"num_envs": 70}),
    "pendulum": ("WarpPendulum-v1", {"num_envs": 40}),
    "tag": ("WarpTag-v0", {"num_envs": 3, "num_taggers": 2, "num_runners": 3}),
    "tag, continuous": ("WarpTag-v0", {"num_envs": 2, "num_taggers": 1, "num_runners": 2, "continuous_actions": True}),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", DRAWN)
def test_a_random_action_is_drawn_from_seed_world_step_entry_and_agent(case, device):
    """Four steps share a draw. Its counter is (world_id, e, t of the first of them, entry and agent), its key the seed."""
    name, options = DRAWN[case]
    env = gymnasium.make_vec(name, device=device, array="numpy", first_world=5, **options).unwrapped
    env.reset(seed=2**40 + 17)
    env.rollout(num_steps=6)
    before = env.get_state("seed", "world_id", "episode", "t")
    actions = env.rollout(num_steps=10)[4]["actions"]
    agents, space = env.num_agents, env.env_spec.action(env.params)
    heads = int(np.prod(space.shape))
    for w, *place in zip(range(env.num_worlds), *(values.tolist() for values in before.values()), strict=True):
        for agent, head, step in np.ndindex(agents, heads, 10):
            seed, world_id, episode, t = place
            words = philox(seed, (world_id, episode, t + step // 4 * 4, (0xFFFE - head) << 16 | agent))
            if isinstance(space, Box):
                low, high = space.low[head], space.high[head]
                expected = low + (high - low) * np.float32((words[step % 4] >> 8) / 2**24)
            else:
                choices = space.nvec[head] if space.shape else space.n
                expected = words[step % 4] * int(choices) >> 32
            assert actions.reshape(10, -1, agents, heads)[step, w, agent, head] == expected, (step, w, agent, head)
