"""Hyperparameters of PQN."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.train.config.algorithms import (
    AlgorithmConfig,
    Storage,
    bootstraps,
    register_algorithm,
    require_minibatches,
)
from gpu_vecenv.train.config.checks import COUNT, FLAG, POSITIVE, SHARE, Check, check_fields, count, one_of, suggests_names
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.ppo import MAX_ROLLOUT


@suggests_names
@dataclass(frozen=True)
class PQNConfig(AlgorithmConfig):
    """Hyperparameters of parallelised Q-networks (Gallici et al. 2024, arXiv 2407.04811), and of PQN-VDN for teams."""

    num_steps: int = 32
    """Rollout length T: steps of every world between two updates."""
    num_epochs: int = 2
    """Epochs, each a pass over the rollout."""
    num_minibatches: int = 16
    """Minibatches of an epoch, one optimiser step each."""
    learning_rate: float = 5e-4
    """RAdam's step size at the start."""
    learning_rate_schedule: Literal["constant", "linear"] = "linear"
    """``linear`` falls to zero at ``schedule_steps``."""
    gamma: float = 0.99
    """Discount per step."""
    q_lambda: float = 0.65
    """Decay of the lambda return: 0 looks one step ahead, 1 to the end of the rollout."""
    mixing: Literal["none", "vdn"] = "none"
    """``none`` learns values of single agents. ``vdn`` is PQN-VDN: the agents of a policy in a world are a team, whose value is
    the sum of theirs and whose reward is the sum of theirs (Sunehag et al. 2018, arXiv 1706.05296)."""
    epsilon_start: float = 1.0
    """Probability of a random choice in rollouts at the start."""
    epsilon_final: float = 0.05
    """Probability of a random choice after ``exploration_fraction``, reached linearly. Evaluations have none."""
    exploration_fraction: float = 0.2
    """Part of ``schedule_steps`` after which ``epsilon_final`` is reached."""
    reward_scale: float = 1.0
    """Factor of the rewards that are learned from."""
    max_grad_norm: float = 10.0
    """Largest norm of a policy's gradient; longer gradients are scaled down to it."""
    normalize_observations: bool = True
    """Shift and scale the observations that policies read by running statistics."""
    bootstrap_at_time_limit: bool | None = None
    """Add the value of the final observation when the time limit ends an episode. None asks ``EnvSpec.limit_is_rule``."""
    needs_gradients: ClassVar[bool] = True
    network: ClassVar[NetworkConfig] = NetworkConfig((128, 128), "relu", layer_norm=True)
    saving_memory: ClassVar[tuple[str, ...]] = (*AlgorithmConfig.saving_memory, "more {}.num_minibatches")

    def __post_init__(self) -> None:
        """Check ranges."""
        check_fields(self, _CHECKS)

    def storage(self, spec: EnvSpec) -> Storage:
        """See ``AlgorithmConfig.storage()``."""
        return Storage(bootstraps(self.bootstrap_at_time_limit, spec), "bootstrap_at_time_limit=False", next_masks=True)

    def require_samples(self, rows: int, policy: str) -> None:
        """Raise ConfigError if a rollout cannot fill all minibatches; see ``AlgorithmConfig.require_samples()``."""
        require_minibatches(self.num_steps, self.num_minibatches, rows, policy)


_CHECKS: Mapping[str, Check] = {
    "num_steps": count(MAX_ROLLOUT),
    **dict.fromkeys(("num_epochs", "num_minibatches"), COUNT),
    **dict.fromkeys(("gamma", "q_lambda", "epsilon_start", "epsilon_final", "exploration_fraction"), SHARE),
    **dict.fromkeys(("learning_rate", "reward_scale", "max_grad_norm"), POSITIVE),
    "learning_rate_schedule": one_of("constant", "linear"),
    "mixing": one_of("none", "vdn"),
    "normalize_observations": FLAG,
    "bootstrap_at_time_limit": FLAG.or_none(),
}
"""Valid values of each field."""


_PLACE = "gpu_vecenv.train.algorithms.pqn"
register_algorithm(
    "pqn", PQNConfig, f"{_PLACE}.pqn:make_pqn", f"{_PLACE}.memory:pqn_memory", "gpu_vecenv.train.policies.build:make_q_policy"
)
