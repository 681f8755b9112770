"""A folder of several runs, each in a folder of its own below it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config import CONFIG_FILE
from gpu_vecenv.train.errors import ConfigError, RunExistsError
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.folder import RunFolder
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE


def holds_run(folder: Path) -> bool:
    """True if a run has begun in a folder."""
    return (folder / METRICS_FILE).exists() or has_checkpoint(folder)


def run_folders(folder: str | Path) -> list[Path]:
    """Return the folders of the runs in a folder, ``seed-9`` before ``seed-10``; those that have not begun hold options alone."""
    folder = Path(folder)
    folders = [path for path in folder.iterdir() if (path / CONFIG_FILE).is_file() or holds_run(path)] if folder.is_dir() else []
    return sorted(folders, key=lambda path: [x.zfill(20) if x.isdigit() else x for x in re.split(r"(\d+)", path.name)])


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
