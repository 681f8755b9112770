"""Options of a training run: frozen dataclasses that JSON stores and restores unchanged."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from gpu_vecenv.train.config.plain import plain
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.vector.seeding import MAX_SEED

MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1
"""Largest value of an option that 32-bit kernels read, and of one that only Python reads."""
MAX_TORCH_THREADS = 1024
MAX_WIDTH = 65_536
MAX_ROLLOUT = 65_536
"""Largest length of a rollout. The time to prepare one grows with it, and a checkpoint of another must not take minutes."""


def _require(ok: bool, name: str, expected: str, got: object) -> None:
    if not ok:
        raise ConfigError(f"{name}: expected {expected}, got {got!r}")


def _is_number(value: object) -> bool:
    """True for a finite number within the range of a float64."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_integer(value: object, low: int, high: float = math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable()


def _is_dict(value: object, of_names: bool) -> bool:
    return isinstance(value, dict) and all(_is_name(k) and (_is_name(v) or not of_names) for k, v in value.items())


def require_threads(threads: int) -> None:
    """Raise ConfigError unless torch can be set to this number of threads."""
    _require(_is_integer(threads, 1, MAX_TORCH_THREADS), "threads", f"an integer from 1 to {MAX_TORCH_THREADS}", threads)


_COUNT, _LONG_COUNT = f"an integer from 1 to {MAX_INT}", f"an integer from 1 to {MAX_LONG}"


@dataclass(frozen=True)
class PPOConfig:
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
    learning_rate_schedule: Literal["constant", "linear"] = "linear"
    """``linear`` falls to zero at ``total_steps``."""
    gamma: float = 0.99
    """Discount per step."""
    gae_lambda: float = 0.95
    """Decay of generalised advantage estimation."""
    clip_coef: float = 0.2
    """The ratio is clipped to ``[1 - clip_coef, 1 + clip_coef]``."""
    clip_value: bool = True
    """Clip the change of a value in an update to ``[-clip_coef, clip_coef]``."""
    value_coef: float = 0.5
    """Weight of the value loss."""
    entropy_coef: float = 0.01
    """Weight of the entropy bonus at the start."""
    entropy_coef_final: float | None = None
    """Weight of the entropy bonus at ``total_steps``, reached linearly; None keeps it constant."""
    max_grad_norm: float = 0.5
    """Largest norm of a policy's gradient; longer gradients are scaled down to it."""
    target_kl: float | None = None
    """Stop an update after an epoch whose mean KL divergence exceeds this; costs one host sync an epoch."""
    normalize_advantages: bool = True
    """Shift and scale a rollout's advantages to mean 0 and deviation 1, for each policy separately."""
    normalize_observations: bool = True
    """Shift and scale the observations that policies read by running statistics."""
    normalize_rewards: bool = True
    """Divide rewards by the running deviation of the discounted return, for each policy separately."""
    bootstrap_at_time_limit: bool | None = None
    """Add the value of the final observation when the time limit ends an episode.

    None decides by the number of agents in a world. With one agent (classic control) the limit is not part of the task: True.
    With several agents (Tag) observations hold the time, and the limit is a rule of the game: False.
    """

    def __post_init__(self) -> None:
        """Check ranges."""
        value = self.num_steps
        _require(_is_integer(value, 1, MAX_ROLLOUT), "num_steps", f"an integer from 1 to {MAX_ROLLOUT}", value)
        for name in ("num_epochs", "num_minibatches"):
            value = getattr(self, name)
            _require(_is_integer(value, 1, MAX_INT), name, _COUNT, value)
        for name in ("gamma", "gae_lambda"):
            value = getattr(self, name)
            _require(_is_number(value) and 0.0 <= value <= 1.0, name, "a number in [0, 1]", value)
        for name in ("learning_rate", "clip_coef", "max_grad_norm"):
            value = getattr(self, name)
            _require(_is_number(value) and value > 0.0, name, "a number > 0", value)
        for name in ("value_coef", "entropy_coef"):
            value = getattr(self, name)
            _require(_is_number(value), name, "a number", value)
        for name in ("entropy_coef_final", "target_kl"):
            value = getattr(self, name)
            _require(value is None or _is_number(value), name, "a number or None", value)
        for name in ("clip_value", "normalize_advantages", "normalize_observations", "normalize_rewards"):
            value = getattr(self, name)
            _require(isinstance(value, bool), name, "True or False", value)
        bootstrap = self.bootstrap_at_time_limit
        good = bootstrap is None or isinstance(bootstrap, bool)
        _require(good, "bootstrap_at_time_limit", "True, False or None", bootstrap)
        schedule = self.learning_rate_schedule
        _require(
            schedule in ("constant", "linear"), "learning_rate_schedule", "'constant' or 'linear'", schedule
        )


@dataclass(frozen=True)
class NetworkConfig:
    """Shape of a feed-forward actor-critic; actor and critic do not share layers."""

    hidden_sizes: tuple[int, ...] = (64, 64)
    """Width of each hidden layer."""
    activation: Literal["tanh", "relu", "elu"] = "tanh"
    """Nonlinearity between layers."""

    def __post_init__(self) -> None:
        """Check ranges."""
        sizes = self.hidden_sizes
        good = isinstance(sizes, tuple | list) and all(_is_integer(size, 1, MAX_WIDTH) for size in sizes)
        _require(good, "hidden_sizes", f"a tuple of integers from 1 to {MAX_WIDTH}, such as (64, 64)", sizes)
        object.__setattr__(self, "hidden_sizes", tuple(sizes))
        good = self.activation in ("tanh", "relu", "elu")
        _require(good, "activation", "'tanh', 'relu' or 'elu'", self.activation)


@dataclass(frozen=True)
class TrainConfig:
    """One training run. Fields left None are filled from the env's preset, see ``presets.py``."""

    env_id: str
    """Registered Gymnasium id, such as ``WarpTag-v0``."""
    num_envs: int | None = None
    """Number of worlds."""
    total_steps: int | None = None
    """Steps of the run, summed over worlds; rounded up to whole rollouts."""
    seed: int = 0
    """Seed of worlds, weights and sampling."""
    device: str = "auto"
    """``auto``, ``cpu`` or ``cuda:0``."""
    out: str | None = None
    """Folder for checkpoint, metrics and TensorBoard files; None writes nothing."""
    checkpoint_interval: int = 50
    """Iterations between two checkpoints; the end of training writes one, too."""
    keep_checkpoints: int = 3
    """Number of the newest checkpoints to keep; the best one of the evaluations is kept besides."""
    wandb: str | None = None
    """Project at Weights & Biases that gets the metrics; None sends nothing."""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Env parameters by their spec names; others have the defaults of the spec."""
    policy_map: dict[str, str] | None = None
    """Role name to policy name; ``random`` acts uniformly at random. None gives each role a policy of its own."""
    frozen: tuple[str, ...] = ()
    """Policies that act but are not updated."""
    load_policies: dict[str, str] = field(default_factory=dict)
    """Policy name to a checkpoint file; the policy starts with the weights that the file holds under the same name."""
    ppo: PPOConfig | None = None
    """Hyperparameters of the update."""
    network: NetworkConfig | None = None
    """Shape of the networks."""
    threads: int = 1
    """CPU threads of torch in training, evaluation and play; the process's own number is restored afterwards.

    With 1, results are bitwise the same for any number of cores, and small networks are fastest on a busy machine.
    """

    def __post_init__(self) -> None:
        """Check types and ranges."""
        module, colon, name = self.env_id.rpartition(":") if _is_name(self.env_id) else ("", "", "")
        good = name != "" and (module != "" or not colon) and ":" not in module
        _require(good, "env_id", "a registered id, such as WarpTag-v0 or module:Env-v0", self.env_id)
        _require(self.num_envs is None or _is_integer(self.num_envs, 1, MAX_INT), "num_envs", _COUNT, self.num_envs)
        good = self.total_steps is None or _is_integer(self.total_steps, 1, MAX_LONG)
        _require(good, "total_steps", _LONG_COUNT, self.total_steps)
        _require(_is_integer(self.seed, 0, MAX_SEED), "seed", "an integer from 0 to 2**64 - 1", self.seed)
        _require(_is_name(self.device), "device", "auto, cpu, cuda or cuda:N", self.device)
        _require(self.out is None or _is_name(self.out), "out", "a folder's path as a str, or None", self.out)
        good = _is_integer(self.checkpoint_interval, 1, MAX_LONG)
        _require(good, "checkpoint_interval", _LONG_COUNT, self.checkpoint_interval)
        good = _is_integer(self.keep_checkpoints, 1, MAX_LONG)
        _require(good, "keep_checkpoints", _LONG_COUNT, self.keep_checkpoints)
        _require(self.wandb is None or _is_name(self.wandb), "wandb", "a project's name, or None", self.wandb)
        _require(_is_dict(self.env_kwargs, of_names=False), "env_kwargs", "a dict with str keys", self.env_kwargs)
        good = self.policy_map is None or _is_dict(self.policy_map, of_names=True)
        _require(good, "policy_map", "a dict of role and policy names, or None", self.policy_map)
        good = isinstance(self.frozen, tuple | list) and all(_is_name(name) for name in self.frozen)
        _require(good, "frozen", "a tuple of policy names", self.frozen)
        object.__setattr__(self, "frozen", tuple(self.frozen))
        object.__setattr__(self, "env_kwargs", plain(self.env_kwargs))
        good = _is_dict(self.load_policies, of_names=True)
        _require(good, "load_policies", "a dict of policy names and checkpoint paths", self.load_policies)
        for option, kind in (("ppo", PPOConfig), ("network", NetworkConfig)):
            value = getattr(self, option)
            _require(value is None or isinstance(value, kind), option, f"a {kind.__name__}, or None", value)
        require_threads(self.threads)

    def to_json(self) -> str:
        """Return the options as one JSON object.

        Raises:
            ConfigError: ``env_kwargs`` holds a value that JSON cannot store.
        """
        try:
            return json.dumps(dataclasses.asdict(self))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"env_kwargs: expected numbers, text, lists and dicts, got {self.env_kwargs!r}: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> TrainConfig:
        """Rebuild the options from ``to_json()``.

        Raises:
            ConfigError: an option is unknown, of another type or out of range.
            ValueError, RecursionError: the text is no JSON.
        """
        options = json.loads(text)
        _require(isinstance(options, dict) and "env_id" in options, "options", "a JSON object with an env_id", options)
        if options.get("ppo") is not None:
            options["ppo"] = from_options(PPOConfig, options["ppo"])
        if options.get("network") is not None:
            options["network"] = from_options(NetworkConfig, options["network"])
        return from_options(cls, options)


@dataclass(frozen=True)
class ResolvedConfig(TrainConfig):
    """Options of a run after ``gpu_vecenv.train.config.presets.resolve()`` has replaced None in the fields of a preset."""

    num_envs: int = 1
    total_steps: int = 1
    ppo: PPOConfig = field(default_factory=PPOConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)


_Config = TypeVar("_Config", PPOConfig, NetworkConfig, TrainConfig)


def from_options(cls: type[_Config], options: Mapping[str, Any]) -> _Config:
    """Build a config; the error for an unknown option lists the known ones.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    _require(isinstance(options, Mapping), cls.__name__, "options by name", options)
    known = [f.name for f in dataclasses.fields(cls)]
    for name in options:
        _require(name in known, f"{cls.__name__} option", f"one of {', '.join(known)}", name)
    return cls(**options)
