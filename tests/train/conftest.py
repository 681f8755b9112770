"""Fixtures of the trainer's tests."""

from __future__ import annotations

import signal

import pytest
import tag_stand_in  # noqa: F401  (registers TagStandIn-v0)
import torch

from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig


@pytest.fixture(autouse=True)
def one_thread():
    """Use one thread, as the tensors are small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def interruptible():
    """Handle the signals as Python does by default; a shell lets background processes ignore SIGINT, and nohup SIGHUP."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def config() -> TrainConfig:
    """A run of six iterations on the stand-in env; it writes no files."""
    return TrainConfig(
        "TagStandIn-v0",
        num_envs=4,
        total_steps=4 * 10 * 6,
        ppo=PPOConfig(num_steps=10, num_epochs=2, num_minibatches=3),
        network=NetworkConfig(hidden_sizes=(16,)),
    )
