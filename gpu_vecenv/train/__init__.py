"""The bundled multi-agent trainer.

Reading order: ``config``; ``policies/contract.py`` and ``algorithms/contract.py``, the calls between rooms;
``runner/iteration.py``, which makes them; then ``storage``, ``policies``, ``algorithms``, ``returns``, the rest of ``runner``,
and ``run_folder``. ``docs/design/trainer.md`` and the three pages that it names give the reasons.

The names below are public. Each is imported at its first use, so that options of a run can be read before PyTorch is imported.
"""

from typing import TYPE_CHECKING

from gpu_vecenv.importing import at_first_use

_PUBLIC = {
    "algorithms.contract": ("Algorithm", "Setup"),
    "algorithms.masked_adam": ("MaskedAdam",),
    "algorithms.noise": ("Noise",),
    "config": (
        "AlgorithmConfig", "AlgorithmPreset", "AutoSizes", "DDPGConfig", "NetworkConfig", "PolicyConfig", "PPOConfig",
        "PQNConfig", "Preset", "SACConfig", "Storage", "TD3Config", "TrainConfig", "bootstraps", "register_algorithm",
    ),
    "errors": (
        "CallbackError", "CheckpointError", "ConfigError", "LostRankError", "MetricsError", "NonFiniteError", "PolicyMapError",
        "RunExistsError", "RunGoneError", "RunLockedError", "RunsError", "UnfinishedError",
    ),
    "policies.contract": ("Draw", "Inputs", "Policy"),
    "policies.networks": ("NetworkSpec",),
    "policies.registry": ("register_network",),
    "processes.group": ("Processes",),
    "processes.join": ("joined",),
    "run_folder.checkpoint": ("load_checkpoint", "require_same_form"),
    "run_folder.plot": ("plot_curves",),
    "runner.auto_sizes": ("FoundSizes", "find_sizes"),
    "runner.callbacks": ("Callback",),
    "runner.curriculum": ("Curriculum",),
    "runner.evaluation": ("evaluate", "play"),
    "runner.export": ("export_policy",),
    "runner.many": ("resume_many", "train_many"),
    "runner.measure": ("Evaluation",),
    "runner.one_of_many": ("RunResult",),
    "runner.page": ("PageOptions", "page"),
    "runner.run": ("Run",),
    "runner.run_policy": ("RunPolicy",),
    "runner.sweep": ("Sweep", "SweepOptions", "sweep"),
    "runner.sweep_space": ("read_space",),
    "runner.trainer": ("Trainer",),
    "runner.watch": ("watch",),
    "storage.replay": ("Batch", "Replay", "replay_bytes"),
    "storage.samples": ("Samples",),
}  # fmt: skip
"""Public names by the module that defines them."""

__all__ = sorted(name for names in _PUBLIC.values() for name in names)

if TYPE_CHECKING:
    from gpu_vecenv.train.algorithms.contract import Algorithm as Algorithm
    from gpu_vecenv.train.algorithms.contract import Setup as Setup
    from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam as MaskedAdam
    from gpu_vecenv.train.algorithms.noise import Noise as Noise
    from gpu_vecenv.train.config import AlgorithmConfig as AlgorithmConfig
    from gpu_vecenv.train.config import AlgorithmPreset as AlgorithmPreset
    from gpu_vecenv.train.config import AutoSizes as AutoSizes
    from gpu_vecenv.train.config import DDPGConfig as DDPGConfig
    from gpu_vecenv.train.config import NetworkConfig as NetworkConfig
    from gpu_vecenv.train.config import PolicyConfig as PolicyConfig
    from gpu_vecenv.train.config import PPOConfig as PPOConfig
    from gpu_vecenv.train.config import PQNConfig as PQNConfig
    from gpu_vecenv.train.config import Preset as Preset
    from gpu_vecenv.train.config import SACConfig as SACConfig
    from gpu_vecenv.train.config import Storage as Storage
    from gpu_vecenv.train.config import TD3Config as TD3Config
    from gpu_vecenv.train.config import TrainConfig as TrainConfig
    from gpu_vecenv.train.config import bootstraps as bootstraps
    from gpu_vecenv.train.config import register_algorithm as register_algorithm
    from gpu_vecenv.train.errors import CallbackError as CallbackError
    from gpu_vecenv.train.errors import CheckpointError as CheckpointError
    from gpu_vecenv.train.errors import ConfigError as ConfigError
    from gpu_vecenv.train.errors import LostRankError as LostRankError
    from gpu_vecenv.train.errors import MetricsError as MetricsError
    from gpu_vecenv.train.errors import NonFiniteError as NonFiniteError
    from gpu_vecenv.train.errors import PolicyMapError as PolicyMapError
    from gpu_vecenv.train.errors import RunExistsError as RunExistsError
    from gpu_vecenv.train.errors import RunGoneError as RunGoneError
    from gpu_vecenv.train.errors import RunLockedError as RunLockedError
    from gpu_vecenv.train.errors import RunsError as RunsError
    from gpu_vecenv.train.errors import UnfinishedError as UnfinishedError
    from gpu_vecenv.train.policies.contract import Draw as Draw
    from gpu_vecenv.train.policies.contract import Inputs as Inputs
    from gpu_vecenv.train.policies.contract import Policy as Policy
    from gpu_vecenv.train.policies.networks import NetworkSpec as NetworkSpec
    from gpu_vecenv.train.policies.registry import register_network as register_network
    from gpu_vecenv.train.processes.group import Processes as Processes
    from gpu_vecenv.train.processes.join import joined as joined
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint as load_checkpoint
    from gpu_vecenv.train.run_folder.checkpoint import require_same_form as require_same_form
    from gpu_vecenv.train.run_folder.plot import plot_curves as plot_curves
    from gpu_vecenv.train.runner.auto_sizes import FoundSizes as FoundSizes
    from gpu_vecenv.train.runner.auto_sizes import find_sizes as find_sizes
    from gpu_vecenv.train.runner.callbacks import Callback as Callback
    from gpu_vecenv.train.runner.curriculum import Curriculum as Curriculum
    from gpu_vecenv.train.runner.evaluation import evaluate as evaluate
    from gpu_vecenv.train.runner.evaluation import play as play
    from gpu_vecenv.train.runner.export import export_policy as export_policy
    from gpu_vecenv.train.runner.many import resume_many as resume_many
    from gpu_vecenv.train.runner.many import train_many as train_many
    from gpu_vecenv.train.runner.measure import Evaluation as Evaluation
    from gpu_vecenv.train.runner.one_of_many import RunResult as RunResult
    from gpu_vecenv.train.runner.page import PageOptions as PageOptions
    from gpu_vecenv.train.runner.page import page as page
    from gpu_vecenv.train.runner.run import Run as Run
    from gpu_vecenv.train.runner.run_policy import RunPolicy as RunPolicy
    from gpu_vecenv.train.runner.sweep import Sweep as Sweep
    from gpu_vecenv.train.runner.sweep import SweepOptions as SweepOptions
    from gpu_vecenv.train.runner.sweep import sweep as sweep
    from gpu_vecenv.train.runner.sweep_space import read_space as read_space
    from gpu_vecenv.train.runner.trainer import Trainer as Trainer
    from gpu_vecenv.train.runner.watch import watch as watch
    from gpu_vecenv.train.storage.replay import Batch as Batch
    from gpu_vecenv.train.storage.replay import Replay as Replay
    from gpu_vecenv.train.storage.replay import replay_bytes as replay_bytes
    from gpu_vecenv.train.storage.samples import Samples as Samples

__getattr__, __dir__ = at_first_use(__name__, _PUBLIC)
