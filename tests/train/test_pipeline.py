"""Iterations in flight: their settings, order, metrics and errors, and the state that evaluations and checkpoints see."""

import contextlib
import dataclasses
import math
import os
import signal

import pytest
import role_envs  # noqa: F401  (registers Town-v0)
import torch
from ways import WAYS

from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train import Callback, NetworkConfig, PPOConfig, TrainConfig, Trainer, load_checkpoint
from gpu_vecenv.train.algorithms.schedules import scalars_at
from gpu_vecenv.train.config import SMALL_TAG
from gpu_vecenv.train.errors import NonFiniteError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.run_folder.metrics import read_metrics

MOVING = PPOConfig(num_steps=8, num_epochs=1, entropy_coef=0.2, entropy_coef_final=0.1, clip_coef=0.3, clip_coef_final=0.1)
CARTPOLE = TrainConfig(
    "WarpCartPole-v1", num_envs=4, total_steps=4 * 8 * 11, ppo=MOVING, network=NetworkConfig((8,)), device="cpu"
)
TAG = dataclasses.replace(
    SMALL_TAG, num_envs=8, total_steps=8 * 10 * 6, device="cpu", network=NetworkConfig((8,)),
    ppo=dataclasses.replace(SMALL_TAG.ppo, num_steps=10, num_epochs=1),
)  # fmt: skip
TOWN = TrainConfig(
    "Town-v0", num_envs=4, total_steps=4 * 8 * 6, ppo=MOVING, network=NetworkConfig((8,)), device="cpu",
    env_kwargs={"max_episode_steps": 20},
)  # fmt: skip


def state(trainer):
    """Return all tensors of a run by their place in its checkpoint."""
    found = {}

    def walk(x, name):
        if isinstance(x, dict):
            for key, part in x.items():
                walk(part, f"{name}/{key}")
        elif isinstance(x, torch.Tensor):
            found[name] = x.clone()

    walk(trainer.state_dict(), "")
    return found


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name, x in a.items():
        torch.testing.assert_close(x, b[name], rtol=0, atol=0, equal_nan=True, msg=name)


def without_rate(rows):
    return [{name: x for name, x in row.items() if name != "steps_per_second"} for row in rows]


class Rows:
    """Sink that keeps the metrics, and calls a function of the test."""

    def __init__(self, call=lambda metrics: None):
        self.rows, self.call = [], call

    def log(self, metrics):
        self.rows.append(dict(metrics))
        self.call(metrics)

    def flush(self):
        pass

    def close(self):
        pass


def settings(trainer, seen):
    """Append the settings of each update of the policy "agent" to ``seen``."""
    algorithm = trainer.parts.algorithms["agent"]
    update = algorithm.update

    def noted(samples, scalars):
        seen.append(torch.stack(list(scalars)))
        return update(samples, scalars)

    algorithm.update = noted


def test_each_iteration_has_the_settings_of_its_schedules(monkeypatch, tmp_path):
    """In several tables, in pieces of a run, and after it was resumed."""
    monkeypatch.setattr("gpu_vecenv.train.runner.schedule_table.TABLE_ROWS", 3)
    seen = []
    first = Trainer(CARTPOLE, quiet=True)
    first.pipeline.most = 2
    settings(first, seen)
    first.train(iterations=2)
    first.train(iterations=5)
    second = Trainer.resume(first.save(tmp_path / "run.pt"), quiet=True)
    settings(second, seen)
    second.train()
    want = [scalars_at(MOVING, 32 * iteration, CARTPOLE.total_steps) for iteration in range(11)]
    assert torch.equal(torch.stack(seen), torch.tensor(want))


def test_an_iteration_that_is_launched_again_has_its_own_settings():
    trainer, seen = Trainer(CARTPOLE, quiet=True), []
    settings(trainer, seen)
    for number in (0, 1, 5, 1):
        trainer.pipeline.launch(number)
        trainer.pipeline.finish()
    assert torch.equal(torch.stack(seen), torch.tensor([scalars_at(MOVING, number, 11) for number in (0, 1, 5, 1)]))


@pytest.mark.parametrize("config", [CARTPOLE, TAG, TOWN], ids=["cartpole", "tag", "town"])
def test_rows_and_state_do_not_depend_on_the_number_in_flight(config):
    runs, found = [], []
    for most in (1, 3, 16):
        sink = Rows()
        trainer = Trainer(config, quiet=True, sinks=[sink])
        trainer.pipeline.most = most
        trainer.train()
        runs.append(without_rate(sink.rows))
        found.append(state(trainer))
    assert [row["iteration"] for row in runs[0]] == list(range(1, trainer.num_iterations + 1))
    for rows, other in zip(runs[1:], found[1:], strict=True):
        assert all(a == pytest.approx(b, rel=0, abs=0, nan_ok=True) for a, b in zip(runs[0], rows, strict=True))
        assert_same(found[0], other)


def test_launches_and_finishes_of_the_caller_train_alike():
    runs = Trainer(CARTPOLE, quiet=True), Trainer(CARTPOLE, quiet=True)
    runs[0].train(iterations=6)
    runs[1].pipeline.most = 2
    runs[1].launch()
    for _ in range(5):
        runs[1].launch()
        runs[1].finish()
    with pytest.raises(SequenceError, match=r"expected no iteration in flight, got 1; call finish\(\)"):
        runs[1].save("never written")
    assert runs[1].finish()["iteration"] == 6
    assert_same(state(runs[0]), state(runs[1]))


def test_calls_at_the_wrong_time_raise_errors():
    trainer = Trainer(dataclasses.replace(CARTPOLE, evaluation_interval=2, evaluation_episodes=2), quiet=True)
    with pytest.raises(SequenceError, match=r"finish\(\): expected an iteration in flight, got none"):
        trainer.finish()
    trainer.launch()
    with pytest.raises(SequenceError, match="expected fewer than 1 iterations in flight"):
        trainer.launch()
    trainer.pipeline.most = 16
    trainer.launch()
    with pytest.raises(SequenceError, match="an evaluation follows the iterations in flight"):
        trainer.launch()
    assert ["evaluation/agent" in trainer.finish() for _ in range(2)] == [False, True]


def test_evaluations_and_checkpoints_wait_for_all_iterations(tmp_path):
    config = dataclasses.replace(CARTPOLE, out=str(tmp_path), checkpoint_interval=3, evaluation_interval=4, evaluation_episodes=2)
    calls = []
    with contextlib.closing(Trainer(config, quiet=True, sinks=[Rows(lambda row: calls.append(row["iteration"]))])) as trainer:
        trainer.pipeline.most = 16
        evaluate, save, launch = trainer.periodic_evaluation.evaluate, trainer.save, trainer.pipeline.launch

        def noted(name, call):
            return lambda *now: calls.append((name, trainer.iteration, trainer.pipeline.count)) or call(*now)

        trainer.periodic_evaluation.evaluate = lambda now: noted("evaluation", evaluate)(now) if now % 4 == 0 else {}
        trainer.save, trainer.pipeline.launch = noted("save", save), lambda n, *more: calls.append(-n - 1) or launch(n, *more)
        trainer.train()
    assert calls == [
        ("save", 0, 0), -1, -2, -3, 1, 2, 3, ("save", 3, 0), -4, ("evaluation", 4, 0), 4, -5, -6, 5, 6, ("save", 6, 0),
        -7, -8, 7, ("evaluation", 8, 0), 8, -9, 9, ("save", 9, 0), -10, -11, 10, 11, ("save", 11, 0),
    ]  # fmt: skip


def test_the_checkpoint_of_a_minute_waits_for_all_iterations(tmp_path, monkeypatch):
    def set_limit(seconds):
        monkeypatch.setattr("gpu_vecenv.train.runner.pipeline.CHECKPOINT_S", seconds)

    set_limit(1e9)
    sink = Rows(lambda row: row["iteration"] == 2 and set_limit(0.0))
    with contextlib.closing(Trainer(dataclasses.replace(CARTPOLE, out=str(tmp_path)), quiet=True, sinks=[sink])) as trainer:
        trainer.pipeline.most = 4
        saved, save = [], trainer.save
        trainer.save = lambda: (saved.append((trainer.iteration, trainer.pipeline.count)), set_limit(1e9), save())[-1]
        trainer.train()
    assert saved == [(0, 0), (5, 0), (11, 0)]  # iterations 3 to 5 were in flight when the minute had passed


def test_a_signal_finishes_and_saves_all_iterations_in_flight(tmp_path):
    sink = Rows(lambda row: row["iteration"] == 2 and os.kill(os.getpid(), signal.SIGTERM))
    with contextlib.closing(Trainer(dataclasses.replace(CARTPOLE, out=str(tmp_path)), quiet=True, sinks=[sink])) as trainer:
        trainer.pipeline.most = 4
        trainer.train()
        assert (trainer.iteration, trainer.pipeline.count) == (5, 0)
        assert [row["iteration"] for row in sink.rows] == [1, 2, 3, 4, 5]
        assert load_checkpoint(tmp_path)["iteration"] == 5
        assert [line["iteration"] for line in read_metrics(tmp_path)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("most", "said"), [(1, "reward of world 1, agent 0 in step 3"), (4, "seen 2 iterations later")])
def test_a_number_that_is_not_finite_stops_at_its_iteration(tmp_path, most, said):
    config = dataclasses.replace(CARTPOLE, out=str(tmp_path), checkpoint_interval=3)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.pipeline.most = most
        collector, count = trainer.parts.collector, 0
        collect = collector.collect

        def nonfinite():
            nonlocal count
            collect()
            count += 1
            if count == 4:
                collector.rollout.reward[3, 1] = math.nan

        collector.collect = nonfinite
        with pytest.raises(NonFiniteError, match=f"^iteration 4: policy 'agent': .*{said}"):
            trainer.train()
        assert (trainer.iteration, trainer.pipeline.count) == (3, 0)
        assert count == (4 if most == 1 else 6)
        assert checkpoint_path(tmp_path).name == "iteration-00000003.pt"
        assert [line["iteration"] for line in read_metrics(tmp_path)] == [1, 2, 3]


class Meddler(Callback):
    """Saves the run, copies worlds and starts new episodes, each after an iteration of its own."""

    def __init__(self, folder):
        self.folder = folder

    def on_iteration(self, trainer, metrics):
        if metrics["iteration"] == 3:
            trainer.save(self.folder / "meddler.pt")
        if metrics["iteration"] == 4:
            trainer.env.copy_worlds([0, 1], [3, 2])
        if metrics["iteration"] == 5:
            trainer.parts.collector.reset(9)


def from_the_end(iteration, first):
    """Run an iteration as a graph can replay it: slot T alone has what the next rollout begins with."""
    outputs, rollout = iteration.collector.env.worlds.outputs, iteration.collector.rollout
    assert iteration.collector.is_at_end and outputs.slot == rollout.num_steps
    for slabs in rollout.groups:
        for slab in slabs._saved_slabs().values():
            slab[:-1] = True if slab.dtype == torch.bool else math.nan
    if rollout.alive_next is not None:
        rollout.alive_start.fill_(False)
    return iteration.run(first)


@pytest.mark.parametrize("meddles", [False, True])
@pytest.mark.parametrize("config", [CARTPOLE, TAG, TOWN], ids=["cartpole", "tag", "town"])
def test_an_iteration_begins_with_the_last_slot_alone(config, meddles, tmp_path):
    found = []
    for executor in (None, from_the_end):
        trainer = Trainer(config, quiet=True, callbacks=[Meddler(tmp_path)] if meddles else [])
        trainer.pipeline.executor = executor or trainer.pipeline.executor
        trainer.train()
        found.append(state(trainer))
    assert_same(*found)
    trainer.env.reset(seed=3)
    assert not trainer.parts.collector.is_at_end


# Tag shows a runner that was caught once more, which observe() does not.
@pytest.mark.parametrize(
    ("config", "stagger"), [(CARTPOLE, False), (CARTPOLE, True), (TAG, False), (TOWN, False), (TOWN, True)]
)
def test_the_first_rollout_begins_with_what_the_env_shows(config, stagger):
    trainer = Trainer(dataclasses.replace(config, stagger_starts=stagger), quiet=True)
    for seed in (None, 7):
        if seed is not None:
            trainer.parts.collector.reset(seed)
        shown = trainer.env.observe()
        trainer.parts.collector.collect()
        for group, slabs in zip(trainer.env.layout.groups, trainer.parts.rollout.groups, strict=True):
            seen = shown[group.role] if group.role else shown
            own, shared = (seen["own"], seen["shared"]) if isinstance(seen, dict) else (seen, None)
            assert torch.equal(slabs.obs.own[0], own.reshape(slabs.obs.own[0].shape))
            assert shared is None or torch.equal(slabs.obs.shared[0], shared)


def test_a_run_with_callbacks_has_one_iteration_in_flight():
    trainer = Trainer(CARTPOLE, quiet=True, callbacks=[Callback()])
    assert trainer.pipeline.most == 1
    # so does a run on the CPU, which has no queue
    assert Trainer(CARTPOLE, quiet=True).pipeline.most == 1


def test_the_rate_is_the_mean_of_the_iterations_in_flight(monkeypatch):
    clock = iter([1.0, 2.0, 3.0, 5.0, 105.0, 106.0])  # a launch, three ends, a launch after a pause, its end
    trainer = Trainer(CARTPOLE, quiet=True)
    trainer.pipeline.most = 3
    monkeypatch.setattr("gpu_vecenv.train.runner.pipeline.time.perf_counter", lambda: next(clock))
    for _ in range(3):
        trainer.launch()
    rates = [trainer.finish()["steps_per_second"] for _ in range(3)]
    trainer.launch()
    rates.append(trainer.finish()["steps_per_second"])
    assert rates == pytest.approx([32 * x for x in (1.0, 1.0, 3 / 4, 1.0)])


ON_GPU = [dataclasses.replace(config, device="cuda:0") for config in (CARTPOLE, TAG, TOWN)]


@pytest.mark.gpu
@pytest.mark.parametrize("config", ON_GPU, ids=["cartpole", "tag", "town"])
@pytest.mark.parametrize("way", ["graph", "fused"])
def test_a_graph_with_many_iterations_in_flight_trains_to_the_same_bits(config, way):
    runs, found = [], []
    for name, most in ((way if way == "fused" else "eager", 1), (way, 1), (way, 16)):
        sink = Rows()
        trainer = Trainer(dataclasses.replace(config, **WAYS[name]), quiet=True, sinks=[sink])
        trainer.pipeline.most = most
        trainer.train(iterations=2)
        trainer.train()
        runs.append(without_rate(sink.rows))
        found.append(state(trainer))
    assert trainer.executor.reason == ""
    for rows, other in zip(runs[1:], found[1:], strict=True):
        assert all(a == pytest.approx(b, rel=0, abs=0, nan_ok=True) for a, b in zip(runs[0], rows, strict=True))
        assert_same(found[0], other)


class Resetter(Meddler):
    """Also lets the env reset all its worlds, before the capture and after it."""

    def on_iteration(self, trainer, metrics):
        super().on_iteration(trainer, metrics)
        if metrics["iteration"] in (2, 6):
            trainer.env.reset(seed=4)


@pytest.mark.gpu
@pytest.mark.parametrize("meddler", [Meddler, Resetter])
@pytest.mark.parametrize("config", ON_GPU, ids=["cartpole", "tag", "town"])
def test_a_graph_follows_callbacks_that_change_the_env(config, meddler, tmp_path):
    found = []
    for name in ("eager", "graph"):
        trainer = Trainer(dataclasses.replace(config, **WAYS[name]), quiet=True, callbacks=[meddler(tmp_path)])
        trainer.train()
        found.append(state(trainer))
    assert_same(*found)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["eager", "graph", "fused"])
def test_runs_side_by_side_on_streams_of_their_own_train_as_alone(way):
    configs = [dataclasses.replace(CARTPOLE, device="cuda:0", **WAYS[way], seed=seed) for seed in range(3)]
    alone = []
    for config in configs:
        trainer = Trainer(config, quiet=True)
        trainer.train()
        alone.append(state(trainer))
    trainers = [Trainer(config, quiet=True) for config in configs]
    streams = [torch.cuda.Stream("cuda:0") for _ in trainers]
    for number in range(11 + 2):
        for trainer, stream in zip(trainers, streams, strict=True):
            with torch.cuda.stream(stream):
                if number < 11:
                    trainer.launch()
        if number >= 2:  # three in flight
            for trainer in trainers:
                trainer.finish()
    for trainer, want in zip(trainers, alone, strict=True):
        assert_same(state(trainer), want)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["eager", "graph", "fused"])
def test_a_launch_never_waits_for_the_gpu(way, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.train.runner.schedule_table.TABLE_ROWS", 2)  # tables are uploaded in the launches
    trainer = Trainer(dataclasses.replace(CARTPOLE, device="cuda:0", **WAYS[way]), quiet=True)
    trainer.train(iterations=4)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(6):
            trainer.launch()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [trainer.finish()["iteration"] for _ in range(6)] == [5, 6, 7, 8, 9, 10]
