"""The bundled multi-agent PPO trainer.

Reading order: ``config``, ``trainer``, ``rollout``, ``gae``, ``ppo``, ``policy``.
"""

from gpu_vecenv.train.checkpoint import load_checkpoint
from gpu_vecenv.train.config import NetworkConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.errors import (
    CheckpointError,
    ConfigError,
    MetricsError,
    PolicyMapError,
    RunExistsError,
    RunGoneError,
    RunLockedError,
)
from gpu_vecenv.train.evaluation import Evaluation, evaluate, play
from gpu_vecenv.train.plot import plot_curves
from gpu_vecenv.train.trainer import Trainer

__all__ = [
    "CheckpointError",
    "ConfigError",
    "Evaluation",
    "MetricsError",
    "NetworkConfig",
    "PPOConfig",
    "PolicyMapError",
    "RunExistsError",
    "RunGoneError",
    "RunLockedError",
    "TrainConfig",
    "Trainer",
    "evaluate",
    "load_checkpoint",
    "play",
    "plot_curves",
]
