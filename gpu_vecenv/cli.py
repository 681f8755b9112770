"""The command ``gpu-vecenv``: picks a subcommand, imports only that one, and turns our errors into one line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

import gymnasium

from gpu_vecenv.errors import GpuVecenvError, MissingExtraError

COMMANDS = {
    "train": ("gpu_vecenv.train.commands:train", "train policies; leaves checkpoint, metrics, curves and a video"),
    "eval": ("gpu_vecenv.train.commands:evaluate", "play episodes with a run's policies and print the means"),
    "plot": ("gpu_vecenv.train.commands:plot", "draw the curves of a run"),
    "watch": ("gpu_vecenv.watch:watch", "write a video of a run's policies at play"),
    "bench": ("gpu_vecenv.bench.command:bench", "measure speed beside floors and other libraries; leaves JSON"),
    "memory": ("gpu_vecenv.footprint:memory", "say how much memory an env takes on its device"),
    "doctor": ("gpu_vecenv.doctor:main", "say what works on this machine and how to mend what does not"),
}
"""Subcommand to the function it calls and its line of help."""

TRAIN_EXTRA = ("tyro", "rich", "tensorboard", "matplotlib", "imageio", "imageio_ffmpeg", "PIL")
"""Modules that every subcommand but ``doctor`` needs beside the core."""

NEEDS = {"bench": ("tyro", "rich")}
"""The same of subcommands that need less."""

USAGE = "\n".join(
    ["usage: gpu-vecenv COMMAND ...", "", "commands (COMMAND --help explains one):"]
    + [f"  {name:8}{summary}" for name, (_, summary) in COMMANDS.items()]
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        arguments: command line words; those of this process by default.

    Returns:
        Exit status: 0 done, 1 the doctor found no device that works, 2 the input was wrong or an extra is missing,
        130 interrupted by Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    if words[0] not in COMMANDS:
        print(f"gpu-vecenv: there is no command {words[0]!r}.\n\n{USAGE}", file=sys.stderr)
        return 2
    try:
        return _run(words[0], words[1:])
    except (GpuVecenvError, gymnasium.error.Error, OSError) as error:
        print(f"gpu-vecenv {words[0]}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"gpu-vecenv {words[0]}: interrupted", file=sys.stderr)
        return 130  # what a shell reports for SIGINT


def _run(command: str, words: list[str]) -> int:
    module, function = COMMANDS[command][0].split(":")
    if command == "doctor":  # must work where the train extra, and so tyro, is missing
        return int(getattr(importlib.import_module(module), function)(words))
    missing = [name for name in NEEDS.get(command, TRAIN_EXTRA) if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(f'this needs {", ".join(missing)}: pip install "gpu-vecenv[train]".')
    import tyro

    tyro.cli(getattr(importlib.import_module(module), function), prog=f"gpu-vecenv {command}", args=words)
    return 0
