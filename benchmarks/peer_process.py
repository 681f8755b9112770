"""Runs a measurement of another library in a process of its own, so that an error or a run without an end stops nothing else.

The process prints rows as lines of JSON, of which the last one counts. A run that is stopped has the row that it printed last.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ERROR_LENGTH = 1_500
"""Characters of an error that a row keeps."""


def say(row: dict[str, Any]) -> None:
    """Print a row for ``measured()``."""
    print(json.dumps(row), flush=True)


def measured(script: Path, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """Return the last row that a script prints.

    Args:
        script: the script.
        arguments: its arguments.
        seconds: most seconds that it runs.

    Returns:
        The row. ``error`` holds the end of what a script printed that failed, and ``stopped_after`` the seconds of one without an
        end.
    """
    command = [sys.executable, str(script), *arguments]
    settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "WANDB_MODE": "disabled"}
    process = subprocess.Popen(
        command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    stopped: dict[str, Any] = {}
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        stopped["stopped_after"] = seconds
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the processes that compile
        out, errors = process.communicate()
    rows = [line for line in out.splitlines() if line.startswith("{")]
    row: dict[str, Any] = json.loads(rows[-1]) if rows else {}
    if process.returncode and (not stopped or not rows):
        row["error"] = (errors or out)[-ERROR_LENGTH:]
    return {**row, **stopped}
