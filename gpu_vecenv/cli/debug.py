"""The command ``debug``: an env's kernels in a build for debuggers or sanitizers, in a Python that is started for it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NoReturn

import tyro

from gpu_vecenv.backend.build_kind import KINDS, VARIABLE, built_as
from gpu_vecenv.backend.sanitizer import fix_addresses, sanitizer_environment
from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings, require_within
from gpu_vecenv.errors import DeviceError, ParameterError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.train.runner.build import make_vec

STEPS, WORLDS = 100, 4

BREAKS = ("env_step(GvWorld&)", "gv_fault")
"""Functions in which gdb stops: the hook of steps, and the one that records a wrong index."""

PDB = 'make the env with device="python" and write breakpoint() in a hook: pdb stops there'


def debug(
    env_id: tyro.conf.Positional[Annotated[str, help_option("", "ENV_ID")]],
    script: tyro.conf.Positional[Annotated[tuple[str, ...], help_option("random steps", "[SCRIPT ...]")]] = (),
    asan: bool = False,
    tsan: bool = False,
    gdb: bool = False,
    steps: Annotated[int | None, help_option(str(STEPS), "INT")] = None,
    num_envs: Annotated[int | None, help_option(str(WORLDS), "INT")] = None,
    seed: Annotated[int | None, help_option("0", "INT")] = None,
    device: Annotated[str | None, help_option("cpu; python for hooks in Python", "STR")] = None,
    env: Annotated[Settings, help_option("the env's defaults", "KEY=VALUE ...")] = (),
) -> None:
    """Run an env, or a script, with kernels that are built for finding mistakes.

    Example: gpu-vecenv debug WarpTag-v0 --steps 20

    The kernels are compiled without optimisation and with names and lines. GV_PRINT prints, and an index outside of a state
    field, a row or scratch raises a HookFault with file, line, step, world and agent. A number that is not finite raises a
    NonFiniteError. The world is written to a file for gpu-vecenv replay. Results have the bits of other builds.
    Kernels of each kind are cached by themselves. Words of the script that begin with a dash stand behind --.

    Args:
        env_id: env id, of this package or MODULE:ID.
        script: script to run, and its words, in place of random steps; it makes its envs itself.
        asan: build with AddressSanitizer and UBSan, which stop at accesses outside of arrays and at undefined behaviour.
        tsan: build with ThreadSanitizer and teams of seven lanes, each a thread, which reports races between lanes.
        gdb: start Python in gdb, which stops in env_step and at a wrong index.
        steps: random steps.
        num_envs: worlds that are stepped.
        seed: seed of the worlds and of the actions.
        device: cpu, cuda:0 or python.
        env: parameters of the env by name.
    """
    kind = _kind(asan, tsan, gdb)
    step_options = {"steps": steps, "num-envs": num_envs, "seed": seed, "device": device, "env": env or None}
    wrong = [name for name, value in step_options.items() if value is not None]
    if script and wrong:
        raise ParameterError(f"--{wrong[0]}: expected it without a script, which makes its envs itself, got {script[0]!r}, too.")
    require_within("--steps", STEPS if steps is None else steps, 0)
    params = parse_settings(env, "--env")
    options = {"num_worlds": 1, "device": "cpu", "array": "numpy"}
    with built_as("debug"), contextlib.closing(make_vec(env_id, params, options)) as one_world:
        spec = one_world.env_spec
    in_python = spec.kernel.suffix == ".py"
    device = device or ("python" if in_python else "cpu")
    if not script:
        _require_tools_fit(spec, kind, gdb, device)
    words = list(script) or _random_steps(env_id, params, num_envs, steps, seed, device, writes_worlds=not gdb)
    if in_python:
        print(f"{spec.name} has hooks in Python: {PDB}.")
    for hint in [] if script else flat_indices(spec):
        print(hint)
    _start([sys.executable, *words], kind, gdb)


def _kind(asan: bool, tsan: bool, gdb: bool) -> str:
    """Return the name of the kind of build.

    Raises:
        ParameterError: several tools at once.
    """
    tools = [f"--{name}" for name, is_given in (("asan", asan), ("tsan", tsan), ("gdb", gdb)) if is_given]
    if len(tools) > 1:
        raise ParameterError(f"expected one of --asan, --tsan and --gdb, got {' and '.join(tools)}.")
    return "asan" if asan else "tsan" if tsan else "debug"


def _require_tools_fit(spec: EnvSpec, kind: str, gdb: bool, device: str) -> None:
    """Raise ParameterError if a tool has no effect on the device of random steps."""
    tool = "--gdb" if gdb else "" if kind == "debug" else f"--{kind}"
    if device == "python" and spec.kernel.suffix != ".py":
        raise ParameterError(f"--device python: expected an env with hooks in Python, got {spec.kernel.name}.")
    if tool and device == "python":
        raise ParameterError(f"{tool}: expected compiled hooks, got hooks in Python; {PDB}. Or use --device cpu.")
    if tool and device != "cpu":
        instead = "cuda-gdb --args python SCRIPT" if gdb else "compute-sanitizer python SCRIPT"
        raise ParameterError(f"{tool}: expected --device cpu, got {device!r}; on a GPU use {VARIABLE}=debug {instead}.")


def flat_indices(spec: EnvSpec) -> Iterator[str]:
    """Yield a sentence for each array with several axes that the hooks index by one number, which hides a wrong x."""
    text = spec.kernel.read_text()
    for field in spec.state:
        if len(field.extents) > 1 and re.search(rf"\bw\.state\.{field.name}\[", text):
            shape, letters = ", ".join(map(str, field.extents)), ", ".join("ijklmn"[: len(field.extents)])
            by_axes = f"w.at.{field.name}[{letters}]" if spec.kernel.suffix == ".py" else f"w.at.{field.name}({letters})"
            yield f"w.state.{field.name}[k] is checked as one index; {by_axes} checks one for each of the axes ({shape})."


def _random_steps(
    env_id: str,
    params: Mapping[str, Any],
    num_envs: int | None,
    steps: int | None,
    seed: int | None,
    device: str,
    writes_worlds: bool,
) -> list[str]:
    """Return the words of Python that make random steps. Under gdb no world is written, which would step it again."""
    arguments = {
        "env_id": env_id, "params": params, "num_worlds": WORLDS if num_envs is None else num_envs,
        "steps": STEPS if steps is None else steps, "seed": seed or 0, "device": device,
        "writes_worlds": writes_worlds,
    }  # fmt: skip
    return ["-m", "gpu_vecenv.cli.random_steps", json.dumps(arguments)]


def gdb_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command under gdb, which stops in the functions of ``BREAKS``. They are loaded after the start.

    Raises:
        DeviceError: gdb is not installed.
    """
    if shutil.which("gdb") is None:
        raise DeviceError("--gdb needs gdb, which is not on the path; install it with the system's packages.")
    commands = ["set breakpoint pending on", *(f"break {function}" for function in BREAKS), "run"]
    options = [word for command in commands for word in ("-ex", command)]
    return ["gdb", "-q", "-iex", "set debuginfod enabled off", *options, "--args", *words]


def _start(words: Sequence[str], kind: str, gdb: bool) -> NoReturn:
    """Run a Python with kernels of a kind, and end with its status."""
    environment = {**os.environ, VARIABLE: kind, "PYTHONFAULTHANDLER": "1"}
    if KINDS[kind].sanitizer:
        environment = sanitizer_environment(KINDS[kind], environment)
    words = gdb_words(words) if gdb else list(words)
    print(f"{VARIABLE}={kind} {shlex.join(words)}", flush=True)
    # Without fixed addresses ThreadSanitizer stops with "unexpected memory mapping" if they leave it no room.
    with subprocess.Popen(words, env=environment, preexec_fn=fix_addresses if kind == "tsan" else None) as process:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for gdb and the script
        status = process.wait()
        signal.signal(signal.SIGINT, before)
    raise SystemExit(status if status >= 0 else 128 - status)
