"""Actions from counters, compared with an independent implementation in double precision and with probabilities."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from counters import counters, expected_choices, words

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.train.policies.distributions import DiagonalGaussian, MultiCategorical
from gpu_vecenv.train.policies.draw import draw_choices, draw_normal, draw_uniform

HEADS = {
    "one of 2": [2],
    "one of 1": [1],
    "21 and 21": [21, 21],
    "one of 300": [300],
    "different sizes": [3, 1, 10, 2, 10, 7],
    "138 entries": [10] * 57 + [2] * 27 + [10] * 54,
    "larger than scratch": [3000, 3000],
}


def some_logits(rows, sizes, seed=0):
    return 2.0 * torch.randn(rows, sum(sizes), generator=torch.Generator().manual_seed(seed))


def some_mask(rows, sizes, seed=0):
    """Half of the choices, at least one an entry."""
    allowed = torch.rand(rows, sum(sizes), generator=torch.Generator().manual_seed(seed)) < 0.5
    for part in allowed.split(sizes, -1):
        part[:, seed % part.shape[1]] |= ~part.any(-1)
    return allowed


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def results(rows, entries, dtype):
    return torch.full((rows, entries), -1, dtype=dtype), torch.full((rows,), -1.0), torch.full((rows,), -1.0)


def test_given_arrays_are_written_and_returned():
    """Calls that repeat one of the same form take a shorter way, and other arrays or numbers change its arguments."""
    draw, sizes = counters(40, 3), [3, 2]
    mask, log_std = some_mask(120, sizes), torch.tensor([0.5, -1.0])
    ways = {
        torch.int32: lambda x, counter, out: draw_choices(x, sizes, counter, mask, out=out),
        torch.float32: lambda x, counter, out: draw_normal(x[:, :2].contiguous(), log_std, counter, out=out),
    }
    for dtype, drawn in ways.items():
        one, other = results(120, 2, dtype), results(120, 2, dtype)
        for seed, out in enumerate((None, one, one, other, one, None)):
            x = some_logits(120, sizes, seed)
            got = drawn(x, draw, out)
            assert out is None or all(a is b for a, b in zip(got, out, strict=True))
            assert same(got, drawn(x, replace(draw), None))
        for wrong in (results(119, 2, dtype), results(120, 1, dtype), results(120, 2, torch.int64)):
            with pytest.raises(ShapeError, match="out.action"):
                drawn(x, draw, wrong)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", HEADS.values(), ids=HEADS)
def test_choices_are_those_of_an_independent_implementation(sizes, masked):
    draw = counters(40, 3, seed=2**40 + 5, world_id=11, episode=3, t=9)
    logits = some_logits(120, sizes)
    mask = some_mask(120, sizes) if masked else torch.ones_like(logits, dtype=torch.bool)
    drawn = draw_choices(logits, sizes, draw, mask if masked else None)
    choice, distance, log_probs = expected_choices(draw, logits.numpy(), sizes, mask.numpy())
    assert drawn.action.dtype == torch.int32 and drawn.action.shape == (120, len(sizes))
    differs = drawn.action.numpy() != choice
    assert not differs[distance > 1e-6].any()
    assert differs.mean() < 1e-3
    first = np.cumsum([0, *sizes[:-1]])
    log_prob = np.take_along_axis(log_probs, first + drawn.action.numpy(), 1).sum(1)
    np.testing.assert_allclose(drawn.log_prob, log_prob, rtol=1e-6, atol=1e-6)
    with np.errstate(invalid="ignore"):
        entropy = -np.nansum(np.exp(log_probs) * log_probs, 1)
    np.testing.assert_allclose(drawn.entropy, entropy, rtol=1e-6, atol=1e-6)


def test_normal_numbers_are_those_of_an_independent_implementation():
    draw = counters(50, 2, seed=3, t=4)
    mean, log_std = torch.randn(100, 5), torch.tensor([-3.0, -1.0, 0.0, 0.5, 2.0])
    drawn = draw_normal(mean, log_std, draw)
    u = (words(draw, 5).reshape(100, -1) >> np.uint64(8)).astype(np.float64) / 2**24
    pairs = np.arange(5) // 2 * 2
    radius, angle = np.sqrt(-2 * np.log1p(-u[:, pairs])), 2 * np.pi * u[:, pairs + 1]
    noise = radius * np.where(np.arange(5) % 2, np.sin(angle), np.cos(angle))
    np.testing.assert_allclose(drawn.action, mean.numpy() + np.exp(log_std.double().numpy()) * noise, rtol=1e-5, atol=1e-5)
    reference = torch.distributions.Normal(mean.double(), log_std.double().exp())
    np.testing.assert_allclose(drawn.log_prob, reference.log_prob(drawn.action.double()).sum(-1), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(drawn.entropy, reference.entropy().sum(-1), rtol=1e-6)
    assert torch.equal(draw_normal(mean, log_std, draw, deterministic=True).action, mean)


def test_uniform_numbers_are_those_of_an_independent_implementation():
    draw = counters(50, 2, seed=3, t=4)
    low, high = torch.tensor([-1.0, 0.0, 5.0, -3e38, 2.0]), torch.tensor([1.0, 10.0, 5.0, 3e38, 2.5])
    drawn = draw_uniform(low, high, draw)
    u = (words(draw, 5).reshape(100, -1)[:, :5] >> np.uint64(8)).astype(np.float64) / 2**24
    span = high.double() - low.double()
    errors = (drawn.action.double() - (low.double() + span * torch.from_numpy(u))).abs() / (high.double().abs() + span)
    assert errors.max() < 2e-7
    assert ((drawn.action >= low) & (drawn.action <= high)).all()
    entropy = torch.log(span[span > 0]).sum()
    np.testing.assert_allclose(drawn.entropy, entropy.expand(100), rtol=1e-6)
    np.testing.assert_allclose(drawn.log_prob, -entropy.expand(100), rtol=1e-6)


@pytest.mark.parametrize("sizes", HEADS.values(), ids=HEADS)
def test_the_likeliest_choice_and_values_with_gradients(sizes):
    logits, mask = some_logits(64, sizes), some_mask(64, sizes)
    draw = counters(64, 1)
    with_gradients = MultiCategorical(logits.requires_grad_(), sizes, mask)
    likeliest = draw_choices(logits, sizes, draw, mask, deterministic=True)
    assert torch.equal(likeliest.action.long(), with_gradients.mode())
    for drawn in (likeliest, draw_choices(logits, sizes, draw, mask)):
        assert not drawn.log_prob.requires_grad
        torch.testing.assert_close(drawn.log_prob, with_gradients.log_prob(drawn.action), rtol=1e-6, atol=1e-6, check_dtype=True)
        torch.testing.assert_close(drawn.entropy, with_gradients.entropy(), rtol=1e-6, atol=1e-6)


def test_normal_log_densities_are_those_with_gradients():
    mean, log_std = 100.0 * torch.randn(64, 3), torch.tensor([-5.0, 0.0, 1.0])
    drawn = draw_normal(mean, log_std, counters(64, 1))
    reference = DiagonalGaussian(mean, log_std)
    torch.testing.assert_close(drawn.log_prob, reference.log_prob(drawn.action), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(drawn.entropy, reference.entropy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("counter", ["seed", "world_id", "episode", "t", "agent"])
def test_every_counter_changes_the_draws(counter):
    """Choices of 100 differ in 99 of 100 rows; correlated draws would agree more often."""
    draw = counters(2000, 1)
    other = replace(draw, **{counter: getattr(draw, counter) + 1 if counter != "world_id" else draw.world_id + 5000})
    logits = torch.zeros(2000, 300)
    one, two = (draw_choices(logits, [100] * 3, each).action for each in (draw, other))
    assert 0.95 < (one != two).float().mean() < 1.0
    assert 0.95 < (one[:, 0] != one[:, 1]).float().mean() < 1.0


def test_draws_of_neighbours_are_independent():
    """Agents, steps, worlds and entries: the table of two draws is uniform."""
    sizes, rows = [6] * 9, 20_000
    logits = torch.zeros(rows, 54)
    draw = counters(rows // 4, 4)
    now, later = (draw_choices(logits, sizes, replace(draw, t=draw.t + step)).action for step in (0, 1))
    agents = now.unflatten(0, (-1, 4))
    pairs = {
        "steps": (now[:, 0], later[:, 0]),
        "agents": (agents[:, 0, 0], agents[:, 1, 0]),
        "worlds": (now[:-4, 0], now[4:, 0]),
        "entries": (now[:, 0], now[:, 1]),
        "entries of two draws": (now[:, 3], now[:, 4]),
    }
    for name, (one, two) in pairs.items():
        table = torch.bincount(6 * one + two, minlength=36).double()
        mean = len(one) / 36
        assert ((table - mean) ** 2 / mean).sum() < 85, name  # chi-square with 35 degrees of freedom: 4e-6


@pytest.mark.parametrize("masked", [False, True])
def test_frequencies_follow_the_probabilities(masked):
    logits = torch.tensor([0.0, 2.0, -3.0, 1.0, 0.5, -1.0])
    mask = torch.tensor([True, False, True, True, True, True]) if masked else torch.ones(6, dtype=torch.bool)
    rows = 200_000
    drawn = draw_choices(logits.expand(rows, 6), [6], counters(rows // 5, 5), mask.expand(rows, 6)).action[:, 0]
    p = torch.softmax(torch.where(mask, logits.double(), -torch.inf), 0)
    counts = torch.bincount(drawn, minlength=6).double()
    assert (counts[~mask] == 0).all()
    assert ((counts - rows * p)[mask] ** 2 / (rows * p)[mask]).sum() < 33  # 5 degrees of freedom: 4e-6


def test_normal_numbers_are_normal():
    noise = draw_normal(torch.zeros(50_000, 4), torch.zeros(4), counters(50_000, 1)).action.double()
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert ((noise**power).mean(0) - moment).abs().max() < (0.25 if power > 2 else 0.03)
    assert (torch.corrcoef(noise.T) - torch.eye(4)).abs().max() < 0.03
    edges = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]).double()
    below = (noise.flatten() < edges.unsqueeze(1)).double().mean(1)
    torch.testing.assert_close(below, torch.special.ndtr(edges), rtol=0, atol=0.006)


def test_extreme_logits():
    """Improbable choices at both ends are not drawn, and the probabilities of equal large logits are equal."""
    rows = 50_000
    draw = counters(rows, 1)
    middle = draw_choices(torch.tensor([-60.0, 0.0, -60.0]).expand(rows, 3), [3], draw)
    assert (middle.action == 1).all() and (middle.log_prob == 0).all()
    equal = draw_choices(torch.tensor([1e30, 1e30, -1e30]).expand(rows, 3), [3], draw)
    assert equal.action.max() == 1 and abs(equal.action.float().mean() - 0.5) < 0.01
    infinite = draw_choices(torch.tensor([-torch.inf, 0.0]).expand(rows, 2), [2], draw)
    assert (infinite.action == 1).all() and (infinite.entropy == 0).all()


def test_masks_of_some_entries_and_entries_without_a_choice():
    sizes, rows = [4, 5, 3], 3000
    mask = some_mask(rows, [3, 4])
    mask[::7, :3] = False  # the last entry has no allowed choice
    logits = some_logits(rows, sizes)
    draw = counters(rows, 1)
    drawn = draw_choices(logits, sizes, draw, mask, masked=(2, 0))
    closed = torch.zeros(rows, dtype=torch.bool)
    closed[::7] = True
    last, first = drawn.action[:, 2].long(), drawn.action[:, 0].long()
    assert (last[closed] == 0).all()
    assert mask[:, :3].gather(1, last.unsqueeze(1)).squeeze(1)[~closed].all()
    assert mask[:, 3:].gather(1, first.unsqueeze(1)).all()
    assert len(drawn.action[:, 1].unique()) == 5
    reference = MultiCategorical(logits, sizes, mask, masked=(2, 0))
    torch.testing.assert_close(drawn.log_prob, reference.log_prob(drawn.action), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(drawn.entropy, reference.entropy(), rtol=1e-6, atol=1e-6)


def test_nan_is_seen_in_the_log_probability_alone():
    logits = some_logits(50, [4, 4])
    logits[7, 2], logits[9] = torch.nan, torch.nan
    drawn = draw_choices(logits, [4, 4], counters(50, 1))
    assert ((drawn.action >= 0) & (drawn.action < 4)).all()
    assert drawn.log_prob.isnan().nonzero().flatten().tolist() == [7, 9]


@pytest.mark.parametrize("size", [6, 3000])
def test_infinite_logits_give_indices_that_are_allowed(size):
    """A size is staged, the other one is not."""
    mask = torch.zeros(20, 2 * size, dtype=torch.bool)
    mask[:, 4], mask[:, size + 2], mask[:, size + 3] = True, True, True
    logits = some_logits(20, [size, size])
    logits[:, 4], logits[:, size + 3] = -torch.inf, torch.inf
    drawn = draw_choices(logits, [size, size], counters(20, 1), mask)
    assert (drawn.action == torch.tensor([4, 3])).all()
    assert drawn.log_prob.isnan().all()


def chosen(draw, rows):
    """The counters of some rows."""
    return replace(draw, world=draw.world[rows].contiguous(), agent=draw.agent[rows].contiguous())


def test_the_action_of_a_row_does_not_depend_on_its_batch():
    sizes = [21, 21]
    draw, logits, mask = counters(50, 6), some_logits(300, sizes), some_mask(300, sizes)
    whole = draw_choices(logits, sizes, draw, mask)
    for rows in (torch.randperm(300), torch.tensor([17]), torch.arange(100, 200)):
        part = draw_choices(logits[rows], sizes, chosen(draw, rows), mask[rows])
        assert same(part, (each[rows] for each in whole))
    samples = draw_choices(
        logits.unflatten(0, (50, 6)), sizes, replace(draw, world=draw.world.view(50, 6), agent=draw.agent.view(50, 6)),
        mask.unflatten(0, (50, 6)),
    )  # fmt: skip
    assert samples.action.shape == (50, 6, 2) and samples.log_prob.shape == (50, 6)
    assert same((each.flatten(0, 1) for each in samples), whole)


def test_no_rows_give_no_actions():
    empty = chosen(counters(3, 1), torch.arange(0))
    assert draw_choices(torch.zeros(0, 4), [4], empty).action.shape == (0, 1)


def test_wrong_tensors_are_refused():
    draw, logits = counters(4, 2), torch.zeros(8, 5)
    with pytest.raises(ShapeError, match=r"logits must have shape \(8, 6\), got \(8, 5\)"):
        draw_choices(logits, [6], draw)
    with pytest.raises(ShapeError, match=r"mask must have shape \(8, 2\)"):
        draw_choices(logits, [3, 2], draw, torch.ones(8, 5, dtype=torch.bool), masked=(1,))
    with pytest.raises(ArrayTypeError, match="mask must be torch.bool"):
        draw_choices(logits, [5], draw, torch.ones(8, 5))
    with pytest.raises(ArrayTypeError, match="logits must be torch.float32"):
        draw_choices(logits.double(), [5], draw)
    with pytest.raises(ArrayTypeError, match=r"draw.world must be torch.int32"):
        draw_choices(logits, [5], replace(draw, world=draw.world.long()))
    with pytest.raises(ShapeError, match=r"draw.agent must have shape \(8,\)"):
        draw_choices(logits, [5], replace(draw, agent=draw.agent[:7]))
    with pytest.raises(ParameterError, match="sizes of at least 1"):
        draw_choices(logits, [5, 0], draw)
    with pytest.raises(ParameterError, match="masked must hold different numbers below 1"):
        draw_choices(logits, [5], draw, masked=(1,))
    with pytest.raises(ShapeError, match=r"log_std must have shape \(5,\)"):
        draw_normal(logits, torch.zeros(4), draw)


def test_the_counters_are_all_that_a_draw_holds():
    """A counter that is added must be added to the kernel, too."""
    assert [field.name for field in fields(counters(1, 1))] == ["seed", "world_id", "episode", "t", "world", "agent", "out"]
