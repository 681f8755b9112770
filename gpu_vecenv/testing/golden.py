"""Golden recordings: results of a run in a file, which later versions of the env must repeat."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.testing.difference import Arrays, require_equal
from gpu_vecenv.testing.errors import NotRunError
from gpu_vecenv.testing.run import run
from gpu_vecenv.testing.same_bits import one_thread
from gpu_vecenv.testing.subject import Subject

NAME = "golden.npz"
"""Name of the recording that ``check_golden()`` looks for beside the kernel."""


def record_golden(subject: Subject, path: Path | None = None) -> Path:
    """Record the results of a run, for ``check_golden()``.

    Args:
        subject: the env.
        path: file to write; by default ``golden.npz`` beside the kernel.

    Returns:
        The file.
    """
    path = path or subject.layout().spec.kernel.with_name(NAME)
    about = {"worlds": subject.num_worlds, "steps": subject.num_steps, "seed": subject.seed}
    arrays = {f"{step}.{name}": array for step, one in enumerate(run(subject, one_thread)) for name, array in one.items()}
    with atomic_file(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, about=json.dumps(about), **arrays)
    return path


def check_golden(subject: Subject, path: Path | None = None) -> str:
    """Compare the env with a recording of ``record_golden()``.

    Args:
        subject: the env; worlds, steps and seed are those of the recording.
        path: the recording; by default ``golden.npz`` beside the kernel.
    """
    layout = subject.layout()
    path = path or layout.spec.kernel.with_name(NAME)
    if not path.is_file():
        raise NotRunError(f"there is no {path.name} beside the kernel; record_golden() writes one")
    with np.load(path) as file:
        about = json.loads(str(file["about"]))
        steps: list[Arrays] = [{} for _ in range(about["steps"] + 1)]
        for key in file.files:
            step, dot, name = key.partition(".")
            if dot:
                steps[int(step)][name] = file[key]
    same = Subject(subject.env, subject.params, about["worlds"], about["steps"], about["seed"])
    require_equal(layout, steps, run(same, one_thread), f"the first is recorded in {path.name}")
    return f"{about['steps']} steps"
