"""Runs hooks in Python under the checks of ``device="python"``, and compares them with the compiled ones."""

from __future__ import annotations

from dataclasses import replace

from gpu_vecenv.errors import HookFault
from gpu_vecenv.testing.difference import require_equal
from gpu_vecenv.testing.errors import CheckError, NotRunError
from gpu_vecenv.testing.run import run
from gpu_vecenv.testing.same_bits import one_thread
from gpu_vecenv.testing.subject import Subject

STEPS, WORLDS = 5, 2
"""Size of the run: Python takes a thousand times as long as the compiled hooks."""


def check_python_hooks(subject: Subject) -> str:
    """Run hooks in Python as Python.

    Races, overflow, wrong indices, reads before a write, and numbers that are not finite are errors with their line.
    """
    layout = subject.layout()
    if layout.spec.kernel.suffix != ".py":
        raise NotRunError(f"the hooks are written in C++, {layout.spec.kernel.name}")
    few = replace(subject, num_worlds=WORLDS, num_steps=min(STEPS, subject.num_steps))
    try:
        interpreted = run(few, device="python")
    except HookFault as error:
        raise CheckError(str(error)) from error
    require_equal(layout, run(few, one_thread), interpreted, "run by Python, not compiled")
    return f"{few.num_steps} steps of {WORLDS} worlds"
