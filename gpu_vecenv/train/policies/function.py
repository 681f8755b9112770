"""Policies that are Python functions: of a user, or shipped with an env."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import ConfigError, PolicyMapError
from gpu_vecenv.train.policies.contract import Draw, Inputs, Observation
from gpu_vecenv.train.policies.fixed import FixedPolicy

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

Function = Callable[..., Any]
"""From what the agents of a role observe, or from the env's state, to their actions; see ``FunctionPolicy``."""

NAMED = ("mask", "state", "params", "agents")
"""Names of parameters that a function may have beside its observations; ``state`` may also stand alone."""

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)

OPPONENTS_FILE = "opponents.py"
"""File beside the kernel of an env, whose ``OPPONENTS`` has scripted policies by name."""


class Scripted(NamedTuple):
    """A policy that is shipped with an env."""

    role: str
    """The role that it acts for."""
    function: Function
    """See ``FunctionPolicy``."""


class FunctionPolicy(FixedPolicy):
    """Acts by a function, which never learns.

    The function gets tensors on the device of the env, which it must not change, and returns actions of a agents of a role in
    each of N worlds. It gets what its parameters name:

    - the first one, whatever its name but those below: observations, float32 (N, a, *shape); for a role with a shared part
      ``{"shared": (N, S), "own": (N, a, P)}``;
    - ``mask``: bool (N, a, M), True for choices that are allowed; None without masks;
    - ``state``: fields of the env's state by name, with the leading axis N;
    - ``params``: parameters of the env by name; one with values by world is a tensor (N,);
    - ``agents``: int64 (a,), numbers of the agents in their world.

    Actions are integers (N, a) or (N, a, k), or numbers (N, a, k) of a Box. The rows of all worlds, (N * a,) or (N * a, k), are
    taken, too.
    """

    def __init__(self, function: Function, group: Group, name: str, env: GpuVectorEnv):
        """Store the function.

        Args:
            function: the function.
            group: agents with the spaces of this policy.
            name: name of the policy, for messages.
            env: env whose state and parameters the function may read.

        Raises:
            ConfigError: it cannot be called with what it would get.
        """
        super().__init__()
        self.function, self.group, self.name = function, group, name
        self._observes, self._reads = parameters_of(function, name)
        self._env = env

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """Call the function; ``deterministic`` changes nothing, and the log-probabilities are 0 (unused)."""
        worlds = len(draw.seed)
        axes = (worlds, draw.world.numel() // worlds)
        named: dict[str, Any] = {}
        if "params" in self._reads:
            named["params"] = {**self._env.params, **self._by_world}
        if "state" in self._reads:
            named["state"] = self._state
        if "mask" in self._reads:
            named["mask"] = None if inputs.mask is None else inputs.mask.reshape(*axes, -1)
        if "agents" in self._reads:
            named["agents"] = draw.agent.view(axes)[0].long()
        observed = (self._observed(inputs.obs, axes),) if self._observes else ()
        result = self.function(*observed, **{name: named[name] for name in self._reads})
        return self._actions(result, axes, draw.world), self.value(inputs)

    @cached_property
    def _state(self) -> dict[str, Tensor]:
        """Views of the state, which is in place from the first step on."""
        env = self._env
        return {field: torch.as_tensor(x, device=env.device) for field, x in env.worlds.state.fields.items()}

    @cached_property
    def _by_world(self) -> dict[str, Tensor]:
        """Views of the parameters by world, which ``set_params()`` writes in place, so that a CUDA graph sees changes."""
        env = self._env
        return {name: torch.as_tensor(x, device=env.device) for name, x in env.worlds.arguments.params_by_world().items()}

    def _observed(self, obs: Observation, axes: tuple[int, int]) -> Observation:
        """Return observations with the axes (N, a)."""
        if isinstance(obs, Tensor):
            return obs.reshape(*axes, *obs.shape[1:])
        return obs if "shared" in obs else obs["own"]

    def _actions(self, result: Any, axes: tuple[int, int], rows: Tensor) -> Tensor:
        """Return what the function returned as ``Policy.act()`` does.

        Raises:
            ConfigError: it has another shape or type.
        """
        space = self.group.action
        inner = () if space.shape is None else tuple(space.shape)
        dtype = torch.float32 if self.group.continuous else torch.int32
        try:
            action = torch.as_tensor(result, device=rows.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(f"{self._who}: expected actions as a tensor, got {abbreviated(result)}: {error}") from error
        shapes = ((*axes, *inner), (axes[0] * axes[1], *inner))
        if action.shape not in shapes:
            raise ConfigError(f"{self._who}: expected actions of the shape {shapes[0]}, got {tuple(action.shape)}")
        if action.dtype in (torch.bool, torch.complex64) or action.is_floating_point() != self.group.continuous:
            kind = "floats" if self.group.continuous else "integers"
            raise ConfigError(f"{self._who}: expected {kind} as actions, got {action.dtype}")
        return action.to(dtype).reshape(*rows.shape, *inner)

    @property
    def _who(self) -> str:
        return f"opponent {self.name!r}"


def parameters_of(function: Function, name: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether a function gets observations, and the parameters that it gets by name.

    Raises:
        ConfigError: the function has other parameters than ``FunctionPolicy`` describes.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"opponent {name!r}: expected a function with a signature, got {abbreviated(function)}") from error
    named = [each.name for each in parameters if each.name in NAMED]
    unnamed = [each for each in parameters if each.name not in NAMED and each.kind is not each.VAR_KEYWORD]
    required = [each for each in unnamed if each.default is each.empty]
    first = len(required) == 1 and required[0] is parameters[0] and required[0].kind in POSITIONAL
    if not first and (required or "state" not in named):
        got = ", ".join(str(each) for each in parameters) or "none"
        expected = f"observations or state as its first parameter, and others out of {', '.join(NAMED)}"
        raise ConfigError(f"opponent {name!r}: expected a function with {expected}, got parameters {got}")
    return first, tuple(named)


@cache
def scripted_policies(folder: Path) -> Mapping[str, Scripted]:
    """Return the scripted policies in an env's folder by name; empty if there are none.

    Raises:
        ConfigError: the file defines none.
    """
    path = folder.resolve() / OPPONENTS_FILE
    if not path.is_file():
        return {}
    name = f"gpu_vecenv_opponents_{folder.name}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"Python cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    scripted = getattr(module, "OPPONENTS", None)
    if not isinstance(scripted, Mapping):
        raise ConfigError(f"{path} must define OPPONENTS, a mapping of names to (role, function); it defines none")
    return {str(each): Scripted(*pair) for each, pair in scripted.items()}


def scripted_of(env: GpuVectorEnv) -> Mapping[str, Scripted]:
    """Return the scripted policies of an env by name."""
    return scripted_policies(env.env_spec.kernel.parent)


class RowsOfRole(Protocol):
    """Rows that a policy acts for; see ``PolicyRows`` of a higher room."""

    group: Group

    @property
    def roles(self) -> list[str]:
        """Roles of the rows."""


def fixed_policies(
    env: GpuVectorEnv, rows: Mapping[str, RowsOfRole], functions: Mapping[str, Function] | None = None
) -> dict[str, FunctionPolicy]:
    """Return the policies without weights, other than random ones, among those of some rows.

    Args:
        env: the env whose state they may read.
        rows: rows of each policy.
        functions: policy name to a function; others are scripted policies of the env by their names.

    Raises:
        ConfigError: a function has other parameters than it may have.
        PolicyMapError: a scripted policy acts for another role than its own.
    """
    scripted, fixed = scripted_of(env), dict[str, FunctionPolicy]()
    for name, of_policy in rows.items():
        function = (functions or {}).get(name)
        if function is None and name in scripted:
            role, function = scripted[name]
            if of_policy.roles != [role]:
                got = ", ".join(of_policy.roles)
                raise PolicyMapError(f"policy_map: {name!r} is a scripted policy of the role {role!r}, got it for {got}")
        if function is not None:
            fixed[name] = FunctionPolicy(function, of_policy.group, name, env)
    return fixed
