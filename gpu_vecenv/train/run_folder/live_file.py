"""The address of a run's live page, in the run's folder while the run goes on."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.errors import ParameterError

LIVE_FILE = "live.txt"


def write_address(folder: Path, address: str) -> None:
    """Write the address to the run's folder, for the eyes of this user alone, because it holds the token.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_file(folder / LIVE_FILE) as partial:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(f"{address}\n")


def remove_address(folder: Path, address: str) -> None:
    """Remove the address from the run's folder, unless a later process has written its own."""
    with contextlib.suppress(OSError):
        if (folder / LIVE_FILE).read_text() == f"{address}\n":
            (folder / LIVE_FILE).unlink()


def live_address(folder: Path) -> str:
    """Return the address of the live page of a run in progress.

    Raises:
        ParameterError: the folder holds no run, or its run has ended or was started without a live page.
    """
    from gpu_vecenv.web.live import running

    expected = f"{folder}: expected the folder of a run in progress that was started with --live"
    if not folder.is_dir():
        raise ParameterError(f"{expected}, got no folder.")
    try:
        address = (folder / LIVE_FILE).read_text().strip()
    except FileNotFoundError:
        raise ParameterError(f"{expected}, got one without: gpu-vecenv train ... --live (also with --resume).") from None
    except PermissionError as error:
        raise ParameterError(f"{expected}, got one of another user: {error}.") from error
    if not running(address):
        raise ParameterError(f"{expected} on this machine, got one that has ended or runs elsewhere.")
    return address
