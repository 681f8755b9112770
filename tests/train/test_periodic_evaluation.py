"""Evaluation during training: its worlds, the best state, an early end; and the user's callbacks."""

import dataclasses
import math

import pytest
import torch

from gpu_vecenv.train import ConfigError, PPOConfig, TrainConfig, Trainer, evaluate, load_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics
from gpu_vecenv.train.runner import periodic_evaluation
from gpu_vecenv.train.runner.callbacks import Callback
from gpu_vecenv.train.runner.evaluation import evaluation_seed
from gpu_vecenv.train.runner.measure import Evaluation


class Recorder(Callback):
    """Keeps all calls."""

    def __init__(self):
        self.calls = []

    def on_start(self, trainer):
        self.calls.append(("start", trainer.iteration))

    def on_iteration(self, trainer, metrics):
        self.calls.append(("iteration", metrics["iteration"]))

    def on_episodes(self, trainer, policy, mean_return, mean_length):
        self.calls.append(("episodes", policy, mean_return, mean_length))

    def on_evaluation(self, trainer, evaluation, best):
        self.calls.append(("evaluation", evaluation.mean_return, best))

    def on_save(self, trainer, path):
        self.calls.append(("save", path.name))

    def on_end(self, trainer):
        self.calls.append(("end", trainer.iteration))

    def of(self, kind):
        return [call[1:] for call in self.calls if call[0] == kind]


@pytest.fixture
def given(config, tmp_path):
    """A run that evaluates after each iteration."""
    return dataclasses.replace(config, out=str(tmp_path), evaluation_interval=1, evaluation_episodes=3)


@pytest.fixture
def returns(monkeypatch):
    """Mean returns of catchers in evaluations; runners have the opposite."""
    numbers = []

    def measure(players, seed, deterministic, display=None):
        value = numbers.pop(0)
        both = {"catcher": value, "runner": -value}
        return Evaluation(3, both, both, both, 1.0)

    monkeypatch.setattr(periodic_evaluation, "measure", measure)
    return numbers


def test_metrics_are_those_of_an_evaluation_of_the_same_state(given):
    trainer = Trainer(dataclasses.replace(given, evaluation_interval=2), quiet=True)
    trainer.train()
    lines = read_metrics(given.out)
    assert ["evaluation/runner" in line for line in lines] == [False, True] * 3
    result = evaluate(given.out, episodes=3)
    assert {role: lines[-1][f"evaluation/{role}"] for role in ("catcher", "runner")} == pytest.approx(result.mean_return)


def test_evaluations_change_nothing_in_the_run(config, given):
    plain, evaluated = Trainer(config, quiet=True), Trainer(given, quiet=True)
    plain.train(), evaluated.train()
    for name, policy in plain.policies.items():
        for key, x in policy.state_dict().items():
            assert torch.equal(x, evaluated.policies[name].state_dict()[key]), key


def test_evaluations_do_not_repeat_the_worlds_of_the_training():
    config = TrainConfig("WarpCartPole-v1", num_envs=8, total_steps=8 * 4, device="cpu", ppo=PPOConfig(num_steps=4))
    trainer = Trainer(config, quiet=True)
    training = trainer.parts.rollout.groups[0].obs.own[0].clone()
    starts = []
    made = periodic_evaluation.make_env

    for seed in (0, 1, 2**64 - 1):
        assert 0 <= evaluation_seed(seed) < 2**64
    assert len({evaluation_seed(seed) for seed in range(100)} | set(range(100))) == 200
    env = made(trainer.config, 8)
    for seed in (evaluation_seed(config.seed), config.seed):
        starts.append(env.reset(seed=seed)[0].clone())
    assert torch.equal(starts[1], training)
    assert not (starts[0] == training).any()
    env.close()
    assert evaluate(config, 8) == evaluate(config, 8, seed=evaluation_seed(config.seed)) != evaluate(config, 8, seed=config.seed)


def test_the_best_state_is_kept(given, returns):
    returns += [1.0, 3.0, 2.0, math.nan, 3.0, 2.5]
    recorder = Recorder()
    trainer = Trainer(given, quiet=True, callbacks=[recorder])
    trainer.train()
    assert load_checkpoint(trainer._folder.path / "checkpoint" / "best.pt")["iteration"] == 2
    assert (trainer.best.value, trainer.best.evaluations_since) == (3.0, 4)
    assert [best for _, best in recorder.of("evaluation")] == [True, True, False, False, False, False]
    trainer.close()
    assert Trainer.resume(given.out, quiet=True).best.value == 3.0


@pytest.mark.parametrize(("role", "last"), [(None, 4), ("runner", 1)])
def test_a_run_stops_at_a_return(given, returns, capsys, role, last):
    returns += [-9.0, 3.0, 4.9, 5.0, 9.0, 9.0]
    trainer = Trainer(dataclasses.replace(given, stop_at=5.0, best_of=role))
    trainer.train()
    assert trainer.iteration == last
    value = 9 if role else 5
    assert f"mean return {value} of {role or 'catcher'} reached stop_at 5" in capsys.readouterr().out.splitlines()[-1]


def test_a_run_stops_without_a_better_return(given, returns, capsys):
    returns += [1.0, 2.0, 1.5, 2.0, 1.0, 9.0]
    trainer = Trainer(dataclasses.replace(given, patience=3))
    trainer.train()
    assert trainer.iteration == 5
    assert "3 evaluations without a better return than 2: iteration 5, saved" in capsys.readouterr().out.splitlines()[-1]


def test_patience_goes_on_after_a_break(given, returns):
    returns += [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    given = dataclasses.replace(given, patience=3)
    trainer = Trainer(given, quiet=True)
    trainer.train(iterations=3)
    trainer.close()
    resumed = Trainer.resume(given.out, quiet=True)
    resumed.train()
    assert resumed.iteration == 4


def test_an_unknown_role_raises_an_error(given):
    with pytest.raises(ConfigError, match=r"best_of: expected one of the roles \['catcher', 'runner'\], got 'nobody'"):
        Trainer(dataclasses.replace(given, out=None, best_of="nobody"), quiet=True)


def test_callbacks_are_called_in_order(given):
    recorders = Recorder(), Recorder()
    trainer = Trainer(dataclasses.replace(given, evaluation_interval=3, checkpoint_interval=2), quiet=True, callbacks=recorders)
    trainer.train()
    recorder = recorders[0]
    assert recorder.calls == recorders[1].calls
    assert [call for call in recorder.calls if call[0] in ("start", "end")] == [("start", 0), ("end", 6)]
    assert recorder.of("iteration") == [(number,) for number in range(1, 7)]
    assert [name for (name,) in recorder.of("save")] == [f"iteration-{number:08}.pt" for number in (0, 2, 4, 6, 6)]
    lines = read_metrics(given.out)
    ended = [(name, line[f"return/{name}"], line[f"episode_length/{name}"]) for line in lines for name in ("catcher", "runner")]
    assert recorder.of("episodes") == [entry for entry in ended if entry[1] is not None]
    evaluated = [{role: line[f"evaluation/{role}"] for role in ("catcher", "runner")} for line in lines[2::3]]
    assert [result for result, _ in recorder.of("evaluation")] == evaluated


def test_an_error_in_a_callback_ends_the_run_and_leaves_its_checkpoint(given):
    class Failing(Callback):
        def on_iteration(self, trainer, metrics):
            if trainer.iteration == 3:
                raise RuntimeError("enough")

    trainer = Trainer(dataclasses.replace(given, checkpoint_interval=1), quiet=True, callbacks=[Failing()])
    with pytest.raises(RuntimeError, match="enough"):
        trainer.train()
    assert load_checkpoint(given.out)["iteration"] == 2
