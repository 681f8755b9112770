"""Attributes and methods of a vector env by name, one value for each env, as Gymnasium's SyncVectorEnv has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.errors import ParameterError, ShapeError, UnknownAttributeError
from gpu_vecenv.spec.given import abbreviated, host_array
from gpu_vecenv.spec.params import convert

if TYPE_CHECKING:
    from gymnasium.spaces import Space

    from gpu_vecenv.spec.env_spec import EnvSpec
    from gpu_vecenv.spec.params import Params

SHARED = ("render_mode", "metadata", "spec", "np_random", "np_random_seed")
"""Attributes of the vector env that all envs share."""

METHODS = ("render",)
"""Methods that ``call`` accepts; their results have one entry for each env."""


class CalledEnv:
    """Base of a vector env with ``call``, ``get_attr`` and ``set_attr``.

    All envs share one kernel. Their spaces, parameters, spec, metadata and generator are the same objects in each entry.
    """

    if TYPE_CHECKING:
        env_spec: EnvSpec
        params: Params
        num_envs: int
        single_observation_space: Space
        single_action_space: Space

        def _require_open(self) -> None: ...

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the results of a method, or the values of an attribute, one for each env.

        Args:
            name: ``"render"``, or a name that ``get_attr`` takes.
            args: none; Gymnasium's interface has them for other methods.
            kwargs: none.

        Raises:
            UnknownAttributeError: an env has no such attribute or method.
            ParameterError: arguments, which neither an attribute nor ``render`` takes.
        """
        is_method = isinstance(name, str) and name in METHODS
        values = () if is_method else self.get_attr(name)
        if args or kwargs:
            given = ", ".join([*map(abbreviated, args), *(f"{key}={abbreviated(value)}" for key, value in kwargs.items())])
            raise ParameterError(f"{self.env_spec.name}: {name} takes no arguments, got {given}.")
        if not is_method:
            return values
        results = getattr(self, name)()
        return (None,) * self.num_envs if results is None else tuple(results)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return the values of an attribute, one for each env.

        Args:
            name: ``observation_space`` and ``action_space`` of one env, a parameter of the env, or ``render_mode``, ``metadata``,
                ``spec``, ``np_random`` or ``np_random_seed``. All envs share the value. A parameter with a value for each world
                is one array, the same in each entry.

        Raises:
            UnknownAttributeError: an env has no such attribute; the message lists the names.
        """
        return (self._shared(name),) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Refuse to change an attribute, unless each value given is the present one.

        A value of a parameter is first converted as it is when an env is made: 9.8 equals a parameter that is 9.8 in float32.

        Args:
            name: a name that ``get_attr`` takes.
            values: one value, or a list, a tuple or an array of any kind with one for each env. A parameter with a value for each
                world also takes the values of all worlds.

        Raises:
            UnknownAttributeError: an env has no such attribute.
            ShapeError: another number of values than ``num_envs``.
            ArrayTypeError, DeviceError: an array that cannot be read.
            ParameterError: another value than the present one; attributes are set when the env is made.
        """
        present = self._shared(name)
        given = host_array(values, f"values of {name}")
        several = isinstance(given, list | tuple) or getattr(given, "ndim", 0) > 0
        each = given if several else [given]
        fits = not several or len(given) == self.num_envs
        if fits and all(self._is_present(name, present, value) for value in each):
            return
        if several and self._is_present(name, present, given):
            return
        if not fits:
            raise ShapeError(f"values of {name} must be one value, or {self.num_envs} for as many envs, got {len(given)}.")
        by_world = isinstance(present, np.ndarray)
        other = given if by_world else next(value for value in each if not self._is_present(name, present, value))
        how = "make the env with another value" if name in self.params else "it cannot be changed"
        raise ParameterError(f"{self.env_spec.name}: {name} is read-only, got {abbreviated(other)}; {how}.")

    def _shared(self, name: str) -> Any:
        """Return the value of an attribute, which all envs share.

        Raises:
            UnknownAttributeError: an env has no such attribute; the message lists the names.
        """
        self._require_open()
        if not isinstance(name, str):
            raise UnknownAttributeError(f"{self.env_spec.name}: the name of an attribute must be a str, got {abbreviated(name)}.")
        spaces = {"observation_space": "single_observation_space", "action_space": "single_action_space"}
        if name in self.params:
            return self.params[name]
        if name in SHARED or name in spaces:
            return getattr(self, spaces.get(name, name))
        names = sorted({*spaces, *SHARED, *METHODS, *self.params})
        raise UnknownAttributeError(f"{self.env_spec.name} has no attribute {name!r}. It has: {', '.join(names)}.")

    def _is_present(self, name: str, present: Any, value: Any) -> bool:
        """Return True if a value of an attribute, or of a parameter once it is converted, is the present one."""
        if value is present:
            return True
        if name in self.params:
            param = next(param for param in self.env_spec.params if param.name == name)
            try:
                value = convert(self.env_spec.name, param, value)
            except ParameterError:
                return False
        elif not isinstance(present, int | float | str):
            return False
        return np.array_equal(host_array(present), host_array(value))
