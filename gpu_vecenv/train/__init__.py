"""The bundled multi-agent trainer.

Reading order: ``config``; ``policies/contract.py`` and ``algorithms/contract.py``, the calls between rooms;
``runner/iteration.py``, which makes them; then ``storage``, ``policies``, ``algorithms``, ``returns``, the rest of ``runner``,
and ``run_folder``. ``docs/design/trainer.md`` and the three pages that it names give the reasons.
"""

from gpu_vecenv.importing import collector_paused

with collector_paused():
    from gpu_vecenv.train.algorithms.contract import Algorithm, Setup
    from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
    from gpu_vecenv.train.algorithms.noise import Noise
    from gpu_vecenv.train.config import (
        AlgorithmConfig,
        AlgorithmPreset,
        AutoSizes,
        DDPGConfig,
        NetworkConfig,
        PolicyConfig,
        PPOConfig,
        PQNConfig,
        Preset,
        SACConfig,
        Storage,
        TD3Config,
        TrainConfig,
        bootstraps,
        register_algorithm,
    )
    from gpu_vecenv.train.errors import (
        CallbackError,
        CheckpointError,
        ConfigError,
        LostRankError,
        MetricsError,
        NonFiniteError,
        PolicyMapError,
        RunExistsError,
        RunGoneError,
        RunLockedError,
        RunsError,
        UnfinishedError,
    )
    from gpu_vecenv.train.policies.contract import Draw, Inputs, Policy
    from gpu_vecenv.train.policies.networks import NetworkSpec
    from gpu_vecenv.train.policies.registry import register_network
    from gpu_vecenv.train.processes.group import Processes
    from gpu_vecenv.train.processes.join import joined
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, require_same_form
    from gpu_vecenv.train.run_folder.plot import plot_curves
    from gpu_vecenv.train.runner.auto_sizes import FoundSizes, find_sizes
    from gpu_vecenv.train.runner.callbacks import Callback
    from gpu_vecenv.train.runner.curriculum import Curriculum
    from gpu_vecenv.train.runner.evaluation import evaluate, play
    from gpu_vecenv.train.runner.export import export_policy
    from gpu_vecenv.train.runner.many import resume_many, train_many
    from gpu_vecenv.train.runner.measure import Evaluation
    from gpu_vecenv.train.runner.one_of_many import RunResult
    from gpu_vecenv.train.runner.page import PageOptions, page
    from gpu_vecenv.train.runner.run import Run
    from gpu_vecenv.train.runner.run_policy import RunPolicy
    from gpu_vecenv.train.runner.sweep import Sweep, SweepOptions, sweep
    from gpu_vecenv.train.runner.sweep_space import read_space
    from gpu_vecenv.train.runner.trainer import Trainer
    from gpu_vecenv.train.runner.watch import watch
    from gpu_vecenv.train.storage.replay import Batch, Replay, replay_bytes
    from gpu_vecenv.train.storage.samples import Samples

__all__ = [
    "Algorithm",
    "AlgorithmConfig",
    "AlgorithmPreset",
    "AutoSizes",
    "Batch",
    "Callback",
    "CallbackError",
    "CheckpointError",
    "ConfigError",
    "Curriculum",
    "DDPGConfig",
    "Draw",
    "Evaluation",
    "FoundSizes",
    "Inputs",
    "MaskedAdam",
    "LostRankError",
    "MetricsError",
    "NetworkConfig",
    "NetworkSpec",
    "Noise",
    "NonFiniteError",
    "PPOConfig",
    "PageOptions",
    "PQNConfig",
    "Policy",
    "PolicyConfig",
    "PolicyMapError",
    "Processes",
    "Preset",
    "Replay",
    "Run",
    "RunExistsError",
    "RunGoneError",
    "RunLockedError",
    "RunPolicy",
    "RunResult",
    "RunsError",
    "SACConfig",
    "Samples",
    "Setup",
    "Storage",
    "Sweep",
    "SweepOptions",
    "TD3Config",
    "TrainConfig",
    "Trainer",
    "UnfinishedError",
    "bootstraps",
    "evaluate",
    "export_policy",
    "find_sizes",
    "joined",
    "load_checkpoint",
    "page",
    "play",
    "plot_curves",
    "register_algorithm",
    "register_network",
    "read_space",
    "replay_bytes",
    "require_same_form",
    "resume_many",
    "sweep",
    "train_many",
    "watch",
]
