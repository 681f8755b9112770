"""Returns and lengths of episodes, compared with a loop over rows and steps."""

import itertools
import math

import pytest
import torch
from dispatched import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.returns.scan import episode_sums


def rollouts(seed, steps, shape, count=3, p=0.15):
    """Random rollouts of agents that leave for the rest of an episode, or are absent from all of it; NaN when out."""
    g = torch.Generator().manual_seed(seed)
    present = torch.rand(shape, generator=g) < 0.8
    for _ in range(count):
        reward = torch.randn(steps, *shape, generator=g)
        finished, valid = (torch.rand(steps, *shape, generator=g) < p for _ in range(2))
        for t in range(steps):
            leaves = valid[t].clone()
            valid[t] = present
            present = torch.where(finished[t], torch.rand(shape, generator=g) < 0.8, present & ~leaves)
        yield torch.where(valid, reward, torch.nan), finished, valid


class SlowStats:
    """The same as EpisodeStats, in Python's floats."""

    def __init__(self):
        self.running, self.past = {}, []

    def update(self, reward, finished, valid, window):
        reward, finished, valid = (x.flatten(1).tolist() for x in (reward, finished, valid))
        ended = []
        for t, row in itertools.product(range(len(reward)), range(len(reward[0]))):
            total, length, took_part = self.running.pop(row, (0.0, 0, False))
            total += reward[t][row] if valid[t][row] else 0.0
            length, took_part = length + 1, took_part or valid[t][row]
            if not finished[t][row]:
                self.running[row] = total, length, took_part
            elif took_part:
                ended.append((total, length))
        self.past += ended
        return *means(ended), *means(self.past[-window:])


def means(pairs):
    return [sum(x) / len(x) for x in zip(*pairs, strict=True)] or [math.nan, math.nan]


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 9),
    shape=st.sampled_from([(1,), (4,), (3, 2)]),
    window=st.integers(1, 12),
    p=st.sampled_from([0.03, 0.3, 1.0]),
)
def test_statistics_equal_a_plain_loop(seed, steps, shape, window, p):
    stats, slow = EpisodeStats(shape, window), SlowStats()
    for rollout in rollouts(seed, steps, shape, p=p):
        want = slow.update(*rollout, window)
        assert [x.item() for x in stats.update(*rollout)] == pytest.approx(want, abs=1e-4, nan_ok=True)


def test_statistics_go_on_from_saved_ones():
    first, second, third = rollouts(1, 7, (5,))
    whole, saved, resumed = (EpisodeStats(5) for _ in range(3))
    for rollout in (first, second):
        whole.update(*rollout)
        saved.update(*rollout)
    resumed.load_state_dict(saved.state_dict())
    got = resumed.update(*third)
    assert got.tolist() == whole.update(*third).tolist()
    assert not got.isnan().any()


def test_no_finished_episode_gives_nan():
    stats, never = EpisodeStats(3), torch.zeros(4, 3, dtype=torch.bool)
    assert stats.update(torch.ones(4, 3), never, ~never).isnan().all()
    absent = stats.update(torch.ones(1, 3), ~never[:1], never[:1])  # these agents took part in earlier steps
    assert [x.item() for x in absent] == [4.0, 5.0, 4.0, 5.0]
    assert stats.update(torch.ones(4, 3), ~never, never)[:2].isnan().all()


def test_statistics_have_the_same_bits_for_any_number_of_threads():
    rollout = next(rollouts(2, 40, (2000,), 1))

    def results():
        stats = EpisodeStats(2000)
        return [stats.update(*rollout), *stats.state_dict().values()]

    assert_same_bits(results)


def reference(ended, counted, recent, num_recent):
    """The same as EpisodeStats, in operations on whole arrays: the means, the last episodes and their number."""
    window = recent.shape[1]
    new = ended.flatten(1)[:, counted.flatten()].flip(1)
    held = torch.cat((new, recent[:, :num_recent]), 1)[:, :window]
    means = torch.cat([x.double().mean(1) for x in (new, held)]).float()
    return means, held


@pytest.mark.parametrize(("steps", "shape"), [(1, (1,)), (64, (64,)), (33, (97,)), (9, (400, 7)), (1200, (450,))])
@pytest.mark.parametrize("p", [0.0, 0.0005, 0.01, 1.0])
@pytest.mark.parametrize("window", [1, 100, 300])
def test_statistics_equal_operations_on_whole_arrays(steps, shape, p, window):
    """Tiles that are empty, full and not whole, more than one for a strand, and windows longer than a team is wide."""
    g, stats = torch.Generator().manual_seed(steps), EpisodeStats(shape, window)
    running = torch.zeros(3, *shape)
    for _ in range(3):
        reward = torch.randn(steps, *shape, generator=g)
        finished, valid = (torch.rand(steps, *shape, generator=g) < share for share in (p, 0.9))
        reward[~valid] = math.nan
        ended, counted = episode_sums(reward, valid, finished, running)
        means, held = reference(ended, counted, stats.recent.clone(), stats.num_recent.item())
        got = stats.update(reward, finished, valid)
        torch.testing.assert_close(got, means, rtol=1e-6, atol=1e-6, equal_nan=True)
        assert stats.num_recent == held.shape[1]
        assert torch.equal(stats.recent[:, : held.shape[1]], held)
