"""Compares a kernel with a reference in plain NumPy, one step at a time from each state that a run reaches."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import Params
from gpu_vecenv.testing.difference import Arrays, first_difference, flat
from gpu_vecenv.testing.errors import CheckError, NotRunError
from gpu_vecenv.testing.run import arrays_of, at
from gpu_vecenv.testing.subject import Subject, action_table
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


class Reference(Protocol):
    """One world of an env, written from its rules and not from its kernel. It is made from the resolved parameters.

    A class with these methods whose name is or ends in ``Reference``, in ``reference.py`` beside the kernel or in the module of
    the spec, is found by ``check_env()``. ``tolerance``, 1e-5 by default, is the largest difference from the kernel: absolute for
    numbers up to 1 and relative for larger ones. Integers and flags are compared exactly.
    """

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Take the state of one world: all fields of ``get_state()`` of the env, ``t`` and the random key among them."""

    def get_state(self) -> Mapping[str, Any]:
        """Return the fields that are compared with the kernel's; others may be left out."""

    def step(self, actions: Any) -> tuple[Any, Any, bool, bool]:
        """Advance one step.

        Args:
            actions: actions of all agents, (agents, entries); without the axes that the env's action space lacks. By role if the
                env's are.

        Returns:
            Observations as ``observe()`` returns them, the reward of each agent, terminated and truncated.
        """

    def observe(self) -> Any:
        """Return the observations of all agents in the present state, float32, as in one world of the env."""


METHODS = ("set_state", "get_state", "step", "observe")
TOLERANCE = 1e-5


def find_reference(spec: EnvSpec) -> Callable[[Params], Reference]:
    """Return the class of an env's reference.

    Raises:
        NotRunError: there is none, or it lacks methods.
    """
    beside = spec.kernel.with_name("reference.py")
    modules = [_module_of(beside)] if beside.is_file() else []
    modules += [module for module in list(sys.modules.values()) if _holds(module, spec)]
    lacking = ""
    for module in modules:
        for name, value in list(vars(module).items()):
            if inspect.isclass(value) and name.endswith("Reference") and value is not Reference:
                lacks = [method for method in METHODS if not hasattr(value, method)]
                if not lacks:
                    return cast("Callable[[Params], Reference]", value)
                lacking = f"; {name} has no {'() and no '.join(lacks)}()"
    raise NotRunError(f"no class Reference with {'(), '.join(METHODS)}() beside {spec.kernel.name}{lacking}")


def _holds(module: Any, spec: EnvSpec) -> bool:
    return isinstance(module, ModuleType) and any(value is spec for value in list(vars(module).values()))


def _module_of(path: Path) -> ModuleType:
    """Import a file, as a module of its package if one of the same folder is imported already."""
    for module in list(sys.modules.values()):
        file, package = getattr(module, "__file__", None), getattr(module, "__package__", None)
        if file and package and Path(file).parent == path.parent and Path(file).is_file():
            return importlib.import_module(f"{package}.{path.stem}")
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"expected a module, got {path}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_reference(subject: Subject, reference: Callable[[Params], Reference] | None = None) -> str:
    """Compare each step of the kernel with the reference, from the kernel's own state before the step.

    Args:
        subject: the env.
        reference: from parameters to a reference; by default the class that ``find_reference()`` finds.
    """
    env = subject.make(autoreset_mode="disabled")
    layout = env.layout
    one = (reference or find_reference(env.env_spec))(env.params)
    tolerance = float(getattr(one, "tolerance", TOLERANCE))
    env.reset(seed=subject.seed)
    actions = action_table(env, subject.num_steps, subject.seed + 1, beyond=False)
    for step in range(subject.num_steps):
        before, obs = env.get_state(), flat(env.observe(), "obs")
        for world in range(env.num_worlds):
            one.set_state(at(before, world))
            _compare(layout, step, world, _of_world(obs, world), flat(one.observe(), "obs"), tolerance)
        arrays, after = arrays_of(env.step(at(actions, step))), env.get_state()
        for world in range(env.num_worlds):
            one.set_state(at(before, world))
            seen, rewards, terminated, truncated = one.step(at(at(actions, step), world))
            expected = flat(seen, "obs") | _pays(env, rewards)
            expected |= {"terminated": np.array(bool(terminated)), "truncated": np.array(bool(truncated))}
            state = {f"state.{name}": np.asarray(value) for name, value in one.get_state().items()}
            kernel = _of_world(arrays | {f"state.{name}": array for name, array in after.items()}, world)
            _compare(layout, step + 1, world, kernel, expected | state, tolerance)
        ended = arrays["terminated"] | arrays["truncated"]
        if ended.any():
            env.reset(options={"reset_mask": ended})
    env.close()
    return f"{subject.num_steps} steps of {subject.num_worlds} worlds"


def _of_world(arrays: Arrays, world: int) -> Arrays:
    return {name: array[world] for name, array in arrays.items()}


def _pays(env: GpuVectorEnv[np.ndarray], rewards: Any) -> Arrays:
    """Return the rewards of a reference under the name that the env gives them."""
    name = "agent_reward" if env.num_agents > 1 else "reward"
    return {name: np.asarray(rewards, np.float32).reshape((env.num_agents,) if env.num_agents > 1 else ())}


def _compare(layout: Layout, step: int, world: int, kernel: Arrays, reference: Arrays, tolerance: float) -> None:
    """Raise CheckError with the first difference of the kernel from its reference."""
    expected = {name: np.asarray(array)[None] for name, array in reference.items()}
    unknown = sorted(expected.keys() - kernel.keys())
    if unknown:
        raise CheckError(f"the reference returns {unknown[0]}, which the env does not have: it has {', '.join(kernel)}.")
    difference = first_difference(layout, {name: kernel[name][None] for name in expected}, expected, tolerance)
    if difference is not None:
        when = f"step {step}" if step else "after the reset"
        raise CheckError(f"{when}, {difference.replace('world 0', f'world {world}', 1)}; the second is the reference's.")
