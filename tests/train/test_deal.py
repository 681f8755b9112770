"""Minibatches: each transition that counts is dealt once, in another order each epoch."""

import dataclasses

import numpy as np
import pytest
import torch
from ppo_cases import PLAIN, case, learn, ppo_of

from gpu_vecenv.train.algorithms import ppo as module
from gpu_vecenv.train.algorithms.deal import LAST_KEY, deal, random_keys


def split_mix(count, seed):
    """SplitMix64 in NumPy's uint64: output of the generator that was seeded with ``seed``, for the first ``count`` calls."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed % 2**64) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 123456789123456789])
def test_random_keys_are_the_high_bits_of_split_mix(seed):
    keys = random_keys(5000, torch.tensor(seed))
    assert keys.dtype == torch.int32
    want = np.minimum(split_mix(5000, seed) >> np.uint64(33), LAST_KEY - 1)
    np.testing.assert_array_equal(keys.numpy(), want.astype(np.int32))


def test_split_mix_gives_the_published_numbers():
    """Numbers of the reference code by Vigna, with seed 1234567."""
    assert split_mix(3, 1234567).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize(("size", "number"), [(120, 4), (121, 4), (7, 7), (50, 1), (1000, 7)])
def test_each_transition_that_counts_is_dealt_once(size, number, share):
    valid = torch.rand(size, generator=torch.Generator().manual_seed(1)) < share
    index, used = deal(valid, number, torch.tensor(5))
    assert index.shape == used.shape == (number, -(-size // number))  # whatever the number of valid ones
    dealt = index[used].tolist()
    assert sorted(dealt) == valid.nonzero().flatten().tolist()
    numbers = used.sum(1).tolist()
    assert max(numbers) - min(numbers) <= 1
    if valid.any():
        assert valid[index].all()  # also slots that are left over
    else:
        assert not used.any() and ((0 <= index) & (index < size)).all()


def test_the_order_is_random():
    """Correlations of neighbours, of positions, and of two deals are those of shuffles, within four deviations."""
    valid = torch.ones(4096, dtype=torch.bool)
    first, second = (deal(valid, 1, torch.tensor(seed))[0][0].numpy() for seed in (1, 2))
    for a, b in ((first[1:], first[:-1]), (first, np.arange(4096)), (first, second)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / 64


def recorded_deals(monkeypatch, ppo, one, config, updates):
    dealt = []

    def noted(*arguments):
        dealt.append(deal(*arguments))
        return dealt[-1]

    monkeypatch.setattr(module, "deal", noted)
    learn(one, config, rate=0.0, updates=updates, ppo=ppo)
    return [index[used].tolist() for index, used in dealt]


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_epochs_and_updates_have_orders_of_their_own(monkeypatch, shared):
    config = dataclasses.replace(PLAIN, num_epochs=3, num_minibatches=4)
    one = case(shared=shared)
    orders = recorded_deals(monkeypatch, ppo_of(one, config), one, config, updates=2)
    assert len(orders) == 6
    assert len(set(map(tuple, orders))) == 6
    counted = one.samples.valid.any(-1) if shared else one.samples.valid
    assert all(sorted(order) == counted.flatten().nonzero().flatten().tolist() for order in orders)
    other = recorded_deals(monkeypatch, ppo_of(one, config, seed=2**50), one, config, updates=1)
    assert not set(map(tuple, orders)) & set(map(tuple, other))
    assert recorded_deals(monkeypatch, ppo_of(one, config), one, config, updates=2) == orders


def test_orders_go_on_after_a_restored_state(monkeypatch):
    config = dataclasses.replace(PLAIN, num_epochs=3, num_minibatches=4)
    one = case()
    ppo = ppo_of(one, config)
    whole = recorded_deals(monkeypatch, ppo_of(one, config), one, config, updates=2)
    learn(one, config, rate=0.0, ppo=ppo)
    later = ppo_of(one, config, seed=99)
    later.load_state_dict(ppo.state_dict(), "here")
    assert recorded_deals(monkeypatch, later, one, config, updates=1) == whole[3:]
