"""Runs in several processes of which one is killed, under torchrun."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from gpu_vecenv.train import load_checkpoint
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics


def torchrun(words, out, *options, log, **variables):
    """Start torchrun, which starts ``gpu-vecenv train`` in some processes."""
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "gpu_vecenv", "train", *words, "--out", str(out)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "GPU_VECENV_NUM_THREADS": "1", **variables}
    return subprocess.Popen(command, env=variables, stdout=log, stderr=log)


def ranks_of(out):
    """Return the process ids of a run by rank, as their environment says."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
        except OSError:
            continue
        names = dict(each.split(b"=", 1) for each in variables.split(b"\0") if b"=" in each)
        if str(out).encode() in words.split(b"\0") and b"RANK" in names:
            found[int(names[b"RANK"])] = int(folder.name)
    return found


def iterations(out):
    """Return the number of the last iteration of a run, by the end of its metrics; 0 without any."""
    try:
        with (out / "metrics.jsonl").open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**14))
            lines = file.read().split(b"\n")[:-1]  # the last line may not be complete
        return json.loads(lines[-1])["iteration"]
    except (ValueError, IndexError, OSError):
        return 0


def wait_for(condition, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_alive(process):
    """True for a process that has not ended; one that its parent has not waited for has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def kill_and_go_on(words, out, seed, count, start_s=90, **variables):
    """Kill one process of a run at a random moment, and require that the others end, name it, and go on after a restart.

    Args:
        words: options of a run that does not end by itself.
        out: its folder.
        seed: determines the moment and the process.
        count: number of processes.
        start_s: most seconds until the first checkpoint.
        variables: of the environment.

    Returns:
        The rank that was killed, and the seconds after which the last of the processes had ended and the run went on.
    """
    chance, file = random.Random(seed), out.with_suffix(".txt")
    with file.open("w") as log:
        options = ["--standalone", "--max-restarts", "1", "--nproc-per-node", str(count)]
        agent = torchrun(words, out, *options, log=log, **variables)
        try:
            wait_for(lambda: has_checkpoint(out) and len(ranks_of(out)) == count, start_s)
            time.sleep(chance.uniform(0, 3))
            before, victim = iterations(out), chance.randrange(count)
            first = ranks_of(out)
            os.kill(first[victim], signal.SIGKILL)
            killed = time.monotonic()
            wait_for(lambda: not any(map(is_alive, first.values())), 60)
            ended = time.monotonic() - killed
            load_checkpoint(out)
            assert f"rank {victim} of {count} is lost" in file.read_text(), file.read_text()[-4000:]
            wait_for(lambda: iterations(out) > before + 2, start_s)
            went_on = time.monotonic() - killed
            assert not {*ranks_of(out).values()} & {*first.values()}
            agent.send_signal(signal.SIGTERM)
            agent.wait(60)
        finally:
            agent.kill()
            for each in ranks_of(out).values():
                os.kill(each, signal.SIGKILL)
    lines = [line["iteration"] for line in read_metrics(out)]
    assert lines == list(range(1, len(lines) + 1))
    load_checkpoint(out)
    return victim, ended, went_on
