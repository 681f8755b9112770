"""The command ``envs``: the ids of this package, a line each."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.env_spec import EnvSpec


def envs() -> int:
    """List the ids of this package with their agents, the action of an agent, and what they are.

    An env that another package registers is named with its module: MODULE:ID.

    Example: gpu-vecenv envs

    Returns:
        0.
    """
    for line in lines():
        print(line)
    return 0


def lines() -> Iterator[str]:
    """One line an id, by the env's spec with default parameters and the first line of its module's docstring."""
    for name, arguments in IDS.items():
        module = importlib.import_module(arguments["vector_entry_point"].partition(":")[0])
        spec: EnvSpec = importlib.import_module(f"{module.__name__}.spec").SPEC
        params = spec.resolve({})
        agents = " + ".join(f"{count} {role}" for role, count in spec.role_counts(params).items())
        action = str(spec.action(params)).replace(", float32)", ")")
        yield f"{name:29}{agents:24}{action:27}{(module.__doc__ or '').splitlines()[0]}"
