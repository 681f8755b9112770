"""Launches of an env recorded in a file, and the program that repeats them under a sanitizer."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401
import tests.roles  # noqa: F401
from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.memory import NumpyMemory
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.struct import output_members
from gpu_vecenv.vector.outputs.results import dtype_of, previous_member
from tests.trees import map_tree

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
        self._numbers: dict[tuple[int, int], int] = {}  # by address and size: freed memory may hold another array later
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
        return False

    def may_wait(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def _number(self, member: str, address: int) -> int:
        if member in (*self._actions, "reset_mask"):  # its content differs in each launch, and no kernel writes it
            return self._keep(member, address)
        key = address, self._sizes[member]
        if key not in self._numbers:
            self._numbers[key] = self._keep(member, address)
        return self._numbers[key]

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
        numbers = (*env.env_spec.params, *env.env_spec.constants)
        sizes |= {f"{number.name}_by_world": 4 * env.num_worlds for number in numbers}
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


def record(path: Path, env_id: str, steps: int, **options: Any) -> EnvSpec:
    """Record a reset, ``steps`` random steps, two rollouts, a partial reset and an ``observe``; return the env's spec."""
    env: Any = gymnasium.make_vec(env_id, device="cpu", array="numpy", **options).unwrapped
    env.worlds.backend = recorder = Recorder(env)
    # Kept alive, so that no two results have the same address.
    kept: list[Any] = [env.reset(seed=3)]
    env.action_space.seed(1)
    kept += [env.step(_actions(env)) for _ in range(steps)]
    given = map_tree(lambda *arrays: np.stack(arrays), *(_actions(env) for _ in range(5)))
    kept += [env.rollout(num_steps=5), env.rollout(given)]
    half = np.arange(env.num_worlds) < max(1, env.num_worlds // 2)
    if env.view == "agents":
        half = np.concatenate([np.repeat(half, count) for count in env.role_counts.values()])
    kept += [env.reset(options={"reset_mask": half}), env.observe()]
    recorder.save(path)
    return env.env_spec


def _actions(env: Any) -> Any:
    """Random actions of one step in entries of 4 bytes; by role if the env has roles."""
    sample = env.action_space.sample()
    return map_tree(lambda a: a.astype("f4" if a.dtype.kind == "f" else "i4"), dict(sample) if env.layout.by_role else sample)


def build(spec: EnvSpec, folder: Path, flags: tuple[str, ...], planted: dict[str, str] | None = None) -> Path:
    """Build the program that replays one kernel. Each ``planted`` fault replaces a piece of text that occurs exactly once."""
    text = kernel_source(spec)
    for piece, fault in (planted or {}).items():
        assert text.count(piece) == 1, f"{piece!r} is in the kernel {text.count(piece)} times"
        text = text.replace(piece, fault)
    source, program = folder / "replay.cpp", folder / "replay"
    source.write_text(f'{text}\n#line 1 "{DRIVER}"\n{DRIVER.read_text()}')
    compiler = find_compiler()
    assert compiler is not None, "these tests need a C++ compiler"
    own = [flag for flag in FLAGS if flag != "-shared"]
    command = [*compiler, *own, "-O1", "-g", "-fno-omit-frame-pointer", "-pthread", *flags, str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def replay(program: Path, recording: Path) -> subprocess.CompletedProcess[str]:
    """Run the program; findings of a sanitizer are in ``stderr`` and make the exit status nonzero."""
    return subprocess.run([str(program), str(recording)], capture_output=True, text=True, timeout=240, check=False)
