"""Starts a command in several processes by torchrun, and joins those that torchrun started."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_vecenv.cli import main
from gpu_vecenv.train.config import AUTO, TrainConfig, resolve_new
from gpu_vecenv.train.config.algorithms import registered
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.processes.launcher import num_processes


def torchrun_words(words: Sequence[str], count: int) -> list[str]:
    """Return the words that start ``gpu-vecenv train`` in several processes of this host.

    Args:
        words: words of the command line behind ``train``, among them ``--gpus`` and ``--dry-run``.
        count: number of processes.
    """
    of_run, skips = list[str](), False
    for word in words:
        if skips or word == "--dry-run" or word.startswith("--gpus="):
            skips = False
        elif word == "--gpus":
            skips = True
        else:
            of_run.append(word)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    return [sys.executable, *torchrun, "-m", "gpu_vecenv", "train", *of_run]


def require_one_kind(gpus: int | None, dry_run: bool, several: int | str | None) -> None:
    """Check that a run in several processes is one run.

    Args:
        gpus: the option ``--gpus``.
        dry_run: the option ``--dry-run``.
        several: the option ``--seeds``, or the folder of several runs; None: one run.

    Raises:
        ConfigError: there are several runs, or an option has no effect.
    """
    if dry_run and gpus is None:
        raise ConfigError("--dry-run: expected --gpus with it, whose command it prints, got none")
    if gpus is not None and gpus < 1:
        raise ConfigError(f"--gpus: expected a number from 1 on, got {gpus}")
    if gpus is not None and num_processes() > 1:
        raise ConfigError(f"--gpus: expected none in a process of torchrun, which has started {num_processes()}, got {gpus}")
    if several is not None and (gpus is not None or num_processes() > 1):
        got = f"{several!r} with {f'--gpus {gpus}' if gpus else f'{num_processes()} processes'}"
        raise ConfigError(f"--gpus: expected one run in several processes, got those of {got}")


def start_processes(gpus: int | None, dry_run: bool, settings: Mapping[str, Any], folder: str | None) -> bool:
    """Become torchrun, which starts the present command in several processes, if they are asked for.

    Args:
        gpus: processes, each of which has a GPU; on the CPU its own part of the worlds alone. None and 1: this process.
        dry_run: print the words that would be started instead.
        settings: options of a new run, or those that a resumed one changes.
        folder: folder of a run to resume; None: a new run.

    Returns:
        True if the words were printed; False if this process goes on alone.

    Raises:
        ConfigError: there are fewer GPUs, the worlds cannot be divided equally, or an algorithm is not registered.
    """
    if gpus is None:
        return False
    from gpu_vecenv.train.runner.spread import spread_of

    words = torchrun_words(main.words_of_command, gpus)
    if gpus == 1:
        words = [words[0], *words[words.index("gpu_vecenv") - 1 :]]
    if folder is None:
        config = TrainConfig.from_options(settings)
        for name in (config.algorithm, *(each.algorithm for each in config.policies.values())):
            if name is not None:
                registered(name)
        if config.num_envs != AUTO:
            spread_of(resolve_new(config), 0, gpus)
    if dry_run:
        print(shlex.join(words))
        return True
    if gpus == 1:
        return False
    _require_gpus(gpus, str(settings.get("device", "auto")))
    sys.stdout.flush()
    os.execve(words[0], words, {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")})


def _require_gpus(gpus: int, device: str) -> None:
    """Raise ConfigError if this host has fewer GPUs, unless the run is on the CPU."""
    from gpu_vecenv.backend.select import cuda_devices

    if device != "cpu" and cuda_devices() < gpus:
        raise ConfigError(f"--gpus: expected at most {cuda_devices()}, the GPUs that torch sees, or --device cpu, got {gpus}")


def restarted_run(settings: Mapping[str, object]) -> bool:
    """Return True if torchrun started this process again, after one was lost, and the run's folder has a checkpoint.

    Args:
        settings: options of the run, with ``out``.
    """
    from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint

    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0 and has_checkpoint(Path(str(settings["out"])))


def device_of(folder: str) -> str:
    """Return the device of the run in a folder, if this is a process of several; else ``auto``, because nobody asks.

    Raises:
        CheckpointError: the run has no checkpoint that can be read.
    """
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config

    return saved_config(folder, load_checkpoint(folder)).device if num_processes() > 1 else "auto"
