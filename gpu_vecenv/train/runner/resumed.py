"""A checkpoint that a trainer resumes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_vecenv.train.run_folder.folder import RunFolder


@dataclass(frozen=True)
class Resumed:
    """A checkpoint to resume from, read after the run's folder was locked."""

    path: Path
    """The checkpoint file, which error messages name."""
    state: dict[str, Any]
    """Content of the file, as ``load_checkpoint()`` returns it."""
    folder: RunFolder | None
    """The folder that the resumed run writes to; None if it writes no files."""
    device: str
    """The device of the run so far."""
