"""Text that names a policy of a run: ``FOLDER[:POLICY][@best|@newest]``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpu_vecenv.train.errors import CheckpointError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.run_folder.checkpoints import BEST_NAME, CHECKPOINT_FOLDER

FORM = "FOLDER[:POLICY][@best|@newest]"
"""Form of the text, for messages."""

_FORM = re.compile(r"(?P<run>.+?)(?::(?P<policy>[^:/@]+))?(?:@(?P<which>[^:/@]+))?")


@dataclass(frozen=True)
class PolicySource:
    """A policy of a checkpoint."""

    run: Path
    """A run's folder, or a checkpoint file."""
    policy: str | None = None
    """Name of the policy; None for the one that the place of its use names."""
    which: str = "newest"
    """``newest`` or ``best``: the checkpoint of a folder."""

    @classmethod
    def of(cls, text: str | Path) -> PolicySource:
        """Read the text. A path that exists is one, whatever letters it has.

        Raises:
            CheckpointError: no text or path, or the text asks for another checkpoint of a run than the best or the newest one.
        """
        if not isinstance(text, str | os.PathLike):
            raise CheckpointError(f"expected a policy of a run, {FORM}, got {type(text).__name__}")
        match = None if Path(text).exists() else _FORM.fullmatch(os.fspath(text))
        if match is None:
            return cls(Path(text))
        run, which = Path(match["run"]), match["which"] or "newest"
        if which in ("best", "newest"):
            return cls(run, match["policy"], which)
        if run.exists():
            raise CheckpointError(f"{text}: expected @best or @newest, got @{which}")
        return cls(Path(text))  # a name that has an @

    @property
    def file(self) -> Path:
        """The checkpoint file.

        Raises:
            CheckpointError: there is none, or the run has no best one because it was not evaluated.
        """
        if self.which == "newest":
            return checkpoint_path(self.run)
        if not self.run.is_dir():
            raise CheckpointError(f"{self.run}: expected the folder of a run with @{self.which}")
        best = self.run / CHECKPOINT_FOLDER / BEST_NAME
        if not best.exists():
            raise CheckpointError(f"{best}: expected the best checkpoint, which runs with evaluation_interval have, got none")
        return best


def is_source(text: str) -> bool:
    """True for text that cannot be the name of a policy of the run, because it has the form of a path or names a folder."""
    return bool(set(text) & set("/@:" + os.sep)) or Path(text).is_dir()
