"""Random specs that lie: ``python -m tests.api.spec_fuzz SEED SPECS [COMPILES]``.

Each spec is one of three true ones with one to three parts replaced, most by what no env can have. Making an env must succeed or
raise a typed error that names the env. Two envs of an accepted spec must give the same bits, in the shapes and dtypes declared.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.vector import AutoresetMode

from gpu_vecenv import (
    TIME_LIMIT,
    Constant,
    EnvSpec,
    Field,
    GpuVectorEnv,
    Metric,
    Param,
    ResetOption,
    Role,
    Table,
    Workspace,
)
from gpu_vecenv.backend import compiler
from gpu_vecenv.backend.source import content_hash, kernel_source
from gpu_vecenv.errors import CompileError, GpuVecenvError, ParameterError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.vector.outputs.memory_needs import memory_needs
from gpu_vecenv.vector.outputs.views import View
from tests.api.fuzz import ODD_VALUES
from tests.trees import assert_trees_equal, to_host

NAME = "Lies-v0"


def raises(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises an error."""

    def function(*_: Any) -> Any:
        raise error

    return function


def returns(value: Any) -> Callable[..., Any]:
    """Return a function with a constant result."""
    return lambda *_: value


def endless(params: Any) -> Any:
    """Call itself."""
    return endless(params)


def box(*shape: int, dtype: Any = np.float32) -> Callable[..., Box]:
    """Return a function that returns a Box with bounds 0 and 1."""
    return returns(Box(0, 1, shape, dtype))


PARAMS = (
    Param("few", 2, "int32", "a count", low=0, high=5), Param("half", 0.5, "float32", "by world", per_world=True),
    Param("flag", True, "bool", "a flag"), Param("wide", lambda p: p["few"] / 3, "float64", "for constants"),
    Param("other", None, None, "no number"), TIME_LIMIT,
)  # fmt: skip
MEMORY: dict[str, Any] = {
    "constants": (Constant("third", lambda p: p["wide"] / 3, "a third"),),
    "tables": (Table("curve", lambda p: np.linspace(0, 1, 3 + p["few"]), "floats"),
               Table("steps", lambda p: [[1, 2], [3, 4]], "integers", dtype="uint8")),
    "reset_options": (ResetOption("low", 0.0, "lowest"), ResetOption("high", 1.0, "highest")),
}  # fmt: skip
STATE = (Field("x", "float32", (), "a number", "m"), Field("pair", "int32", (2,), "two numbers", names=("left", "right")))
ALIVE = Field("alive", "uint8", ("num_agents",), "1 for agents in the game", low=0, high=lambda p: 1)
SEVERAL: dict[str, Any] = {
    "state": (*STATE, ALIVE, Field("own", "uint16", ("few",), "some")), "alive": "alive", "sizes": ("few", "flag"),
    "workspaces": (Workspace("work", "int8", lambda p: (p["few"], 2), 1, "work"),), "lanes": lambda p: 4 * (1 + p["few"]),
    "registers": lambda p: 64 + p["few"],
    "scratch": lambda p: 3 * p["few"], "metrics": (Metric("count", "sum", "a sum"), Metric("last", "last", "the last")),
}  # fmt: skip
KERNEL = Path(__file__).with_name("lies.cu")
SPECS = (
    EnvSpec(NAME, KERNEL, (Role("agent", 1),), PARAMS, STATE, box(2), returns(Discrete(3)), **MEMORY),
    EnvSpec(NAME, KERNEL, (Role("red", "few", masked=(0,)), Role("blue", 3, masked=(0,), leaving="gone")), PARAMS,
            observation=box(3), action=returns(MultiDiscrete([2, 3])), reward_role="blue", **MEMORY, **SEVERAL),
    EnvSpec(NAME, KERNEL, (Role("red", "few", box(2), masked=(0,)), Role("blue", 1, box(1), box(2), shared=box(4)),
                           Role("green", 1, box(1), effects={"a": (0,)})), PARAMS,
            action=returns(Discrete(4)), rewards={"step": "each step"}, limit_is_rule=True, **MEMORY, **SEVERAL),
)  # fmt: skip
"""Specs that do not lie: one agent; roles that are alike; roles with spaces of their own."""

ERRORS = [ZeroDivisionError("x"), KeyError("nope"), ValueError("y" * 300), RecursionError(), StopIteration(), MemoryError(),
          AttributeError("z"), OSError(5, "w"), ParameterError(f"{NAME}: no"), AssertionError()]  # fmt: skip
FUNCTIONS = [*map(raises, ERRORS), endless, *map(returns, ODD_VALUES), lambda p: p["few"], lambda p: p["nope"],
             lambda p: p.update(x=1), lambda: 1, lambda p: (n for n in range(3)), lambda p: np.ones(3, complex)]  # fmt: skip
SPACES = [
    box(1), box(), box(2, 3), box(0), box(40), box(2, dtype=np.float64), box(2, dtype=np.uint8), box(2, dtype=np.float16),
    *map(returns, (
        Box(-np.inf, np.inf, (2,)), Box(-3e38, 3e38, (2,)), Box(1, 1, (2,)), Discrete(1), Discrete(3, start=-1), Discrete(2**31),
        Discrete(2**31 - 1), MultiDiscrete([2, 3]), MultiDiscrete([[2, 3], [4, 5]]), MultiDiscrete([3, 3], start=[1, 1]),
        MultiDiscrete([2, 3], dtype=np.int8), MultiDiscrete([2] * 70), MultiDiscrete(np.zeros(0, int)), MultiBinary(3), Text(3),
        Dict(a=Discrete(2)), Tuple([Discrete(2)]),
    )),
    lambda p: Box(np.array([np.nan], "f4"), np.array([1], "f4")), lambda p: Box(0, 1, (p["few"],)), Box(0, 1, (2,)), None,
]  # fmt: skip
NAMES = ["", "a b", "int", "x; int y", "\u00e9", "num_envs", "device", "GV_FOR", "t", "seed", "obs", "action", "x" * 300, "low",
         "reset_mask", "few", "alive", "x", "reward", "red", "agent", "\ud800", "a\0", "gv_row", "world", "self"]  # fmt: skip
TEXTS = ["", "*/ int evil; /*", "a\n#error b", "a\\", "a\\ ", "??/", "a\0b", "\ud800", "\u2028", "'\"%s{x}", "a" * 999]
SHAPES = [(), (1,), (0,), (-1,), (3,), [2], (2, 3), (1.5,), ("few",), ("nope",), ("num_agents",), ("num_agents", "few"), (2**40,),
          (True,), (np.int64(2),), (np.array(2),), "few", 3]  # fmt: skip
NUMBERS = [-1, 0, 1, 2, 4096, 4097, 2**31, 2**40, 1.5, True, np.int64(3), "few", "half", "flag", "nope", float("nan"),
           float("inf"), -float("inf"), 1e300]  # fmt: skip
DTYPES = ["float32", "int32", "bool", "float64", None, "uint8", "uint16", "uint64", "int8", "float16", "int64", "O", 5, np.int32]
POOLS: dict[str, list[Any]] = {
    "name": NAMES, "doc": TEXTS, "unit": TEXTS, "leaving": TEXTS, "dtype": DTYPES, "shape": [*SHAPES, *map(returns, SHAPES)],
    "low": [*NUMBERS, *FUNCTIONS], "high": [*NUMBERS, *FUNCTIONS], "default": [*NUMBERS, *FUNCTIONS], "fill": NUMBERS,
    "count": NUMBERS, "masked": [(), (0,), (1,), (0, 1), (0, 0), (5,), (-1,), (0.0,), [0], 0],
    "effects": [{}, {"a": (0,)}, {"a": range(2), "b": [2]}, {"a": (0, 0)}, {"a": ()}, {1: (0,)}, {"a": 0}, (), (("a", (0,)),), 3,
                lambda p: {"a": (1,)}, *FUNCTIONS],
    "names": [(), *SHAPES, ("a", "b"), ("a", "a"), ("t", "a"), ["a", "b"], ("int", "b"), (1, 2)],
    "reduction": ["sum", "mean", "median", None], "observation": SPACES, "action": SPACES,
    "shared": SPACES, "check": FUNCTIONS, "scratch": [*map(returns, NUMBERS), *FUNCTIONS],
    "lanes": [*map(returns, NUMBERS), *FUNCTIONS], "registers": [*map(returns, NUMBERS), *FUNCTIONS],
    "alive": ["x", "own", "pair", "alive", "nope", None],
    "reward_role": ["red", "blue", "green", None],
    "sizes": [(), ("few",), ("few", "few"), ("half",), ("other",), ("nope",), "few"],
    "value": FUNCTIONS, "values": FUNCTIONS, "rewards": [{}, {1: 2}, {"a": "b\nc"}], "per_world": [True, False, 1],
    "kernel": [KERNEL, "lies.cu", Path("/nope.cu"), Path("/tmp"), Path("/dev/zero"), Path("a\nb"), Path("x" * 300),
               Path("\udcff")],
}  # fmt: skip
"""Values of fields by the field's name: true ones, and lies that are near to them."""


class SpecFuzz:
    """Random specs, drawn from a seed.

    Args:
        seed: seed of the draws.
        compiles: kernels that may be compiled; envs of further ones are made up to their kernels.
    """

    def __init__(self, seed: int, compiles: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.compiles = compiles
        self.compiled: set[str] = set()
        self.outcomes: Counter[str] = Counter()
        self.changes = ""

    def run(self, specs: int) -> Counter[str]:
        """Try ``specs`` specs and return the count of each outcome."""
        for _ in range(specs):
            try:
                outcome = self._try()
            except Exception as error:
                error.add_note(self.changes)
                raise
            self.outcomes[outcome] += 1
        return self.outcomes

    def _pick(self, values: Any) -> Any:
        return values[self.rng.integers(len(values))]

    def _try(self) -> str:
        spec = self._pick(SPECS)
        self.changes = ""
        try:
            for _ in range(int(self._pick([1, 1, 1, 2, 3]))):
                spec = self._changed(spec)
            return self._make(spec)
        except GpuVecenvError as error:
            named = spec.name in str(error) or NAME in str(error) or "the name of a spec" in str(error)
            assert named, f"{type(error).__name__} does not name the env: {error}"
            return type(error).__name__

    # ---- lies -------------------------------------------------------------------------------------------------

    def _changed(self, spec: EnvSpec) -> EnvSpec:
        name = self._pick([one.name for one in dataclasses.fields(spec) if one.name != "name" or self.rng.random() < 0.3])
        value = getattr(spec, name)
        if isinstance(value, tuple) and value and name != "sizes" and self.rng.random() < 0.9:
            changed = self._changed_parts(name, value)
        else:
            changed = self._value(name)
        self.changes += f"{name}: {abbreviated(changed)}\n"
        return dataclasses.replace(spec, **{name: changed})

    def _changed_parts(self, name: str, parts: tuple[Any, ...]) -> Any:
        """Parts with one that is changed, left out, repeated, or of another kind."""
        at, chance = int(self.rng.integers(len(parts))), self.rng.random()
        if chance < 0.05:
            return parts[:at] + parts[at + 1 :]
        if chance < 0.1:
            return (*parts, parts[at])
        part = self._pick(ODD_VALUES)
        if chance > 0.15:
            field = self._pick([one.name for one in dataclasses.fields(parts[at])])
            value = self._value(field)
            self.changes += f"{name} {at}: {field}: {abbreviated(value)}\n"
            part = dataclasses.replace(parts[at], **{field: value})
        changed = (*parts[:at], part, *parts[at + 1 :])
        return list(changed) if chance > 0.95 else changed

    def _value(self, name: str) -> Any:
        return self._pick(POOLS[name] if name in POOLS and self.rng.random() < 0.8 else [*ODD_VALUES, *FUNCTIONS])

    # ---- envs of specs ----------------------------------------------------------------------------------------

    def _make(self, spec: EnvSpec) -> str:
        layout = Layout(spec, spec.resolve({}))
        key = content_hash(kernel_source(spec))
        if key not in self.compiled:
            if self.compiles == 0:
                view = View(layout, 2, False)
                assert view.single_observation_space is not None and view.single_action_space is not None
                memory_needs(view, AutoresetMode.SAME_STEP, True)
                return "accepted, not run"
            self.compiles -= 1
            self.compiled.add(key)
        envs = []
        for array, copy in (("numpy", True), ("torch", False)):
            try:
                envs.append(GpuVectorEnv(spec, 2, device="cpu", array=array, copy=copy))
            except CompileError as error:
                raise AssertionError(f"an accepted spec does not compile: {error}") from error
        self._compare(envs)
        return "accepted, run"

    def _compare(self, envs: list[GpuVectorEnv]) -> None:
        """Make the same calls in both envs, and check results against declarations."""
        env, spec = envs[0], envs[0].env_spec
        fits(both(envs, lambda env: env.reset(seed=3))["0"], env.observation_space)
        env.action_space.seed(1)
        action = env.action_space.sample()
        both(envs, lambda env: env.step(action))
        low, high = env.layout.bounds.get(spec.alive or "", (0, 0))
        if env.num_agents > 1 and low <= 0 and high >= 1:
            dtype = next(field.dtype for field in spec.state if field.name == spec.alive)
            alive = self.rng.integers(0, 2, (2, env.num_agents)).astype(dtype)
            both(envs, lambda env: env.set_state({spec.alive: alive}))
            info = both(envs, lambda env: env.step(action))["4"]
            np.testing.assert_array_equal(info["agent_alive"], alive != 0)
        if env.worlds.arguments.can_draw:
            both(envs, lambda env: env.rollout(num_steps=5))
        both(envs, lambda env: env.get_state())
        for env in envs:
            env.close()


def both(envs: list[GpuVectorEnv], call: Callable[[GpuVectorEnv], Any]) -> Any:
    """Make a call in both envs, compare the results bit by bit, and return the first."""
    first, second = (to_host(tree(call(env))) for env in envs)
    assert_trees_equal(first, second, "two envs of one spec")
    return first


def tree(result: Any) -> Any:
    """Results as nested dicts, without arrays of which some rows are undefined."""
    if isinstance(result, tuple):
        return {str(place): tree(part) for place, part in enumerate(result)}
    if isinstance(result, dict):
        undefined = ("final_obs", "final_action_mask", "final_action_effects", "episode")
        return {name: part for name, part in result.items() if name not in undefined}
    return np.zeros(0) if result is None else result


def fits(obs: Any, space: Any) -> None:
    """Raise AssertionError unless observations have the shapes and the dtypes of their space."""
    if isinstance(obs, Mapping):
        assert obs.keys() == space.keys()
        for name in obs:
            fits(obs[name], space[name])
    else:
        assert obs.shape == space.shape and obs.dtype == space.dtype, (obs.shape, obs.dtype, space)


def fuzz(seed: int, specs: int, compiles: int) -> Counter[str]:
    """Try random specs. An error gets notes with the changes of the spec and the command that reproduces it."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "-O0"))  # a tenth of the time
        warnings.simplefilter("ignore")
        try:
            return SpecFuzz(seed, compiles).run(specs)
        except Exception as error:
            error.add_note(f"python -m tests.api.spec_fuzz {seed} {specs} {compiles}")
            raise


if __name__ == "__main__":
    start = time.perf_counter()
    for outcome, count in sorted(fuzz(*map(int, (*sys.argv[1:], 5)[:3])).items()):
        print(f"{count:8,} {outcome}")
    print(f"{time.perf_counter() - start:.1f} s")
