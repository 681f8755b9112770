"""The command ``replay``: makes the recorded steps of a world again, under a debugger if asked."""

from __future__ import annotations

import ast
import contextlib
import os
import pdb
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.backend.build_kind import VARIABLE, build_kind, built_as
from gpu_vecenv.cli.debug import gdb_words
from gpu_vecenv.cli.key_value import Settings, help_option
from gpu_vecenv.cli.replayed_steps import print_steps
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.vector.env.recording import Recording
from gpu_vecenv.vector.env.replay import MENDED, read_world
from gpu_vecenv.vector.env.verify import recorded_env


def replay_file(
    file: tyro.conf.Positional[Annotated[Path, help_option("", "FILE")]],
    device: Annotated[str | None, help_option("cpu; python for hooks in Python", "DEVICE")] = None,
    gdb: bool = False,
    pdb: bool = False,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Make the recorded steps of a world again, to the same bits, and say where a number is not finite.

    Files come from gpu-vecenv debug, from make_vec(..., debug=True), and from training runs that stop with a NonFiniteError. If a
    check of a hook failed, the steps are made with this check. If the hooks or numbers of the env have changed since, its steps
    are those of the present env, and a line says so; they show if the mistake is gone.

    Example: gpu-vecenv replay runs/tag/nonfinite.npz --gdb

    Args:
        file: the file.
        device: cpu, cuda:0, or python for hooks in Python.
        gdb: stop in env_step under gdb, in a debug build on the CPU.
        pdb: stop in env_step under pdb; for hooks in Python.
        modules: modules that register the env, to import first; a file alone imports none.
    """
    if gdb and (pdb or device not in (None, "cpu")):
        raise ParameterError(f"--gdb: expected the device cpu and no --pdb, got {'--pdb' if pdb else device}")
    if pdb and device not in (None, "python"):
        raise ParameterError(f"--pdb: expected the device python, got {device}")
    if gdb:
        _under_gdb(file, modules)
        return
    import_modules(modules)
    recording = read_world(file)
    print(recording.note)
    if pdb:
        _under_pdb(file, recording)
        return
    chosen = device or ("python" if _hooks(recording).suffix == ".py" else "cpu")
    failed = not recording.parts[0].results  # only checks of hooks see what went wrong
    with built_as("debug") if failed and chosen != "python" else contextlib.nullcontext():
        print_steps(file, recording, chosen)


def _under_gdb(file: Path, modules: Settings) -> None:
    """Run this command in gdb, which stops where it does in ``gpu-vecenv debug --gdb``."""
    command = gdb_words([sys.executable, "-m", "gpu_vecenv.cli.replayed_steps", str(file), *modules])
    kind = build_kind()
    debug = {VARIABLE: kind.name if kind.debug else "debug"}  # other kinds have no lines
    if subprocess.call(command, env={"GPU_VECENV_NUM_THREADS": "1", **os.environ, **debug}):
        raise ParameterError("gdb ended with an error; its text is above")


def _hooks(recording: Recording) -> Path:
    """Return the file of the hooks."""
    with contextlib.closing(recorded_env(recording, "cpu", may_change=MENDED)) as env:
        return env.env_spec.kernel


def _under_pdb(file: Path, recording: Recording) -> None:
    """Make the steps in pdb, with a stop at the first statement of ``env_step``."""
    path = _hooks(recording)
    if path.suffix != ".py":
        raise ParameterError(f"--pdb: expected hooks in Python, got {path.name}; --gdb stops in hooks in C++")
    hooks = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    body = hooks["env_step"].body
    first = body[1] if len(body) > 1 and ast.get_docstring(hooks["env_step"]) is not None else body[0]
    debugger = pdb.Pdb(nosigint=True)
    debugger.rcLines += [f"break {path}:{first.lineno}", "continue"]
    debugger.runcall(print_steps, file, recording, "python")
