"""The trainer's loop: metrics, policies that are trained, checkpoints, signals and errors."""

import dataclasses
import errno
import os
import resource
import signal

import numpy as np
import pytest
import torch
from tag_stand_in import TagStandIn

from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    MetricsError,
    PolicyMapError,
    PPOConfig,
    Trainer,
    evaluate,
    play,
    plot_curves,
)
from gpu_vecenv.train.run_folder.logger import Logger
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from gpu_vecenv.train.runner.interrupt import StopRequest


def weights(trainer, name):
    return [x.clone() for x in trainer.policies[name].parameters()]


def same(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_only_trainable_policies_change(config):
    config = dataclasses.replace(config, frozen=("catcher",))
    trainer = Trainer(config, quiet=True)
    catcher, runner = weights(trainer, "catcher"), weights(trainer, "runner")
    metrics = trainer.train(iterations=2)
    assert same(catcher, weights(trainer, "catcher"))
    assert not same(runner, weights(trainer, "runner"))
    assert trainer.policies["catcher"].obs_norm.parts["own"].count == 0
    assert "return/catcher" in metrics
    assert "policy_loss/catcher" not in metrics


@pytest.mark.parametrize("iterations", [-1, 1.5, "2", True, []])
def test_numbers_of_iterations_are_checked(config, iterations):
    trainer = Trainer(config, quiet=True)
    with pytest.raises(ConfigError, match=r"^train: iterations: expected an integer from 0 to .*, or None, got"):
        trainer.train(iterations)
    assert trainer.train(np.int64(1))["iteration"] == 1


@pytest.mark.parametrize("use", [evaluate, lambda target: next(play(target))])
def test_targets_that_are_no_files_are_refused_by_name(use):
    expected = "^target: expected a checkpoint file, the folder of a run, a TrainConfig or None, got 5"
    with pytest.raises(ConfigError, match=expected):
        use(5)


def test_a_random_policy_has_no_learner(config):
    config = dataclasses.replace(config, policy_map={"catcher": "random", "runner": "runner"})
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    assert list(trainer.parts.algorithms) == ["runner"]


def test_the_env_writes_into_the_rollout(config):
    trainer = Trainer(config, quiet=True)
    trainer.parts.collector.collect()
    obs = trainer.parts.rollout.groups[0].obs.own
    assert trainer.env.rollout["obs"].data_ptr() == obs.data_ptr()
    last = obs[-1].clone()
    trainer.parts.collector.collect()
    assert torch.equal(obs[0], last)


def test_an_env_whose_limit_is_a_rule_bootstraps_only_if_requested(config):
    trainer = Trainer(config, quiet=True)
    assert not any(ppo.config.bootstrap_at_time_limit for ppo in trainer.parts.algorithms.values())
    assert trainer.parts.rollout.groups[0].final_obs is None
    asked = dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, bootstrap_at_time_limit=True))
    trainer = Trainer(asked, quiet=True)
    metrics = trainer.train(iterations=2)  # the stand-in's unused final observations are NaN
    assert all(x == x for name, x in metrics.items() if not name.startswith(("return", "episode")))


def test_a_run_writes_its_files_and_can_be_evaluated_and_watched(config, tmp_path, capsys):
    config = dataclasses.replace(config, out=str(tmp_path))
    Trainer(config).train()
    lines = read_metrics(tmp_path)
    assert [line["iteration"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[-1]["steps"] == config.total_steps
    assert "return/catcher" in capsys.readouterr().out
    assert any((tmp_path / "tensorboard").iterdir())
    assert plot_curves(tmp_path).read_bytes().startswith(b"\x89PNG")

    assert evaluate(tmp_path, episodes=5).mean_return.keys() == {"catcher", "runner"}
    states = list(play(tmp_path, episodes=2, seed=3))
    times = [float(state["t"]) for state in states]
    assert times.count(0.0) == 2
    assert states[0]["x"].shape == (5,)
    assert all(b in (a + 1, 0.0) for a, b in zip(times, times[1:], strict=False))


def test_resumed_metrics_hold_every_iteration_once(config, tmp_path):
    config = dataclasses.replace(config, out=str(tmp_path / "run"), checkpoint_interval=2)
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=2)
    trainer.train(iterations=2)
    trainer.close()
    # Imitates a power cut after iteration 4: the newest checkpoint is older than the last line.
    (tmp_path / "run" / "checkpoint" / "iteration-00000004.pt").unlink()
    with open(tmp_path / "run" / METRICS_FILE, "a") as file:
        file.write('{"iteration": 5, "st')
    Trainer.resume(tmp_path / "run", quiet=True).train()
    assert [line["iteration"] for line in read_metrics(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_training_after_the_iteration_and_saves(config, tmp_path, capsys, number, interruptible):
    config = dataclasses.replace(config, out=str(tmp_path))
    trainer = Trainer(config)
    collect = trainer.parts.collector.collect

    def collect_then_signal():
        collect()
        if trainer.iteration == 1:
            os.kill(os.getpid(), number)

    trainer.parts.collector.collect = collect_then_signal
    trainer.train()
    trainer.close()
    assert trainer.iteration == 2
    assert f"{signal.Signals(number).name}: iteration 2, saved {tmp_path}" in capsys.readouterr().out
    assert Trainer.resume(tmp_path, quiet=True).iteration == 2


def test_a_second_signal_has_its_usual_effect(interruptible):
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.received == "SIGINT"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_loading_a_policy_from_another_run(config, tmp_path):
    first = Trainer(config, quiet=True)
    first.train(iterations=1)
    path = str(first.save(tmp_path / "first.pt"))
    second = Trainer(dataclasses.replace(config, seed=9, load_policies={"catcher": path}), quiet=True)
    assert same(weights(first, "catcher"), weights(second, "catcher"))
    assert not same(weights(first, "runner"), weights(second, "runner"))
    assert torch.equal(*(run.policies["catcher"].obs_norm.parts["own"].mean for run in (first, second)))
    with pytest.raises(ConfigError, match=r"load_policies: expected policies out of .* got 'nobody'"):
        Trainer(dataclasses.replace(config, load_policies={"nobody": path}), quiet=True)
    renamed = {"catcher": "hunter", "runner": "runner"}
    with pytest.raises(CheckpointError, match="expected a policy named 'hunter'"):
        Trainer(dataclasses.replace(config, policy_map=renamed, load_policies={"hunter": path}), quiet=True)


def test_a_run_can_be_resumed_from_its_start(config, tmp_path):
    """Imitates a run that was killed in its first iteration."""
    trainer = Trainer(dataclasses.replace(config, out=str(tmp_path)), quiet=True)

    def die():
        raise RuntimeError("killed")

    trainer.parts.collector.collect = die
    with pytest.raises(RuntimeError, match="killed"):
        trainer.train()
    trainer.close()
    resumed = Trainer.resume(tmp_path, quiet=True)
    assert resumed.iteration == 0
    resumed.train()
    whole = Trainer(config, quiet=True)
    whole.train()
    assert same(weights(whole, "runner"), weights(resumed, "runner"))


@pytest.mark.parametrize(("seconds", "saves"), [(0.0, [0, 1, 2, 3, 3]), (1e9, [0, 3])])
def test_checkpoints_are_saved_by_time_too(config, tmp_path, monkeypatch, seconds, saves):
    monkeypatch.setattr("gpu_vecenv.train.runner.pipeline.CHECKPOINT_S", seconds)
    trainer = Trainer(dataclasses.replace(config, out=str(tmp_path)), quiet=True)
    saved, save = [], trainer.save
    trainer.save = lambda: saved.append(trainer.iteration) or save()
    trainer.train(iterations=3)
    assert saved == saves


def test_the_first_line_names_env_device_threads_and_folder(config, tmp_path, capsys):
    config = dataclasses.replace(config, out=str(tmp_path))
    Trainer(config).train(iterations=1)
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"TagStandIn-v0: 4 worlds x 5 agents on cpu, torch threads: 1, out: {tmp_path}"


def test_an_error_closes_the_env(config, tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(TagStandIn, "close", lambda env: closed.append(env))
    wrong = {"catcher": "a/b"}
    calls = [
        lambda: Trainer(dataclasses.replace(config, policy_map=wrong), quiet=True),
        lambda: Trainer(dataclasses.replace(config, load_policies={"catcher": str(tmp_path / "none.pt")})),
        lambda: evaluate(config, policy_map={"nobody": "random"}),
        lambda: next(play(config, policy_map={"nobody": "random"})),
    ]
    for count, call in enumerate(calls, start=1):
        with pytest.raises((PolicyMapError, CheckpointError)):
            call()
        assert len(closed) == count
    states = play(config)
    next(states)
    states.close()
    assert len(closed) == len(calls) + 1


def test_metrics_that_cannot_be_drawn_raise_errors(tmp_path):
    with pytest.raises(MetricsError, match=f"{METRICS_FILE}: expected the metrics of a run, got no such file"):
        plot_curves(tmp_path)
    file = tmp_path / METRICS_FILE
    file.write_text('{"iteration": 1, "st')
    with pytest.raises(MetricsError, match=f"{file}: expected at least one iteration, got none"):
        plot_curves(tmp_path)
    file.write_text('{"iteration": 1, "st\n{}\n')
    with pytest.raises(MetricsError, match=f"{file}: expected lines of JSON, got"):
        plot_curves(tmp_path)


@pytest.mark.slow
def test_curves_on_a_full_disk_leave_the_old_picture(tmp_path):
    (tmp_path / METRICS_FILE).write_text('{"iteration": 1, "steps": 10, "steps_per_second": 5.0}\n')
    old = plot_curves(tmp_path).read_bytes()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) // 2, before[1]))  # writes beyond it fail
    try:
        with pytest.raises(OSError, match=f"{tmp_path}/curves.png") as caught:
            plot_curves(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.errno == errno.EFBIG
    assert (tmp_path / "curves.png").read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curves.png", METRICS_FILE]


def test_an_incomplete_last_line_is_left_out(tmp_path):
    (tmp_path / METRICS_FILE).write_text('{"iteration": 1, "steps": 5}\n{"iteration": 2, "steps": 9}\n{"iterat')
    assert read_metrics(tmp_path) == [{"iteration": 1, "steps": 5}, {"iteration": 2, "steps": 9}]


def test_an_error_while_dropping_lines_loses_no_line(tmp_path, monkeypatch):
    """The disk fails while lines of a resumed run's metrics are dropped."""
    file = tmp_path / METRICS_FILE
    file.write_text('{"iteration": 1, "steps": 5}\n{"iteration": 2, "steps": 9}\n')

    def refuse(source, target):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no space left"), Logger(tmp_path, 20, first_iteration=1, quiet=True) as logger:
        logger.begin()
    assert [line["iteration"] for line in read_metrics(tmp_path)] == [1, 2]


def test_a_schedule_would_reach_its_end_one_iteration_after_the_last(config):
    trainer, rates = Trainer(config, quiet=True), []
    for _ in range(6):
        rates.append(trainer.train(iterations=1)["learning_rate/runner"] / config.ppo.learning_rate)
    assert rates == pytest.approx([1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])


def test_saving_without_a_path_raises_an_error(config):
    with pytest.raises(ConfigError, match="save: expected a path, or a run with `out`, got neither"):
        Trainer(config, quiet=True).save()


def test_nan_is_written_as_null(tmp_path):
    metrics = {"iteration": 1, "steps": 10, "steps_per_second": 2.0, "return/a": float("nan")}
    with Logger(tmp_path, 20, quiet=True) as logger:
        logger.begin()
        logger.log(metrics)
    assert read_metrics(tmp_path) == [{**metrics, "return/a": None}]


def test_training_raises_the_return(config):
    """The stand-in rewards catchers for a larger x; a few updates must raise their return."""
    ppo = PPOConfig(num_steps=14, num_epochs=4, num_minibatches=2, learning_rate=3e-3, entropy_coef=0.0)
    config = dataclasses.replace(config, num_envs=16, total_steps=16 * 14 * 30, ppo=ppo)
    trainer = Trainer(config, quiet=True)
    before = trainer.train(iterations=1)["return/catcher"]
    assert trainer.train()["return/catcher"] > before + 0.1
