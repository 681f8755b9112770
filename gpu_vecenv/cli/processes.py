"""Starts a command in several processes by torchrun, and joins those that torchrun started."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_vecenv.cli import main
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.processes.join import num_processes


def torchrun_words(words: Sequence[str], count: int) -> list[str]:
    """Return the words that start ``gpu-vecenv train`` in several processes of this host.

    Args:
        words: words of the command line behind ``train``, among them ``--gpus`` and ``--dry-run``.
        count: number of processes.
    """
    kept, skips = list[str](), False
    for word in words:
        if skips or word == "--dry-run" or word.startswith("--gpus="):
            skips = False
        elif word == "--gpus":
            skips = True
        else:
            kept.append(word)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    return [sys.executable, *torchrun, "-m", "gpu_vecenv", "train", *kept]


def start_processes(gpus: int | None, dry_run: bool, device: str) -> bool:
    """Become torchrun, which starts the present command in several processes, if they are asked for.

    Args:
        gpus: processes, each of which has a GPU; on the CPU its own part of the worlds alone. None and 1: this process.
        dry_run: print the words that would be started instead.
        device: device of the run.

    Returns:
        True if the words were printed; False if this process goes on alone.

    Raises:
        ConfigError: there are fewer GPUs, or torchrun started this process already.
    """
    if gpus is None:
        if dry_run:
            raise ConfigError("--dry-run: expected --gpus with it, whose command it prints, got none")
        return False
    if gpus < 1:
        raise ConfigError(f"--gpus: expected a number from 1 on, got {gpus}")
    if num_processes() > 1:
        raise ConfigError(f"--gpus: expected none in a process of torchrun, which has started {num_processes()}, got {gpus}")
    if gpus > 1 and not dry_run:
        _require_gpus(gpus, device)
    words = torchrun_words(main.words_of_command, gpus)
    if dry_run:
        alone = [words[0], *words[words.index("gpu_vecenv") - 1 :]]
        print(shlex.join(alone if gpus == 1 else words))
        return True
    if gpus == 1:
        return False
    sys.stdout.flush()
    os.execve(words[0], words, {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")})


def _require_gpus(gpus: int, device: str) -> None:
    from gpu_vecenv.backend.select import choose_device, cuda_devices

    if choose_device(device) == "cpu":
        return
    if cuda_devices() < gpus:
        raise ConfigError(f"--gpus: expected at most {cuda_devices()}, the GPUs that torch sees, got {gpus}")


def restarted_run(given: Mapping[str, object]) -> bool:
    """Return True if torchrun started this process again, after one was lost, and the run's folder has a checkpoint.

    Args:
        given: options of the run, with ``out``.
    """
    from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint

    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0 and has_checkpoint(Path(str(given["out"])))


def device_of(folder: str) -> str:
    """Return the device of the run in a folder, if this is a process of several; else ``auto``, because nobody asks.

    Raises:
        CheckpointError: the run has no checkpoint that can be read.
    """
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config

    return saved_config(folder, load_checkpoint(folder)).device if num_processes() > 1 else "auto"
