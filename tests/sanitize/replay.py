"""Launches of an env recorded in a file, and the program that repeats them under a sanitizer."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import gpu_vecenv  # noqa: F401
from gpu_vecenv.backend.compiler import FLAGS, find_compiler
from gpu_vecenv.backend.memory import NumpyMemory
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec

KERNEL_FOLDER = ("gv_reset", "gv_step", "gv_observe", "gv_rollout")
PER_STEP = ("action", "drawn_actions", "obs", "final_obs", "reward", "agent_reward", "agent_alive",
            "out_terminated", "out_truncated", "out_finished")  # fmt: skip
"""Pointers to memory with an array for each step of a rollout."""
DRIVER = Path(__file__).with_name("driver.cpp")


class Recorder:
    """Back end that launches nothing. It records the arguments of each launch, and each array's content at its first launch."""

    device = "cpu"

    def __init__(self, env: Any) -> None:
        self.memory = NumpyMemory()
        self._members = [member.name for member in env.layout.members if member.ctype.endswith("*")]
        self._step_sizes = self._array_sizes(env)
        self._sizes = self._step_sizes
        self._arrays: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._launches: list[bytes] = []
        self._dtype = env.layout.dtype
        self._generator = np.random.default_rng(0)

    def launch(self, name: str, args: np.ndarray, num_worlds: int) -> None:
        """Record a launch. Addresses of arrays become numbers, from 1 on; null becomes 0."""
        args, steps = args.copy(), int(args["num_steps"]) if name == "gv_rollout" else 1
        self._sizes = {member: size * (steps if member in PER_STEP else 1) for member, size in self._step_sizes.items()}
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
        if member in ("action", "reset_mask"):  # its content differs in each launch, and no kernel writes it
            return self._keep(member, address)
        if address not in self._numbers:
            self._numbers[address] = self._keep(member, address)
        return self._numbers[address]

    def _keep(self, member: str, address: int) -> int:
        content = ctypes.string_at(address, self._sizes[member])
        if member == "action":
            indices = np.frombuffer(content, np.int32).copy()
            # Actions out of range. On the CPU, the env would raise an error for them before the launch.
            indices[self._generator.random(len(indices)) < 0.05] = self._generator.choice([-1, 1 << 20])
            content = indices.tobytes()
        self._arrays.append(content)
        return len(self._arrays)

    @staticmethod
    def _array_sizes(env: Any) -> dict[str, int]:
        """Size in bytes of the memory behind each pointer of the argument struct."""
        layout, shapes = env.layout, env.worlds.outputs.shapes
        fields = {f.name: np.zeros(layout.state_shape(f, env.num_worlds), f.dtype).nbytes for f in layout.state}
        tables = {table.name: table.values(env.params).nbytes for table in env.env_spec.tables}
        tables |= {n: env.num_worlds * int(np.prod(s)) * np.dtype(d).itemsize for n, (s, d, _) in layout.workspaces.items()}
        floats = {name: 4 * int(np.prod(shapes[name])) for name in ("obs", "final_obs", "reward") if name in shapes}
        flags = {f"out_{name}": env.num_envs for name in ("terminated", "truncated", "finished")}
        return {
            **fields, **tables, **floats, **flags,
            "previous_obs": floats["obs"],
            "agent_reward": 4 * int(np.prod(shapes.get("agent_reward", shapes["reward"]))),
            "agent_alive": int(np.prod(shapes.get("agent_alive", ()))),
            "reset_mask": env.num_worlds,
            "reset_bounds": 4 * max(1, len(env.env_spec.reset_options)),
            "invalid_actions": 4,
            "may_be_finished": 4,
            "shared_key": 16,
            "pool_size": 4,
            "pool_fields": 8 * len(layout.state),
            "copy_fields": 8 * len(layout.state),
            "copy_source": 4 * env.num_worlds,
            "drawn_actions": 4 * int(np.prod(env.action_space.shape)),
            "action_choices": 4 * layout.num_entries,
            "action_bounds": 8 * layout.num_entries,
            "action": 4 * int(np.prod(env.action_space.shape)),
        }  # fmt: skip


def _number(value: int) -> bytes:
    return int(value).to_bytes(8, "little", signed=True)


def record(path: Path, env_id: str, steps: int, **options: Any) -> EnvSpec:
    """Record a reset, ``steps`` random steps, two rollouts, a partial reset and an ``observe``; return the env's spec."""
    env: Any = gymnasium.make_vec(env_id, device="cpu", array="numpy", **options).unwrapped
    env.worlds.backend = recorder = Recorder(env)
    # Kept alive, so that no two arrays have the same address.
    kept: list[Any] = [env.reset(seed=3)]
    env.action_space.seed(1)
    kept += [env.step(env.action_space.sample().astype(np.int32)) for _ in range(steps)]
    kept += [env.rollout(num_steps=5), env.rollout(np.stack([env.action_space.sample() for _ in range(5)]).astype(np.int32))]
    half = np.arange(env.num_worlds) < max(1, env.num_worlds // 2)
    if env.view == "agents":
        half = np.concatenate([np.repeat(half, count) for count in env.role_counts.values()])
    kept += [env.reset(options={"reset_mask": half}), env.observe()]
    recorder.save(path)
    return env.env_spec


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
