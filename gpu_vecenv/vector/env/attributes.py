"""Attributes and methods of a vector env by name, one value for each env, as Gymnasium's SyncVectorEnv has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from gpu_vecenv.errors import ParameterError, ShapeError, UnknownAttributeError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.params import Params, convert
from gpu_vecenv.spec.validation import abbreviated, host_array

SHARED = ("render_mode", "metadata", "spec", "np_random", "np_random_seed")
"""Attributes of the vector env that all envs share."""

SPACES = {"observation_space": "single_observation_space", "action_space": "single_action_space"}
"""Attributes of one env, and their names in the vector env."""

METHODS = ("render",)
"""Methods that ``call`` accepts; their results have one entry for each env."""


class Attributes:
    """Parameters of an env, and attributes of its vector env, by the names that one env has for them.

    All envs share one kernel. Their spaces, parameters, spec, metadata and generator are the same objects for each env.

    Args:
        env_spec: definition of the env.
        params: resolved parameters by name.
    """

    def __init__(self, env_spec: EnvSpec, params: Params) -> None:
        self._spec, self._params = env_spec, params

    def value(self, env: VectorEnv, name: str) -> Any:
        """Return the value of an attribute, which all envs share.

        Args:
            env: the vector env.
            name: name of the attribute.

        Raises:
            UnknownAttributeError: an env has no such attribute; the message lists the names.
        """
        if not isinstance(name, str):
            raise UnknownAttributeError(f"{self._spec.name}: the name of an attribute must be a str, got {abbreviated(name)}.")
        if name in self._params:
            return self._params[name]
        if name in SHARED or name in SPACES:
            return getattr(env, SPACES.get(name, name))
        names = sorted({*SPACES, *SHARED, *METHODS, *self._params})
        raise UnknownAttributeError(f"{self._spec.name} has no attribute {name!r}. It has: {', '.join(names)}.")

    def require_present(self, env: VectorEnv, name: str, values: Any) -> None:
        """Check that values given for an attribute are the present ones.

        Args:
            env: the vector env.
            name: name of the attribute.
            values: one value, or one for each env; for a parameter with a value for each world also those of all worlds.

        Raises:
            UnknownAttributeError: an env has no such attribute.
            ShapeError: another number of values than envs.
            ArrayTypeError, DeviceError: an array that cannot be read.
            ParameterError: another value than the present one.
        """
        present = self.value(env, name)
        host_values = host_array(values, f"values of {name}")
        several = isinstance(host_values, list | tuple) or getattr(host_values, "ndim", 0) > 0
        each = host_values if several else [host_values]
        fits = not several or len(host_values) == env.num_envs
        if fits and all(self._is_present(name, present, value) for value in each):
            return
        if several and self._is_present(name, present, host_values):
            return
        if not fits:
            raise ShapeError(f"values of {name} must be one value, or {env.num_envs} for as many envs, got {len(host_values)}.")
        by_world = isinstance(present, np.ndarray)
        other = host_values if by_world else next(value for value in each if not self._is_present(name, present, value))
        how = "make the env with another value" if name in self._params else "it cannot be changed"
        raise ParameterError(f"{self._spec.name}: {name} is read-only, got {abbreviated(other)}; {how}.")

    def refuse_arguments(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raise ParameterError for arguments of ``call``, which neither an attribute nor ``render`` takes."""
        if args or kwargs:
            arguments = ", ".join([*map(abbreviated, args), *(f"{key}={abbreviated(value)}" for key, value in kwargs.items())])
            raise ParameterError(f"{self._spec.name}: {name} takes no arguments, got {arguments}.")

    def _is_present(self, name: str, present: Any, value: Any) -> bool:
        """Return True if a value of an attribute, or of a parameter once it is converted, is the present one."""
        if value is present:
            return True
        if name in self._params:
            param = next(param for param in self._spec.params if param.name == name)
            try:
                value = convert(self._spec.name, param, value)
            except ParameterError:
                return False
        elif not isinstance(present, int | float | str):
            return False
        return np.array_equal(host_array(present), host_array(value))
