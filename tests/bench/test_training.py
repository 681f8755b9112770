"""Training in ``gpu-vecenv bench``: subjects train as they say, goals end where the return is reached, and peers learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gpu_vecenv.bench import goals, training
from gpu_vecenv.bench.peers.purejaxrl import updates_to
from gpu_vecenv.bench.peers.torch_graph import GAMMA, LAMBDA, Loop
from gpu_vecenv.bench.run import measure
from gpu_vecenv.bench.settings import GOALS, SETTINGS, Goal, Setting
from gpu_vecenv.bench.training import Iterations, RunsInTurn
from gpu_vecenv.cli.bench import groups, samples
from gpu_vecenv.train import PPOConfig, Trainer

SMALL = Setting("WarpCartPole-v1", 4, ppo=PPOConfig(num_steps=3, num_epochs=1, num_minibatches=2))
GOAL = Goal("WarpCartPole-v1", 8, ppo=PPOConfig(num_steps=16), title="preset", goal=12.0, seeds=2, total_steps=100_000)


def test_a_sample_is_whole_iterations_of_the_run():
    trainer = Trainer(SMALL.config("cpu", 1), quiet=True)
    alone = Trainer(SMALL.config("cpu", 1), quiet=True)
    Iterations(trainer).read(5)
    alone.train(iterations=5)
    assert trainer.iteration == alone.iteration == 5
    for a, b in zip(*(next(iter(each.policies.values())).parameters() for each in (trainer, alone)), strict=True):
        assert torch.equal(a, b)
    trainer.close()
    alone.close()


def test_a_signal_that_ends_the_training_ends_the_benchmark():
    trainer = Trainer(replace(SMALL.config("cpu", 1), total_steps=24), quiet=True)
    with pytest.raises(KeyboardInterrupt):
        training.run_iterations(trainer, 3)  # the run has two
    trainer.close()


def test_runs_side_by_side_have_their_own_seeds_and_equal_numbers_of_iterations():
    timed = RunsInTurn([SMALL.config("cpu", 1, seed=seed) for seed in range(3)], "cpu")
    before = [run.trainer.iteration for run in timed.runs]
    assert timed.read(7).seconds > 0
    assert [run.trainer.iteration for run in timed.runs] == [number + 7 for number in before]
    assert [run.trainer.config.seed for run in timed.runs] == [0, 1, 2]
    timed.close()
    assert all(run.trainer is None for run in timed.runs)


def test_rows_name_their_setting():
    rows = measure(SMALL, "training", training.ways(SMALL, "cpu"), "cpu", {}, 1, 1e-4)
    assert [row["path"] for row in rows] == ["fused", "eager"]
    for row in rows:
        assert (row["num_steps"], row["num_epochs"], row["num_minibatches"]) == (3, 1, 2)
        assert row["hidden_sizes"] == [64, 64] and row["env_steps_per_s"] == pytest.approx(4 / row["median_s"])
        assert row["steps_per_sample"] % 3 == 0


@pytest.mark.parametrize("table", [SETTINGS, GOALS])
def test_cases_list_ways_that_exist_and_have_unique_names(table):
    for case in table["cuda"]:
        made = goals.ways(case, "cuda:0") if isinstance(case, Goal) else training.ways(case, "cuda:0")
        assert case.only and set(case.only) <= set(made)
    assert len({case.name for case in table["cuda"]}) == len(table["cuda"])
    assert all(case.only == () for case in table["cpu"])


def test_a_way_that_falls_back_to_another_has_an_error():
    trainer = Trainer(SMALL.config("cpu", 1), quiet=True)
    training.require_way(trainer)
    trainer.parts.not_fused["agent"] = "it is wide"
    with pytest.raises(training.GpuVecenvError, match="'agent' has no fused kernels: it is wide"):
        training.require_way(trainer)
    trainer.close()


def test_each_sample_of_a_goal_is_another_seed_that_ends_where_the_return_is_reached():
    row, _ = measure(GOAL, "goal", goals.ways(GOAL, "cpu"), "cpu", {}, *samples(GOAL, "goal", 5, 0.1))
    assert len(row["seconds_by_seed"]) == len(row["iterations"]) == len(row["evaluated"]) == 2
    assert row["median_s"] == pytest.approx(np.median(row["seconds_by_seed"])) and "env_steps_per_s" not in row
    assert row["reached"] == 2
    for seed, iterations in enumerate(row["iterations"]):
        trainer = Trainer(GOAL.config("cpu", 1, seed=seed, schedule_steps=GOAL.total_steps), quiet=True)
        means = [trainer.train(iterations=1)["recent_return/agent"] for _ in range(iterations)]
        assert means[-1] >= GOAL.goal and not any(mean >= GOAL.goal for mean in means[:-1])
        assert row["evaluated"][seed] == goals.evaluated(trainer)
        trainer.close()


@pytest.mark.slow
def test_a_seed_that_misses_the_goal_counts_with_its_whole_run():
    far = replace(GOAL, goal=501.0, total_steps=1_000)
    row, _ = measure(far, "goal", goals.ways(far, "cpu"), "cpu", {}, *samples(far, "goal", 5, 0.1))
    assert row["reached"] == 0 and row["iterations"] == [8, 8]  # 8 iterations of 8 x 16 steps are the first 1,000


def test_the_mode_goal_has_cases_on_the_cpu():
    ((case, made),) = groups("goal", "cpu", "cpu", (), ())
    assert case.title == "preset" and list(made) == ["fused", "eager"]


def test_the_updates_to_a_goal_are_counted_over_the_last_hundred_episodes():
    random = np.random.default_rng(0)
    returns = np.linspace(0, 500, 40)[:, None, None] + random.uniform(-50, 50, (40, 5, 6))
    ended = random.random((40, 5, 6)) < 0.3
    wanted = None
    for update in reversed(range(40)):
        last = [returns[u][ended[u]] for u in range(update + 1)]
        recent = np.concatenate(last)[-100:]
        if len(recent) == 100 and recent.mean() >= 300:
            wanted = update + 1
    assert wanted is not None and updates_to(300, returns, ended) == wanted
    assert updates_to(600, returns, ended) is None
    assert updates_to(-1e9, returns[:1], ended[:1]) is None  # fewer than a hundred episodes


@pytest.mark.slow
def test_the_plain_loop_learns():
    torch.manual_seed(0)
    loop = Loop("cpu", 32, [32, 32], steps=32, epochs=4, minibatches=4, rate=3e-3)
    ends = []
    for _ in range(24):
        loop()
        ends.append(int(loop.done.sum()))
    loop.env.close()
    assert sum(ends[-4:]) < 0.5 * sum(ends[:4])


def test_advantages_of_the_plain_loop_are_sums_of_errors_up_to_the_end_of_an_episode():
    loop = Loop("cpu", 2, [8], steps=4, epochs=1, minibatches=1, rate=1e-3)
    loop()
    loop.done.zero_()
    loop.done[0, 1, 0] = True
    values = torch.arange(10.0).view(5, 2)
    errors = loop.reward + GAMMA * values[1:] - values[:-1]
    errors[1, 0] -= GAMMA * values[2, 0]
    weight = GAMMA * LAMBDA
    made = loop._advantages(values)
    loop.env.close()
    assert made[0, 0] == pytest.approx(float(errors[0, 0] + weight * errors[1, 0]))
    assert made[0, 1] == pytest.approx(float(sum(weight**t * errors[t, 1] for t in range(4))))
