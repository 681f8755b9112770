"""Steps of a recorded world as text. It imports no torch, because gdb, which runs it, reads the symbols of every library."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path

from gpu_vecenv.errors import GpuVecenvError, HookFault
from gpu_vecenv.vector.env.recording import Recording
from gpu_vecenv.vector.env.replay import MENDED, read_world, replayed
from gpu_vecenv.vector.env.verify import recorded_env
from gpu_vecenv.vector.env.world_file import nonfinite_of


def print_steps(file: Path, recording: Recording, device: str) -> None:
    """Make the steps of a world again, and print what is not finite in each, and at the end that all bits are the same.

    A check of a hook that fails ends the steps: Python names the line of a number that is not finite. Steps of an env that was
    mended since are not compared with the file.
    """
    state, number = recording.parts[0].state, 0
    with contextlib.closing(recorded_env(recording, device, may_change=MENDED)) as env:
        changed = " and ".join(recording.changed_parts(env.layout)).replace("kernel", "hooks")
        if changed:
            print(f"The {changed} of {recording.env_id} changed since the file was written: these are steps of the present env.")
        try:
            for number, step in enumerate(replayed(file, recording, env), start=1):
                bad, end = nonfinite_of(step), ", the episode ends" if step.ended.all() else ""
                print(f"step {int(state['t'][0]) + number}{end}: {bad or 'all numbers are finite'}")
        except HookFault as fault:
            print(f"step {int(state['t'][0]) + number + 1}: {fault}")
            return
    if not recording.parts[0].results:
        print(f"{number} steps: no hook failed")
    elif changed:
        print(f"{number} steps: not compared with the file, because the {changed} changed")
    else:
        print(f"{number} steps: the same bits as recorded on {recording.device} by gpu-vecenv {recording.package}")


def main(words: list[str]) -> None:
    """Print the steps of a file, the first word, of an env that the modules register which the other words name."""
    for module in words[1:]:
        importlib.import_module(module)
    file = Path(words[0])
    try:
        print_steps(file, read_world(file), "cpu")
    except GpuVecenvError as error:
        sys.exit(f"gpu-vecenv replay: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
