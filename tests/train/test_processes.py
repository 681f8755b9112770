"""Runs in several processes equal those in one: worlds, gradients, statistics and weights."""

import dataclasses
import hashlib

import fused_runs
import ghosts  # noqa: F401  (registers Ghost-v0)
import pytest
import torch
from ranks import in_processes

from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer

GHOSTS = TrainConfig(
    "Ghost-v0", num_envs=8, total_steps=8 * 6 * 3, device="cpu", stagger_starts=False, env_kwargs={"max_episode_steps": 20},
    ppo=PPOConfig(num_steps=6, num_epochs=2, num_minibatches=1, learning_rate=1e-3, target_kl=0.5),
    network=NetworkConfig(hidden_sizes=(8,)),
)  # fmt: skip
"""Three iterations with agents that leave or are absent, and with masks."""


def run(config, processes=None):
    """Train, and return weights, statistics and metrics."""
    trainer = Trainer(config, quiet=True, processes=processes)
    metrics = []
    for _ in range(trainer.num_iterations):
        trainer.launch()
        metrics.append({name: x for name, x in trainer.finish().items() if name != "steps_per_second"})
    state = {name: {key: x.clone() for key, x in policy.state_dict().items()} for name, policy in trainer.policies.items()}
    trainer.close()
    return state, metrics


def assert_close(got, wanted, rtol=1e-5, atol=1e-7):
    state, metrics = got
    for name, policy in wanted[0].items():
        for key, x in policy.items():
            torch.testing.assert_close(state[name][key], x, rtol=rtol, atol=atol, msg=lambda text, where=(name, key): f"{where}: {text}")
    for one, other in zip(metrics, wanted[1], strict=True):
        assert one.keys() == other.keys()
        for name, x in other.items():
            assert one[name] == pytest.approx(x, rel=1e-4, abs=1e-5, nan_ok=True), name


def test_ghosts(tmp_path):
    one = run(GHOSTS)
    for rank in in_processes(4, lambda processes: run(GHOSTS, processes), tmp_path):
        assert_close(rank, one)
