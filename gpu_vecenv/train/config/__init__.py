"""Options of a run, and presets of them.

Reading order: ``run``, ``algorithms``, ``ppo``, ``pqn``, ``off_policy``, ``sac``, ``td3``, ``network``, ``policy``,
``presets``, ``auto_sizes``, ``checks``, ``text``.
"""

from gpu_vecenv.train.config.algorithms import AlgorithmConfig, Storage, bootstraps, register_algorithm
from gpu_vecenv.train.config.auto_sizes import AUTO, AutoSizes
from gpu_vecenv.train.config.checks import from_options, require_threads
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.policy import PolicyConfig
from gpu_vecenv.train.config.ppo import PPOConfig
from gpu_vecenv.train.config.pqn import PQNConfig
from gpu_vecenv.train.config.presets import PRESETS, AlgorithmPreset, Preset, import_env
from gpu_vecenv.train.config.run import CONFIG_FILE, Precision, ResolvedConfig, TrainConfig, read_yaml, resolve, resolve_new
from gpu_vecenv.train.config.sac import SACConfig
from gpu_vecenv.train.config.small_tag import (
    SMALL_CONTINUOUS_TAG,
    SMALL_CONTINUOUS_TAG_DDPG,
    SMALL_GRID_TAG,
    SMALL_TAG,
    SMALL_TAG_PQN,
)
from gpu_vecenv.train.config.td3 import DDPGConfig, TD3Config

__all__ = [
    "AUTO",
    "CONFIG_FILE",
    "PRESETS",
    "SMALL_CONTINUOUS_TAG",
    "SMALL_CONTINUOUS_TAG_DDPG",
    "SMALL_GRID_TAG",
    "SMALL_TAG",
    "SMALL_TAG_PQN",
    "AlgorithmConfig",
    "AlgorithmPreset",
    "AutoSizes",
    "DDPGConfig",
    "NetworkConfig",
    "PPOConfig",
    "PQNConfig",
    "PolicyConfig",
    "Precision",
    "Preset",
    "ResolvedConfig",
    "SACConfig",
    "Storage",
    "TD3Config",
    "TrainConfig",
    "bootstraps",
    "from_options",
    "import_env",
    "read_yaml",
    "register_algorithm",
    "require_threads",
    "resolve",
    "resolve_new",
]
