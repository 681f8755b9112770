"""Returns and lengths of episodes, compared with a loop over rows and steps."""

import itertools
import math

import pytest
import torch
from dispatched import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_vecenv.train.returns.episodes import EpisodeStats, renew_form
from gpu_vecenv.train.returns.scan import episode_sums


def worlds_of(shape, agents):
    """World of each row, by the number of agents of each part in a world."""
    worlds = math.prod(shape) // sum(agents)
    return torch.cat([torch.arange(worlds).repeat_interleave(count) for count in agents]).view(shape)


def rollouts(seed, steps, shape, count=3, p=0.15, agents=(1,)):
    """Random rollouts of agents that leave for the rest of an episode, or are absent from all of it; NaN when out."""
    g, worlds = torch.Generator().manual_seed(seed), worlds_of(shape, agents)
    present = torch.rand(shape, generator=g) < 0.8
    for _ in range(count):
        reward = torch.randn(steps, *shape, generator=g)
        finished, valid = (torch.rand(steps, *shape, generator=g) < p for _ in range(2))
        finished = finished.flatten(1)[:, worlds]
        for t in range(steps):
            leaves = valid[t].clone()
            valid[t] = present
            present = torch.where(finished[t], torch.rand(shape, generator=g) < 0.8, present & ~leaves)
        yield torch.where(valid, reward, torch.nan), finished, valid


class SlowStats:
    """The same as EpisodeStats, in Python's floats."""

    def __init__(self, worlds):
        self.running, self.past, self.worlds = {}, [], worlds.flatten().tolist()

    def update(self, reward, finished, valid, window):
        reward, finished, valid = (x.flatten(1).tolist() for x in (reward, finished, valid))
        ended = []
        for t, row in itertools.product(range(len(reward)), sorted(range(len(reward[0])), key=self.worlds.__getitem__)):
            total, length, took_part = self.running.pop(row, (0.0, 0, False))
            total += reward[t][row] if valid[t][row] else 0.0
            length, took_part = length + 1, took_part or valid[t][row]
            if not finished[t][row]:
                self.running[row] = total, length, took_part
            elif took_part:
                ended.append((t, self.worlds[row], total, length))
        for _, episode in itertools.groupby(ended, key=lambda agent: agent[:2]):
            self.past.append([agent[2:] for agent in episode])
        return *means([agent[2:] for agent in ended]), *means(itertools.chain(*self.past[-window:]))


def means(pairs):
    return [sum(x) / len(x) for x in zip(*pairs, strict=True)] or [math.nan, math.nan]


@settings(deadline=None)
@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(1, 9),
    rows=st.sampled_from(
        [((1,), [1]), ((4,), [1]), ((3, 2), [2]), ((6,), [3]), ((12,), [1, 3]), ((10, 1), [2, 2, 1]), ((6, 2), [2, 2])]
    ),
    window=st.integers(1, 12),
    p=st.sampled_from([0.03, 0.3, 1.0]),
)
def test_statistics_equal_a_plain_loop(seed, steps, rows, window, p):
    shape, agents = rows
    stats, slow = EpisodeStats(shape, window, agents), SlowStats(worlds_of(shape, agents))
    for rollout in rollouts(seed, steps, shape, p=p, agents=agents):
        want = slow.update(*rollout, window)
        assert [x.item() for x in stats.update(*rollout)] == pytest.approx(want, abs=1e-4, nan_ok=True)


def test_the_last_episodes_are_those_of_whole_worlds():
    """Eight worlds of 100 agents end together; agent i of all has the return i."""
    stats = EpisodeStats(800, agents=[100])
    reward, finished = torch.zeros(4, 800), torch.zeros(4, 800, dtype=torch.bool)
    reward[-1], finished[-1] = torch.arange(800.0), True
    assert stats.update(reward, finished, torch.ones_like(finished)).tolist() == [399.5, 4.0, 399.5, 4.0]


def test_saved_episodes_of_single_agents_go_on():
    """Older versions stored the last episodes of agents; those of worlds of one agent are the same."""
    stats, older = EpisodeStats(5), EpisodeStats(5)
    first, second = rollouts(1, 7, (5,), 2)
    stats.update(*first)
    saved = stats.state_dict()
    saved["recent"] = saved["recent"][:2]
    renew_form(saved)
    older.load_state_dict(saved)
    assert older.update(*second).tolist() == stats.update(*second).tolist()


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


def test_rollouts_in_the_same_arrays_count_as_others_do():
    """A run writes each rollout to the same arrays, whose calls are made once."""
    stats, plain, arrays = EpisodeStats(5), EpisodeStats(5), None
    for rollout in rollouts(3, 7, (5,), count=5):
        arrays = [x.clone() for x in rollout] if arrays is None else [x.copy_(y) for x, y in zip(arrays, rollout, strict=True)]
        want = plain.update(*rollout)
        assert torch.equal(stats.update(*arrays), want) and not want.isnan().any()


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


def reference(ended, counted, worlds, recent, num_recent):
    """The same as EpisodeStats, in operations on whole arrays: the means and the last episodes."""
    window, order = recent.shape[1], worlds.flatten().argsort(stable=True)
    by_world = torch.cat((ended, counted[None])).flatten(2)[..., order].unflatten(2, (worlds.max() + 1, -1)).double()
    sums = sum((torch.where(agent[2] > 0, agent, 0.0) for agent in by_world.unbind(-1)), torch.zeros(()))
    new = sums[:, sums[2] > 0].flip(1)
    held = torch.cat((new.float(), recent[:, :num_recent]), 1)[:, :window]
    means = torch.cat([x[:2].double().sum(1) / x[2].double().sum() for x in (new, held)]).float()
    return means, held


@pytest.mark.parametrize(
    ("steps", "shape", "agents"),
    [(1, (1,), [1]), (64, (64,), [1]), (33, (97,), [1]), (9, (400, 7), [7]), (1200, (450,), [1]), (1200, (450,), [2, 1]),
     (65, (64, 3), [3, 3])],
)  # fmt: skip
@pytest.mark.parametrize("p", [0.0, 0.0005, 0.01, 1.0])
@pytest.mark.parametrize("window", [1, 100, 300])
def test_statistics_equal_operations_on_whole_arrays(steps, shape, agents, p, window):
    """Tiles that are empty, full and not whole, more than one for a strand, and windows longer than a team is wide."""
    g, stats = torch.Generator().manual_seed(steps), EpisodeStats(shape, window, agents)
    running, worlds = torch.zeros(3, *shape), worlds_of(shape, agents)
    for _ in range(2):
        reward = torch.randn(steps, *shape, generator=g)
        finished, valid = (torch.rand(steps, *shape, generator=g) < share for share in (p, 0.9))
        finished = finished.flatten(1)[:, worlds]
        reward[~valid] = math.nan
        ended, counted = episode_sums(reward, valid, finished, running)
        means, held = reference(ended, counted, worlds, stats.recent.clone(), stats.num_recent.item())
        got = stats.update(reward, finished, valid)
        torch.testing.assert_close(got, means, rtol=1e-6, atol=1e-6, equal_nan=True)
        assert stats.num_recent == held.shape[1]
        assert torch.equal(stats.recent[:, : held.shape[1]], held)
