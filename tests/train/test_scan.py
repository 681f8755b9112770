"""Recurrences over the steps of a rollout, compared with loops in Python's floats."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpu_vecenv.errors import ArrayTypeError, DeviceError, ShapeError
from gpu_vecenv.train.returns.scan import TILE, advantages, discounted_returns, episode_sums

NUMBERS = st.floats(-8, 8, width=32)
DECAYS = st.sampled_from([0.0, 0.5, 0.99, 1.0])
ANY = st.sampled_from([1.0, -2.0, math.nan, math.inf])
FLAGS = st.tuples(st.booleans(), st.booleans(), st.booleans())


def column(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def slow_advantages(reward, value, final, valid, episode_end, timed_out, gamma, decay):
    """The recurrence of one row, from the last step to the first."""
    found, after = [], 0.0
    for t in reversed(range(len(reward))):
        following = final[t] if timed_out[t] else 0.0 if episode_end[t] else value[t + 1]
        delta = reward[t] + gamma * following - value[t] if valid[t] else 0.0
        after = delta if episode_end[t] or decay == 0.0 else delta + decay * after
        found.append(after)
    return found[::-1]


def slow_returns(reward, valid, episode_end, gamma, before):
    """The recurrence of one row, and the sum that the next rollout goes on from."""
    found = []
    for t in range(len(reward)):
        term = reward[t] if valid[t] else 0.0
        found.append(term if gamma == 0.0 or before is None else term + gamma * before)
        before = None if episode_end[t] or not valid[t] else found[-1]
    return found, before or 0.0


def slow_episodes(reward, valid, ended, before):
    """Sums of one row, flags of finished episodes, and the sums that the next rollout goes on from."""
    found, now = [], list(before)
    for t in range(len(reward)):
        now = [now[0] + (reward[t] if valid[t] else 0.0), now[1] + 1.0, now[2] + valid[t]]
        found.append((now[0], now[1], ended[t] and now[2] > 0.0))
        now = [0.0, 0.0, 0.0] if ended[t] else now
    return found, now


def assert_near(got, want):
    """Assert that finite numbers are near, and that others are others."""
    got, want = np.array(got.tolist()), np.array(want, dtype=np.float64)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("numbers", [NUMBERS, ANY], ids=["numbers", "any"])
def test_advantages_equal_the_recurrence(numbers):
    @given(steps=st.lists(st.tuples(numbers, numbers, numbers, FLAGS), min_size=1, max_size=40), last=numbers, decay=DECAYS)
    def check(steps, last, decay):
        reward, value, final, flags = zip(*steps, strict=True)
        valid, episode_end, timed_out = zip(*flags, strict=True)
        value = (*value, last)
        masks = (column(x, torch.bool) for x in (valid, episode_end, timed_out))
        got = advantages(*(column(x) for x in (reward, value, final)), masks, 0.9, decay)
        want = slow_advantages(reward, value, final, valid, episode_end, timed_out, 0.9, decay)
        assert_near(got.advantage[:, 0], want)
        values = [x if counts else 0.0 for x, counts in zip(value, valid, strict=False)]
        assert_near(got.value[:, 0], values)
        assert_near(got.target[:, 0], [x + y for x, y in zip(want, values, strict=True)])

    check()


@pytest.mark.parametrize("numbers", [NUMBERS, ANY], ids=["numbers", "any"])
def test_returns_equal_the_recurrence(numbers):
    @given(steps=st.lists(st.tuples(numbers, FLAGS), min_size=1, max_size=40), before=numbers, gamma=DECAYS)
    def check(steps, before, gamma):
        reward, flags = zip(*steps, strict=True)
        valid, episode_end, _ = zip(*flags, strict=True)
        running = torch.tensor([before])
        got = discounted_returns(column(reward), column(valid, torch.bool), column(episode_end, torch.bool), gamma, running)
        want, after = slow_returns(reward, valid, episode_end, gamma, before)
        assert_near(got[:, 0], want)
        assert_near(running, [after])

    check()


@given(steps=st.lists(st.tuples(NUMBERS, FLAGS), min_size=1, max_size=40), before=st.tuples(NUMBERS, *[st.integers(0, 2)] * 2))
def test_sums_of_episodes_equal_a_loop(steps, before):
    reward, flags = zip(*steps, strict=True)
    valid, ended, _ = zip(*flags, strict=True)
    running = column(before)
    sums, finished = episode_sums(column(reward), column(valid, torch.bool), column(ended, torch.bool), running)
    want, after = slow_episodes(reward, valid, ended, before)
    np.testing.assert_allclose(torch.cat((sums[..., 0], finished.t())).t(), want, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(running[:, 0], after, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [(1,), (TILE - 1,), (TILE,), (2 * TILE + 5,), (2, 3, 11)])
@pytest.mark.parametrize("steps", [1, 7, 8, 9, 33])
def test_rows_of_any_number_and_strides_do_not_depend_on_each_other(steps, rows):
    g = torch.Generator().manual_seed(0)
    wide = [torch.randn(2 * steps + 2, *rows, generator=g) for _ in range(3)]
    reward, value, final = wide[0][: 2 * steps : 2], wide[1][::2], wide[2][1 : 2 * steps : 2]  # every second step
    valid, episode_end, timed_out = (torch.rand(steps, *rows, generator=g) < 0.3 for _ in range(3))
    before = torch.randn(3, *rows, generator=g)
    running, sums = before[0].clone(), before.clone()
    got = advantages(reward, value, final, (valid, episode_end, timed_out), 0.9, 0.8).advantage
    returns = discounted_returns(reward, valid, episode_end, 0.9, running)
    totals, finished = episode_sums(reward, valid, episode_end, sums)
    for index in np.ndindex(*rows):
        def own(x, index=index):
            return x[:, *index].tolist()

        args = (own(x) for x in (reward, value, final, valid, episode_end, timed_out))
        np.testing.assert_allclose(own(got), slow_advantages(*args, 0.9, 0.8), rtol=1e-5, atol=1e-5)
        want, after = slow_returns(own(reward), own(valid), own(episode_end), 0.9, before[0][index].item())
        np.testing.assert_allclose([*own(returns), running[index]], [*want, after], rtol=1e-5, atol=1e-5)
        want, after = slow_episodes(own(reward), own(valid), own(episode_end), own(before))
        found = zip(own(totals[0]), own(totals[1]), own(finished), strict=True)
        np.testing.assert_allclose([*found, own(sums)], [*want, after], rtol=1e-5, atol=1e-5)


def test_arrays_that_do_not_fit_are_refused():
    reward, flag = torch.zeros(3, 2), torch.zeros(3, 2, dtype=torch.bool)
    with pytest.raises(ShapeError, match=r"value must have shape \(4, 2\), got \(3, 2\)"):
        advantages(reward, reward, None, (flag, flag, flag), 0.9, 0.8)
    with pytest.raises(ShapeError, match=r"running must have shape \(2,\), got \(3,\)"):
        discounted_returns(reward, flag, flag, 0.9, torch.zeros(3))
    with pytest.raises(ShapeError, match="at least one step"):
        discounted_returns(reward[:0], flag[:0], flag[:0], 0.9, torch.zeros(2))
    with pytest.raises(ShapeError, match="running must be contiguous"):
        discounted_returns(reward, flag, flag, 0.9, torch.zeros(4)[::2])
    with pytest.raises(ArrayTypeError, match="valid must be torch.bool, got torch.float32"):
        episode_sums(reward, reward, flag, torch.zeros(3, 2))
    with pytest.raises(DeviceError, match="episode_end must be on cpu, got meta"):
        episode_sums(reward, flag, flag.to("meta"), torch.zeros(3, 2))
    with pytest.raises(DeviceError, match="expected tensors on the CPU or on CUDA, got meta"):
        discounted_returns(*(x.to("meta") for x in (reward, flag, flag)), 0.9, torch.zeros(2, device="meta"))
