"""Sweeps: spaces, suggestions, what is written, pruning, failures and going on."""

import dataclasses
import math

import numpy as np
import optuna
import pytest
from matplotlib.figure import Figure

from gpu_vecenv.cli.main import main
from gpu_vecenv.train import (
    Callback,
    ConfigError,
    PPOConfig,
    RunExistsError,
    SweepOptions,
    TrainConfig,
    read_space,
    sweep,
    train_many,
)
from gpu_vecenv.train.runner import sweep as module
from gpu_vecenv.train.runner.one_of_many import RunResult
from gpu_vecenv.train.runner.sweep_space import with_values

BASE = {"env_id": "WarpCartPole-v1", "num_envs": 4, "total_steps": 64, "device": "cpu", "ppo": {"num_steps": 16}}
RATE = {"ppo.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}}


@pytest.fixture
def formula(monkeypatch):
    """Runs that take no time: their return is highest for a rate of 1e-3 and three epochs."""
    configs = []

    def trained(given, at_once, quiet, callbacks):
        configs.extend(given.values())
        assert len(given) <= at_once and {*callbacks} == {*given}
        return {name: RunResult(config, {"recent_return/agent": value(config), "loss": 1.0}, finished="done")
                for name, config in given.items()}  # fmt: skip

    def value(config):
        return -abs(math.log10(config.ppo.learning_rate) + 3) - abs(config.ppo.num_epochs - 3)

    monkeypatch.setattr(module, "train_many", trained)
    return configs


def test_a_space_has_ranges_integers_steps_and_choices():
    space = {"a.b": {"low": 1, "high": 4}, "c": {"low": 0.5, "high": 2, "step": 0.5}, "d": [[1, 2], "x", None], **RATE}
    settings = {each.path: each for each in read_space(space)}
    assert settings["a.b"].is_integer and not settings["c"].is_integer and settings["ppo.learning_rate"].log
    trial = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)).ask()
    drawn = {path: each.suggest(trial) for path, each in settings.items()}
    assert drawn["a.b"] in (1, 2, 3, 4) and drawn["c"] in (0.5, 1.0, 1.5, 2.0) and drawn["d"] in ([1, 2], "x", None)
    assert with_values({"a": {"e": 0}, "x": 1}, {"a.b": 2, "y.z": 3}) == {"a": {"e": 0, "b": 2}, "x": 1, "y": {"z": 3}}


@pytest.mark.parametrize(("space", "error"), [
    ({}, "space: expected options and their values"),
    ({"a": 3}, r"space: a: expected \{low: ..., high: ...\} with log or step, or a list of choices, got 3"),
    ({"a": {"low": 2, "high": 1}}, "space: a: expected numbers low <= high"),
    ({"a": {"low": 0, "high": 1, "log": True}}, "above 0 with log"),
    ({"a": {"low": 0, "high": 1, "step": -1}}, "expected a step above 0"),
    ({"a": []}, "expected a list of choices"),
    ({"a": {"low": 0, "hihg": 1}}, "expected {low"),
])  # fmt: skip
def test_spaces_that_are_none_are_refused(space, error):
    with pytest.raises(ConfigError, match=error):
        read_space(space)


def test_the_best_options_are_found_and_can_be_trained(formula, tmp_path):
    space = {**RATE, "ppo.num_epochs": {"low": 1, "high": 8}}
    found = sweep(BASE, space, tmp_path, SweepOptions(trials=60, at_once=4), quiet=True)
    assert len(formula) == 60 and found.best.ppo.num_epochs == 3 and abs(math.log10(found.best.ppo.learning_rate) + 3) < 0.3
    every = [-abs(math.log10(c.ppo.learning_rate) + 3) - abs(c.ppo.num_epochs - 3) for c in formula]
    assert found.value == max(every) and np.mean(every[-20:]) > np.mean(every[:20])  # suggestions follow the results
    assert TrainConfig.from_yaml(tmp_path / "best.yaml") == found.best == formula[int(np.argmax(every))]
    assert found.values == {"ppo.learning_rate": found.best.ppo.learning_rate, "ppo.num_epochs": 3}
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_axes_of_the_picture_are_logarithmic_as_the_space_says(formula, tmp_path, monkeypatch):
    figures, save = [], Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, dpi: [figures.append(figure), save(figure, file, dpi=dpi)])
    space = {
        "ppo.learning_rate": {"low": 1.1e-3, "high": 1.9e-3, "log": True},
        "ppo.gamma": {"low": 0.001, "high": 0.99},
        "ppo.num_minibatches": [1, 64],
        "ppo.clip_coef": [0.1, 0.2],
        "network.activation": ["tanh", "relu"],
        "ppo.num_epochs": {"low": 2, "high": 4, "log": True},
    }
    sweep(BASE, space, tmp_path, SweepOptions(trials=40, sampler="random"), quiet=True)
    scales = {panel.get_xlabel(): panel.get_xscale() for panel in figures[0].axes}
    logarithmic = {"ppo.learning_rate", "ppo.num_minibatches", "ppo.num_epochs"}
    assert {path: scales[path] for path in space} == {path: "log" if path in logarithmic else "linear" for path in space}


def test_a_sweep_goes_on_where_it_was(formula, tmp_path):
    sweep(BASE, RATE, tmp_path, SweepOptions(trials=4, at_once=2), quiet=True)
    with pytest.raises(RunExistsError, match="expected a new folder, got one with a sweep in it"):
        sweep(BASE, RATE, tmp_path, SweepOptions(trials=8), quiet=True)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(tmp_path / "study.log")))
    optuna.load_study(study_name=tmp_path.name, storage=storage).ask()  # as of a process that was killed
    found = sweep(BASE, RATE, tmp_path, SweepOptions(trials=8, at_once=2), resume=True, quiet=True)
    states = [trial.state.name for trial in found.study.get_trials()]
    assert states == ["COMPLETE"] * 4 + ["FAIL"] + ["COMPLETE"] * 3
    assert len({config.ppo.learning_rate for config in formula}) == 7  # suggestions are not repeated


def test_the_smallest_metric_may_be_best(formula, tmp_path):
    found = sweep(BASE, RATE, tmp_path, SweepOptions(8, metric="recent_return/agent", direction="minimize"), quiet=True)
    assert found.value == min(trial.value for trial in found.study.get_trials())
    with pytest.raises(ConfigError, match="metric: expected one of recent_return/agent, loss, got 'los'"):
        sweep(BASE, RATE, tmp_path / "x", SweepOptions(2, metric="los"), quiet=True)


def test_a_grid_has_each_point_once(formula, tmp_path):
    space = {"ppo.learning_rate": [1e-3, 1e-2], "ppo.num_epochs": {"low": 2, "high": 4}}
    sweep(BASE, space, tmp_path, SweepOptions(6, "grid", at_once=3), quiet=True)
    assert len({(c.ppo.learning_rate, c.ppo.num_epochs) for c in formula}) == 6
    with pytest.raises(ConfigError, match="space: ppo.learning_rate: expected choices or a step for the sampler grid"):
        sweep(BASE, RATE, tmp_path / "x", SweepOptions(2, "grid"), quiet=True)


def test_options_that_no_run_has_are_refused_before_a_run_begins(formula, tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'learning_rate'"):
        sweep(BASE, {"ppo.learning_rat": [1e-3]}, tmp_path, quiet=True)
    with pytest.raises(ConfigError, match="sampler: expected 'tpe', 'random', 'cmaes' or 'grid', got 'annealing'"):
        SweepOptions(sampler="annealing")
    assert not formula and not (tmp_path / "study.log").exists()


@pytest.mark.slow
def test_runs_that_do_worse_than_others_are_pruned(tmp_path):
    """Runs with a rate of 0 report the same return as those before, and Hyperband and halving end some of them early."""
    space = {"ppo.learning_rate": [1e-3, 1e-12], "seed": {"low": 0, "high": 99}}
    options = {**BASE, "total_steps": 1024}
    found = sweep(options, space, tmp_path, SweepOptions(12, "random", "halving", at_once=3), quiet=True)
    states = [trial.state.name for trial in found.study.get_trials()]
    assert "PRUNED" in states and "COMPLETE" in states and len(states) == 12
    assert all(trial.intermediate_values for trial in found.study.get_trials())


def test_callbacks_of_several_runs_may_be_their_own():
    calls = []

    class Count(Callback):
        def on_end(self, trainer):
            calls.append(trainer.config.seed)

    config = TrainConfig("WarpCartPole-v1", num_envs=4, total_steps=64, device="cpu", ppo=PPOConfig(num_steps=16), seed=7)
    runs = {"a": config, "b": dataclasses.replace(config, seed=8)}
    train_many(runs, quiet=True, callbacks={"a": [Count()]})
    assert calls == [7]


def test_the_command_writes_what_train_takes(tmp_path, capsys, monkeypatch):
    space = "ppo.learning_rate: {low: 1e-4, high: 1e-2, log: true}\nnetwork.hidden_sizes: [[4], [8]]\n"
    (tmp_path / "space.yaml").write_text(space)
    line = f"sweep WarpCartPole-v1 --space {tmp_path}/space.yaml --trials 2 --at-once 2 --num-envs 4 --device cpu"
    line = f"{line} --total-steps 64"
    assert main(f"{line} --ppo num_steps=16 --out {tmp_path}/sweep".split()) == 0
    text = capsys.readouterr().out
    assert "best of 2 runs: " in text and f"options: {tmp_path}/sweep/best.yaml" in text
    monkeypatch.setattr("gpu_vecenv.cli.train.show_run", lambda *_: None)
    assert main(f"train --config {tmp_path}/sweep/best.yaml --out {tmp_path}/best".split()) == 0
    config = TrainConfig.of_run(tmp_path / "best")
    assert config.network.hidden_sizes in ((4,), (8,)) and config.total_steps == 64
    assert main(f"{line} --out {tmp_path}/sweep".split()) == 2
    assert "go on with it by --resume" in capsys.readouterr().err
