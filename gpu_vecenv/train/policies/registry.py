"""Networks of users by name, so that a checkpoint holds a name and no path to code."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.networks import NetworkSpec

_BUILDERS: dict[str, Callable[[NetworkSpec], nn.Module]] = {}


def register_network(name: str, builder: Callable[[NetworkSpec], nn.Module]) -> None:
    """Make a network known under a name.

    Args:
        name: non-empty text, for ``PolicyConfig.module``. An earlier network with this name is replaced.
        builder: function, or class, that returns a new network for ``NetworkSpec``. Weights that it draws from torch's generator
            of the CPU depend on the run's seed and the policy's name alone.

    Raises:
        ConfigError: the name is no non-empty text, or the builder cannot be called.
    """
    if not isinstance(name, str) or not name:
        raise ConfigError(f"register_network: expected a name, got {name!r}")
    if not callable(builder):
        raise ConfigError(f"register_network: expected a function that returns a torch.nn.Module, got {builder!r}")
    _BUILDERS[name] = builder


def network_builder(name: str) -> Callable[[NetworkSpec], nn.Module]:
    """Return the builder that was registered under a name.

    Raises:
        ConfigError: there is none.
    """
    if name not in _BUILDERS:
        known = f"one of {', '.join(sorted(_BUILDERS))}" if _BUILDERS else "a registered network (none is registered)"
        raise ConfigError(
            f"network: expected {known}, got {name!r}; first import the module that calls register_network({name!r}, ...)"
        )
    return _BUILDERS[name]
