"""Minibatches: each transition that counts is in one minibatch, in another order each epoch."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from ppo_cases import PLAIN, case, learn, ppo_of

from gpu_vecenv.train.algorithms.ppo import backend as module
from gpu_vecenv.train.algorithms.shards import shuffle_by_shard
from gpu_vecenv.train.algorithms.shuffle import choose, shuffle, shuffle_samples
from tests.kernels.test_rng import philox


def slow_order(valid, seed):
    """Return the shuffled transitions in their order, as defined in Python's integers."""
    chosen = valid.nonzero().flatten().tolist()
    bits = max(1, (len(chosen) - 1).bit_length())
    keys = [word for block in (0, 1) for word in philox(seed % 2**64, (block, 0, 0, 0))]

    def image(x):
        for key in keys:
            x = (x + (key >> 16 | key << 16 & 2**32 - 1)) * (key | 1) % 2**bits
            x ^= x >> (bits + 1) // 2
        return x if x < len(chosen) else image(x)

    return [chosen[image(place)] for place in range(len(chosen))]


def shuffles(valid, number, seed, all_valid=False):
    return shuffle(choose(valid, all_valid), number, torch.tensor(seed))


def orders(count, seeds):
    """Return one order of ``count`` transitions for each seed."""
    transitions = choose(torch.ones(count, dtype=torch.bool), True)
    return np.stack([shuffle(transitions, 1, torch.tensor(seed))[0][0].numpy() for seed in range(seeds)])


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63), 123456789123456789])
@pytest.mark.parametrize("count", [1, 2, 3, 16, 17, 1000])
def test_an_order_is_the_one_of_its_definition(count, seed):
    valid = torch.rand(2000, generator=torch.Generator().manual_seed(2)).argsort() < count
    index, used = shuffles(valid, 1, seed)
    assert index.dtype == torch.int64
    assert index[used].tolist() == slow_order(valid, seed)


@pytest.mark.parametrize("size", [1, 511, 512, 1500])
@pytest.mark.parametrize("all_valid", [True, False])
def test_several_orders_are_those_of_single_shuffles(size, all_valid):
    valid = torch.rand(size, generator=torch.Generator().manual_seed(2)) < (2.0 if all_valid else 0.6)
    transitions, seed = choose(valid, all_valid), torch.tensor(2**63 - 3)
    orders = shuffle_samples(transitions, 3, seed, 1, 4)
    assert orders.dtype == torch.int32
    for number, order in enumerate(orders, start=1):
        index, used = shuffle(transitions, 3, seed, number)
        assert torch.equal(order, torch.where(used, index, -1))
        assert torch.equal(index, shuffle(transitions, 3, seed + number)[0])


@pytest.mark.parametrize("count", [*range(1, 70), 127, 128, 129, 1000, 4095, 65536, 100_003])
def test_every_transition_has_one_place(count):
    for order in orders(count, 3):
        assert np.array_equal(np.sort(order), np.arange(count))


def test_all_transitions_count_if_the_caller_says_so():
    valid = torch.ones(999, dtype=torch.bool)
    for got, want in zip(shuffles(valid, 4, 7, all_valid=True), shuffles(valid, 4, 7), strict=True):
        assert torch.equal(got, want)


def chi_square(counts):
    """Deviations of counts from a uniform distribution: the statistic minus its mean, divided by its deviation."""
    expected = counts.sum() / counts.size
    return (((counts - expected) ** 2).sum() / expected - (counts.size - 1)) / (2 * (counts.size - 1)) ** 0.5


def permutations(all_orders):
    """Return how often each permutation of few numbers occurs."""
    every = {order: i for i, order in enumerate(itertools.permutations(range(all_orders.shape[1])))}
    return np.bincount([every[tuple(order)] for order in all_orders.tolist()], minlength=len(every))


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_all_permutations_of_few_transitions_are_equally_frequent(count):
    assert chi_square(permutations(orders(count, 30 * len(list(itertools.permutations(range(count))))))) < 4


@pytest.mark.parametrize("count", [64, 256, 300])
def test_pairs_of_places_have_independent_transitions(count):
    """The distance of the transitions at two places is uniform, whatever the distance of the places."""
    all_orders = orders(count, 2000)
    for lag in (1, 2, 3, 16, 32):
        apart = (all_orders[:, lag::97] - all_orders[:, : count - lag : 97]) % count
        assert chi_square(np.bincount(apart.flatten(), minlength=count)[1:]) < 4


def test_the_checks_find_an_order_that_is_not_random():
    same = np.tile(np.arange(4), (720, 1))
    assert chi_square(permutations(same)) > 100
    assert chi_square(np.bincount((same[:, 1] - same[:, 0]) % 4, minlength=4)[1:]) > 10


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize(("size", "number"), [(120, 4), (121, 4), (7, 7), (50, 1), (1000, 7)])
def test_each_transition_that_counts_is_in_one_minibatch(size, number, share):
    valid = torch.rand(size, generator=torch.Generator().manual_seed(1)) < share
    index, used = shuffles(valid, number, 5)
    assert index.shape == used.shape == (number, -(-size // number))  # whatever the number of valid ones
    shuffled = index[used].tolist()
    assert sorted(shuffled) == valid.nonzero().flatten().tolist()
    numbers = used.sum(1).tolist()
    assert max(numbers) - min(numbers) <= 1
    if valid.any():
        assert valid[index].all()  # also slots that are left over
    else:
        assert not used.any() and ((0 <= index) & (index < size)).all()


def test_the_order_is_random():
    """Correlations of neighbours, of positions, and of two shuffles are those of shuffles, within four deviations."""
    valid = torch.ones(4096, dtype=torch.bool)
    first, second = (shuffles(valid, 1, seed)[0][0].numpy() for seed in (1, 2))
    for a, b in ((first[1:], first[:-1]), (first, np.arange(4096)), (first, second)):
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / 64


def recorded_shuffles(monkeypatch, ppo, one, config, updates):
    shuffled = []

    def noted(*arguments):
        shuffled.append(shuffle_by_shard(*arguments))
        return shuffled[-1]

    monkeypatch.setattr(module, "shuffle_by_shard", noted)
    learn(one, config, rate=0.0, updates=updates, ppo=ppo)
    return [index[used].tolist() for index, used in shuffled]


@pytest.mark.parametrize("shared", [False, True], ids=["rows", "worlds"])
def test_epochs_and_updates_have_orders_of_their_own(monkeypatch, shared):
    config = dataclasses.replace(PLAIN, num_epochs=3, num_minibatches=4)
    one = case(shared=shared)
    orders = recorded_shuffles(monkeypatch, ppo_of(one, config), one, config, updates=2)
    assert len(orders) == 6
    assert len(set(map(tuple, orders))) == 6
    counted = one.samples.valid.any(-1) if shared else one.samples.valid
    assert all(sorted(order) == counted.flatten().nonzero().flatten().tolist() for order in orders)
    other = recorded_shuffles(monkeypatch, ppo_of(one, config, seed=2**50), one, config, updates=1)
    assert not set(map(tuple, orders)) & set(map(tuple, other))
    assert recorded_shuffles(monkeypatch, ppo_of(one, config), one, config, updates=2) == orders


def test_orders_go_on_after_a_restored_state(monkeypatch):
    config = dataclasses.replace(PLAIN, num_epochs=3, num_minibatches=4)
    one = case()
    ppo = ppo_of(one, config)
    whole = recorded_shuffles(monkeypatch, ppo_of(one, config), one, config, updates=2)
    learn(one, config, rate=0.0, ppo=ppo)
    later = ppo_of(one, config, seed=99)
    later.load_state_dict(ppo.state_dict(), "here")
    assert recorded_shuffles(monkeypatch, later, one, config, updates=1) == whole[3:]
