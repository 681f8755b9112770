"""Declarative description of an env. The argument struct, spaces, views and docs are generated from it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gymnasium.spaces import Box, Space

from gpu_vecenv.errors import ParameterError, UnknownParameterError
from gpu_vecenv.spec.fields import RESERVED_NAMES, Constant, Field, Metric, ResetOption, Table, Workspace
from gpu_vecenv.spec.params import Param, Params, convert
from gpu_vecenv.spec.reference import reduce_spec
from gpu_vecenv.spec.roles import Role


@dataclass(frozen=True)
class EnvSpec:
    """Description of an env: everything except its kernel.

    Raises:
        ParameterError: a name of a state field or of one of its numbers is used twice, reserved, or not an identifier; a role
            without spaces; roles that share spaces and have different masks.
    """

    name: str
    kernel: Path
    roles: tuple[Role, ...]
    params: tuple[Param, ...]
    state: tuple[Field, ...]
    observation: Callable[[Params], Box] | None = None
    """Observation space of an agent; None if every role has its own."""
    action: Callable[[Params], Space] | None = None
    """Action space of an agent; None if every role has its own."""
    sizes: tuple[str, ...] = ()
    """Names of parameters that set lengths of loops, branches or shapes of state fields: compile-time constants on CUDA."""
    constants: tuple[Constant, ...] = ()
    tables: tuple[Table, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    scratch: Callable[[Params], int] | None = None
    """Floats of scratch requested for a team. Kernels find the number granted in ``GV_SCRATCH``."""
    reset_options: tuple[ResetOption, ...] = ()
    alive: str | None = None
    """Name of the state field that is not 0 for agents in the game; None if no agent leaves it."""
    check: Callable[[Params], None] = lambda params: None
    """Function that raises ParameterError if parameters contradict each other."""
    reward_role: str | None = None
    """Role whose mean agent reward is the reward of a world; None for the mean over all agents."""
    metrics: tuple[Metric, ...] = ()
    """Numbers of each episode, given as ``info["episode"]`` when it ends."""
    lanes: Callable[[Params], int] | None = None
    """Lanes requested for a team on CUDA, for worlds with more work than one lane for each agent; None for one an agent."""
    rewards: Mapping[str, str] = field(default_factory=dict)
    """Reward terms for the docs: name and description."""
    limit_is_rule: bool = False
    """True if the time limit is a rule of the game that agents can observe, as in Tag; its end is then as final as any other.

    False if the limit only cuts episodes of a task that would go on, as in CartPole. Trainers then add the value of the final
    observation.
    """

    def __post_init__(self) -> None:
        names = [*RESERVED_NAMES, *(name for field in self.all_state for name in field.names or (field.name,))]
        for name in names:
            if not name.isidentifier() or names.count(name) > 1:
                others = ", ".join(RESERVED_NAMES)
                raise ParameterError(f"{self.name}: state names must be different identifiers other than {others}, got {name!r}.")

        if not self.has_role_arrays and len({role.masked for role in self.roles}) > 1:
            raise ParameterError(f"{self.name}: roles without spaces of their own must have the same masked entries.")
        if self.reward_role not in (None, *(role.name for role in self.roles)):
            raise ParameterError(f"{self.name}: reward_role must be one of the roles, got {self.reward_role!r}.")
        for role in self.groups:
            if role.observation is None or role.action is None:
                raise ParameterError(f"{self.name}: {role.name or 'the env'} needs an observation and an action space.")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """For pickle and copy: the module and the variable that hold the spec, if there are any; otherwise its fields."""
        return reduce_spec(self, {one.name: getattr(self, one.name) for one in dataclasses.fields(self)})

    @property
    def has_role_arrays(self) -> bool:
        """True if kernels have arrays by role, because roles may have spaces of their own. Parameters do not change it."""
        return any(role.observation or role.action or role.shared for role in self.roles)

    def by_role(self, params: Params) -> bool:
        """Return True if public arrays are dicts by role.

        They are if a role has spaces of its own or, with these parameters, a shared part.
        """
        parts = (role.shared(params) for role in self.roles if role.shared is not None)
        return any(role.observation or role.action for role in self.roles) or any(part is not None for part in parts)

    @property
    def may_be_whole(self) -> bool:
        """True if parameters decide about arrays by role: the only role has no spaces of its own but may have a shared part."""
        return self.has_role_arrays and len(self.roles) == 1 and not (self.roles[0].observation or self.roles[0].action)

    @property
    def groups(self) -> tuple[Role, ...]:
        """Roles with their spaces, if kernels have arrays by role; else one role without a name, which stands for all agents."""
        if not self.has_role_arrays:
            return (Role("", 0, self.observation, self.action, self.roles[0].masked),)
        return tuple(
            dataclasses.replace(role, observation=role.observation or self.observation, action=role.action or self.action)
            for role in self.roles
        )

    @property
    def all_state(self) -> tuple[Field, ...]:
        """The state fields, and one for each metric."""
        return self.state + tuple(metric.field for metric in self.metrics)

    def resolve(self, given: Mapping[str, Any]) -> Params:
        """Return all parameters: those of ``given``, checked and converted, and defaults for the rest.

        Raises:
            UnknownParameterError: a name that the env does not have.
            ParameterError: a value outside its range or of the wrong type.
        """
        known = {param.name: param for param in self.params}
        for name in given:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise UnknownParameterError(  # the first words are Python's, by which TorchRL knows this error
                    f"got an unexpected keyword argument {name!r}: {self.name} has no parameter of this name.{hint} "
                    f"It has: {', '.join(known)}."
                )
        params: dict[str, Any] = {}
        for name, param in known.items():
            default = param.default(params) if callable(param.default) else param.default
            params[name] = convert(self.name, param, given.get(name, default))
        resolved = MappingProxyType(params)
        self.check(resolved)
        return resolved

    @property
    def kernel_params(self) -> tuple[Param, ...]:
        """Parameters that are members of the argument struct."""
        return tuple(param for param in self.params if param.dtype in ("float32", "int32", "bool"))

    def role_counts(self, params: Params) -> dict[str, int]:
        """Return the number of agents of each role in a world, in the order of the roles."""
        return {role.name: params[role.count] if isinstance(role.count, str) else role.count for role in self.roles}
