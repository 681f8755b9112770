"""Folders of runs: several in a folder, runs beside a missing one."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import gymnasium

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config import CONFIG_FILE
from gpu_vecenv.train.errors import ConfigError, MetricsError, RunExistsError
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.folder import RunFolder
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics

MOST_NEARBY = 8
"""Most runs that a message about a missing one names."""


def holds_run(folder: Path) -> bool:
    """True if a run has begun in a folder."""
    return (folder / METRICS_FILE).exists() or has_checkpoint(folder)


def run_folders(folder: str | Path) -> list[Path]:
    """Return the folders of the runs in a folder, ``seed-9`` before ``seed-10``; those that have not begun hold options alone."""
    folder = Path(folder)
    folders = [path for path in folder.iterdir() if (path / CONFIG_FILE).is_file() or holds_run(path)] if folder.is_dir() else []
    return sorted(folders, key=lambda path: [x.zfill(20) if x.isdigit() else x for x in re.split(r"(\d+)", path.name)])


def names_env(target: str | Path) -> bool:
    """True for the id of a registered env, unless a file or a folder has that name."""
    return not Path(target).exists() and os.fspath(target).rpartition(":")[2] in gymnasium.registry


def runs_nearby(path: Path) -> str:
    """Return the end of a message about a missing run: folders of runs beside it, in ``runs``, and here; empty without any."""
    places = dict.fromkeys([path.parent, Path("runs"), Path()])
    runs = {str(run): None for place in places for run in run_folders(place)}
    close = difflib.get_close_matches(str(path), runs, n=1, cutoff=0.7)
    listed = list(dict.fromkeys([*close, *runs]))[:MOST_NEARBY]
    return f"; runs nearby: {', '.join(listed)}" if listed else ""


def metrics_of_run(folder: Path) -> list[dict[str, float | None]]:
    """Return the lines of a run's metrics, see ``read_metrics()``.

    Raises:
        MetricsError: there is no such folder, or it holds no metrics of a run.
    """
    if not folder.exists():
        raise MetricsError(f"{folder}: expected the folder of a run, got none{runs_nearby(folder)}")
    return read_metrics(folder)


def lock_new_runs(folder: Path, names: Iterable[str]) -> RunFolder:
    """Lock a folder for new runs; each of them locks its own folder, too.

    Args:
        folder: the folder; it is made if needed.
        names: names of the runs' folders in it.

    Raises:
        ConfigError: a name is no plain name of a folder.
        RunExistsError: the folder holds a run, or runs.
        RunGoneError, RunLockedError, OSError: see ``RunFolder``.
    """
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name or name.startswith("."):
            raise ConfigError(f"names of runs: expected names of folders, got {abbreviated(name)}")
    locked = RunFolder(folder)
    old = [path for path in (folder, *run_folders(folder)) if holds_run(path)]
    if old:
        locked.close()
        raise RunExistsError(
            f"{old[0]}: expected a folder without runs, got a run: continue with --resume (resume_many), or choose another --out"
        )
    return locked
