"""The command ``verify``: plays a recorded evaluation again, and confirms every return to the bit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.build import import_modules
from gpu_vecenv.vector.env.verify import verify


def verify_file(
    file: tyro.conf.Positional[Annotated[Path, help_option("", "FILE")]],
    device: str = "cpu",
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Play a recorded evaluation again, and confirm every return to the bit, on any device.

    It ends with status 2 and names the first difference, if there is one or if the env has changed since.

    Example: gpu-vecenv verify tag.npz

    Args:
        file: the file that gpu-vecenv eval --record wrote.
        device: auto, cpu, cuda:0, or python for hooks in Python.
        modules: modules that register the env, to import first; a file alone imports none.
    """
    import_modules(modules)
    with Progress(sys.stderr, False, "") as display:
        verified = verify(file, device, progress=lambda fraction: display.show(fraction, ""))
    recording = verified.recording
    for role, mean in verified.mean_return.items():
        print(f"{role}: no agent took part" if mean != mean else f"{role}: return {mean:.3f}")
    print(
        f"{verified.returns:,} returns of {verified.episodes:,} episodes of {recording.env_id}: the same bits as recorded on "
        f"{recording.device} by gpu-vecenv {recording.package}"
    )
