"""Options that a resumed run changes: which ones it keeps, and what of its state they start anew."""

import contextlib
import dataclasses
import json
import math

import pytest
import torch
import yaml

from gpu_vecenv.train import ConfigError, NetworkConfig, PolicyConfig, PPOConfig, TrainConfig, Trainer, resume_many, train_many
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint
from gpu_vecenv.train.run_folder.run_files import NOTE

PPO = PPOConfig(num_steps=10, num_epochs=2, num_minibatches=3)


@pytest.fixture
def given(config, tmp_path):
    """A run that is stopped after two of its six iterations."""
    given = dataclasses.replace(config, out=str(tmp_path / "run"), policies={"runner": PolicyConfig(ppo={"gamma": 0.9})})
    with contextlib.closing(Trainer(given, quiet=True)) as trainer:
        trainer.train(iterations=2)
    return given


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ppo": dataclasses.replace(PPO, num_steps=5)}, "ppo.num_steps: expected 10, as in the run that is resumed, got 5"),
        ({"ppo": None}, "ppo.num_steps: expected 10, .* got 32"),
        ({"num_envs": 8}, "num_envs: expected 4, .* got 8"),
        ({"env_id": "WarpTag-v0"}, "env_id: expected 'TagStandIn-v0', .* got 'WarpTag-v0'"),
        ({"seed": 1}, "seed: expected 0, .* got 1"),
        ({"stagger_starts": True}, "stagger_starts: expected False, .* got True"),
        ({"load_policies": {"runner": "x"}}, "load_policies: expected {}, .* got {'runner': 'x'}"),
        ({"policy_map": {"catcher": "a", "runner": "a"}}, "policy_map: expected None, .* got {'catcher': 'a', 'runner': 'a'}"),
        ({"ppo": dataclasses.replace(PPO, normalize_rewards=False)}, "ppo.normalize_rewards: expected True, .* got False"),
        (
            {"policies": {"runner": PolicyConfig(ppo={"gamma": 0.9, "normalize_observations": False})}},
            r"policies\['runner'\].ppo.normalize_observations: expected True, .* got False",
        ),
        ({"network": NetworkConfig((16,), log_std=1.0)}, "network.log_std: expected 0.0, .* got 1.0"),
        ({"policies": {"catcher": PolicyConfig(network={"hidden_sizes": (8,)})}}, "hidden_sizes: expected .16,., .* got .8,."),
        ({"policies": {"catcher": PolicyConfig(module="x")}}, r"policies\['catcher'\].module: expected None, .* got 'x'"),
        ({"executor": "graph"}, "executor: expected kernels .* and graph .*graph=True stands for 'graph'"),
        ({"nope": 1}, "TrainConfig option: expected one of .*, got 'nope'"),
    ],
)
def test_options_that_a_run_keeps_are_refused_by_name(given, changes, text):
    with pytest.raises(ConfigError, match=text):
        Trainer.resume(given.out, quiet=True, **changes)
    Trainer.resume(given.out, quiet=True).close()  # the folder is not locked


def test_a_policy_that_was_frozen_stays_frozen(config, tmp_path):
    saved = Trainer(dataclasses.replace(config, frozen=("runner",)), quiet=True).save(tmp_path / "a.pt")
    with pytest.raises(ConfigError, match="frozen: expected 'runner' in it, .* has no optimiser of it"):
        Trainer.resume(saved, quiet=True, frozen=())


def test_a_run_with_a_former_executor_goes_on(given, tmp_path):
    """Its checkpoint is one of an earlier version, but for the version of the package."""
    state = load_checkpoint(given.out)
    options = {**json.loads(state["config"]), "executor": "eager"}
    del options["kernels"], options["graph"]
    save_checkpoint(tmp_path / "old.pt", {**state, "config": json.dumps({**options, "out": None})})
    metrics = []
    for path, changes in ((given.out, {"kernels": "torch"}), (tmp_path / "old.pt", {})):
        with contextlib.closing(Trainer.resume(path, quiet=True, **changes)) as trainer:
            metrics.append({name: x for name, x in trainer.train().items() if name != "steps_per_second"})
    assert (trainer.config.kernels, trainer.config.graph) == ("torch", False)
    assert metrics[0] == pytest.approx(metrics[1], rel=0, abs=0, nan_ok=True)


def test_equal_values_are_no_change(given):
    changes = {"num_envs": 4, "policy_map": {"catcher": "catcher", "runner": "runner"}, "ppo": PPO, "seed": 0}
    with contextlib.closing(Trainer.resume(given.out, quiet=True, **changes)) as trainer:
        assert trainer.train(iterations=1)["steps"] == 120


def test_several_runs_refuse_the_same_changes_before_one_begins(config, tmp_path):
    configs = {name: dataclasses.replace(config, seed=seed) for seed, name in enumerate("ab")}
    train_many(configs, tmp_path / "runs", quiet=True)
    with pytest.raises(ConfigError, match="seed: expected 1, as in the run that is resumed, got 0"):
        resume_many(tmp_path / "runs", quiet=True, seed=0)


def rates(trainer, iterations):
    with contextlib.closing(trainer):
        return [trainer.train(iterations=1)["learning_rate/agent"] for _ in range(iterations)]


@pytest.fixture
def adaptive(tmp_path):
    """A run whose adaptive rate has fallen."""
    ppo = PPOConfig(num_steps=8, learning_rate=1e-3, learning_rate_schedule="adaptive", target_kl=1e-6)
    config = TrainConfig("WarpCartPole-v1", 8, 64 * 12, device="cpu", out=str(tmp_path), ppo=ppo, network=NetworkConfig((8,)))
    assert rates(Trainer(config, quiet=True), 4)[-1] == pytest.approx(1e-3 / 1.5**3)
    return config


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({}, 1e-3 / 1.5**4),
        ({"target_kl": 1e-5}, 1e-3 / 1.5**4),
        ({"learning_rate": 2e-3}, 2e-3),
        ({"learning_rate_schedule": "constant"}, 1e-3),
        ({"learning_rate_schedule": "linear"}, 1e-3 * (1 - 4 / 12)),
    ],
)
def test_a_new_schedule_starts_from_the_rate_given(adaptive, changes, first):
    ppo = dataclasses.replace(adaptive.ppo, **changes)
    assert rates(Trainer.resume(adaptive.out, quiet=True, ppo=ppo), 1) == [pytest.approx(first)]


def test_the_factor_of_an_adaptive_rate_does_not_come_back(adaptive):
    constant = dataclasses.replace(adaptive.ppo, learning_rate_schedule="constant")
    rates(Trainer.resume(adaptive.out, quiet=True, ppo=constant), 1)
    assert rates(Trainer.resume(adaptive.out, quiet=True, ppo=adaptive.ppo), 1) == [pytest.approx(1e-3)]


@pytest.mark.parametrize(("gamma", "kept"), [(0.99, True), (0.5, False)])
def test_the_scale_of_rewards_starts_anew_with_another_discount(given, gamma, kept):
    with contextlib.closing(Trainer.resume(given.out, quiet=True)) as trainer:
        before = trainer.parts.algorithms["catcher"].reward_norm.state_dict()
    ppo = dataclasses.replace(PPO, gamma=gamma)
    with contextlib.closing(Trainer.resume(given.out, quiet=True, ppo=ppo)) as trainer:
        now = {name: own.reward_norm for name, own in trainer.parts.algorithms.items()}
    assert now["runner"].norm.count > 0  # its discount is its own
    assert all(torch.equal(x, before[name]) for name, x in now["catcher"].state_dict().items()) == kept
    assert (now["catcher"].norm.count > 0, now["catcher"].scale == 1.0) == (kept, not kept)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({"patience": 9}, True),
        ({"best_of": "catcher"}, True),  # the role that None stands for
        ({"best_of": "runner"}, False),
        ({"frozen": ("catcher",)}, False),  # None now stands for the runner
        ({"evaluation_episodes": 4}, False),
    ],
)
def test_the_best_return_starts_anew_if_something_else_is_measured(config, tmp_path, changes, kept):
    trainer = Trainer(dataclasses.replace(config, evaluation_interval=1, evaluation_episodes=2), quiet=True)
    trainer.best.value, trainer.best.evaluations_since = 1e6, 7
    saved = trainer.save(tmp_path / "a.pt")
    with contextlib.closing(Trainer.resume(saved, quiet=True, **changes)) as resumed:
        assert (resumed.best.value, resumed.best.evaluations_since) == ((1e6, 7) if kept else (-math.inf, 0))
        resumed.train(iterations=1)
        assert resumed.periodic_evaluation.latest_is_best != kept


def test_the_options_in_a_runs_folder_are_those_in_force(given, tmp_path):
    file = tmp_path / "run" / "config.yaml"
    first = file.read_bytes()
    with contextlib.closing(Trainer.resume(given.out, quiet=True, keep_checkpoints=2)):
        assert file.read_bytes() == first  # nothing has been trained with the new options
    with contextlib.closing(Trainer.resume(given.out, quiet=True)) as trainer:
        trainer.train(iterations=1)
    assert file.read_bytes() == first
    ppo = dataclasses.replace(PPO, learning_rate=1e-4)
    with contextlib.closing(Trainer.resume(given.out, quiet=True, ppo=ppo, total_steps=200)) as trainer:
        trainer.train(iterations=1)
        assert TrainConfig.from_yaml(file) == TrainConfig(**vars(trainer.config))
    with contextlib.closing(Trainer.resume(given.out, quiet=True, total_steps=160)) as trainer:
        trainer.train()
        assert TrainConfig.from_yaml(file) == TrainConfig(**vars(trainer.config))
    notes = [line.removeprefix(NOTE) for line in file.read_text().splitlines() if line.startswith("#")]
    assert notes == [
        "4: total_steps: 200, before 240", "4: ppo.learning_rate: 0.0001, before 0.0003", "4: total_steps: 160, before 200",
    ]  # fmt: skip
    assert yaml.safe_load(file.read_text())["total_steps"] == 160


def test_a_run_that_goes_on_in_another_folder_has_its_options_there(given, tmp_path):
    with contextlib.closing(Trainer.resume(given.out, quiet=True, out=str(tmp_path / "new"))) as trainer:
        trainer.train(iterations=1)
    assert TrainConfig.from_yaml(tmp_path / "new" / "config.yaml").out == str(tmp_path / "new")


def test_damaged_options_are_replaced(given, tmp_path):
    file = tmp_path / "run" / "config.yaml"
    file.write_bytes(b"\xff{")
    with contextlib.closing(Trainer.resume(given.out, quiet=True)) as trainer:
        trainer.train(iterations=1)
    assert TrainConfig.from_yaml(file).num_envs == 4
