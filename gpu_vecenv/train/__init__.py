"""The bundled multi-agent PPO trainer.

Reading order: ``config``, ``runner``, ``storage``, ``returns``, ``algorithms``, ``policies``, ``run_folder``.
"""

from gpu_vecenv.train.config import NetworkConfig, PolicyConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.errors import (
    CheckpointError,
    ConfigError,
    MetricsError,
    PolicyMapError,
    RunExistsError,
    RunGoneError,
    RunLockedError,
)
from gpu_vecenv.train.policies.networks import NetworkSpec
from gpu_vecenv.train.policies.registry import register_network
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint
from gpu_vecenv.train.run_folder.plot import plot_curves
from gpu_vecenv.train.runner.evaluation import Evaluation, evaluate, play
from gpu_vecenv.train.runner.export import export_policy
from gpu_vecenv.train.runner.trainer import Trainer

__all__ = [
    "CheckpointError",
    "ConfigError",
    "Evaluation",
    "MetricsError",
    "NetworkConfig",
    "NetworkSpec",
    "PPOConfig",
    "PolicyConfig",
    "PolicyMapError",
    "RunExistsError",
    "RunGoneError",
    "RunLockedError",
    "TrainConfig",
    "Trainer",
    "evaluate",
    "export_policy",
    "load_checkpoint",
    "play",
    "plot_curves",
    "register_network",
]
