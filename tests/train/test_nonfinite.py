"""A number that is not finite stops a run: the message says where it came from, and the run's files stay good."""

import dataclasses
import json
import math

import pytest
import role_envs  # noqa: F401  (registers Pairs-v0)
import torch

from gpu_vecenv.train import Trainer, load_checkpoint
from gpu_vecenv.train.config import NetworkConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.errors import NonFiniteError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from gpu_vecenv.train.runner.diagnosis import describe_nonfinite_state


def tensors(x):
    if isinstance(x, dict):
        return [y for part in x.values() for y in tensors(part)]
    return [x] if isinstance(x, torch.Tensor) and x.is_floating_point() else []


@pytest.fixture
def trainer(config, tmp_path):
    """A run after two iterations whose rewards are used as they are, and whose folder holds both."""
    ppo = dataclasses.replace(config.ppo, normalize_rewards=False)
    with_files = dataclasses.replace(config, out=str(tmp_path), checkpoint_interval=1, ppo=ppo)
    trainer = Trainer(with_files, quiet=True)
    trainer.train(iterations=2)
    yield trainer
    trainer.close()


def assert_stopped(trainer, said, iterations=(1, 2)):
    run = trainer.config.out
    with pytest.raises(NonFiniteError, match=said) as caught:
        trainer.train()
    assert str(caught.value).startswith(f"iteration {len(iterations) + 1}: policy ")
    assert checkpoint_path(run).name == f"iteration-{len(iterations):08}.pt"
    state = load_checkpoint(run)
    assert all(x.isfinite().all() for part in ("policies", "algorithms") for x in tensors(state[part]))
    assert [line["iteration"] for line in read_metrics(run)] == list(iterations)
    for line in (trainer._folder.path / METRICS_FILE).read_text().splitlines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights(trainer, value):
    with torch.no_grad():
        trainer.policies["runner"].network.critic_layers[0].weight[0, 0] = value
    assert_stopped(trainer, "policy 'runner': weights network.critic_layers.0.weight are not finite")


def test_the_state_of_an_algorithm(trainer, monkeypatch):
    """A critic of the algorithm's own spoils gradients, which are skipped, so the policy stays finite."""
    algorithm = trainer.parts.algorithms["runner"]
    state = {"number": 3, "critics": [{"weight": torch.ones(2)}, {"weight": torch.tensor([1.0, math.nan])}]}
    skipped = algorithm.metric_names.index("skipped")
    monkeypatch.setattr(algorithm, "state_dict", lambda: state)
    monkeypatch.setattr(algorithm, "update", lambda *_: torch.eye(len(algorithm.metric_names))[skipped])
    said = "policy 'runner': critics/1/weight of the algorithm's state are not finite"
    with pytest.raises(NonFiniteError, match=said):
        trainer.train()
    assert describe_nonfinite_state("runner", trainer.policies["runner"], algorithm) == said


def after_collecting(trainer, change):
    collect = trainer.parts.collector.collect

    def changed():
        collect()
        change(trainer.parts.rollout)

    trainer.parts.collector.collect = changed


def row(world, runner):
    """Row of a runner; the stand-in's first rows are two catchers for each of four worlds."""
    return 8 + 3 * world + runner


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_an_observation(trainer, value):
    def change(rollout):
        valid = trainer.parts.rows["runner"].samples().valid
        assert valid[3, 3 * 2 + 1]
        rollout.groups[0].obs.own[3, row(2, 1), 2] = value

    after_collecting(trainer, change)
    # Agents are numbered within their world, the two catchers first.
    assert_stopped(trainer, "policy 'runner': observation of world 2, agent 3 in step 3 of the rollout is not finite")


def test_a_reward(trainer):
    def change(rollout):
        rollout.reward[1, row(3, 0)] = math.nan
        rollout.reward[4, row(0, 0)] = math.nan  # the first step is named

    after_collecting(trainer, change)
    assert_stopped(trainer, "policy 'runner': reward of world 3, agent 2 in step 1 of the rollout is not finite")


def test_a_reward_that_is_scaled(config, tmp_path):
    trainer = Trainer(dataclasses.replace(config, out=str(tmp_path), checkpoint_interval=1), quiet=True)
    trainer.train(iterations=1)
    after_collecting(trainer, lambda rollout: rollout.reward[0, 1].fill_(math.nan))
    assert_stopped(trainer, "policy 'catcher': reward of world 0, agent 1 in step 0 of the rollout is not finite", (1,))


def test_numbers_of_dead_agents_stop_nothing(trainer):
    def change(rollout):
        valid = trainer.parts.rows["runner"].samples().valid
        rollout.reward[:, 8:][~valid] = math.nan
        rollout.groups[0].obs.own[:-1, 8:][~valid] = math.nan

    after_collecting(trainer, change)
    metrics = trainer.train()
    assert trainer.iteration == 6
    assert math.isfinite(metrics["policy_loss/runner"])


def test_a_shared_part(tmp_path):
    config = TrainConfig(
        "Pairs-v0", num_envs=4, total_steps=200, device="cpu", out=str(tmp_path), env_kwargs={"max_episode_steps": 7},
        ppo=PPOConfig(num_steps=10, num_epochs=1), network=NetworkConfig((8,)),
    )  # fmt: skip
    trainer = Trainer(config, quiet=True)
    after_collecting(trainer, lambda rollout: rollout.groups[1].obs.shared[2, 3].fill_(math.nan))
    said = r"policy 'right': observation \(shared\) of world 3, agent 3 in step 2 of the rollout is not finite"
    assert_stopped(trainer, said, ())


def test_a_run_goes_on_from_its_last_checkpoint(trainer):
    with torch.no_grad():
        trainer.policies["runner"].network.critic_layers[0].weight[0, 0] = math.nan
    assert_stopped(trainer, "not finite")
    trainer.close()
    resumed = Trainer.resume(trainer.config.out, quiet=True)
    resumed.train()
    assert resumed.iteration == 6
    resumed.close()
