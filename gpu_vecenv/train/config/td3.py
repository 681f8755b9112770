"""Options of TD3, and of DDPG, which it extends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpu_vecenv.train.config.algorithms import register_algorithm
from gpu_vecenv.train.config.checks import COUNT, NOT_NEGATIVE, POSITIVE, check_fields, require, suggests_names
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.off_policy import OffPolicyConfig


@suggests_names
@dataclass(frozen=True)
class TD3Config(OffPolicyConfig):
    """Options of twin delayed deep deterministic policy gradients (Fujimoto et al. 2018, arXiv 1802.09477)."""

    learning_starts: int = 25_000
    """Transitions of the policy's agents before the first update. Until then actions are uniformly random."""
    exploration_noise: float = 0.1
    """Deviation of the normal noise of actions in rollouts, of actions whose bounds are -1 and 1."""
    policy_delay: int = 2
    """Steps of the critics for one step of the policy and of the target networks."""
    target_noise: float = 0.2
    """Deviation of the normal noise of the target policy's actions."""
    target_noise_clip: float = 0.5
    """The noise of the target policy's actions is clipped to ``[-target_noise_clip, target_noise_clip]``."""
    num_critics: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        checks = {"exploration_noise": POSITIVE, "target_noise_clip": POSITIVE, "target_noise": NOT_NEGATIVE}
        check_fields(self, {**checks, "policy_delay": COUNT})
        multiple = self.gradient_steps % self.policy_delay == 0
        require(multiple, "gradient_steps", f"a multiple of policy_delay, {self.policy_delay}", self.gradient_steps)


@suggests_names
@dataclass(frozen=True)
class DDPGConfig(OffPolicyConfig):
    """Options of deep deterministic policy gradients (Lillicrap et al. 2016, arXiv 1509.02971)."""

    batch_size: int = 64
    """Transitions of a batch; of worlds, if observations have a shared part."""
    actor_learning_rate: float = 1e-4
    """Adam's step size for the policy."""
    critic_learning_rate: float = 1e-3
    """Adam's step size for the critic."""
    tau: float = 0.001
    """Share of the present weights in those of the target networks, in one step."""
    exploration_noise: float = 0.2
    """Deviation of the normal noise of actions in rollouts, of actions whose bounds are -1 and 1."""
    policy_delay: ClassVar[int] = 1
    target_noise: ClassVar[float] = 0.0
    target_noise_clip: ClassVar[float] = 0.0
    num_critics: ClassVar[int] = 1
    network: ClassVar[NetworkConfig] = NetworkConfig((400, 300), "relu")

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        check_fields(self, {"exploration_noise": POSITIVE})


_PARTS = (
    "gpu_vecenv.train.fused.off_policy:make_td3",
    "gpu_vecenv.train.fused.off_policy:td3_memory",
    "gpu_vecenv.train.policies.actor:make_deterministic_policy",
)
register_algorithm("td3", TD3Config, *_PARTS)
register_algorithm("ddpg", DDPGConfig, *_PARTS)
