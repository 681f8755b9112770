"""Kernels of updates have the same bits on CUDA and on the CPU, and a CUDA graph can record them."""

import copy
import functools

import pytest
import torch

from gpu_vecenv.train.algorithms.shuffle import choose, shuffle, shuffle_samples
from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.returns.masks import transition_masks
from gpu_vecenv.train.returns.moments import Moments, Normal, merge, moments
from gpu_vecenv.train.returns.scan import advantages, discounted_returns, episode_sums
from gpu_vecenv.train.runner.finite import CHUNK, FiniteSearch

pytestmark = pytest.mark.gpu


def inputs(steps, rows):
    """Return random arrays of a rollout on the CPU."""
    g = torch.Generator().manual_seed(steps * rows)
    flags = [torch.rand(steps, rows, generator=g) < share for share in (0.8, 0.1, 0.05)]
    reward, value, sums = (torch.randn(length, rows, generator=g) for length in (steps, steps + 1, 3))
    return reward, value, *flags, sums


@functools.cache
def unused(rows, agents, device):
    """Statistics without an episode. A graph can record a copy of them, and not the way of new ones to the device."""
    return EpisodeStats(rows, agents=agents).to(device)


def results(reward, value, valid, episode_end, timed_out, sums):
    """Return results of all kernels, on the device of the arrays."""
    running, sums = sums[0].clone(), sums.clone()
    normal = Normal(*(torch.zeros(1, device=reward.device) for _ in range(3)))
    statistics = Moments(*(torch.zeros(shape, dtype=torch.float64, device=reward.device) for shape in ((1,), (1,), ())))
    merge(statistics, reward.view(-1, 1), valid.flatten(), normal)
    seed = torch.full((), -(2**50) + 3, device=reward.device)
    rows = reward.shape[1]
    stats, by_world = (
        copy.deepcopy(unused(rows, agents, reward.device)) for agents in (None, (1, 2) if rows % 3 == 0 else (rows,))
    )
    return (
        *advantages(reward, value, reward + 1.0, (valid, episode_end, timed_out), 0.99, 0.95),
        *advantages(reward, value, None, (valid, episode_end, timed_out), 0.99, 0.95, torch.full((), 7.0, device=reward.device)),
        *transition_masks(valid[0], valid, episode_end, timed_out, episode_end),
        *(each.update(reward, episode_end, valid).nan_to_num(nan=7.0) for each in (stats, by_world) for _ in range(2)),
        *stats.state_dict().values(), *by_world.state_dict().values(),
        shuffle_samples(choose(valid.flatten()), 4, seed, 1, 3),
        discounted_returns(reward, valid, episode_end, 0.99, running),
        *episode_sums(reward, valid, episode_end, sums),
        running, sums, *statistics, *normal,
        *moments(reward, torch.ones_like(valid[:, 0])),
        *shuffle(choose(valid.flatten()), 4, seed),
        *shuffle(choose(valid.flatten(), True), 3, seed),
    )  # fmt: skip


@pytest.mark.parametrize(("steps", "rows"), [(128, 2048), (50, 840), (2048, 64), (1, 1), (17, 33)])
def test_results_have_the_bits_of_the_cpu(steps, rows):
    arrays = inputs(steps, rows)
    for device, host in zip(results(*(x.cuda() for x in arrays)), results(*arrays), strict=True):
        assert torch.equal(device.cpu(), host)


def test_a_graph_repeats_the_kernels():
    arrays = inputs(40, 300)
    there = [x.cuda() for x in arrays]
    results(*there)
    torch.cuda.set_sync_debug_mode("error")
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            recorded = results(*there)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for factor in (1.0, 2.0):
        there[0].mul_(factor), arrays[0].mul_(factor)
        graph.replay()
        for device, host in zip(recorded, results(*arrays), strict=True):
            assert torch.equal(device.cpu(), host)


def test_weights_that_are_not_finite_are_found_in_a_graph():
    x, flags = torch.zeros(3 * CHUNK + 5, device="cuda", dtype=torch.bfloat16), torch.zeros(2, device="cuda")
    search = FiniteSearch([[x[1:]], [torch.zeros(9, device="cuda").double(), x]], flags.device)
    search(flags)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        flags.zero_()
        search(flags)
    for place, want in ((None, [0.0, 0.0]), (0, [0.0, 1.0]), (-1, [1.0, 1.0])):
        if place is not None:
            x[place] = torch.inf
        graph.replay()
        assert flags.tolist() == want
