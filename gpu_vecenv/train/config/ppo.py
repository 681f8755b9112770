"""Hyperparameters of PPO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config.algorithms import AlgorithmConfig, Storage, bootstraps, register_algorithm, require_minibatches
from gpu_vecenv.train.config.checks import (
    COUNT,
    FLAG,
    LONG_COUNT,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SHARE,
    Check,
    check_fields,
    count,
    is_number,
    one_of,
    plain,
    require,
    suggests_names,
)
from gpu_vecenv.train.errors import ConfigError

MAX_ROLLOUT = 65_536
"""Largest length of a rollout. The time to prepare one grows with it, and a checkpoint of another must not take minutes."""


@suggests_names
@dataclass(frozen=True)
class PPOConfig(AlgorithmConfig):
    """Hyperparameters of proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347).

    With ``num_epochs=1`` and ``num_minibatches=1`` the ratio is 1 and the update is A2C.
    """

    num_steps: int = 32
    """Rollout length T: steps of every world between two updates."""
    num_epochs: int = 4
    """Epochs, each a pass over the rollout."""
    num_minibatches: int = 4
    """Minibatches of an epoch, one optimiser step each."""
    learning_rate: float = 3e-4
    """Adam's step size at the start."""
    learning_rate_schedule: Literal["constant", "linear", "adaptive"] = "linear"
    """``linear`` falls to zero at ``schedule_steps``; ``adaptive`` keeps the KL divergence of an update near ``target_kl``, with
    rates from 1e-6 to 1e-2, or to ``learning_rate`` if that lies outside."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """Decay of generalised advantage estimation."""
    clip_coef: float = 0.2
    """The ratio is clipped to ``[1 - clip_coef, 1 + clip_coef]``."""
    clip_coef_final: float | None = None
    """``clip_coef`` at ``schedule_steps``, reached linearly; None keeps it constant."""
    clip_value: bool = True
    """Clip the change of a value in an update to ``[-clip_coef, clip_coef]``."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus at the start."""
    entropy_coef_final: float | None = None
    """Weight of the entropy bonus at ``schedule_steps``, reached linearly; None keeps it constant."""
    max_grad_norm: float = 0.5
    """Largest norm of a policy's gradient; longer gradients are scaled down to it."""
    target_kl: float | None = None
    """Stop an update after an epoch whose mean KL divergence exceeds this. The adaptive schedule needs it and does not stop."""
    normalize_advantages: Literal["rollout", "minibatch", "none"] = "rollout"
    """Shift and scale advantages to mean 0 and deviation 1 over a policy's rollout, or over each minibatch."""
    normalize_observations: bool = True
    """Shift and scale the observations that policies read by running statistics."""
    normalize_rewards: bool = True
    """Divide rewards by the running deviation of the discounted return, for each policy separately."""
    bootstrap_at_time_limit: bool | None = None
    """Add the value of the final observation when the time limit ends an episode. None asks ``EnvSpec.limit_is_rule``."""
    entropy_schedule: tuple[tuple[int, float], ...] | None = None
    """Weights of the entropy bonus after some steps of the run, summed over worlds: ``((1_000_000, 0.1), (5_000_000, 0.05))``.

    The weight is ``entropy_coef`` at step 0, moves linearly to each of these in turn, and then stays. None has no such points;
    with them, ``entropy_coef_final`` is refused."""
    sequence_length: int | None = None
    """Only of policies with a state: minibatches are segments of this many steps, a divisor of ``num_steps``, which start from
    the states of the rollout. None learns from whole sequences, all ``num_steps`` steps of a row."""
    needs_gradients: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = ("normalize_observations", "normalize_rewards")
    saving_memory: ClassVar[tuple[str, ...]] = (*AlgorithmConfig.saving_memory, "more {}.num_minibatches")

    def __post_init__(self) -> None:
        """Check ranges."""
        require_advantages(self.normalize_advantages)
        if self.entropy_schedule is not None:
            object.__setattr__(self, "entropy_schedule", plain("entropy_schedule", self.entropy_schedule))
        check_fields(self, PPO_CHECKS)
        if self.entropy_schedule is not None:
            points = tuple((LONG_COUNT.read(steps), float(x)) for steps, x in self.entropy_schedule)
            object.__setattr__(self, "entropy_schedule", points)
            if self.entropy_coef_final is not None:
                raise ConfigError(
                    f"entropy_schedule: expected it or entropy_coef_final, got both, {abbreviated(self.entropy_schedule)} and "
                    f"{self.entropy_coef_final}"
                )
        if self.learning_rate_schedule == "adaptive" and self.target_kl is None:
            raise ConfigError("learning_rate_schedule: expected a target_kl with 'adaptive', got None")
        if self.sequence_length is not None and self.num_steps % self.sequence_length:
            raise ConfigError(f"sequence_length: expected a divisor of num_steps, {self.num_steps}, got {self.sequence_length}")

    def storage(self, spec: EnvSpec) -> Storage:
        """See ``AlgorithmConfig.storage()``."""
        return Storage(bootstraps(self.bootstrap_at_time_limit, spec), "bootstrap_at_time_limit=False")

    def require_samples(self, rows: int, policy: str) -> None:
        """Raise ConfigError if a rollout cannot fill all minibatches; see ``AlgorithmConfig.require_samples()``."""
        require_minibatches(self.num_steps, self.num_minibatches, rows, policy)


def _is_schedule(value: object) -> bool:
    """Return True for a list of pairs of steps, which increase from 1 on, and numbers."""
    if not isinstance(value, list) or not value or not all(isinstance(point, list) and len(point) == 2 for point in value):
        return False
    steps, weights = zip(*value, strict=True)
    steps = tuple(map(LONG_COUNT.read, steps))
    valid = all(map(LONG_COUNT.test, steps)) and all(map(is_number, weights))
    return valid and all(before < after for before, after in pairwise(steps))


PPO_CHECKS: Mapping[str, Check] = {
    "num_steps": count(MAX_ROLLOUT),
    **dict.fromkeys(("num_epochs", "num_minibatches"), COUNT),
    **dict.fromkeys(("gamma", "gae_lambda"), SHARE),
    **dict.fromkeys(("learning_rate", "clip_coef", "max_grad_norm"), POSITIVE),
    **dict.fromkeys(("value_coef", "entropy_coef"), NUMBER),
    "clip_coef_final": NOT_NEGATIVE.or_none(),
    "entropy_coef_final": NUMBER.or_none(),
    "entropy_schedule": Check(
        _is_schedule,
        "pairs of steps, which increase from 1 on, and weights, such as ((1_000_000, 0.1), (5_000_000, 0.05)), beside "
        "entropy_coef, the weight at step 0",
    ).or_none(),
    "target_kl": POSITIVE.or_none(),
    "sequence_length": count(MAX_ROLLOUT).or_none(),
    **dict.fromkeys(("clip_value", "normalize_observations", "normalize_rewards"), FLAG),
    "bootstrap_at_time_limit": FLAG.or_none(),
    "learning_rate_schedule": one_of("constant", "linear", "adaptive"),
    "normalize_advantages": one_of("rollout", "minibatch", "none"),
}
"""Valid values of each field."""


def require_advantages(value: object) -> None:
    """Raise ConfigError for True and False, which ``normalize_advantages`` had before it named what it normalises over."""
    if isinstance(value, bool):
        now = "rollout" if value else "none"
        expected = f"{PPO_CHECKS['normalize_advantages'].expected} ({now!r} stands for the former {value})"
        require(False, "normalize_advantages", expected, value)


register_algorithm("ppo", PPOConfig, "gpu_vecenv.train.fused.ppo:make_ppo", "gpu_vecenv.train.fused.ppo_memory:ppo_memory")
