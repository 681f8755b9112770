"""Long tests of runs in several processes under torchrun: kills at random moments, two hosts, and learning curves."""

import contextlib
import dataclasses
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ranks import free_port, in_processes

from gpu_vecenv.train import TrainConfig, Trainer, load_checkpoint
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics

pytestmark = pytest.mark.slow

WORLDS, STEPS = 18, 18 * 8
RUN = ["WarpCartPole-v1", "--device", "cpu", "--num-envs", str(WORLDS), "--ppo", "num_steps=8", "--network", "hidden_sizes=(8,)"]


def torchrun(words, out, *options, log):
    """Start torchrun, whose processes and itself are one group, to be ended together."""
    command = [sys.executable, "-m", "torch.distributed.run", *options, "-m", "gpu_vecenv", "train", *words, "--out", str(out)]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "GPU_VECENV_NUM_THREADS": "1"}
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
    try:
        return read_metrics(out)[-1]["iteration"]
    except (ValueError, IndexError, OSError):
        return 0


def wait_for(condition, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("seed", range(20))
def test_a_run_goes_on_after_any_process_is_killed_at_any_moment(seed, tmp_path):
    chance, out = random.Random(seed), tmp_path / "run"
    words = [*RUN, "--total-steps", str(STEPS * 10**7), "--checkpoint-interval", "2"]
    with (tmp_path / "log.txt").open("w") as log:
        agent = torchrun(words, out, "--standalone", "--max-restarts", "1", "--nproc-per-node", "3", log=log)
        try:
            wait_for(lambda: has_checkpoint(out) and len(ranks_of(out)) == 3)
            time.sleep(chance.uniform(0, 3))
            before, victim = iterations(out), chance.randrange(3)
            first = ranks_of(out)
            os.kill(first[victim], signal.SIGKILL)
            killed = time.monotonic()
            wait_for(lambda: not any(Path(f"/proc/{each}").exists() for each in first.values()), 60)
            load_checkpoint(out)
            wait_for(lambda: iterations(out) > before + 2)
            assert time.monotonic() - killed < 90
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


def test_two_hosts_train_one_run(tmp_path):
    """Two agents of torchrun on this host, which meet over the loopback device, stand for two hosts."""
    out, port = tmp_path / "run", free_port()
    words = [*RUN, "--total-steps", str(STEPS * 4)]
    options = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    options += ["--rdzv-id", "two", "--rdzv-conf", "join_timeout=120"]
    with (tmp_path / "log.txt").open("w") as log:
        agents = [torchrun(words, out, *options, log=log) for _ in range(2)]
        try:
            assert [agent.wait(200) for agent in agents] == [0, 0], (tmp_path / "log.txt").read_text()
        finally:
            for agent in agents:
                agent.kill()
    assert len(read_metrics(out)) == 4
    assert len(load_checkpoint(out)["processes"]) == 1


CURVES = TrainConfig("WarpCartPole-v1", num_envs=16, total_steps=16_000, device="cpu")


@pytest.mark.timeout(900)
def test_curves_of_one_process_and_of_four_are_equivalent(tmp_path):
    """Stated beforehand: mean returns over the last half of the run, over 5 seeds, differ by less than 15 % of the larger one."""

    def mean_return(processes, seed):
        config, found = dataclasses.replace(CURVES, seed=seed), []
        with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
            for _ in range(trainer.num_iterations):
                trainer.launch()
                found.append(trainer.finish()["recent_return/agent"])
        return statistics.mean(found[len(found) // 2 :])

    one = [mean_return(None, seed) for seed in range(5)]
    four = in_processes(4, lambda processes: [mean_return(processes, seed) for seed in range(5)], tmp_path)[0]
    means = statistics.mean(one), statistics.mean(four)
    assert abs(means[0] - means[1]) < 0.15 * max(means), (one, four)
