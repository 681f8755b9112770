"""Settings of one policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_vecenv.train.config.checks import NAME, Check, check_fields, plain, require, require_known
from gpu_vecenv.train.config.network import NETWORK_CHECKS
from gpu_vecenv.train.config.ppo import PPO_CHECKS, require_advantages


@dataclass(frozen=True)
class PolicyConfig:
    """Settings of one policy that differ from those of the run."""

    algorithm: str = "ppo"
    """Registered name of the algorithm that updates the policy."""
    ppo: dict[str, Any] = field(default_factory=dict)
    """Fields of ``PPOConfig`` that differ from the run's. ``num_steps`` is the same for all policies."""
    network: dict[str, Any] = field(default_factory=dict)
    """Fields of ``NetworkConfig`` that differ from the run's."""
    module: str | None = None
    """Registered name of the user's network; None uses the built-in one."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        check_fields(self, {"algorithm": NAME, "module": NAME.or_none()})
        for option, checks in _CHECKS.items():
            given = getattr(self, option)
            require(isinstance(given, Mapping), option, "fields by name", given)
            given = plain(option, given)
            require_known(option, given, checks)
            if option == "ppo":
                require_advantages(given.get("normalize_advantages"))
            for name, value in given.items():
                require(checks[name].test(value), f"{option}.{name}", checks[name].expected, value)
            object.__setattr__(self, option, given)


_CHECKS: Mapping[str, Mapping[str, Check]] = {
    "ppo": {name: check for name, check in PPO_CHECKS.items() if name != "num_steps"},
    "network": NETWORK_CHECKS,
}
