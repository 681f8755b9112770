"""The search for sizes of a run: its grid by brute force over all numbers, and its result by brute force over the grid.

The times are those of a model with a clock of its own, so nothing is measured.
"""

import dataclasses
import math
import random

import pytest

from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.train.config import AutoSizes
from gpu_vecenv.train.errors import ConfigError, NonFiniteError
from gpu_vecenv.train.runner.size_grid import Grid, Place, Reference, Sizes
from gpu_vecenv.train.runner.size_search import Search, Trial, chosen

CARTPOLE = Reference(Sizes(512, 64, 4), 1_000_000, 16.8)
TAG = Reference(Sizes(8, 50, 8), 50_000, 12.8)


def bytes_of(sizes):
    """A memory model: arrays of the rollout, and of a minibatch."""
    return 10_000 + 40 * sizes.batch + 900 * math.ceil(sizes.batch / sizes.num_minibatches)


def grid_of(reference=CARTPOLE, total_steps=None, room=None, **bounds):
    return Grid(AutoSizes(**bounds), reference, total_steps or reference.total_steps, bytes_of, room)


def all_sizes(grid):
    return [grid.at(place) for place in grid.places()]


class Machine:
    """A device whose iterations take the time of a formula, and the clock that they move."""

    def __init__(self, launch, step, row, epoch, minibatch, capacity=math.inf, noise=0.0, seed=0):
        self.parts, self.capacity, self.noise = (launch, step, row, epoch, minibatch), capacity, noise
        self.random, self.time, self.tried = random.Random(seed), 0.0, []

    def iteration(self, sizes):
        """A step takes as long for few worlds as for ``capacity`` ones, as on a GPU."""
        launch, step, row, epoch, minibatch = self.parts
        waves = max(1.0, sizes.num_envs / self.capacity) if self.capacity < math.inf else 1.0
        rollout = sizes.num_steps * (step * waves + row * sizes.num_envs)
        return launch + rollout + 4 * (epoch * sizes.batch + minibatch * sizes.num_minibatches)

    def rate(self, sizes):
        return sizes.batch / self.iteration(sizes)

    def __call__(self, sizes):
        self.tried.append(sizes)
        self.time += self.seconds(self.iteration(sizes))
        return self.rate(sizes) * self.random.uniform(1 - self.noise, 1)

    def seconds(self, iteration):
        return 0.2 + max(0.3, 2 * iteration)

    def now(self):
        return self.time


def machines(count, noise=0.0):
    draw = random.Random(1)
    for seed in range(count):
        parts = (10 ** draw.uniform(low, high) for low, high in ((-5, -2), (-6, -3), (-9, -6), (-9, -6), (-6, -3)))
        yield Machine(*parts, capacity=draw.choice([math.inf, 64, 4096]), noise=noise, seed=seed)


@pytest.mark.parametrize("reference", [CARTPOLE, TAG], ids=["cartpole", "tag"])
@pytest.mark.parametrize("longer", [0.2, 1, 30, 1000])
def test_the_search_is_within_a_tenth_of_brute_force(reference, longer):
    grid = grid_of(reference, int(longer * reference.total_steps), room=2_000_000_000)
    for machine in machines(40, noise=0.02):
        found = Search(grid, machine, 1e9, machine.now).run()
        best = max(machine.rate(sizes) for sizes in all_sizes(grid) if grid.fits(sizes))
        assert machine.rate(found) >= 0.9 * best, (machine.parts, found, max(all_sizes(grid), key=machine.rate))
        assert len(set(machine.tried)) <= 40


def test_the_search_ends_in_time_with_the_best_of_its_trials():
    for machine in machines(40):
        search = Search(grid_of(total_steps=10**9), machine, 5.0, machine.now)
        found = search.run()
        first = machine.seconds(machine.iteration(machine.tried[0]))
        assert machine.time <= max(5.5, first + 3.0)  # a trial that is slower than those before it ends late
        assert machine.rate(found) >= 0.97 * max(map(machine.rate, machine.tried))


def test_half_of_the_time_is_left_after_a_first_trial_that_compiles_kernels():
    grid = grid_of(total_steps=10**9)

    class Cold(Machine):
        """A device whose first trial takes 19 seconds longer."""

        def __call__(self, sizes):
            self.time += 0.0 if self.tried else 19.0
            return super().__call__(sizes)

    cold = Cold(1e-3, 1e-6, 1e-7, 1e-7, 1e-3)
    first = grid.at(grid.start())
    found = Search(grid, cold, 20.0, cold.now).run()
    assert 20.0 < cold.time <= 19.0 + 10.5 + cold.seconds(cold.iteration(first)) and len(cold.tried) > 5
    assert cold.rate(found) > 1.1 * cold.rate(first)


def test_sizes_that_would_take_too_long_are_counted_and_not_tried():
    machine = Machine(1e-3, 1e-6, 1e-7, 1e-7, 1e-3)
    search = Search(grid_of(total_steps=10**10), machine, 3.0, machine.now)
    search.run()
    assert search.skipped > 0 and all(sizes.batch < 10**7 for sizes in machine.tried)
    assert search.skipped == len(search._late - set(machine.tried))


@pytest.mark.parametrize("reference", [CARTPOLE, TAG], ids=["cartpole", "tag"])
@pytest.mark.parametrize("total_steps", [7_000_000, 77_000_001])
def test_all_sizes_keep_updates_optimiser_steps_memory_and_bounds(reference, total_steps):
    grid = grid_of(reference, total_steps, room=300_000_000)
    needed = reference.sizes.num_minibatches * math.ceil(reference.total_steps / reference.sizes.batch)
    fitting = [sizes for sizes in all_sizes(grid) if bytes_of(sizes) <= 300_000_000]
    assert len(fitting) >= 2
    for worlds, length, minibatches in fitting:
        updates = math.ceil(total_steps / (worlds * length))
        assert updates >= 200 and worlds * length >= reference.sizes.batch
        assert minibatches * updates >= needed or minibatches == worlds * length
        assert minibatches / 4 <= max(1, math.ceil(needed / updates))
        assert reference.horizon <= length <= reference.sizes.num_steps


@pytest.mark.parametrize("total_steps", [2_000, 50_000])
def test_worlds_that_the_caller_bounds_take_the_place_of_the_rule_for_short_runs(total_steps):
    """Such a run keeps the reference's length of a rollout, and the same share of its optimiser steps."""
    needed = 1_000 * total_steps / TAG.total_steps
    allowed = all_sizes(grid_of(TAG, total_steps, num_envs=(1, 64), min_updates=40))
    assert len(allowed) >= 2 and {sizes.num_steps for sizes in allowed} == {50}
    for sizes in allowed:
        updates = math.ceil(total_steps / sizes.batch)
        assert updates >= 40 and sizes.num_minibatches * updates >= needed


@pytest.mark.parametrize("reference", [CARTPOLE, TAG], ids=["cartpole", "tag"])
def test_a_run_too_short_for_updates_with_rollouts_of_the_reference_keeps_its_sizes(reference):
    enough = 200 * reference.sizes.num_envs * reference.sizes.num_steps
    for total_steps in (1, 1_000, reference.total_steps, enough - 1):
        grid = grid_of(reference, total_steps)
        assert grid.keeps_reference and all_sizes(grid) == [reference.sizes]
    grid = grid_of(reference, enough)
    assert not grid.keeps_reference and len(all_sizes(grid)) >= 2
    assert {sizes.batch for sizes in all_sizes(grid)} == {reference.sizes.batch}


def test_bounds_with_the_sizes_of_the_reference_keep_them_in_a_short_run():
    for bounds in ({"num_envs": (8, 64)}, {"num_steps": (20, 50)}, {"num_minibatches": (8, 8)}):
        assert all_sizes(grid_of(TAG, **bounds)) == [TAG.sizes]


def test_sizes_of_the_reference_are_kept_if_others_do_not_fit_into_memory():
    """A long run has optimiser steps enough with one minibatch, which is larger than the reference's four."""
    least = bytes_of(CARTPOLE.sizes._replace(num_minibatches=1))
    assert all_sizes(grid_of(total_steps=10**8, room=least - 1)) == [CARTPOLE.sizes]
    assert {sizes.num_minibatches for sizes in all_sizes(grid_of(total_steps=10**8, room=least))} >= {1}


@pytest.mark.parametrize("worlds", [15, 18, 21])
def test_worlds_need_not_be_a_multiple_of_four_to_be_as_many_as_those_of_the_reference(worlds):
    reference = dataclasses.replace(TAG, sizes=Sizes(worlds, 50, 8))
    assert {sizes.num_envs for sizes in all_sizes(grid_of(reference, 200 * 50 * worlds, num_steps=(50, 50)))} == {worlds}


def test_the_most_worlds_are_the_most_that_fit_into_memory_and_updates():
    """Beside all numbers of worlds, tried one by one."""
    reference = dataclasses.replace(CARTPOLE, sizes=Sizes(16, 64, 4))
    for total_steps, room in ((2 * 10**6, 10**12), (10**8, 20_000_000), (10**7, 3_000_000)):
        grid = grid_of(reference, total_steps, room)
        for length in (64, 32):
            most = max(sizes.num_envs for sizes in all_sizes(grid) if sizes.num_steps == length)
            least = min(sizes.num_minibatches for sizes in all_sizes(grid) if sizes[:2] == (most, length))
            tried = [Sizes(worlds, length, least) for worlds in range(1, most + 4_000)]
            fitting = [x.num_envs for x in tried if bytes_of(x) <= room and total_steps // x.batch >= 200]
            assert most in fitting
            assert 0.95 * max(fitting) <= most


def test_bounds_of_the_caller_hold():
    grid = grid_of(total_steps=10**8, num_envs=(100, 400), num_steps=(5, 40), num_minibatches=(3, 12))
    found = all_sizes(grid)
    assert {sizes.num_steps for sizes in found} == {40, 20, 10, 5}
    assert {sizes.num_minibatches for sizes in found} == {3, 6, 12}
    assert {sizes.num_envs for sizes in found} == {400, 200, 100}


def test_equal_bounds_keep_the_sizes():
    grid = grid_of(total_steps=10**8, num_envs=(48, 48), num_steps=(20, 20), num_minibatches=(5, 5))
    assert all_sizes(grid) == [Sizes(48, 20, 5)]


def test_an_infinite_horizon_keeps_the_length_of_a_rollout():
    grid = grid_of(dataclasses.replace(CARTPOLE, horizon=math.inf), 10**8)
    assert {sizes.num_steps for sizes in all_sizes(grid)} == {64}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"total_steps": 100, "num_envs": (1, 8)}, "at most 0 steps in a rollout"),
        ({"total_steps": 10**6, "num_steps": (5, 40)}, "at most 5,000 steps in .* at least 32,768 as in the preset"),
        ({"total_steps": 10**6, "num_envs": (1000, 2000)}, "200 updates"),
        ({"total_steps": 10**6, "room": 9_000}, "at most 0.0 MB"),
    ],
)
def test_bounds_without_sizes_are_refused(options, expected):
    with pytest.raises(ConfigError, match=expected):
        grid_of(**options)


def test_the_start_is_the_reference_if_it_fits():
    grid = grid_of(total_steps=512 * 64 * 200)
    assert grid.at(grid.start())[:2] == (512, 64)
    assert grid_of(TAG).at(grid_of(TAG).start()) == TAG.sizes


class Failing(Machine):
    """A machine on which some sizes fail."""

    def __init__(self, error, fails):
        super().__init__(1e-3, 1e-5, 1e-8, 1e-8, 1e-5)
        self.error, self.fails = error, fails

    def __call__(self, sizes):
        rate = super().__call__(sizes)
        if self.fails(sizes):
            raise self.error
        return rate


@pytest.mark.parametrize("error", [OutOfMemoryError("no memory"), NonFiniteError("nan"), ConfigError("misfit")])
def test_sizes_that_fail_are_named_and_not_taken(error):
    machine = Failing(error, lambda sizes: sizes.num_envs > 2_000)
    search = Search(grid_of(total_steps=10**9), machine, 1e9, machine.now)
    assert search.run().num_envs <= 2_000
    (failed, *_) = [trial for trial in search.trials if trial.sizes.num_envs > 2_000]
    assert failed.rate == 0 and failed.note == f"{type(error).__name__}: {error}"


def test_a_start_that_does_not_fit_leads_to_fewer_worlds():
    machine = Failing(OutOfMemoryError("no memory"), lambda sizes: sizes.num_envs > 100)
    assert 50 <= Search(grid_of(total_steps=10**9, num_envs=(1, 9999)), machine, 1e9, machine.now).run().num_envs <= 100
    nothing = Failing(OutOfMemoryError("no memory"), lambda sizes: True)
    with pytest.raises(OutOfMemoryError, match="no memory"):
        Search(grid_of(), nothing, 1e9, nothing.now).run()


def test_an_error_of_the_options_in_the_first_trial_is_raised():
    machine = Failing(ConfigError("misfit"), lambda sizes: True)
    with pytest.raises(ConfigError, match="misfit"):
        Search(grid_of(), machine, 1e9, machine.now).run()


def test_among_equally_fast_sizes_those_with_the_most_updates_are_taken():
    rates = {Sizes(64, 64, 1): 98.0, Sizes(32, 64, 1): 96.9, Sizes(128, 64, 1): 100.0, Sizes(64, 32, 1): 97.5}
    trials = [Trial(sizes, rate) for sizes, rate in rates.items()]
    assert chosen(trials, 10**6) == Sizes(64, 32, 1)


def test_finalists_are_measured_twice_and_the_mean_counts():
    machine = Machine(1e-3, 1e-5, 1e-8, 1e-8, 1e-5, noise=0.5, seed=3)
    search = Search(grid_of(total_steps=10**8), machine, 1e9, machine.now)
    search.run()
    twice = [sizes for sizes in set(machine.tried) if machine.tried.count(sizes) == 2]
    assert len(twice) == 3
    replayed, rates = Machine(1e-3, 1e-5, 1e-8, 1e-8, 1e-5, noise=0.5, seed=3), {}
    for sizes in machine.tried:
        rates.setdefault(sizes, []).append(replayed(sizes))
    for trial in search.trials:
        assert trial.rate == pytest.approx(sum(rates[trial.sizes]) / len(rates[trial.sizes]))


def test_places_beyond_the_grid_have_no_sizes():
    grid = grid_of()
    assert all(grid.at(place) is None for place in (Place(-1, 0, 0), Place(0, 99, 0), Place(9, 0, 0), Place(0, 0, 9)))
