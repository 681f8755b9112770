"""Runs that were killed, stopped or refused by the disk resume to the bits and the metrics of an uninterrupted run."""

import dataclasses
import errno
import functools
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import torch
from test_checkpoint import assert_same

from gpu_vecenv.train import NetworkConfig, PPOConfig, RunGoneError, TrainConfig, Trainer, load_checkpoint
from gpu_vecenv.train.run_folder import tensorboard
from gpu_vecenv.train.run_folder.checkpoints import has_checkpoint
from gpu_vecenv.train.run_folder.json_lines import JsonLines
from gpu_vecenv.train.run_folder.metrics import read_metrics

POOL = {"x": torch.linspace(-0.5, 0.5, 15).reshape(3, 5)}


CONFIG = TrainConfig(
    "TagStandIn-v0", num_envs=4, total_steps=4 * 5 * 8, device="cpu", checkpoint_interval=1, keep_checkpoints=2,
    ppo=PPOConfig(num_steps=5, num_epochs=1, num_minibatches=2), network=NetworkConfig(hidden_sizes=(8,)),
)  # fmt: skip
"""A run that saves after each of its eight iterations."""

OFF_POLICY = {"num_steps": 5, "gradient_steps": 2, "batch_size": 8, "replay_size": 60, "learning_starts": 30}


def by(name, env_id="TagStandIn-v0", **options):
    """Return the run with another algorithm, whose replay buffer goes once around."""
    return dataclasses.replace(CONFIG, env_id=env_id, ppo=None, algorithm=name, algorithms={name: options})


RUNS = {
    "ppo": CONFIG,
    "memory": dataclasses.replace(CONFIG, network=NetworkConfig((8,), memory="gru", memory_size=4)),
    "sac": by("sac", **OFF_POLICY, priority_exponent=0.6),
    "td3": by("td3", "WarpPendulum-v1", **OFF_POLICY, n_steps=3),
    "ddpg": by("ddpg", "WarpPendulum-v1", **OFF_POLICY),
    "pqn": by("pqn", num_steps=5, num_minibatches=2, mixing="vdn"),
}


@pytest.fixture(autouse=True, scope="module")
def no_tensorboard():
    """Points in TensorBoard are not compared here."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tensorboard, "is_installed", lambda: False)
        yield


def train(config):
    """Start the run of a config, or resume it."""
    if has_checkpoint(Path(config.out)):
        trainer = Trainer.resume(config.out, quiet=True)
    else:
        trainer = Trainer(config, quiet=True)
        if config.env_id == CONFIG.env_id:
            trainer.env.set_reset_pool(POOL)
    trainer.train()
    trainer.close()


def in_child(act):
    """Call a function in a forked process, which exits with 0, or with 3 after an error."""
    child = os.fork()
    if child:
        return child
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        act()
        os._exit(0)
    finally:
        os._exit(3)


def exit_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def lines(folder):
    return [{name: x for name, x in line.items() if name != "steps_per_second"} for line in read_metrics(folder)]


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def whole_of(no_tensorboard, tmp_path_factory):
    """Return a function that returns the folder of an uninterrupted run, and the seconds that it took."""

    @functools.cache
    def made(name):
        folder = tmp_path_factory.mktemp("kills")
        train(dataclasses.replace(RUNS[name], out=str(folder / "warm-up")))
        began = time.monotonic()
        train(dataclasses.replace(RUNS[name], out=str(folder / "whole")))
        return folder / "whole", time.monotonic() - began

    return made


@pytest.fixture(scope="module")
def whole(whole_of):
    """Folder of the uninterrupted run, and the seconds that it took."""
    return whole_of("ppo")


def assert_equal_runs(folder, whole):
    assert_same({**load_checkpoint(folder), "config": 0}, {**load_checkpoint(whole), "config": 0})
    assert lines(folder) == lines(whole) and len(lines(whole)) == 8
    assert files(folder) == files(whole)


MANY = [pytest.mark.slow, pytest.mark.timeout(900)]
OTHERS = [name for name in RUNS if name != "ppo"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    ("name", "moments"),
    [("ppo", 1), pytest.param("ppo", 100, marks=MANY), *(pytest.param(name, 20, marks=MANY) for name in OTHERS)],
)
def test_runs_stopped_at_random_moments_equal_an_uninterrupted_one(whole_of, tmp_path, name, moments, number):
    (whole, seconds), rng = whole_of(name), random.Random(moments)
    early = 0
    for moment in range(moments):
        run = dataclasses.replace(RUNS[name], out=str(tmp_path / f"run-{moment}"))
        for _ in range(rng.randint(1, 3)):
            child = in_child(lambda run=run: train(run))
            time.sleep(rng.uniform(0.0, 1.2 * seconds))
            os.kill(child, number)
            early += exit_of(child) in (0, -number)
        train(run)
        assert_equal_runs(run.out, whole)
        shutil.rmtree(run.out)
    assert early >= moments  # no child failed


EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "os.listdir")
"""Audit events of Python that change or read a folder; an event comes before its operation."""


def at_file_operation(number, folder, act):
    """Call ``act`` before the file operation of this number, from 0, on something in the folder; return the count down."""
    left = [number]

    def hook(event, arguments):
        if event in EVENTS and isinstance(arguments[0], str | os.PathLike) and str(arguments[0]).startswith(str(folder)):
            left[0] -= 1
            if left[0] == -1:
                act()

    sys.addaudithook(hook)
    return left


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def full_disk():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.slow
@pytest.mark.parametrize(("act", "code"), [(kill_self, -signal.SIGKILL), (full_disk, 3)])
@pytest.mark.parametrize(
    ("name", "every"),
    [("ppo", 40), pytest.param("ppo", 1, marks=MANY), *(pytest.param(name, 5, marks=MANY) for name in OTHERS)],
)
def test_runs_stopped_before_each_file_operation_equal_an_uninterrupted_one(whole_of, tmp_path, act, code, name, every):
    whole, stopped = whole_of(name)[0], 0
    for number in range(0, 10_000, every):
        run = dataclasses.replace(RUNS[name], out=str(tmp_path / "run"))

        def stop_at_operation(run=run, number=number):
            left = at_file_operation(number, run.out, act)
            train(run)
            if left[0] >= 0:
                os._exit(5)

        ended = exit_of(in_child(stop_at_operation))
        if ended == 5:  # the run has fewer operations
            break
        assert ended == code or act is full_disk and ended == 0  # leftovers that cannot be removed end no run
        train(run)
        assert_equal_runs(run.out, whole)
        shutil.rmtree(run.out)
        stopped += 1
    assert 80 < stopped * every < 2000


def set_limit(size):
    """Limit the size of files that this process writes: a write beyond it stores its first part and raises an error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def limit_checkpoints(run, room):
    set_limit(room)


def limit_metrics(run, room):
    """Set the limit when the fifth line is due; only that file has grown by then."""
    log = JsonLines.log

    def limit_and_log(self, metrics):
        if metrics["iteration"] == 5:
            set_limit((Path(run.out) / "metrics.jsonl").stat().st_size + room)
        log(self, metrics)

    JsonLines.log = limit_and_log


@pytest.mark.parametrize(
    ("limit", "room", "file"),
    [
        (limit_checkpoints, 0, ".lock"), (limit_checkpoints, 100, "config.yaml"),
        (limit_checkpoints, 5_000, "checkpoint/iteration-00000000.pt"), (limit_metrics, 0, "metrics.jsonl"),
        (limit_metrics, 100, "metrics.jsonl"),
    ],
)  # fmt: skip
def test_a_run_on_a_full_disk_says_so_and_goes_on_when_there_is_room(whole, tmp_path, limit, room, file):
    """A limit of the size of files stands in for the disk. The error names the file."""
    run = dataclasses.replace(CONFIG, out=str(tmp_path / "run"))
    heard, tell = os.pipe()

    def limited():
        limit(run, room)
        try:
            train(run)
        except OSError as error:
            os.write(tell, f"{error.errno} {error.filename}".encode())
            os._exit(4)

    ended = exit_of(in_child(limited))
    os.close(tell)
    with open(heard) as pipe:
        assert pipe.read() == f"{errno.EFBIG} {Path(run.out) / file}"
    assert ended == 4
    assert not [name for name in files(run.out) if "partial" in name]
    if limit is limit_metrics:
        text = (Path(run.out) / "metrics.jsonl").read_text()
        assert text.count("\n") == 4 and len(text.split("\n")[-1]) == room
    train(run)
    assert_equal_runs(run.out, whole[0])


def test_a_run_whose_folder_is_removed_says_so_and_can_be_started_anew(whole, tmp_path):
    run = dataclasses.replace(CONFIG, out=str(tmp_path / "run"))
    trainer = Trainer(run, quiet=True)
    trainer.env.set_reset_pool(POOL)
    collect = trainer.parts.collector.collect

    def collect_then_lose():
        collect()
        if trainer.iteration == 3:
            shutil.rmtree(run.out)

    trainer.parts.collector.collect = collect_then_lose
    with pytest.raises(RunGoneError, match="the run's folder was removed or replaced"):
        trainer.train()
    trainer.close()
    assert not Path(run.out).exists()
    train(run)
    assert_equal_runs(run.out, whole[0])


def test_the_metrics_of_an_unsaved_iteration_are_removed_on_resume(whole, tmp_path):
    """Imitates a kill after the line of iteration 5 and before its checkpoint."""
    run = tmp_path / "run"
    shutil.copytree(whole[0], run)
    trainer = Trainer(dataclasses.replace(CONFIG, out=str(tmp_path / "short")), quiet=True)
    trainer.env.set_reset_pool(POOL)
    trainer.train(iterations=4)
    trainer.close()
    shutil.rmtree(run / "checkpoint")
    shutil.copytree(tmp_path / "short" / "checkpoint", run / "checkpoint")
    text = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(text[:5]) + text[5][:20])
    assert [json.loads(line)["iteration"] for line in text[:5]] == [1, 2, 3, 4, 5]
    Trainer.resume(run, quiet=True).train()
    assert_equal_runs(run, whole[0])
