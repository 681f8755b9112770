"""Options and checkpoints in the folder of a run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.train.config import CONFIG_FILE, TrainConfig, read_yaml
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.run_folder.checkpoints import Checkpoints
from gpu_vecenv.train.run_folder.folder import RunFolder

NOTE = "# after iteration "
"""Start of a line of ``config.yaml`` about an option that a resumed run changed."""


class RunFiles:
    """Writes ``config.yaml`` and the checkpoints of one run."""

    def __init__(self, folder: RunFolder, config: TrainConfig) -> None:
        """Nothing is written yet.

        Args:
            folder: the run's folder, locked by this process.
            config: the run's options.
        """
        self.folder, self.config = folder, config
        self._checkpoints = Checkpoints(folder.path, config.keep_checkpoints)
        self._is_config_written = False

    def begin(self, iteration: int) -> None:
        """Remove the checkpoints of later iterations, and write the options of a new run.

        A resumed run writes its options with its first checkpoint, because until then a kill leaves the run as it was.

        Raises:
            RunGoneError, RunLockedError: see ``RunFolder.check()``.
            OSError: a file cannot be written or removed.
        """
        self.folder.check()
        self._checkpoints.remove_after(iteration)
        if iteration == 0:
            self.config.save(self.folder.path)
            self._is_config_written = True

    def save(self, state: dict[str, Any]) -> Path:
        """Write the checkpoint of ``state["iteration"]``, see ``Checkpoints.save()``, and options that differ from those written.

        Raises:
            RunGoneError, RunLockedError: see ``RunFolder.check()``.
            OSError: a file cannot be written; all earlier checkpoints are unchanged.
        """
        self.folder.check()
        path = self._checkpoints.save(state)
        if not self._is_config_written:
            save_options(self.folder.path, self.config, state["iteration"])
            self._is_config_written = True
        return path

    def save_best(self, state: dict[str, Any]) -> None:
        """Write ``best.pt``, see ``Checkpoints.save_best()``; errors are those of ``save()``."""
        self.folder.check()
        self._checkpoints.save_best(state)


def save_options(folder: Path, config: TrainConfig, iteration: int) -> None:
    """Make ``config.yaml`` hold the options in force. Lines below them say which options had other values before.

    Args:
        folder: the run's folder.
        config: the options.
        iteration: iterations done.

    Raises:
        OSError: the file cannot be written; an earlier file is unchanged.
    """
    path, now, notes = folder / CONFIG_FILE, config.to_options(), list[str]()
    with contextlib.suppress(FileNotFoundError, ConfigError):  # a missing or damaged file is written without notes
        before = read_yaml(path)
        if before == now:
            return
        notes = [line for line in path.read_text("utf-8").splitlines() if line.startswith(NOTE)]
        old, new = _by_path(before), _by_path(now)
        for name in old | new:
            if old.get(name) != new.get(name):
                notes.append(f"{NOTE}{iteration}: {name}: {_text(new.get(name))}, before {_text(old.get(name))}")
    with atomic_file(path) as partial:
        partial.write_text(config.to_yaml() + "".join(note + "\n" for note in notes), "utf-8")


def _by_path(options: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the options in nested mappings by paths such as ``ppo.gamma``."""
    flat: dict[str, Any] = {}
    for name, value in options.items():
        flat |= _by_path(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat


def _text(value: object) -> str:
    """Return an option's value on one line; a file edited by hand may hold values that JSON has not."""
    return json.dumps(value, default=str)
