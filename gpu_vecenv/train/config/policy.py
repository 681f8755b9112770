"""Settings of one policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config.algorithms import ALGORITHMS, require_no_fields
from gpu_vecenv.train.config.checks import (
    NAME,
    Check,
    check_fields,
    checked,
    is_dict_of,
    plain,
    require,
    require_known,
    suggests_names,
)
from gpu_vecenv.train.config.network import NETWORK_CHECKS, NetworkConfig
from gpu_vecenv.train.config.ppo import PPO_CHECKS, PPOConfig, require_advantages
from gpu_vecenv.train.errors import ConfigError


@suggests_names
@dataclass(frozen=True)
class PolicyConfig:
    """Settings of one policy that differ from those of the run."""

    GROUPS: ClassVar[Mapping[str, type]] = {"ppo": PPOConfig, "network": NetworkConfig}
    algorithm: str | None = None
    """Registered name of the algorithm that updates the policy; None: the run's."""
    ppo: dict[str, Any] = field(default_factory=dict)
    """Fields of ``PPOConfig`` that differ from the run's. ``num_steps`` is the same for all policies."""
    network: dict[str, Any] = field(default_factory=dict)
    """Fields of ``NetworkConfig`` that differ from the run's."""
    module: str | None = None
    """Registered name of the user's network; None uses the built-in one."""
    algorithms: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Options of another algorithm than PPO that differ from the run's, by its name."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        check_fields(self, {"algorithm": NAME.or_none(), "module": NAME.or_none(), "algorithms": OPTIONS})
        require_no_fields(self, self.algorithms)
        for name, options in self.algorithms.items():
            if name in ALGORITHMS:
                _require_run_has_steps(name, options)
                fields = [each.name for each in dataclasses.fields(ALGORITHMS[name].config_class)]  # type: ignore[arg-type]
                require_known(name, options, [each for each in fields if each != "num_steps"])
        object.__setattr__(self, "algorithms", plain("algorithms", self.algorithms))
        for option, checks in _CHECKS.items():
            options = getattr(self, option)
            require(isinstance(options, Mapping), option, "fields by name", options)
            options = plain(option, options)
            if option == "ppo":
                _require_run_has_steps(option, options)
            require_known(option, options, checks)
            if option == "ppo":
                require_advantages(options.get("normalize_advantages"))
            checked_options = {name: checked(f"{option}.{name}", value, checks[name]) for name, value in options.items()}
            object.__setattr__(self, option, checked_options)

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return the options of algorithms that differ from the run's, by the name of the algorithm."""
        return {name: options for name, options in {"ppo": self.ppo, **self.algorithms}.items() if options}


def _require_run_has_steps(algorithm: str, options: Mapping[str, Any]) -> None:
    """Raise ConfigError if a policy has a rollout length."""
    if "num_steps" in options:
        got = abbreviated(options["num_steps"])
        option = f"--ppo num_steps={got}" if algorithm == "ppo" else f"--algorithms {algorithm}.num_steps={got}"
        where = f"the options of the run, because its policies have rollouts of one length ({option})"
        raise ConfigError(f"{algorithm}.num_steps: expected it among {where}, got {got} for one policy")


OPTIONS = Check(
    lambda value: is_dict_of(lambda _: True, value) and "ppo" not in value,
    "options by name of the algorithm, but for those of PPO, which are the option ppo",
)
"""A check for options of several algorithms."""

_CHECKS: Mapping[str, Mapping[str, Check]] = {
    "ppo": {name: check for name, check in PPO_CHECKS.items() if name != "num_steps"},
    "network": NETWORK_CHECKS,
}
