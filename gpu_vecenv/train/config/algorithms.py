"""Algorithms by name: the options of each, and what makes it."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.train.config.checks import MAX_INT, from_options, is_name, plain, require
from gpu_vecenv.train.config.network import NetworkConfig
from gpu_vecenv.train.errors import ConfigError


class Storage(NamedTuple):
    """Arrays that an algorithm reads of a rollout, beside those that each rollout holds."""

    final_obs: bool = False
    """Observations of the steps that end an episode, as ``Samples.final_obs``."""
    without_final_obs: str = "an algorithm that reads no final observations"
    """Name of the option that leaves them out, for errors."""
    next_masks: bool = False
    """Masks of what follows each step: those after the last step, which ``Samples.mask`` always has in envs without flags of
    effect, and with ``final_obs`` those of final observations, as ``Samples.final_mask``."""


def bootstraps(option: bool | None, spec: EnvSpec) -> bool:
    """Return True if the value of the final observation is added when the time limit ends an episode.

    Args:
        option: True or False; None asks the env.
        spec: description of the env.
    """
    return not spec.limit_is_rule if option is None else option


class AlgorithmConfig:
    """Options that each algorithm has; a frozen dataclass derives from this class and defines both fields."""

    num_steps: int
    """Rollout length T: steps of every world between two updates."""
    normalize_observations: bool
    """Shift and scale the observations that policies read by running statistics."""
    needs_gradients: ClassVar[bool] = False
    """The policy learns by gradients, so a network without weights that learn is refused."""
    kept: ClassVar[tuple[str, ...]] = ("normalize_observations",)
    """Fields that a resumed run keeps, beside ``num_steps``, because the form of its state depends on them."""
    network: ClassVar[NetworkConfig] = NetworkConfig()
    """Shape of networks where neither the run nor a preset gives one."""
    saving_memory: ClassVar[tuple[str, ...]] = ("a smaller {}.num_steps",)
    """Advice for a run that does not fit into memory; ``{}`` stands for the name of the algorithm."""

    def storage(self, spec: EnvSpec) -> Storage:
        """Return what the algorithm reads of a rollout of an env."""
        return Storage()

    def require_samples(self, rows: int, policy: str) -> None:
        """Raise ConfigError if a rollout has too few or too many samples of a policy.

        Args:
            rows: number of agents that the policy acts for, over all worlds, or of worlds if observations have a shared part.
            policy: name of the policy.
        """
        require_places(self.num_steps * rows, f"for the policy {policy!r}, which has {rows:,} rows and {self.num_steps:,} steps")


def require_places(places: int, where: str) -> None:
    """Raise ConfigError if samples of a rollout are too many for numbers of 32 bits."""
    if places > MAX_INT:
        raise ConfigError(
            f"num_steps: expected at most {MAX_INT:,} samples {where} in a rollout, got {places:,}: take fewer worlds or steps"
        )


def require_minibatches(num_steps: int, num_minibatches: int, rows: int, policy: str) -> None:
    """Raise ConfigError if a rollout cannot fill all minibatches, or has too many samples for numbers of 32 bits.

    Args:
        num_steps: T.
        num_minibatches: minibatches of an epoch, which have equal sizes.
        rows: see ``AlgorithmConfig.require_samples()``.
        policy: name of the policy.
    """
    transitions, where = num_steps * rows, f"for the policy {policy!r}, which has {rows:,} rows and {num_steps:,} steps"
    if num_minibatches > transitions:
        expected = f"expected at most {transitions:,} {where} in a rollout"
        raise ConfigError(f"num_minibatches: {expected}, got {num_minibatches:,}")
    require_places(-(-transitions // num_minibatches) * num_minibatches, where)


Make = Callable[..., Any]
"""``make(policy, options, setup)`` returns an ``Algorithm``, see ``algorithms/contract.py``."""

MakePolicy = Callable[..., Any]
"""``make_policy(name, group, seed, network, options, module, learns, world)`` returns a ``Policy`` on the CPU, see
``make_policy()`` in ``policies/build.py``, which has the same arguments but for ``normalize_observations`` in place of the
algorithm's options."""

Memory = Callable[..., tuple[int, int]]
"""``memory(policy, options, setup)`` returns bytes that last and the most bytes that an update takes at a time."""


@dataclasses.dataclass(frozen=True)
class Registered:
    """An algorithm; its parts may be places such as ``module:name``, which are imported at first use."""

    config_class: type[AlgorithmConfig]
    make: Make | str
    memory: Memory | str | None = None
    policy: MakePolicy | str | None = None

    def part(self, name: str) -> Any:
        """Return ``make``, ``memory`` or ``policy``."""
        value = getattr(self, name)
        if isinstance(value, str):
            module, _, attribute = value.partition(":")
            value = getattr(importlib.import_module(module), attribute)
        return value


_PLACE = re.compile(r"[\w.]+:\w+")
"""Form of the place of a function."""

ALGORITHMS: dict[str, Registered] = {}
"""Algorithms by name."""


def register_algorithm(
    name: str,
    config_class: type[AlgorithmConfig],
    make: Make | str,
    memory: Memory | str | None = None,
    policy: MakePolicy | str | None = None,
) -> None:
    """Make an algorithm available as ``TrainConfig.algorithm`` and ``PolicyConfig.algorithm``.

    Its options are ``TrainConfig(algorithms={name: config_class(...)})``, the mapping ``name`` of a YAML file, and ``--name
    KEY=VALUE ...`` on the command line. A checkpoint stores the name and the options alone.

    Args:
        name: name of the algorithm.
        config_class: its options, a frozen dataclass that derives from ``AlgorithmConfig`` and has a default for each field.
        make: ``make(policy, options, setup)`` returns the ``Algorithm`` of a policy.
        memory: ``memory(policy, options, setup)`` returns the bytes of what it keeps beside the policy and the most bytes that an
            update takes at a time, for ``gpu-vecenv memory``; None counts neither.
        policy: ``policy(name, group, seed, network, options, module, learns, world)`` returns the ``Policy`` of an algorithm that
            needs one of its own, also for evaluations and exports; None: the network of ``NetworkSpec`` with its distribution.

    Raises:
        ConfigError: the name is taken by another algorithm, ``config_class`` is no such dataclass, or a part cannot be called.
    """
    require(is_name(name) and name.isidentifier(), "register_algorithm: name", "a name such as my_algorithm", name)
    for part, value in {"make": make, "memory": memory, "policy": policy}.items():
        ok = callable(value) or isinstance(value, str) and _PLACE.fullmatch(value) or value is None and part != "make"
        require(bool(ok), f"register_algorithm: {part}", "a function, or its place such as module:name", value)
    require(isinstance(config_class, type), "register_algorithm: config_class", "a dataclass", config_class)
    is_dataclass = dataclasses.is_dataclass(config_class)
    fields: list[str] = [field.name for field in dataclasses.fields(config_class)] if is_dataclass else []  # type: ignore[arg-type]
    if not (issubclass(config_class, AlgorithmConfig) and {"num_steps", "normalize_observations"} <= {*fields}):
        raise ConfigError(
            f"register_algorithm: expected options of {name!r} in a dataclass derived from AlgorithmConfig, with the fields "
            f"num_steps and normalize_observations, got {config_class.__name__}"
        )
    new = Registered(config_class, make, memory, policy)
    if ALGORITHMS.setdefault(name, new) != new:
        raise ConfigError(f"register_algorithm: expected a new name, got {name!r}, which is registered")


def registered(name: str) -> Registered:
    """Return an algorithm.

    Raises:
        ConfigError: no algorithm has this name.
    """
    if name not in ALGORITHMS:
        raise ConfigError(
            f"algorithm: expected one of {', '.join(ALGORITHMS)}, got {name!r}; import the module that registers it first "
            "(--modules)"
        )
    return ALGORITHMS[name]


def checked_options(name: str, options: object) -> Any:
    """Return the options of an algorithm: its dataclass, or what is given if the algorithm is not registered here.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    if name not in ALGORITHMS:
        require(isinstance(options, Mapping), name, "options by name, or the module of the algorithm imported first", options)
        return plain(name, options)
    config_class = ALGORITHMS[name].config_class
    if isinstance(options, Mapping):
        return from_options(config_class, options)
    require(isinstance(options, config_class), name, f"a {config_class.__name__}", options)
    return options


def require_no_fields(config: Any, names: Iterable[str]) -> None:
    """Raise ConfigError for an algorithm with the name of an option: files hold both side by side."""
    for name in names:
        fields = [field.name for field in dataclasses.fields(config)]
        require(name not in fields, "algorithms", "names of algorithms that are no options", name)


def with_changes(name: str, options: Any, changes: Mapping[str, Any]) -> Any:
    """Return the options of an algorithm with those of a policy in their place, as attributes.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    if name not in ALGORITHMS:
        return SimpleNamespace(**{**options, **changes})
    return dataclasses.replace(options, **changes) if changes else options


def grouped(options: Mapping[str, Any], cls: type, also: Iterable[object] = ()) -> dict[str, Any]:
    """Return options with those of algorithms, which stand under their names, in ``algorithms``.

    Args:
        options: options by name.
        cls: their dataclass.
        also: names of algorithms that may not be registered here, beside that of ``options``.
    """
    named = [options.get("algorithm"), *also]
    if isinstance(policies := options.get("policies"), Mapping):
        named += [policy_config.get("algorithm") for policy_config in policies.values() if isinstance(policy_config, Mapping)]
    fields = {each.name for each in dataclasses.fields(cls)}
    groups = {name: value for name, value in options.items() if name not in fields and (name in ALGORITHMS or name in named)}
    of_run = {name: value for name, value in options.items() if name not in groups}
    return {**of_run, "algorithms": groups} if groups else of_run
