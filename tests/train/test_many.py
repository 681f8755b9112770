"""Several runs side by side: each equals the run alone, whatever happens to the others."""

import dataclasses
import math
import os
import signal
import sys
import weakref

import pytest
import torch
from ways import WAYS

from gpu_vecenv.train import (
    Callback,
    CheckpointError,
    ConfigError,
    NetworkConfig,
    NonFiniteError,
    PPOConfig,
    RunExistsError,
    RunLockedError,
    TrainConfig,
    Trainer,
    load_checkpoint,
    resume_many,
    train_many,
)
from gpu_vecenv.train.run_folder.folder import RunFolder
from gpu_vecenv.train.run_folder.metrics import read_metrics
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.run_folder.runs import run_folders
from gpu_vecenv.train.run_folder.runs_terminal import RunsTerminal


@pytest.fixture
def configs(config):
    """Runs that differ in seed, hyperparameters, network and length."""
    return {
        "seed-0": config,
        "seed-1": dataclasses.replace(config, seed=1),
        "steep": dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, learning_rate=0.1, num_steps=5)),
        "wide": dataclasses.replace(config, network=NetworkConfig(hidden_sizes=(32,)), total_steps=160),
    }


def tensors(state):
    """All tensors of a nested dict by path."""
    if isinstance(state, torch.Tensor):
        return {"": state}
    nested = state.items() if isinstance(state, dict) else enumerate(state) if isinstance(state, list | tuple) else ()
    return {f"{key}/{name}": x for key, inner in nested for name, x in tensors(inner).items()}


def without_rate(lines):
    return [{name: x for name, x in line.items() if name != "steps_per_second"} for line in lines]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Function that gives metrics and checkpoint of ``Trainer(config).train()``."""
    results = {}

    def train(config):
        if repr(config) not in results:
            out = tmp_path_factory.mktemp("alone")
            trainer = Trainer(dataclasses.replace(config, out=str(out)), quiet=True)
            trainer.train()
            trainer.close()
            results[repr(config)] = contents(out)
        return results[repr(config)]

    return train


def contents(folder):
    """Metrics but for rates, and all tensors of the newest checkpoint."""
    return without_rate(read_metrics(folder)), tensors(load_checkpoint(folder))


def assert_equal(run, other):
    """Compare what ``contents()`` gives, to the last bit."""
    assert run[0] == other[0]
    assert run[1].keys() == other[1].keys() and len(run[1]) > 20
    for name, x in run[1].items():
        torch.testing.assert_close(x, other[1][name], rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 3])
def test_each_run_equals_the_run_alone(configs, tmp_path, at_once, alone):
    results = train_many(configs, tmp_path / "runs", at_once=at_once, quiet=True)
    assert list(results) == list(configs)
    for name, result in results.items():
        assert (result.error, result.finished, result.config.seed) == (None, "done", configs[name].seed)
        last = read_metrics(tmp_path / "runs" / name)[-1]
        assert last == {key: None if math.isnan(x) else x for key, x in result.metrics.items()}
        assert_equal(contents(tmp_path / "runs" / name), alone(configs[name]))


def test_results_need_no_files(configs, alone):
    results = train_many(configs, quiet=True)
    for name, config in configs.items():
        metrics = {key: None if math.isnan(x) else x for key, x in results[name].metrics.items()}
        assert without_rate([metrics]) == alone(config)[0][-1:]


class Worse(Callback):
    """Makes the policies do the opposite after four iterations."""

    def on_iteration(self, trainer, metrics):
        if trainer.iteration == 4:
            with torch.no_grad():
                for policy in trainer.policies.values():
                    policy.network.actor_layers[-1].weight.neg_()
                    policy.network.actor_layers[-1].bias.neg_()


def test_results_have_the_best_evaluation(config, tmp_path):
    config = dataclasses.replace(
        config, evaluation_interval=1, evaluation_episodes=4, ppo=dataclasses.replace(config.ppo, learning_rate=0.05)
    )
    result = train_many({"run": config}, tmp_path / "runs", quiet=True, callbacks=[Worse()])["run"]
    evaluations = [line["evaluation/catcher"] for line in read_metrics(tmp_path / "runs" / "run")]
    assert len(evaluations) == 6 and evaluations[-1] < max(evaluations) == result.best


class Spoil(Callback):
    """Makes a weight of the run with seed 1 NaN after its second iteration."""

    def on_iteration(self, trainer, metrics):
        if trainer.config.seed == 1 and trainer.iteration == 2:
            with torch.no_grad():
                next(iter(trainer.policies.values())).network.critic_layers[0].weight[0, 0] = math.nan


@pytest.mark.slow
def test_an_error_of_a_run_ends_this_run_alone(configs, tmp_path, capsys, alone):
    configs = {name: dataclasses.replace(config, checkpoint_interval=1) for name, config in configs.items()}
    runs = tmp_path / "runs"
    results = train_many(configs, runs, at_once=2, callbacks=[Spoil()])
    assert "seed-1: NonFiniteError: iteration 3: policy" in capsys.readouterr().out
    failed = results.pop("seed-1")
    assert isinstance(failed.error, NonFiniteError) and failed.finished == ""
    assert failed.metrics["iteration"] == 2 == load_checkpoint(runs / "seed-1")["iteration"]
    assert {result.finished for result in results.values()} == {"done"}
    for name in results:
        assert_equal(contents(runs / name), alone(configs[name]))


@pytest.mark.slow
def test_an_error_before_a_run_begins_is_its_own_unless_it_is_the_first(configs, tmp_path):
    wrong = dataclasses.replace(configs["seed-1"], policy_map={"nobody": "x"})
    results = train_many({**configs, "wrong": wrong}, quiet=True)
    assert [name for name, result in results.items() if result.error is not None] == ["wrong"]
    assert results["wrong"].config == wrong and results["wrong"].metrics == {}
    with pytest.raises(ValueError, match="nobody"):
        train_many({"wrong": wrong, **configs}, tmp_path / "runs", quiet=True)
    assert run_folders(tmp_path / "runs") == []
    train_many(configs, tmp_path / "runs", quiet=True)  # the folder is unlocked


class Signal(Callback):
    """Sends signals to this process after some iterations of the first run."""

    def __init__(self, *iterations):
        self.iterations = iterations

    def on_iteration(self, trainer, metrics):
        if trainer.config.seed == 0 and trainer.iteration in self.iterations:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.slow
def test_runs_that_were_stopped_are_resumed_to_the_same_bits(configs, tmp_path, alone, interruptible):
    runs = tmp_path / "runs"
    configs = {name: dataclasses.replace(config, seed=seed) for seed, (name, config) in enumerate(configs.items())}
    results = train_many(configs, runs, at_once=2, quiet=True, callbacks=[Signal(3)])
    assert {result.finished for result in results.values()} == {""}
    assert {result.error for result in results.values()} == {None}
    assert results["seed-0"].metrics["iteration"] == 3
    assert 1 <= results["seed-1"].metrics["iteration"] == load_checkpoint(runs / "seed-1")["iteration"] < 6
    assert results["wide"].metrics == {} and not (runs / "wide" / "checkpoint").exists()
    moved = runs.rename(tmp_path / "moved")
    results = resume_many(moved, quiet=True, at_once=3)
    assert sorted(results) == sorted(configs)
    assert {result.finished for result in results.values()} == {"done"}
    for name, config in configs.items():
        assert_equal(contents(moved / name), alone(config))


class Twice(Signal):
    """Sends two signals."""

    def __init__(self):
        super().__init__(3)

    def on_iteration(self, trainer, metrics):
        super().on_iteration(trainer, metrics)
        super().on_iteration(trainer, metrics)


def test_a_second_interrupt_ends_all_runs_at_once_and_unlocks_their_folders(configs, tmp_path, interruptible):
    first = dataclasses.replace(configs["seed-0"], checkpoint_interval=1)
    with pytest.raises(KeyboardInterrupt):
        train_many({"seed-0": first, "seed-1": configs["seed-1"]}, tmp_path / "runs", quiet=True, callbacks=[Twice()])
    results = resume_many(tmp_path / "runs", quiet=True)
    assert {result.finished for result in results.values()} == {"done"}


@pytest.mark.slow
def test_resumed_runs_take_changes_and_finished_runs_keep_their_metrics(configs, tmp_path):
    train_many(configs, tmp_path / "runs", quiet=True)
    lines = read_metrics(tmp_path / "runs" / "seed-0")
    results = resume_many(tmp_path / "runs", quiet=True, total_steps=240)
    assert {name: result.metrics["steps"] for name, result in results.items()} == dict.fromkeys(configs, 240)
    assert read_metrics(tmp_path / "runs" / "seed-0") == lines
    assert results["seed-0"].metrics["entropy/catcher"] == lines[-1]["entropy/catcher"]


@pytest.mark.slow
def test_a_run_that_ends_early_lets_the_others_go_on_and_stays_ended(configs, tmp_path):
    early = dataclasses.replace(configs["seed-1"], evaluation_interval=2, evaluation_episodes=2, stop_at=-1e9)
    runs = tmp_path / "runs"
    results = train_many({**configs, "seed-1": early}, runs, quiet=True)
    assert "reached stop_at" in results["seed-1"].finished
    assert (results["seed-1"].metrics["iteration"], results["seed-0"].metrics["iteration"]) == (2, 6)
    assert math.isfinite(results["seed-1"].best) and results["seed-0"].best == -math.inf
    results = resume_many(runs, quiet=True)
    assert "reached stop_at" in results["seed-1"].finished and len(read_metrics(runs / "seed-1")) == 2
    assert len(read_metrics(runs / "seed-0")) == 6


def test_an_error_while_a_run_is_closed_is_its_own(configs, monkeypatch):
    close = Trainer.close

    def fail(self):
        close(self)
        if self.config.seed == 1:
            raise OSError("no space")

    monkeypatch.setattr(Trainer, "close", fail)
    results = train_many(configs, quiet=True)
    assert str(results["seed-1"].error) == "no space"
    assert [name for name, result in results.items() if result.finished == "done"] == ["seed-0", "steep", "wide"]


class Count(Callback):
    """Counts runs that have begun and not ended, and whether trainers of others are still in memory."""

    def __init__(self):
        self.now, self.most, self.trainers = 0, 0, []

    def on_start(self, trainer):
        self.now += 1
        self.most = max(self.most, self.now)
        assert sum(other() is not None for other in self.trainers) < 2
        self.trainers.append(weakref.ref(trainer))

    def on_iteration(self, trainer, metrics):
        if trainer.config.seed == 3:
            self.now -= 1
            raise RuntimeError("enough")

    def on_end(self, trainer):
        self.now -= 1


def test_at_most_so_many_runs_are_in_memory(config):
    count = Count()
    configs = {str(seed): dataclasses.replace(config, seed=seed, total_steps=160) for seed in range(7)}
    results = train_many(configs, at_once=2, quiet=True, callbacks=[count])
    assert (count.now, count.most, len(count.trainers)) == (0, 2, 7)
    assert str(results["3"].error) == "enough"


class Threads(Callback):
    """Records torch's number of threads in each run's iterations."""

    def __init__(self):
        self.seen = {}

    def on_iteration(self, trainer, metrics):
        self.seen.setdefault(trainer.config.seed, set()).add(torch.get_num_threads())


def test_each_run_has_its_number_of_threads(config):
    threads = Threads()
    configs = {str(n): dataclasses.replace(config, seed=n, threads=n, total_steps=2 * 4 * 10) for n in (1, 2)}  # two iterations
    train_many(configs, quiet=True, callbacks=[threads])
    assert threads.seen == {1: {1}, 2: {2}} and torch.get_num_threads() == 1


def test_folders_with_runs_are_refused(configs, tmp_path):
    one, several = tmp_path / "one", tmp_path / "several"
    Trainer(dataclasses.replace(configs["seed-0"], out=str(one)), quiet=True).train(iterations=1)
    train_many({"a": configs["seed-0"]}, several, quiet=True)
    for folder, held in ((one, one), (several, several / "a")):
        with pytest.raises(RunExistsError, match=f"^{held}: expected a folder without runs, got a run"):
            train_many(configs, folder, quiet=True)
    locked = RunFolder(several)
    for call in (lambda: train_many(configs, several, quiet=True), lambda: resume_many(several, quiet=True)):
        with pytest.raises(RunLockedError, match="locked by"):
            call()
    locked.close()


@pytest.mark.parametrize(
    ("names", "changes", "options", "text"),
    [
        ([], {}, {}, "expected at least one, got 'none'"),
        (["a/b"], {}, {}, "expected names of folders, got 'a/b'"),
        ([".."], {}, {}, "expected names of folders, got '..'"),
        (["a"], {"out": "x"}, {}, "a: out: expected None, because .* got 'x'"),
        (["a"], {"wandb": "x"}, {}, "a: wandb: expected None with several runs in a process, got 'x'"),
        (["a"], {}, {"at_once": 0}, "at_once: expected an integer from 1 to 32, got 0"),
        (["a"], {}, {"at_once": 33}, "at_once: expected an integer from 1 to 32, got 33"),
    ],
)
def test_wrong_arguments_are_named(config, tmp_path, names, changes, options, text):
    with pytest.raises(ConfigError, match=text):
        train_many(dict.fromkeys(names, dataclasses.replace(config, **changes)), tmp_path / "runs", quiet=True, **options)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda config: [config], "configs: expected a mapping of names to TrainConfig"),
        (lambda config: {1: config}, "name of a run: expected a str, got 1"),
        (lambda config: {"a": 3}, "a: expected a TrainConfig, got 3"),
    ],
)
def test_wrong_types_are_named(config, given, text):
    with pytest.raises(ConfigError, match=text):
        train_many(given(config), quiet=True)


def test_the_last_line_has_all_steps(config, capsys, monkeypatch):
    """A pipe gets the last drawing alone."""
    results = train_many({"a": config, "b": dataclasses.replace(config, seed=1)}, at_once=1)
    steps = sum(result.metrics["steps"] for result in results.values())
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("100%") and f"{steps:,.0f} steps" in last and "2 of 2 runs over" in last


def test_wrong_folders_are_named(tmp_path):
    with pytest.raises(ConfigError, match=f"{tmp_path}: expected a folder of runs, such as {tmp_path}/seed-0, got none"):
        resume_many(tmp_path)
    with pytest.raises(ConfigError, match="out: expected none, because runs stay in their folders, got 'x'"):
        resume_many(tmp_path, out="x")


def test_a_run_that_waits_imports_no_module(config, tmp_path):
    (tmp_path / "a").mkdir()
    dataclasses.replace(config, env_id="nowhere:Env-v0").save(tmp_path / "a")
    with pytest.raises(CheckpointError, match="'nowhere:Env-v0' needs the module 'nowhere', and a file must not import one"):
        resume_many(tmp_path)


def test_folders_of_runs_are_in_the_order_of_their_numbers(tmp_path):
    for name in ("seed-10", "seed-9", "other", "seed-100"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    (tmp_path / "empty").mkdir()
    assert [path.name for path in run_folders(tmp_path)] == ["other", "seed-9", "seed-10", "seed-100"]


def test_one_display_shows_steps_and_returns_of_all_runs(capsys, monkeypatch):
    monkeypatch.setattr(Progress, "rate", lambda self, count: count)
    terminal = RunsTerminal({"a": 100, "b": 100, "c": 100}, sys.stdout, quiet=False)
    terminal.begin("a", 40, 100)
    terminal.begin("b", 0, 100)
    terminal.log("a", {"steps": 60, "return/x": 1.0})
    terminal.log("b", {"steps": 50, "return/x": 4.0})
    terminal.log("b", {"steps": 50, "return/x": math.nan})
    terminal.end("b")  # early: 250 steps are left of 300
    terminal.show()
    terminal.close()
    assert capsys.readouterr().out == " 44%  110 steps  70 steps/s  1 of 3 runs over  x 2.50 (1.00 to 4.00)\n"


CARTPOLE = TrainConfig("WarpCartPole-v1", num_envs=64, total_steps=64 * 32 * 24, ppo=PPOConfig(), device="cuda:0")


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["eager", "graph", "fused"])
def test_runs_on_streams_of_their_own_equal_the_runs_alone(tmp_path, way, alone):
    base = dataclasses.replace(CARTPOLE, **WAYS[way])
    configs = {f"seed-{seed}": dataclasses.replace(base, seed=seed) for seed in range(4)}
    configs["wide"] = dataclasses.replace(base, num_envs=256, total_steps=3 * base.total_steps, evaluation_interval=7)
    results = train_many(configs, tmp_path / "runs", at_once=3, quiet=True)
    for name, config in configs.items():
        assert results[name].error is None
        assert_equal(contents(tmp_path / "runs" / name), alone(config))


@pytest.mark.gpu
def test_a_run_that_fails_on_the_gpu_leaves_the_others_as_they_are(tmp_path, alone):
    configs = {f"seed-{seed}": dataclasses.replace(CARTPOLE, seed=seed) for seed in range(3)}
    results = train_many(configs, tmp_path / "runs", quiet=True, callbacks=[Spoil()])
    assert isinstance(results.pop("seed-1").error, NonFiniteError)
    for name in results:
        assert_equal(contents(tmp_path / "runs" / name), alone(configs[name]))
