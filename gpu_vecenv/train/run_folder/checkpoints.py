"""The checkpoints of a run: the newest ones by iteration, and the best one.

``checkpoint/iteration-00000050.pt`` is the state after iteration 50. The one of the highest iteration is the newest, so a run
resumes from it. ``checkpoint/best.pt`` is the state whose evaluation was best.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint

CHECKPOINT_FOLDER = "checkpoint"
BEST_NAME = "best.pt"
OLD_NAME = "latest.pt"
"""Name of the only checkpoint in folders of format version 2."""

_NAME = re.compile(r"iteration-([0-9]{8,19})\.pt")


def numbered(run: Path) -> list[Path]:
    """Return the checkpoint files of a run's folder that have an iteration in their name, the newest first."""
    folder = run / CHECKPOINT_FOLDER
    files = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_file()] if folder.is_dir() else []
    return sorted(files, key=iteration_of, reverse=True)


def iteration_of(path: Path) -> int:
    """Return the iteration in the name of a file from ``numbered()``."""
    return int(path.stem.partition("-")[2])


def run_of(path: Path) -> Path | None:
    """Return the folder of the run that wrote a checkpoint file; None if its name or its folder is not a run's."""
    ours = path.name == BEST_NAME or _NAME.fullmatch(path.name)
    return path.parent.parent if ours and path.parent.name == CHECKPOINT_FOLDER else None


def has_checkpoint(run: Path) -> bool:
    """True if the folder holds a checkpoint, also one of an older version."""
    return bool(numbered(run)) or any((run / CHECKPOINT_FOLDER / name).exists() for name in (BEST_NAME, OLD_NAME))


class Checkpoints:
    """Writes and removes the checkpoints of one run."""

    def __init__(self, run: Path, keep: int) -> None:
        """Set the folder; nothing is written yet.

        Args:
            run: the run's folder, which exists and is locked.
            keep: number of the newest checkpoints to keep, at least 1.
        """
        self.run = run
        self.keep = keep

    def save(self, state: dict[str, Any]) -> Path:
        """Write the checkpoint of ``state["iteration"]``, then remove all but the newest ones; return the file.

        Raises:
            OSError: the file cannot be written; all earlier checkpoints are unchanged.
        """
        path = self._write(f"iteration-{state['iteration']:08}.pt", state)
        self.prune()
        return path

    def save_best(self, state: dict[str, Any]) -> Path:
        """Write ``best.pt`` and return it. The caller has found that this state is better than the earlier ones.

        Raises:
            OSError: the file cannot be written; an earlier one is unchanged.
        """
        return self._write(BEST_NAME, state)

    def newest(self) -> Path | None:
        """Return the checkpoint of the highest iteration; None if there is none."""
        return next(iter(numbered(self.run)), None)

    def prune(self) -> None:
        """Remove all but the newest ``keep`` checkpoints."""
        for path in numbered(self.run)[self.keep :]:
            path.unlink(missing_ok=True)

    def remove_after(self, iteration: int) -> None:
        """Remove the checkpoints of later iterations, which a run resumed from this one will repeat.

        The newest goes first, so that those left after a kill are all of one run.
        """
        for path in numbered(self.run):
            if iteration_of(path) > iteration:
                path.unlink(missing_ok=True)

    def _write(self, name: str, state: dict[str, Any]) -> Path:
        folder = self.run / CHECKPOINT_FOLDER
        folder.mkdir(exist_ok=True)  # without parents: a run's folder that was removed is not made anew
        save_checkpoint(folder / name, state)
        return folder / name
