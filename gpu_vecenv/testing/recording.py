"""Launches of an env recorded in a file, and the program that repeats them under a sanitizer."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.compiler import FLAGS, require_compiler
from gpu_vecenv.backend.memory import NumpyMemory
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.struct import output_members
from gpu_vecenv.testing.errors import NotRunError
from gpu_vecenv.testing.subject import Subject, random_actions, stacked
from gpu_vecenv.vector.outputs.results import dtype_of, previous_member

KERNEL_FOLDER = ("gv_reset", "gv_step", "gv_observe", "gv_rollout")
DRIVER = Path(__file__).with_name("driver.cpp")


class Recorder:
    """Back end that launches nothing. It records the arguments of each launch, and each array's content at its first launch."""

    device = "cpu"

    def __init__(self, env: Any) -> None:
        self.memory = NumpyMemory()
        self._members = [member.name for member in env.layout.members if member.ctype.endswith("*")]
        self._step_sizes = self._step_sizes_of(env)
        self._sizes = {**self._sizes_of(env), **self._step_sizes}
        self._actions = {f"{group.prefix}action": "f4" if group.continuous else "i4" for group in env.layout.groups}
        self._arrays: list[bytes] = []
        self._array_numbers: dict[tuple[int, int], int] = {}  # by address and size: freed memory may hold another array later
        self._launches: list[bytes] = []
        self._dtype = env.layout.dtype
        self._generator = np.random.default_rng(0)

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Record a launch. Addresses of arrays become numbers, from 1 on; null becomes 0."""
        args, steps = args.copy(), int(args["num_steps"]) if name == "gv_rollout" else 1
        self._sizes |= {member: size * steps for member, size in self._step_sizes.items()}
        for member in self._members:
            address = int(args[member])
            if address != 0:
                args[member] = self._number(member, address)
        self._launches.append(_number(KERNEL_FOLDER.index(name)) + args.tobytes())

    def save(self, path: Path) -> None:
        """Write the file that driver.cpp reads."""
        offsets = [(self._dtype.fields or {})[member][1] for member in self._members]
        with path.open("wb") as file:
            file.write(_number(len(offsets)) + b"".join(map(_number, offsets)) + _number(len(self._arrays)))
            for array in self._arrays:
                file.write(_number(len(array)) + array)
            file.write(_number(len(self._launches)) + b"".join(self._launches))

    def capturing(self) -> bool:
        """Return False: the CPU has no graphs."""
        return False

    def may_wait(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing."""

    def _number(self, member: str, address: int) -> int:
        if member in (*self._actions, "reset_mask"):  # its content differs in each launch, and no kernel writes it
            return self._keep(member, address)
        key = address, self._sizes[member]
        if key not in self._array_numbers:
            self._array_numbers[key] = self._keep(member, address)
        return self._array_numbers[key]

    def _keep(self, member: str, address: int) -> int:
        content = ctypes.string_at(address, self._sizes[member])
        if member in self._actions:
            entries = np.frombuffer(content, self._actions[member]).copy()
            # Invalid actions. On the CPU, the env would raise an error for them before the launch.
            bad = np.nan if entries.dtype.kind == "f" else self._generator.choice([-1, 1 << 20])
            entries[self._generator.random(len(entries)) < 0.05] = bad
            content = entries.tobytes()
        self._arrays.append(content)
        return len(self._arrays)

    @staticmethod
    def _step_sizes_of(env: Any) -> dict[str, int]:
        """Size in bytes of one step of each array that has one for each step of a rollout, by struct member."""
        results = env.worlds.outputs.results
        names, sizes = list(results.shapes), {}
        for member in output_members(env.env_spec):
            index = results.indices.get(member.removeprefix("out_"))
            if index is not None:
                sizes[member] = _bytes(results.shapes[names[index]], dtype_of(names[index]))
        for group, (shape, dtype) in zip(env.layout.groups, results.actions.values(), strict=True):
            sizes |= {f"{group.prefix}action": _bytes(shape, "int32"), f"{group.prefix}drawn_actions": _bytes(shape, dtype)}
        return sizes

    @staticmethod
    def _sizes_of(env: Any) -> dict[str, int]:
        """Size in bytes of each other array of the argument struct."""
        layout, results = env.layout, env.worlds.outputs.results
        sizes = {f.name: _bytes(layout.state_shape(f, env.num_worlds), f.dtype) for f in layout.state}
        sizes |= {name: values.nbytes for name, values in layout.tables.items()}
        sizes |= {name: env.num_worlds * _bytes(shape, dtype) for name, (shape, dtype, _) in layout.workspaces.items()}
        sizes |= {previous_member(name): _bytes(results.shapes[name], dtype_of(name)) for name in results.carried}
        scalars = (*env.env_spec.params, *env.env_spec.constants)
        sizes |= {f"{scalar.name}_by_world": 4 * env.num_worlds for scalar in scalars}
        for group in layout.groups:
            of_entries = {"action_choices": 4, "action_bounds": 8, "mask_starts": 4}
            sizes |= {f"{group.prefix}{name}": size * group.num_entries for name, size in of_entries.items()}
        return sizes | {
            "reset_mask": env.num_worlds,
            "reset_bounds": 4 * max(1, len(env.env_spec.reset_options)),
            "invalid_actions": 4,
            "may_be_finished": 4,
            "shared_key": 16,
            "pool_size": 4,
            "pool_fields": 8 * len(layout.state),
            "copy_fields": 8 * len(layout.state),
            "copy_source": 4 * env.num_worlds,
        }


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def _number(value: int) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


def record(path: Path, env: str | EnvSpec, num_steps: int, **options: Any) -> EnvSpec:
    """Record a reset, random steps, two rollouts, a partial reset and an ``observe()``; return the env's spec.

    Args:
        path: file to write.
        env: id or spec.
        num_steps: random steps.
        options: keywords of ``GpuVectorEnv``, and parameters of the env.
    """
    vector_env: Any = Subject(env).make(**{"num_worlds": None, **options})
    vector_env.worlds.backend = recorder = Recorder(vector_env)
    generator = np.random.default_rng(1)

    def actions() -> Any:
        return random_actions(vector_env.single_action_space, vector_env.num_envs, generator, beyond=False)

    results: list[Any] = [vector_env.reset(seed=3)]  # kept alive, so that no two results have the same address
    results += [vector_env.step(actions()) for _ in range(num_steps)]
    action_table = stacked([actions() for _ in range(5)])
    results += [vector_env.rollout(num_steps=5), vector_env.rollout(action_table)]
    half = np.arange(vector_env.num_worlds) < max(1, vector_env.num_worlds // 2)
    if vector_env.view == "agents":
        half = np.concatenate([np.repeat(half, count) for count in vector_env.role_counts.values()])
    results += [vector_env.reset(options={"reset_mask": half}), vector_env.observe()]
    recorder.save(path)
    spec: EnvSpec = vector_env.env_spec
    return spec


def build(spec: EnvSpec, folder: Path, flags: tuple[str, ...], text: str | None = None) -> Path:
    """Build the program that replays one kernel.

    Args:
        spec: the env.
        folder: folder to write source and program to.
        flags: of the sanitizer.
        text: text of the kernel; ``kernel_source(spec)`` by default.

    Raises:
        NotRunError: the compiler has no such sanitizer.
        CompileError: there is no compiler.
    """
    source, program = folder / "replay.cpp", folder / "replay"
    source.write_text(f'{text or kernel_source(spec)}\n#line 1 "{DRIVER}"\n{DRIVER.read_text()}')
    ours = [flag for flag in FLAGS if flag != "-shared"]
    command = [*require_compiler(spec), *ours, "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", *flags]
    done = subprocess.run([*command, str(source), "-o", str(program)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = next((line for line in done.stderr.splitlines() if "error" in line or "cannot" in line), done.stderr[-300:])
        raise NotRunError(f"{command[0]} does not build with {' '.join(flags)}: {said.strip()}")
    return program


def replay(program: Path, recording: Path, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    """Run the program; findings of a sanitizer are in ``stderr`` and make the exit status nonzero."""
    return subprocess.run([str(program), str(recording)], capture_output=True, text=True, timeout=timeout, check=False)
