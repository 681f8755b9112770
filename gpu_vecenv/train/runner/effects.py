"""Options that have no effect beside others of the same run; a new run refuses them by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from gpu_vecenv.train.config import NetworkConfig, TrainConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import OBSERVATIONS
from gpu_vecenv.train.storage.policy_map import is_random
from gpu_vecenv.train.storage.policy_rows import PolicyRows

NEEDS = {"evaluation_episodes": "evaluation_interval", "checkpoint_interval": "out", "keep_checkpoints": "out"}
"""Options that have an effect only if another one is given."""

SHAPE = ("hidden_sizes", "activation", "shared_trunk", "memory", "memory_size", "layer_norm")
"""Fields of ``NetworkConfig`` that a module of the user cannot see. Builders of registered networks and algorithms other than PPO
can."""


def _has_hidden_layers(network: NetworkConfig, rows: PolicyRows) -> bool:
    return network.hidden_sizes != ()


def _reads_others(network: NetworkConfig, rows: PolicyRows) -> bool:
    return network.critic_sources != (OBSERVATIONS,) or agents_of(rows) > 1


def agents_of(rows: PolicyRows) -> int:
    """Return the agents of a policy in a world."""
    return sum(span.agents for span in rows.spans)


PARTS: Mapping[str, tuple[Callable[[NetworkConfig, PolicyRows], bool], str]] = {
    "activation": (_has_hidden_layers, "hidden layers"),
    "shared_trunk": (_has_hidden_layers, "hidden layers"),
    "log_std": (lambda network, rows: rows.group.continuous, "numbers as actions"),
    "critic": (_reads_others, "several agents of a policy in a world"),
}
"""Fields of ``NetworkConfig`` that shape a part which a built-in network may lack: whether it has the part, and its name."""


def require_effects(config: TrainConfig) -> None:
    """Check the options of a new run. Those of a checkpoint are not checked, because a run that has begun may go on.

    Raises:
        ConfigError: an option that differs from its default has no effect.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    for name, needed in NEEDS.items():
        if getattr(config, name) != defaults[name] and getattr(config, needed) is None:
            raise ConfigError(f"{name}: expected {needed} with it, because it has no effect alone, got {getattr(config, name)}")
    for option in ("policies", "load_policies"):
        for name in getattr(config, option):
            if is_random(name):
                raise ConfigError(f"{option}: expected policies with a network, got {name!r}, which acts at random")
    for name in config.frozen:
        settings = config.policies.get(name)
        if settings is None:
            continue
        # The algorithm of a policy that another run learned says how its network acts.
        learning = ["algorithm"] * (settings.algorithm not in (None, config.algorithm) and name not in config.load_policies)
        learning += [f"{group}.{field}" for group, fields in settings.groups().items() for field in fields]
        learning = [field for field in learning if not field.endswith(".normalize_observations")]  # it is a part of the network
        if learning:
            raise ConfigError(f"policies: expected no settings of learning for {name!r}, which is frozen, got {learning[0]}")


def require_used(config: TrainConfig, policies: Iterable[str]) -> None:
    """Check that the options of a new run are those of algorithms that its policies have.

    Args:
        config: the options as given, without those of presets.
        policies: names of the run's policies.

    Raises:
        ConfigError: no policy uses an algorithm that has options, or a policy has options of another one than its own.
    """
    used = {name: config.algorithm_of(name) for name in policies if not is_random(name)}
    default = type(config).algorithm
    for name in (*config.groups(), *[config.algorithm] * (config.algorithm != default)):
        if name not in used.values():
            algorithms = ", ".join(dict.fromkeys(used.values()))
            raise ConfigError(f"{name}: expected algorithms of the policies, {algorithms}, got {name!r}, which no policy uses")
    for name, settings in config.policies.items():
        for group in settings.groups():
            if name in used and group != used[name]:
                raise ConfigError(f"policies[{name!r}]: expected options of its algorithm {used[name]!r}, got some of {group!r}")


def require_read(config: TrainConfig, policies: Iterable[str], modules: Collection[str]) -> None:
    """Check that the shape of networks in a new run's options is that of a network which is built.

    Args:
        config: the options as given, without those of presets.
        policies: names of the run's policies.
        modules: names of the policies whose networks are modules of the user.

    Raises:
        ConfigError: nothing reads a field of ``network`` that is given.
    """
    trained = [name for name in modules if name not in config.frozen and config.algorithm_of(name) != "ppo"]
    shaped = [name for name in policies if not is_random(name) and (name not in modules or name in trained)]
    for name in modules:
        for field in SHAPE:
            if name not in shaped and field in config.settings_of(name).network:
                raise ConfigError(f"policies[{name!r}]: expected no network.{field} with a module of networks, got it")
    for field in SHAPE if config.network is not None and not shaped else ():
        value = getattr(config.network, field)
        if value != getattr(NetworkConfig(), field):
            raise ConfigError(f"network.{field}: expected none, as each policy has a module of networks, got {value!r}")


def require_parts(config: TrainConfig, rows: Mapping[str, PolicyRows]) -> None:
    """Check that networks of a new run have the parts that its options shape. Registered networks may read all options.

    Args:
        config: the options as given, without those of presets.
        rows: rows of the run's policies.

    Raises:
        ConfigError: a field of ``network`` shapes a part that no network has, or that the network of its policy lacks.
    """
    policies = [name for name in rows if not is_random(name)]
    built_in = [name for name in policies if config.algorithm_of(name) == "ppo" and config.settings_of(name).module is None]
    for field, (has_part, part) in PARTS.items():
        usual = getattr(NetworkConfig(), field)
        lacking = [name for name in built_in if not has_part(config.network_of(name), rows[name])]
        for name in lacking:
            value = config.settings_of(name).network.get(field, usual)
            if value != usual:
                raise ConfigError(f"policies[{name!r}]: expected {part} with network.{field}, got {value!r} without any")
        value = getattr(config.network or NetworkConfig(), field)
        if value != usual and lacking and lacking == policies:
            raise ConfigError(f"network.{field}: expected {part} with it, got {value!r} without any")


def require_teams(config: TrainConfig, rows: Mapping[str, PolicyRows]) -> None:
    """Check that values of a new run are summed over several agents if its options say so.

    Args:
        config: the options as given, without those of presets.
        rows: rows of the run's policies.

    Raises:
        ConfigError: the option ``mixing`` sums values of one agent alone.
    """
    learning = [name for name in rows if not is_random(name) and name not in config.frozen]
    mixing = [name for name in learning if getattr(config.options_of(name), "mixing", "none") != "none"]
    alone = [name for name in mixing if agents_of(rows[name]) == 1]
    for name in alone:
        algorithm, value = config.algorithm_of(name), config.options_of(name).mixing
        if "mixing" in config.settings_of(name).groups().get(algorithm, {}):
            expected = f"expected several agents in a world with {algorithm}.mixing {value!r}"
            raise ConfigError(f"policies[{name!r}]: {expected}, got one")
        if alone == mixing:
            raise ConfigError(f"{algorithm}.mixing: expected several agents of a policy in a world with {value!r}, got one")
