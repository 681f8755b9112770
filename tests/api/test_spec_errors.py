"""Specs that no env can have: each raises a typed error with the env, the part, what was expected and what came."""

import dataclasses
import inspect
import os
import pydoc
import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete

from gpu_vecenv import Constant, Field, GpuVectorEnv, Metric, Param, ResetOption, Role, Scratch, Table, Workspace
from gpu_vecenv.backend import compiler, host_memory
from gpu_vecenv.backend.compiler import LEVELS, name_by_compiler, object_name
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.errors import CompileError, OutOfMemoryError, ParameterError, SpecError
from gpu_vecenv.spec import fields
from gpu_vecenv.spec.names import ARGUMENTS
from gpu_vecenv.spec.params import PARAM_DTYPES
from gpu_vecenv.vector.env.single_env import SingleEnv
from tests.api.spec_fuzz import KERNEL


def returns(value):
    return lambda params: value


def raises(params):
    return 1 / 0


def state(*arguments, **keywords):
    return {"state": (*SPEC.state, Field(*arguments, **keywords))}


def param(*arguments, **keywords):
    return {"params": (*SPEC.params, Param(*arguments, **keywords))}


def alive(dtype, shape):
    """Three agents, and a field that ``alive`` names."""
    return {"roles": (Role("agent", 3),), "alive": "spot", **state("spot", dtype, shape, "x")}


NAN = float("nan")

LIES = [
    ({"observation": returns(Box(-1, 1, (2,), np.float64))}, "observation must be a Box of float32 .*, got Box.*float64"),
    ({"observation": returns(Box(0, 255, (2,), np.uint8))}, "observation must be a Box of float32 .*, got Box.*uint8"),
    ({"observation": returns(Box(-1, 1, (0,)))}, "observation must be a Box .* with at least one number, got Box"),
    ({"observation": returns(None)}, "observation must be a Box .*, got None"),
    ({"observation": raises}, "observation must return without an error, got ZeroDivisionError: division by zero"),
    ({"observation": Box(-1, 1, (2,))}, "observation must be a function of the parameters or None, got Box"),
    ({"action": returns(Discrete(3, start=-1))}, r"action must be a space of indices from 0 on, got Discrete\(3, start=-1\)"),
    ({"action": returns(MultiDiscrete([3, 3], start=[0, 1]))}, "action must be a space of indices from 0 on, got MultiDiscrete"),
    ({"action": returns(Discrete(2**31))}, "action must be a space of at most 2147483647 choices .*, got Discrete"),
    ({"action": returns(MultiDiscrete([2, 3], dtype=np.int8))}, "action must be a space of int32 or int64, got dtype.*int8"),
    ({"action": returns(Box(-1, 1, (2,), np.float16))}, "action must be a Box of float32 or float64, got Box.*float16"),
    ({"action": returns(MultiBinary(3))}, "action must be a Discrete, a MultiDiscrete or a Box, got MultiBinary"),
    ({"roles": ()}, r"roles must be at least one Role, got \(\)"),
    ({"roles": (Role("a", 1), Role("a", 1))}, "names of roles must be different, got .'a', 'a'."),
    ({"roles": (Role("x; int y", 1),)}, "name of a role must be an identifier .*, got 'x; int y'"),
    ({"roles": (Role("a", -1), Role("b", 5))}, "role 'a': count must be an integer from 0 to .*, got -1"),
    ({"roles": (Role("a", "gravity"),)}, "role 'a': count must be the name of an int32 parameter .*, got 'gravity'"),
    ({"roles": (Role("a", 1, masked=(0, 0)),)}, r"role 'a': masked must be a tuple of different integers, .*, got \(0, 0\)"),
    ({"roles": (Role("a", 1, masked=returns((0, 0))),)}, r"masked must be a tuple of different integers, .*, got \(0, 0\)"),
    ({"roles": (Role("a", 1, masked=returns(0)),)}, "masked must be a tuple of different integers, .*, got 0"),
    ({"roles": (Role("a", 1, masked=raises),)}, "masked must return without an error, got ZeroDivisionError"),
    ({"roles": (Role("a", 1, shared=raises),)}, "role 'a': shared must return without an error, got ZeroDivisionError"),
    ({"roles": (Role("a", 1, shared=returns(Discrete(2))),)}, "role 'a': shared must be a Box of float32 .*, got Discrete"),
    (param("x", 1, "float16", "x"), "parameter 'x': dtype must be one of float32, int32, .*, got 'float16'"),
    (param("x", 1, "float32", "x", low=NAN), "parameter 'x': low must be a number, got nan"),
    (param("x", 1, "int32", "x", low=3, high=2), "parameter 'x': low must be at most high, 2, got 3"),
    (param("x", 1, "bool", "x", low=0), r"parameter 'x': low and high must be left out for the dtype bool, got \(0"),
    (param("int", 1, "int32", "x"), "name of a parameter must be .* no keyword of C.., got 'int'"),
    (param("gravity", 1, "float64", "x"), "names of params must be different"),
    (param("x", raises, "int32", "x"), "parameter 'x': default must return without an error, got ZeroDivisionError"),
    (param("x", NAN, "float32", "x"), "x must be finite, got nan"),
    (param("x", 1, "int32", "x\n#error y"), r"parameter 'x': doc must be text of one line .*, got 'x\\n#error y'"),
    (param("x", 1, "int32", "x", "m\\"), "parameter 'x': unit must be text of one line without a backslash at its end, got"),
    ({"sizes": ("gravity",)}, "sizes must be names of int32 or bool parameters .*, got 'gravity'"),
    ({"sizes": "gravity"}, "sizes must be a tuple of str, got 'gravity'"),
    (state("spot", "float32", (returns(-1),), "x"), "state field 'spot': spot_axis0 must be an integer from 0 to .*, got -1"),
    (state("spot", "float32", (raises,), "x"), "state field 'spot': spot_axis0 must return without an error, got ZeroDivision"),
    (state("spot", "float32", (0,), "x"), r"state field 'spot': shape must be a tuple of integers from 1 on, .*, got \(0,\)"),
    (state("spot", "float32", ("nope",), "x"), r"state field 'spot': shape must be .* num_agents, .*, got \('nope',\)"),
    (state("spot", "uint8", (2**31,), "x"), "state field 'spot': shape must be of at most 2147483647 numbers, got"),
    (state("spot", "float32", (), "x", low=NAN), "state field 'spot': low must be a number, got nan"),
    (state("spot", "float32", (), "x", high=returns("a")), "state field 'spot': high must be a number, got 'a'"),
    (state("spot", "float32", (), "x", low=raises), "state field 'spot': low and high must return without an error, got ZeroDiv"),
    ({"reset_options": (ResetOption("a", 0, ""),) * 2}, "names of reset_options must be different, got .'a', 'a'."),
    ({"reset_options": (ResetOption("a", NAN, ""),)}, "reset option 'a': default must be a finite float32, got nan"),
    ({"reset_options": (ResetOption("reset_mask", 0, ""),)}, "reset option 'reset_mask': name must be another"),
    ({"reset_options": (ResetOption("high", -1, ""),)}, "reset option 'high': default must be at least low, 0.0, got -1"),
    ({"tables": (Table("x", returns(np.ones(2, complex)), "x"),)}, "table 'x' must be real numbers, got array.*j"),
    ({"tables": (Table("x", returns([[1], [1, 2]]), "x", dtype="int32"),)}, "table 'x' must be real numbers, got .*1, 2"),
    ({"tables": (Table("x", raises, "x", dtype="int32"),)}, "table 'x' must return without an error, got ZeroDivisionError"),
    ({"constants": (Constant("x", returns([1, 2]), "x"),)}, "constant 'x' must be one number, got array"),
    ({"constants": (Constant("x", returns(1), "x", by_world=("gravity", "nope")),)}, "constant 'x': by_world must be .*, got"),
    ({"tables": (Table("x", returns([1]), "x", by_world="gravity"),)}, "table 'x': by_world must be a tuple of names of .*, got"),
    ({"tables": (Table("x", returns([1]), "x", by_world=("gravity",)),)}, "table .x.: by_world must be left out in an env"),
    ({"scratch": raises}, "scratch must return without an error, got ZeroDivisionError: division by zero"),
    ({"scratch": returns(1.5)}, "scratch must be an integer from 0 to .*, got 1.5"),
    ({"lanes": returns("x")}, "lanes must be an integer from 1 to 1024, got 'x'"),
    ({"registers": returns(31)}, "registers must be an integer from 32 to 255, got 31"),
    ({"registers": returns(80.5)}, "registers must be an integer from 32 to 255, got 80.5"),
    ({"workspaces": (Workspace("x", "bool", returns((2,)), 0, "x"),)}, "workspace 'x': dtype must be one of .*, got 'bool'"),
    ({"workspaces": (Workspace("x", "int32", returns(2), 0, "x"),)}, "workspace 'x': shape must be a tuple of integers, got 2"),
    ({"workspaces": (Workspace("x", "uint8", returns((2,)), 256, "x"),)}, "workspace 'x': fill must be .* to 255, got 256"),
    ({"metrics": (Metric("int", "sum", "x"),)}, "name of a metric must be .* no keyword of C.., got 'int'"),
    ({"check": returns(False)}, "the result of check must be None; .*, got False"),
    ({"check": raises}, "check must return without an error, got ZeroDivisionError"),
    ({"rewards": None}, "rewards must be a mapping of names to descriptions, .*, got None"),
    ({"kernel": "x.cu"}, "kernel must be a pathlib.Path of one line, got 'x.cu'"),
    ({"roles": (Role("agent", 1, leaving="gone"),)}, "role 'agent': leaving must be empty .* alive, .* got 'gone'"),
    ({"alive": "nope"}, r"alive must be the name of a state field \(state\), got 'nope'"),
    (alive("float32", ("num_agents",)), "alive: dtype .* 'spot' must be .*, got 'float32'"),
    (alive("uint8", ()), r"state field 'spot': shape must be \(3,\), one .*, got \(\)"),
    (alive("uint8", (2,)), r"state field 'spot': shape must be \(3,\), one .*, got \(2,\)"),
    ({"roles": (Role("a", 0), Role("b", 2)), "reward_role": "a"}, "reward_role 'a' must have an agent, got none"),
]


@pytest.mark.parametrize(("changes", "message"), LIES, ids=lambda part: next(iter(part)) if isinstance(part, dict) else "")
def test_a_lie_raises_an_error_before_its_kernel_is_compiled(changes, message):
    with pytest.raises(ParameterError, match=f"^WarpCartPole-v1: {message}"):
        GpuVectorEnv(dataclasses.replace(SPEC, **{"kernel": Path("never read.cu"), **changes}), 2, device="cpu")


@pytest.mark.parametrize("name", ["", None, 'a"b', "a\n#error b", "a\0b"])
def test_a_spec_has_a_name(name):
    with pytest.raises(SpecError, match="the name of a spec must be printable text .*, got "):
        dataclasses.replace(SPEC, name=name)


@pytest.mark.parametrize("part", ["observation", "action", "scratch", "lanes", "registers", "check"])
def test_the_error_of_a_function_is_the_cause(part):
    with pytest.raises(SpecError, match=part) as raised:
        GpuVectorEnv(dataclasses.replace(SPEC, **{part: raises}), 2, device="cpu")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_a_typed_error_of_a_function_is_not_changed():
    def refuse(params):
        raise ParameterError("gravity is too small")

    with pytest.raises(ParameterError, match="^gravity is too small$"):
        GpuVectorEnv(dataclasses.replace(SPEC, check=refuse), 2, device="cpu")


def test_no_parameter_has_the_name_of_an_argument():
    calls = (GpuVectorEnv.__init__, gymnasium.make_vec, gymnasium.make, SingleEnv)
    taken = [one for call in calls for one in inspect.signature(call).parameters.values()]
    names = {one.name for one in taken if one.kind is not inspect.Parameter.VAR_KEYWORD}
    assert names - {"max_episode_steps"} == {*ARGUMENTS}, "a time limit has Gymnasium's name"
    for name in ARGUMENTS:
        with pytest.raises(SpecError, match=f"name of a parameter must be .* no argument of make_vec, got '{name}'"):
            dataclasses.replace(SPEC, params=(*SPEC.params, Param(name, 1, "int32", "x")))


def test_lists_are_taken_as_tuples():
    spec = dataclasses.replace(SPEC, roles=list(SPEC.roles), state=[Field("x", "float32", [2], "x", names=["a", "b"])])
    assert spec.roles == SPEC.roles and spec.state[0].shape == (2,) and spec.state[0].names == ("a", "b")


def test_integers_of_numpy_and_any_name_of_a_table_are_taken(monkeypatch):
    monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "-O0"))  # a tenth of the time
    roles, fields = (Role("agent", np.int64(3)),), (Field("spot", "float32", (np.int64(2),), "x"),)
    tables = (Table("self", returns([1, 2]), "x"),)
    spec = dataclasses.replace(SPEC, kernel=KERNEL, roles=roles, state=fields, tables=tables)
    env = GpuVectorEnv(spec, 2, device="cpu", array="torch", copy=True)
    assert env.reset(seed=0)[0].shape == (2, 3, 4) and env.get_state("spot")["spot"].shape == (2, 2)


def test_an_env_needs_a_spec():
    with pytest.raises(SpecError, match="env_spec must be an EnvSpec, got 'WarpCartPole-v1'"):
        GpuVectorEnv("WarpCartPole-v1")


@pytest.mark.parametrize("kernel", ["missing.cu", ".", "/dev/zero", "bytes.cu", "pipe.cu"])
def test_a_kernel_that_cannot_be_read_raises_an_error(kernel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("bytes.cu").write_bytes(b"\xff\xfe\0")
    os.mkfifo("pipe.cu")
    with pytest.raises(CompileError, match=f"WarpCartPole-v1: kernel must be a file of text, got {kernel}, which cannot be read"):
        GpuVectorEnv(dataclasses.replace(SPEC, kernel=Path(kernel)), 2, device="cpu")


def test_a_kernel_may_have_a_long_name(tmp_path):
    """File systems take names of up to 255 bytes; the compiled file has hashes in its name, too."""
    kernel = tmp_path / ("\u00e9" * 120 + ".cu")
    kernel.write_text(SPEC.kernel.read_text())
    name = name_by_compiler(object_name(dataclasses.replace(SPEC, kernel=kernel), LEVELS[-1]), [sys.executable])
    assert len(os.fsencode(name)) < 200


def test_a_limit_of_the_process_counts_as_its_memory(monkeypatch):
    monkeypatch.setattr(host_memory.resource, "getrlimit", lambda _: (1, 1))
    with pytest.raises(OutOfMemoryError, match="2 worlds need .* MB on cpu .* and 0.0 MB are free"):
        GpuVectorEnv(SPEC, 2, device="cpu")


MISNAMED = [
    (lambda: dataclasses.replace(SPEC, lane=3), r"EnvSpec has no field 'lane'. Did you mean 'lanes'\? It has: name, kernel"),
    (lambda: type(SPEC)("X-v0", SPEC.kernel), "EnvSpec: missing a required argument: 'roles'. Its fields are, in their order"),
    (lambda: Field("x", "float32", (), "x", bounds=1), "Field has no field 'bounds'. .*It has: name, dtype, shape, doc"),
    (lambda: Param("x", 1.0), "Param: missing a required argument: 'dtype'"),
    (lambda: Role("a", 1, mask=(0,)), "Role has no field 'mask'. Did you mean 'masked'"),
    (lambda: Metric("x", "sum", "x", name="y"), "Metric: multiple values for argument 'name'"),
    (lambda: dataclasses.replace(SPEC, sizes=("size",)), r"sizes must be names of int32 .*\(.*max_episode_steps"),
    (lambda: dataclasses.replace(SPEC, reward_role="x"), r"reward_role must be one of the roles \(agent\), got 'x'"),
    (lambda: dataclasses.replace(SPEC, roles=(Role("agent", "n"),)), r"count must be the name .*\(.*max_episode_steps"),
]


@pytest.mark.parametrize("make, said", MISNAMED, ids=[said[:20] for _, said in MISNAMED])
def test_fields_are_named_with_their_choices(make, said):
    with pytest.raises(SpecError, match=said):
        make()


CHOICES = {
    Field: fields.FIELD_DTYPES, Scratch: fields.SCRATCH_DTYPES, Constant: fields.CONSTANT_DTYPES, Table: fields.TABLE_DTYPES,
    Workspace: fields.WORKSPACE_DTYPES, Metric: fields.REDUCTIONS, Param: tuple(filter(None, PARAM_DTYPES)),
}  # fmt: skip
"""Choices of the dtype, or of the reduction, by kind of part."""


@pytest.mark.parametrize("kind", CHOICES)
def test_help_names_every_choice(kind):
    named = re.findall(r'``"([a-z]+(?:8|16|32|64)?)"``', inspect.getdoc(kind))
    assert set(named) == set(CHOICES[kind]) and "(a, team)" not in inspect.getdoc(kind)


@pytest.mark.parametrize("kind", [type(SPEC), Field, Param, Role, Scratch])
def test_help_explains_every_field(kind):
    text = pydoc.plain(pydoc.render_doc(kind))
    for field in dataclasses.fields(kind):
        assert re.search(rf"^ +\|  +{field.name}: \S+ \S+", text, re.MULTILINE), field.name
