"""Options of soft actor-critic."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_vecenv.train.config.algorithms import register_algorithm
from gpu_vecenv.train.config.checks import NUMBER, POSITIVE, check_fields, require, suggests_names
from gpu_vecenv.train.config.off_policy import OffPolicyConfig


@suggests_names
@dataclass(frozen=True)
class SACConfig(OffPolicyConfig):
    """Options of soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905; for choices Christodoulou 2019, arXiv 1910.07207)."""

    temperature: float = 1.0
    """Weight of the entropy at the start."""
    temperature_learning_rate: float | None = 3e-4
    """Adam's step size for the logarithm of the temperature; None keeps the temperature as it is."""
    target_entropy: float | None = None
    """Entropy that the temperature is adjusted to, in nats, of actions whose bounds are -1 and 1. None: minus the numbers of an
    action, or 98 % of the entropy of uniform random choices among those that are allowed."""

    def __post_init__(self) -> None:
        """Check ranges."""
        super().__post_init__()
        checks = {"temperature": POSITIVE, "temperature_learning_rate": POSITIVE.or_none(), "target_entropy": NUMBER.or_none()}
        check_fields(self, checks)
        if self.temperature_learning_rate is None:
            require(self.target_entropy is None, "target_entropy", "None without temperature_learning_rate", self.target_entropy)


register_algorithm(
    "sac", SACConfig, "gpu_vecenv.train.fused.off_policy:make_sac", "gpu_vecenv.train.fused.off_policy:sac_memory",
    "gpu_vecenv.train.policies.actor:make_soft_policy",
)  # fmt: skip
