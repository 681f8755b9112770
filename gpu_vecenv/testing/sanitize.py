"""Sanitizers on a recorded run: accesses outside an array, undefined behaviour, and races between lanes, with file and line."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from gpu_vecenv.backend.build_kind import KINDS
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.testing.errors import CheckError, NotRunError
from gpu_vecenv.testing.recording import build, record, replay
from gpu_vecenv.testing.subject import Subject

RACES = ("-DGV_LANES=4", "-fsanitize=thread")
"""Flags of the build in which each lane of a team is a thread of the system."""

BOUNDS = ("-fsanitize=address,undefined,float-cast-overflow,float-divide-by-zero", "-fno-sanitize-recover=all")
"""Flags of the build in which each array has a block of its own."""

SANITIZED_STEPS = 20
"""Random steps under a sanitizer, which makes them tens of times as slow."""

ACCESS = re.compile(r"^\s*(Previous )?(?:atomic )?(write|read) of size (\d+)", re.IGNORECASE)
FRAME = re.compile(r"^\s*#\d+ (?:0x\w+ in )?(.*?) (/[^:\n]+|[\w.-]+):(\d+)")


def frame_of_kernel(lines: list[str], files: set[str]) -> str | None:
    """Return function, file and line of the first frame that stands in one of the files; of the first stack alone."""
    for line in lines:
        if not line.strip():
            return None
        frame = FRAME.match(line)
        if frame and Path(frame[2]).name in files:
            return f"{frame[2]}:{frame[3]} in {frame[1].partition('(')[0].split()[-1]}()"
    return None


def report_of(said: str, files: set[str]) -> str:
    """Return a report of a sanitizer in one line, with the line of the env's file.

    Args:
        said: output of the program.
        files: names of the files of the hooks.
    """
    fault = re.search(r"^hook fault: (.*)$", said, re.MULTILINE)
    if fault:
        return fault[1]
    undefined = re.search(r"^(\S+?:\d+):\d+: runtime error: (.*)$", said, re.MULTILINE)
    if undefined:
        return f"{undefined[1]}: {undefined[2]}"
    kind = re.search(r"(?:ERROR|WARNING): (?:Address|Thread)Sanitizer: ([\w -]+?)(?: on| \(|$)", said, re.MULTILINE)
    lines, accesses = said.splitlines(), []
    for k, line in enumerate(lines):
        access = ACCESS.match(line)
        if access:
            where = frame_of_kernel(lines[k + 1 :], files) or "a header of the package"
            accesses.append(f"{access[2].lower()} of {access[3]} bytes at {where}")
    if kind and not accesses:  # a signal, whose first stack follows
        place = frame_of_kernel(said[kind.end() :].splitlines(), files)
        accesses = [f"at {place}"] if place else []
    return f"{kind[1] if kind else 'it ended with an error'}: {' and '.join(accesses[:2]) or said.strip()[-400:]}"


def files_of(spec: EnvSpec) -> set[str]:
    """Return the names of the files of the hooks: the kernel, and the headers of its folder."""
    return {spec.kernel.name, *(path.name for path in spec.kernel.parent.glob("*.h"))}


def sanitize(
    env: str | EnvSpec,
    flags: tuple[str, ...],
    num_steps: int,
    worlds: tuple[int, ...] = (2,),
    text: str | None = None,
    debug: bool = False,
    **options: Any,
) -> None:
    """Replay random steps, rollouts and resets under a sanitizer.

    Args:
        env: id or spec.
        flags: ``RACES`` or ``BOUNDS``, and others.
        num_steps: random steps.
        worlds: numbers of worlds to try.
        text: text of the kernel; that of the env by default.
        debug: check each index of the arrays of hooks, as debug builds do; not with a text.
        options: keywords of ``GpuVectorEnv``, and parameters of the env.

    Raises:
        CheckError: the sanitizer reports an error; the message has its file and line.
        NotRunError: the compiler has no such sanitizer.
    """
    with tempfile.TemporaryDirectory(prefix="gpu_vecenv-sanitized-") as name:
        folder = Path(name)
        recordings = [folder / f"recording-{count}" for count in worlds]
        for count, recording in zip(worlds, recordings, strict=True):
            spec = record(recording, env, num_steps, num_worlds=count, **options)
        program = build(spec, folder, flags, text or kernel_source(spec, KINDS["debug" if debug else "release"]))
        for recording in recordings:
            try:
                done = replay(program, recording)
            except subprocess.TimeoutExpired as error:
                raise CheckError("the replay did not end: some lanes wait at a barrier that others do not reach.") from error
            if "unexpected memory mapping" in done.stderr:
                raise NotRunError("ThreadSanitizer does not run with the random addresses of this system; try `setarch -R`")
            if done.returncode != 0:
                raise CheckError(f"{report_of(done.stderr, files_of(spec))}.")


def check_bounds(subject: Subject) -> str:
    """Look for accesses outside an array and undefined behaviour. One world, so that an index below its part is outside."""
    steps = min(SANITIZED_STEPS, subject.num_steps)
    sanitize(subject.env, (*BOUNDS, "-O0"), steps, worlds=(1, 3), debug=True, **subject.params)
    return f"{steps} steps"


def check_races(subject: Subject) -> str:
    """Look for two lanes of a team that access one number in the same phase, and one of them writes it."""
    layout = subject.layout()
    if layout.num_agents == 1 and layout.requested_lanes == 1:
        raise NotRunError("a world of one agent has one lane")
    steps = min(SANITIZED_STEPS, subject.num_steps)
    sanitize(subject.env, (*RACES, "-O0"), steps, **subject.params)
    return f"{steps} steps"
