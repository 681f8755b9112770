"""Workers of benchmarks whose runs have a process each."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POOL = """
import os, time

from benchmarks import shared

if __name__ == "__main__":
    with shared.process_pool(1) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def running(pid):
    """Tell whether a process runs; one that has ended may still be listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.in_ci
def test_a_worker_ends_when_the_process_of_its_pool_is_killed(tmp_path):
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        try:
            assert running(worker)
            parent.kill()
            parent.wait()
            until = time.monotonic() + 60
            while running(worker) and time.monotonic() < until:
                time.sleep(0.05)
            assert not running(worker)
        finally:
            if running(worker):
                os.kill(worker, signal.SIGKILL)
