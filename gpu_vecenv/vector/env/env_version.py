"""Version of an env for recordings: hashes of all that its results depend on, apart from this package's own kernels."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.source import read_text
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.roles import Group

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def env_version(layout: Layout) -> dict[str, str]:
    """Return hashes of the parts of an env, 16 hexadecimal digits each.

    Returns:
        kernel: of the text of its hooks, and of the headers beside them that they include.
        spec: of its roles, spaces, state fields, sizes and metrics.
        numbers: of its parameters, constants and tables.
    """
    spec = layout.spec
    texts = _texts(spec)
    declared: dict[str, Any] = {
        "roles": {role.name: layout.role_counts[role.name] for role in spec.roles},
        "groups": [_group(group) for group in layout.groups],
        "state": [(f.name, f.dtype, layout.state_shape(f, 1)[1:], layout.bounds[f.name]) for f in layout.state],
        "sizes": layout.sizes,
        "metrics": [(metric.name, metric.reduction) for metric in spec.metrics],
        "reset_options": [(option.name, option.default) for option in spec.reset_options],
        "alive": spec.alive,
        "reward_role": spec.reward_role,
    }
    numbers = {
        "scalars": layout.scalars,
        "tables": layout.tables,
        "by_world": layout.per_world,
        "params": {param.name: layout.params[param.name] for param in spec.kernel_params},
    }
    return {"kernel": _digest(texts), "spec": _digest(declared), "numbers": _digest(numbers)}


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()[:16]


def _plain(value: Any) -> Any:
    """Return an array or a number of NumPy as what JSON holds; floats keep their value."""
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else [str(array.dtype), array.shape, array.ravel().tolist()]


def _group(group: Group) -> list[Any]:
    """Return what an env's actions and observations are like. Bounds of observations do not change a result."""
    space = group.action
    choices: Any = group.choices
    if group.continuous:
        choices = [np.asarray(space.low), np.asarray(space.high)]  # type: ignore[attr-defined]
    shared = None if group.shared is None else group.shared.shape
    return [group.role, group.observation.shape, shared, space.shape, choices, group.masked, group.effects]


def _texts(spec: EnvSpec) -> dict[str, str]:
    """Return the texts of an env's own kernel files by name."""
    folder, waiting, texts = spec.kernel.parent, [spec.kernel.name], dict[str, str]()
    while waiting:
        name = waiting.pop()
        path = Path(folder, name)
        if name in texts or not path.is_file():  # other headers are those of the package
            continue
        texts[name] = read_text(spec.name, path)
        waiting += _INCLUDE.findall(texts[name])
    return texts
