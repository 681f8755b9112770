"""Attributes and methods of a vector env by name, one value for each env, as Gymnasium's SyncVectorEnv has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpu_vecenv.errors import ParameterError, ShapeError, UnknownAttributeError
from gpu_vecenv.spec.given import abbreviated

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
            args: arguments of the method.
            kwargs: keywords of the method.

        Raises:
            UnknownAttributeError: an env has no such attribute or method.
        """
        if name not in METHODS:
            return self.get_attr(name)
        results = getattr(self, name)(*args, **kwargs)
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
        self._require_open()
        spaces = {"observation_space": "single_observation_space", "action_space": "single_action_space"}
        if name in self.params:
            value = self.params[name]
        elif name in SHARED or name in spaces:
            value = getattr(self, spaces.get(name, name))
        else:
            names = sorted({*spaces, *SHARED, *METHODS, *self.params})
            raise UnknownAttributeError(f"{self.env_spec.name} has no attribute {name!r}. It has: {', '.join(names)}.")
        return (value,) * self.num_envs

    def set_attr(self, name: str, values: Any) -> None:
        """Refuse to change an attribute, unless each value given is the present one.

        Args:
            name: a name that ``get_attr`` takes.
            values: one value, or a list or tuple with one for each env.

        Raises:
            UnknownAttributeError: an env has no such attribute.
            ShapeError: a list or tuple of another length than ``num_envs``.
            ParameterError: another value than the present one; attributes are set when the env is made.
        """
        present = self.get_attr(name)
        given = values if isinstance(values, list | tuple) else (values,) * self.num_envs
        if len(given) != self.num_envs:
            raise ShapeError(f"values of {name} must be one value, or {self.num_envs} for as many envs, got {len(given)}.")
        for old, new in zip(present, given, strict=True):
            if old is not new and not (isinstance(old, int | float | str) and old == new):
                how = "make the env with another value" if name in self.params else "it cannot be changed"
                raise ParameterError(f"{self.env_spec.name}: {name} is read-only, got {abbreviated(new)}; {how}.")
