"""Declarative description of an env. The argument struct, spaces, views and docs are generated from it."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gymnasium.spaces import Box, Space

from gpu_vecenv.errors import UnknownParameterError
from gpu_vecenv.spec.computed import MAX_NUMBERS, result_of, whole_in
from gpu_vecenv.spec.declared import PARTS, check_declarations
from gpu_vecenv.spec.fields import Constant, Field, Metric, ResetOption, Scratch, Table, Workspace
from gpu_vecenv.spec.params import Param, Params, convert, require_one_length
from gpu_vecenv.spec.reference import reduce_spec
from gpu_vecenv.spec.roles import Role
from gpu_vecenv.spec.validation import checked_keywords, lists_as_tuples, require_part


@checked_keywords
@dataclass(frozen=True)
class EnvSpec:
    """Description of an env: everything except its kernel.

    Fields that are tuples also take lists. Functions take the resolved parameters. Their results are checked when an env is made.
    A GpuVecenvError that they raise reaches the caller as it is; any other error is the cause of a SpecError.

    Args:
        name: name of the env in messages, such as its id: printable text of one line.
        kernel: the file with the hooks: a ``.cu`` file in C++, or a ``.py`` file in Python, see ``gpu_vecenv.pyhooks``.
        roles: at least one role. Agents are numbered role by role, in this order.
        params: parameters, which callers give as keywords.
        state: state fields, in the order in which ``get_state()`` returns them.
        observation: observation space of an agent, a ``Box`` of float32; None if every role has its own.
        action: action space of an agent; None if every role has its own. A ``Discrete`` or ``MultiDiscrete`` with indices
            from 0 on, or a ``Box`` of float32 or float64.
        sizes: names of parameters that set lengths of loops, branches or shapes of state fields: compile-time constants on
            CUDA. They are int32 or bool, and not by world.
        constants: numbers that kernels read, computed from the parameters.
        tables: read-only arrays that kernels index, the same for all worlds.
        workspaces: memory of a world that makes kernels faster and is not state.
        scratch: arrays in scratch of a team, together at most ``MAX_SCRATCH`` floats of ``spec/layout.py``. On the host a
            team has more. Hooks that take ``(a, team)`` have a function instead, which returns a number of floats; they find
            it in ``GV_SCRATCH``.
        reset_options: floats that ``reset(options=...)`` sets.
        alive: name of the state field that is not 0 for agents in the game; None if no agent leaves it. It holds integers of
            at most 32 bits, or uint64, and has the shape ``("num_agents",)``.
        check: function that raises ParameterError if parameters contradict each other, and returns None.
        reward_role: role whose mean agent reward is the reward of a world; None for the mean over all agents.
        metrics: numbers of each episode, given as ``info["episode"]`` when it ends.
        lanes: lanes requested for a team on CUDA, 1 to 1024, for worlds with more work than one lane for each agent; None for
            one an agent. ``work`` takes its place where a size tells the number.
        work: size that a team on CUDA follows in place of the number of agents: the name of one of ``sizes``, or a function,
            such as one that returns the cells of a grid. A team has a lane for each of up to 256; results do not depend on
            it. None for the agents.
        registers: most registers of a thread on CUDA, 32 to 255, in the env's steps and rollouts. More registers spill less
            to memory; with fewer, a multiprocessor has more worlds in flight. The threads of a block share 65,536, so 1,024
            threads have at most 64 each. None for 56 in blocks of up to 128 threads and 80 in larger ones; a kernel that
            spills more than 32 bytes with 56 gets 64 or 80, the smaller one with which it does not spill, or spills least.
        rewards: reward terms for the docs: name and description.
        feature_names: function that returns a name for each feature of an observation, such as ``"apples ahead"``, for
            messages of checks; by role, without shared parts, if roles have spaces of their own. None for numbers alone.
        limit_is_rule: true if the time limit is a rule of the game that agents can observe, as in Tag; its end is then as
            final as any other. False if the limit only cuts episodes of a task that would go on, as in CartPole. Trainers
            then add the value of the final observation.

    Raises:
        SpecError: a field that is unknown or missing, a part of the wrong type, a name that kernels or keywords cannot have, a
            name that is used twice or names nothing, bounds that exclude all numbers; a role without spaces; roles that share
            spaces and have different masks.
    """

    name: str
    kernel: Path
    roles: tuple[Role, ...]
    params: tuple[Param, ...]
    state: tuple[Field, ...]
    observation: Callable[[Params], Box] | None = None
    action: Callable[[Params], Space] | None = None
    sizes: tuple[str, ...] = ()
    constants: tuple[Constant, ...] = ()
    tables: tuple[Table, ...] = ()
    workspaces: tuple[Workspace, ...] = ()
    scratch: tuple[Scratch, ...] | Callable[[Params], int] | None = None
    reset_options: tuple[ResetOption, ...] = ()
    alive: str | None = None
    check: Callable[[Params], None] = lambda params: None
    reward_role: str | None = None
    metrics: tuple[Metric, ...] = ()
    lanes: Callable[[Params], int] | None = None
    work: str | Callable[[Params], int] | None = None
    registers: Callable[[Params], int] | None = None
    rewards: Mapping[str, str] = field(default_factory=dict)
    feature_names: Callable[[Params], Sequence[str] | Mapping[str, Sequence[str]]] | None = None
    limit_is_rule: bool = False

    def __post_init__(self) -> None:
        lists_as_tuples(self, *PARTS, "scratch")
        check_declarations(self)

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
        if any(role.observation or role.action for role in self.roles):
            return True
        shared = {f"{self.name}: role {role.name!r}: shared": role.shared for role in self.roles if role.shared is not None}
        return any(result_of(where, function, params) is not None for where, function in shared.items())

    @property
    def may_be_whole(self) -> bool:
        """True if parameters decide about arrays by role: the only role has no spaces of its own but may have a shared part."""
        return self.has_role_arrays and len(self.roles) == 1 and not (self.roles[0].observation or self.roles[0].action)

    @property
    def groups(self) -> tuple[Role, ...]:
        """Roles with their spaces, if kernels have arrays by role; else one role without a name, which stands for all agents."""
        if not self.has_role_arrays:
            return (Role("", 0, self.observation, self.action, self.roles[0].masked, effects=self.roles[0].effects),)
        return tuple(
            dataclasses.replace(role, observation=role.observation or self.observation, action=role.action or self.action)
            for role in self.roles
        )

    @property
    def all_state(self) -> tuple[Field, ...]:
        """The state fields, and one for each metric."""
        return self.state + tuple(metric.field for metric in self.metrics)

    def resolve(self, values: Mapping[str, Any], options: Sequence[str] = ()) -> Params:
        """Return all parameters: those of ``values``, checked and converted, and defaults for the rest.

        Args:
            values: parameters by name.
            options: further keywords of the caller, which the error about an unknown name may suggest.

        Raises:
            UnknownParameterError: a name that the env does not have.
            ParameterError: a value outside its range or of the wrong type.
            SpecError: a default or ``check`` raised an error that is none of this package, or ``check`` returned a value.
        """
        known = {param.name: param for param in self.params}
        for name in values:
            if name not in known:
                close = difflib.get_close_matches(name, [*known, *options], n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise UnknownParameterError(  # the first words are Python's, by which TorchRL knows this error
                    f"got an unexpected keyword argument {name!r}: {self.name} has no parameter of this name.{hint} "
                    f"It has: {', '.join(known)}."
                )
        params: dict[str, Any] = {}
        for name, param in known.items():
            default = param.default
            if callable(default):
                default = result_of(f"{self.name}: parameter {name!r}: default", default, params)
            params[name] = convert(self.name, param, values.get(name, default))
        require_one_length(self.name, {name: params[name] for name, param in known.items() if param.per_world})
        resolved = MappingProxyType(params)
        returned = result_of(f"{self.name}: check", self.check, resolved)
        require_part(returned is None, f"{self.name}: the result of check", "None; it raises ParameterError to refuse", returned)
        return resolved

    @property
    def kernel_params(self) -> tuple[Param, ...]:
        """Parameters that are members of the argument struct."""
        return tuple(param for param in self.params if param.dtype is not None)

    def role_counts(self, params: Params) -> dict[str, int]:
        """Return the number of agents of each role in a world, in the order of the roles."""
        counts = {}
        for role in self.roles:
            if callable(role.count):
                where = f"{self.name}: role {role.name!r}: count"
                counts[role.name] = whole_in(where, result_of(where, role.count, params), 0, MAX_NUMBERS)
            else:
                counts[role.name] = params[role.count] if isinstance(role.count, str) else int(role.count)
        return counts


def require_spec(value: Any) -> EnvSpec:
    """Return the spec given.

    Raises:
        SpecError: not an EnvSpec.
    """
    require_part(isinstance(value, EnvSpec), "env_spec", "an EnvSpec", value)
    spec: EnvSpec = value
    return spec
