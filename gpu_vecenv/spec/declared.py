"""Checks of a spec that need no values of parameters: types, names, and references from one part to another."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.errors import SpecError
from gpu_vecenv.spec.computed import MAX_NUMBERS, bounds_of, effect_groups, whole_in
from gpu_vecenv.spec.fields import (
    CONSTANT_DTYPES,
    FIELD_DTYPES,
    REDUCTIONS,
    SCRATCH_DTYPES,
    TABLE_DTYPES,
    WORKSPACE_DTYPES,
    Constant,
    Field,
    Metric,
    ResetOption,
    Scratch,
    Table,
    Workspace,
)
from gpu_vecenv.spec.names import ARGUMENTS, C_NAME, NAME, STATE_NAMES, is_c_name, is_name, is_one_line
from gpu_vecenv.spec.params import PARAM_DTYPES, Param
from gpu_vecenv.spec.roles import Role, group_sizes
from gpu_vecenv.spec.validation import abbreviated, real_number, require_part, rounded

if TYPE_CHECKING:
    from gpu_vecenv.spec.env_spec import EnvSpec

PARTS = {
    "roles": Role, "params": Param, "state": Field, "sizes": str, "constants": Constant, "tables": Table,
    "workspaces": Workspace, "reset_options": ResetOption, "metrics": Metric,
}  # fmt: skip
"""Fields of a spec that are tuples, and what they hold."""

KINDS = {"roles": "role", "params": "parameter", "state": "state field", "constants": "constant", "tables": "table",
         "workspaces": "workspace", "reset_options": "reset option", "metrics": "metric"}  # fmt: skip
"""Words for one entry of these tuples in error messages."""

ALIVE_DTYPES = ("int32", "uint8", "uint16", "uint64")
"""Dtypes of the field that ``EnvSpec.alive`` names."""


def check_declarations(spec: EnvSpec) -> None:
    """Check all of a spec except what its functions return.

    Raises:
        SpecError: the message names the env and the part, says what was expected and what came.
    """
    env = spec.name
    holds = isinstance(env, str) and env != "" and env.isprintable() and not {'"', "\\"} & set(env)
    require_part(holds, "the name of a spec", "printable text without quotation marks and backslashes", env)
    holds = isinstance(spec.kernel, Path) and is_one_line(str(spec.kernel))
    require_part(holds, f"{env}: kernel", "a pathlib.Path of one line", spec.kernel)
    for name, kind in PARTS.items():
        parts = getattr(spec, name)
        holds = isinstance(parts, tuple) and all(isinstance(part, kind) for part in parts)
        require_part(holds, f"{env}: {name}", f"a tuple of {kind.__name__}", parts)
    for name, word in KINDS.items():
        _check_texts(env, word, getattr(spec, name))
    _check_env(spec)
    for param in spec.params:
        _check_param(env, param)
    _check_sizes(spec)
    _check_roles(spec)
    sizes = {"num_agents", *spec.sizes, *(f"{role.prefix}{name}" for role in spec.groups for name in group_sizes(role))}
    for field in spec.state:
        _check_field(env, field, sizes)
    for metric in spec.metrics:
        _require_one_of(f"{env}: metric {metric.name!r}: reduction", metric.reduction, REDUCTIONS)
    _check_names(spec)
    _check_alive(spec)
    _check_memory(spec)
    if isinstance(spec.scratch, tuple):
        _check_scratch(env, spec.scratch, sizes)
    _check_reset_options(spec)


def _listed(names: Iterable[Any]) -> str:
    """Return names that a part may have, for messages."""
    return ", ".join(map(str, names)) or "there is none"


def _require_one_of(where: str, value: Any, allowed: tuple[str | None, ...]) -> None:
    holds = value is None and None in allowed or isinstance(value, str) and value in allowed
    require_part(holds, where, f"one of {', '.join(map(str, allowed))}", value)


def _is_whole(value: Any) -> bool:
    """Return True for integers that generated code shows as such."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _require_function(where: str, value: Any, or_none: bool = False) -> None:
    expected = "a function of the parameters" + (" or None" if or_none else "")
    require_part(callable(value) or or_none and value is None, where, expected, value)


def _check_env(spec: EnvSpec) -> None:
    """Check fields that are neither tuples nor names of parts."""
    env = spec.name
    for name in ("observation", "action", "lanes", "registers", "feature_names"):
        _require_function(f"{env}: {name}", getattr(spec, name), or_none=True)
    holds = spec.work is None or callable(spec.work) or isinstance(spec.work, str) and spec.work in spec.sizes
    sizes = f"the name of a size ({_listed(spec.sizes)}), a function of the parameters or None"
    require_part(holds, f"{env}: work", sizes, spec.work)
    require_part(spec.work is None or spec.lanes is None, f"{env}: work", "left out where lanes requests lanes", spec.work)
    holds = spec.scratch is None or callable(spec.scratch) or isinstance(spec.scratch, tuple)
    require_part(holds, f"{env}: scratch", "a tuple of Scratch, a function of the parameters or None", spec.scratch)
    _require_function(f"{env}: check", spec.check)
    require_part(isinstance(spec.limit_is_rule, bool), f"{env}: limit_is_rule", "True or False", spec.limit_is_rule)
    holds = isinstance(spec.rewards, Mapping) and all(
        is_one_line(text) for item in spec.rewards.items() for text in item
    )
    require_part(holds, f"{env}: rewards", "a mapping of names to descriptions, each of one line", spec.rewards)


def _check_texts(env: str, kind: str, parts: tuple[Any, ...]) -> None:
    """Check that names are text, and the docs and units of parts and ``leaving`` of roles text of one line."""
    for part in parts:
        require_part(isinstance(part.name, str), f"{env}: name of a {kind}", "text", part.name)
        for name in ("doc", "unit", "leaving"):
            text = getattr(part, name, "")
            where = f"{env}: {kind} {part.name!r}: {name}"
            require_part(is_one_line(text), where, "text of one line without a backslash at its end", text)


def _check_names(spec: EnvSpec) -> None:
    """Check that names fit the places where generated code has them, and are different within one tuple."""
    env, read = spec.name, {param.name for param in spec.kernel_params}
    for parts, kind in KINDS.items():
        names = [part.name for part in getattr(spec, parts)]
        for part in getattr(spec, parts):
            joined = {"role": not spec.has_role_arrays, "parameter": part.name not in read, "reset option": True}
            alone = not joined.get(kind, False)
            holds, expected = (is_c_name(part.name), C_NAME) if alone else (is_name(part.name), NAME)
            require_part(holds, f"{env}: name of a {kind}", expected, part.name)
        if kind not in ("state field", "metric"):
            require_part(len({*names}) == len(names), f"{env}: names of {parts}", "different", names)
    for param in spec.params:
        expected = "a name that is no argument of make_vec"
        require_part(param.name not in ARGUMENTS, f"{env}: name of a parameter", expected, param.name)
    names = [*STATE_NAMES, *(name for field in spec.all_state for name in field.names or (field.name,))]
    for name, times in Counter(names).items():
        if not is_c_name(name) or times > 1:
            raise SpecError(
                f"{env}: state names must be different identifiers other than {', '.join(STATE_NAMES)}, each {C_NAME}, "
                f"got {abbreviated(name)}."
            )


def _check_roles(spec: EnvSpec) -> None:
    env = spec.name
    require_part(len(spec.roles) > 0, f"{env}: roles", "at least one Role", spec.roles)
    counts = [param.name for param in spec.params if param.dtype == "int32" and not param.per_world]
    for role in spec.roles:
        where = f"{env}: role {role.name!r}"
        if isinstance(role.count, str):
            expected = f"the name of an int32 parameter that all worlds share ({_listed(counts)}), or an integer"
            require_part(role.count in counts, f"{where}: count", expected, role.count)
        elif not callable(role.count):
            require_part(_is_whole(role.count), f"{where}: count", "an integer, a parameter or a function", role.count)
            whole_in(f"{where}: count", role.count, 0, MAX_NUMBERS)
        for name in ("observation", "action", "shared"):
            _require_function(f"{where}: {name}", getattr(role, name), or_none=True)
        masked = role.masked
        holds = isinstance(masked, tuple) and all(map(_is_whole, masked))
        holds = callable(masked) or holds and len({*masked}) == len(masked)
        expected = "a tuple of different integers, the numbers of entries, or a function of the parameters"
        require_part(holds, f"{where}: masked", expected, masked)
        if not callable(role.effects):
            effect_groups(f"{where}: effects", role.effects)
    if not spec.has_role_arrays and len({(role.masked, role.effects) for role in spec.roles}) > 1:
        raise SpecError(f"{env}: roles without spaces of their own must have the same masked entries and effects.")
    if spec.reward_role is not None:
        holds = isinstance(spec.reward_role, str) and spec.reward_role in [role.name for role in spec.roles]
        names = ", ".join(role.name for role in spec.roles)
        require_part(holds, f"{env}: reward_role", f"one of the roles ({names})", spec.reward_role)
    for role in spec.groups:
        if role.observation is None or role.action is None:
            raise SpecError(f"{env}: {role.name or 'the env'} needs an observation and an action space.")


def _check_param(env: str, param: Param) -> None:
    where = f"{env}: parameter {param.name!r}"
    _require_one_of(f"{where}: dtype", param.dtype, PARAM_DTYPES)
    require_part(isinstance(param.per_world, bool), f"{where}: per_world", "True or False", param.per_world)
    if param.per_world:
        _require_one_of(f"{where}: dtype with values by world", param.dtype, ("float32", "float64", "int32"))
    low, high = bounds_of(where, param.low, param.high)
    if param.dtype in ("bool", None):
        holds = low == -math.inf and high == math.inf
        require_part(holds, f"{where}: low and high", f"left out for the dtype {param.dtype}", (low, high))


def _check_field(env: str, field: Field, sizes: set[str]) -> None:
    where, shape = f"{env}: state field {field.name!r}", field.shape
    _require_one_of(f"{where}: dtype", field.dtype, FIELD_DTYPES)
    expected = "a tuple of integers from 1 on, functions of the parameters and names of sizes"
    require_part(isinstance(shape, tuple), f"{where}: shape", expected, shape)
    for length in shape:
        holds = length in sizes if isinstance(length, str) else callable(length) or _is_whole(length) and length > 0
        require_part(holds, f"{where}: shape", f"{expected}, which are {', '.join(sorted(sizes))}", shape)
    most = math.prod(int(length) for length in shape if not (isinstance(length, str) or callable(length)))
    require_part(most <= MAX_NUMBERS, f"{where}: shape", f"of at most {MAX_NUMBERS} numbers", shape)
    holds = isinstance(field.names, tuple) and all(isinstance(name, str) for name in field.names)
    require_part(holds, f"{where}: names", "a tuple of identifiers", field.names)
    holds = not field.names or (len(field.names),) == shape
    require_part(holds, f"{where}: names", f"one name for each number of the shape {shape}", field.names)
    low = -math.inf if callable(field.low) else field.low
    bounds_of(where, low, math.inf if callable(field.high) else field.high)


def _check_sizes(spec: EnvSpec) -> None:
    require_part(len({*spec.sizes}) == len(spec.sizes), f"{spec.name}: sizes", "different", spec.sizes)
    known = [param.name for param in spec.params if param.dtype in ("int32", "bool") and not param.per_world]
    for name in spec.sizes:
        expected = f"names of int32 or bool parameters that all worlds share ({_listed(known)})"
        require_part(name in known, f"{spec.name}: sizes", expected, name)


def _check_alive(spec: EnvSpec) -> None:
    """Check what ``alive`` names; ``Layout`` checks the shape."""
    if spec.alive is None:
        for role in spec.roles:
            expected = "empty in a spec without alive, because no agent leaves its game early"
            require_part(not role.leaving, f"{spec.name}: role {role.name!r}: leaving", expected, role.leaving)
        return
    fields = {field.name: field for field in spec.state}
    holds = isinstance(spec.alive, str) and spec.alive in fields
    require_part(holds, f"{spec.name}: alive", f"the name of a state field ({_listed(fields)})", spec.alive)
    dtype = fields[spec.alive].dtype
    _require_one_of(f"{spec.name}: alive: dtype of the state field {spec.alive!r}", dtype, ALIVE_DTYPES)


def _check_memory(spec: EnvSpec) -> None:
    """Check constants, tables and workspaces."""
    for constant in spec.constants:
        _require_one_of(f"{spec.name}: constant {constant.name!r}: dtype", constant.dtype, CONSTANT_DTYPES)
        _require_function(f"{spec.name}: constant {constant.name!r}: value", constant.value)
        _check_by_world(spec, f"constant {constant.name!r}", constant.by_world)
    for table in spec.tables:
        _require_one_of(f"{spec.name}: table {table.name!r}: dtype", table.dtype, TABLE_DTYPES)
        _require_function(f"{spec.name}: table {table.name!r}: values", table.values)
        _check_by_world(spec, f"table {table.name!r}", table.by_world)
    for workspace in spec.workspaces:
        where = f"{spec.name}: workspace {workspace.name!r}"
        _require_one_of(f"{where}: dtype", workspace.dtype, WORKSPACE_DTYPES)
        _require_function(f"{where}: shape", workspace.shape)
        if workspace.dtype == "float32":
            number = real_number(workspace.fill)
            holds = number is not None and (not math.isfinite(number) or math.isfinite(rounded(number)))
            require_part(holds, f"{where}: fill", "a float32", workspace.fill)
        else:
            require_part(_is_whole(workspace.fill), f"{where}: fill", "an integer", workspace.fill)
            limits = np.iinfo(workspace.dtype)
            whole_in(f"{where}: fill", workspace.fill, int(limits.min), int(limits.max))


def _check_by_world(spec: EnvSpec, part: str, names: tuple[str, ...]) -> None:
    """Check the names of parameters that a constant or a table follows by world."""
    known = [param.name for param in spec.params if param.per_world]
    holds = isinstance(names, tuple) and all(name in known for name in names)
    require_part(holds, f"{spec.name}: {part}: by_world", "a tuple of names of parameters with per_world=True", names)


def _check_scratch(env: str, arrays: tuple[Scratch, ...], sizes: set[str]) -> None:
    """Check arrays in scratch; ``Layout`` checks their floats."""
    holds = all(isinstance(array, Scratch) for array in arrays)
    require_part(holds, f"{env}: scratch", "a tuple of Scratch, a function of the parameters or None", arrays)
    _check_texts(env, "array in scratch", arrays)
    names = [name for array in arrays for name in (array.name, f"{array.name}_room")]
    require_part(len({*names}) == len(names), f"{env}: names of arrays in scratch", "different", [a.name for a in arrays])
    for number, array in enumerate(arrays):
        where = f"{env}: scratch {array.name!r}"
        require_part(is_c_name(array.name), f"{env}: name of an array in scratch", C_NAME, array.name)
        _require_one_of(f"{where}: dtype", array.dtype, SCRATCH_DTYPES)
        expected = f"a tuple of integers from 1 on and names of sizes, which are {', '.join(sorted(sizes))}"
        last = number + 1 == len(arrays)
        holds = callable(array.shape) and last or isinstance(array.shape, tuple) and all(
            length in sizes if isinstance(length, str) else _is_whole(length) and length > 0 for length in array.shape
        )
        require_part(holds, f"{where}: shape", f"{expected}, or in the last array a function of the parameters", array.shape)
        require_part(_is_whole(array.align) and array.align > 0, f"{where}: align", "a number of floats from 1 on", array.align)
        holds = array.most is None or _is_whole(array.most) and array.most >= 0 and not callable(array.shape)
        require_part(holds, f"{where}: most", "an integer from 0 on, or None; None for a function as shape", array.most)


def _check_reset_options(spec: EnvSpec) -> None:
    defaults: dict[str, float] = {}
    for option in spec.reset_options:
        where = f"{spec.name}: reset option {option.name!r}"
        require_part(option.name != "reset_mask", f"{where}: name", "another, because every env has this option", option.name)
        number = real_number(option.default)
        holds = number is not None and math.isfinite(rounded(number))
        require_part(holds, f"{where}: default", "a finite float32", option.default)
        defaults[option.name] = option.default
    if "high" in defaults:
        low, high = defaults.get("low", 0.0), defaults["high"]  # without an option "low" it is 0, as in read_options()
        require_part(low <= high, f"{spec.name}: reset option 'high': default", f"at least low, {low}", high)
