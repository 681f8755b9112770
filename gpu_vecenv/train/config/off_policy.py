"""Options that algorithms with a replay buffer have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.train.config.algorithms import AlgorithmConfig, Storage, bootstraps
from gpu_vecenv.train.config.checks import (
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SHARE,
    Check,
    check_fields,
    count,
    require,
)
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.config.ppo import MAX_ROLLOUT

MAX_ATOMS = 1_024


@dataclass(frozen=True)
class OffPolicyConfig(AlgorithmConfig):
    """Options of SAC, TD3 and DDPG.

    An iteration takes ``num_steps`` steps of every world, and then ``gradient_steps`` steps of the optimisers. The ratio of
    updates to data is ``gradient_steps * batch_size`` divided by the new transitions; it is the metric ``update_to_data``.
    """

    num_steps: int = 1
    """Rollout length T: steps of every world between two updates."""
    gradient_steps: int = 8
    """Steps of the critics' optimiser in an update, each with a batch of its own."""
    batch_size: int = 256
    """Transitions of a batch; of worlds, if observations have a shared part."""
    replay_size: int = 1_000_000
    """Transitions that the replay buffer keeps."""
    save_replay: bool = True
    """Checkpoints hold the replay buffer. Without it a resumed run fills the buffer anew before it learns."""
    learning_starts: int = 10_000
    """Transitions of the policy's agents before the first update. Until then actions are uniformly random."""
    noise_steps: int = 1
    """Steps of an episode for which random numbers of actions in rollouts stay the same; 1: each step has its own.

    Held noise reaches what needs a course of several steps, as generalised state-dependent exploration does (Raffin et al.
    2022, arXiv 2005.05719)."""
    actor_learning_rate: float = 3e-4
    """Adam's step size for the policy."""
    critic_learning_rate: float = 3e-4
    """Adam's step size for the critics."""
    gamma: float = 0.99
    """Discount per step."""
    tau: float = 0.005
    """Share of the present weights in those of the target networks, in one step."""
    n_steps: int = 1
    """Steps whose rewards a target adds before the value of the next observation, at most."""
    num_atoms: int = 1
    """Atoms of the distribution of returns that a critic describes (C51); 1: a critic's output is the expected return."""
    value_min: float | None = None
    """Return of the first atom; for ``num_atoms`` above 1 alone."""
    value_max: float | None = None
    """Return of the last atom; for ``num_atoms`` above 1 alone."""
    priority_exponent: float | None = None
    """Exponent of the priorities with which transitions are sampled; None samples all equally often."""
    importance_exponent: float | None = None
    """Exponent of the importance weights at the start, which moves linearly to 1 at ``schedule_steps``. None: 0.4 with
    priorities. Without priorities it is refused."""
    normalize_observations: bool = False
    """Shift and scale the observations that policies and critics read by running statistics."""
    bootstrap_at_time_limit: bool | None = None
    """Add the value of the final observation when the time limit ends an episode. None asks ``EnvSpec.limit_is_rule``."""
    network: ClassVar[NetworkConfig] = NetworkConfig((256, 256), "relu")
    needs_gradients: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = (
        "normalize_observations", "replay_size", "n_steps", "num_atoms", "value_min", "value_max", "priority_exponent",
        "save_replay",
    )  # fmt: skip
    saving_memory: ClassVar[tuple[str, ...]] = (
        *AlgorithmConfig.saving_memory, "a smaller {}.replay_size", "a smaller {}.batch_size"
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check ranges."""
        check_fields(self, OFF_POLICY_CHECKS)
        most = f"at most replay_size, {self.replay_size}"
        require(self.learning_starts <= self.replay_size, "learning_starts", most, self.learning_starts)
        bounds = (self.value_min, self.value_max)
        if self.num_atoms == 1:
            require(bounds == (None, None), "value_min, value_max", "None without num_atoms above 1", bounds)
        else:
            ordered = None not in bounds and bounds[0] < bounds[1]  # type: ignore[operator]  # neither is None
            require(ordered, "value_min, value_max", "returns of the first and of the last atom, in this order", bounds)
            atoms = np.linspace(*bounds, self.num_atoms, dtype=np.float32)  # type: ignore[arg-type]  # both are numbers
            apart = bool((np.diff(atoms) > 0).all())
            require(apart, "value_min, value_max", f"{self.num_atoms} atoms that differ in float32 between them", bounds)
        if self.priority_exponent is None:
            exponent = self.importance_exponent
            require(exponent is None, "importance_exponent", "None without priority_exponent", exponent)

    def storage(self, spec: EnvSpec) -> Storage:
        """See ``AlgorithmConfig.storage()``."""
        return Storage(bootstraps(self.bootstrap_at_time_limit, spec), "bootstrap_at_time_limit=False", next_masks=True)

    def require_samples(self, rows: int, policy: str) -> None:
        """Raise ConfigError if the replay buffer cannot hold a rollout; see ``AlgorithmConfig.require_samples()``."""
        super().require_samples(rows, policy)
        least = (self.num_steps + self.n_steps - 1) * rows
        where = f"for {self.num_steps:,} steps and n_steps {self.n_steps} of the policy {policy!r}, which has {rows:,} rows"
        require(self.replay_size >= least, "replay_size", f"at least {least:,} {where}", self.replay_size)


OFF_POLICY_CHECKS: Mapping[str, Check] = {
    "num_steps": count(MAX_ROLLOUT),
    **dict.fromkeys(("gradient_steps", "batch_size", "replay_size", "learning_starts", "noise_steps"), COUNT),
    **dict.fromkeys(("save_replay", "normalize_observations"), FLAG),
    **dict.fromkeys(("actor_learning_rate", "critic_learning_rate"), POSITIVE),
    **dict.fromkeys(("gamma", "tau"), SHARE),
    "n_steps": count(1_000),
    "num_atoms": count(MAX_ATOMS),
    **dict.fromkeys(("value_min", "value_max"), NUMBER.or_none()),
    "priority_exponent": NOT_NEGATIVE.or_none(),
    "importance_exponent": SHARE.or_none(),
    "bootstrap_at_time_limit": FLAG.or_none(),
}
"""Valid values of each field."""
