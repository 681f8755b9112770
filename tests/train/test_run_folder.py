"""One trainer at a time locks a run folder, and a trainer raises an error if its folder is removed or replaced."""

import dataclasses
import errno
import gc
import os
import re
import shutil
import signal
import socket
import time

import pytest

from gpu_vecenv.train import CheckpointError, MetricsError, RunExistsError, RunGoneError, RunLockedError, Trainer, load_checkpoint
from gpu_vecenv.train.run_folder.folder import LOCK_FILE, RunFolder
from gpu_vecenv.train.run_folder.json_lines import keep_until
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from tests.package.episodes import in_child


@pytest.fixture
def run(config, tmp_path):
    """A config whose folder holds one iteration of a run."""
    config = dataclasses.replace(config, out=str(tmp_path / "run"))
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    trainer.close()
    return config


def is_locked_for(act):
    """Return True if the folder is locked for ``act`` in a forked process."""

    def try_it():
        try:
            act()
        except RunLockedError:
            return True
        return False

    return in_child(try_it)


def test_a_second_trainer_raises_an_error_until_the_first_is_closed(run):
    first = Trainer.resume(run.out, quiet=True)
    holder = f"locked by process {os.getpid()} on {socket.gethostname()} (this one: close() its trainer first)"
    said = f"{run.out}: expected a folder that no other trainer works on, got one {holder}"
    with pytest.raises(RunLockedError, match=re.escape(said)):
        Trainer.resume(run.out, quiet=True)
    with pytest.raises(RunLockedError):
        Trainer(run, quiet=True)
    assert is_locked_for(lambda: RunFolder(first._folder.path))
    first.close()
    assert not is_locked_for(lambda: RunFolder(first._folder.path))
    Trainer.resume(run.out, quiet=True).close()
    with pytest.raises(RunLockedError, match="got a closed one"):
        first.save()


def test_a_garbage_collected_trainer_unlocks_its_folder(run):
    trainer = Trainer.resume(run.out, quiet=True)
    del trainer
    gc.collect()
    Trainer.resume(run.out, quiet=True)


def test_a_trainer_that_could_not_be_made_unlocks_its_folder(config, tmp_path):
    config = dataclasses.replace(config, out=str(tmp_path))
    with pytest.raises(ValueError, match=r"none\.pt") as raised:
        Trainer(dataclasses.replace(config, load_policies={"catcher": "none.pt"}), quiet=True)
    Trainer(config, quiet=True).train(iterations=1)
    with pytest.raises(RunExistsError) as again:
        Trainer(config, quiet=True)
    assert raised.traceback
    assert again.traceback  # the tracebacks keep both trainers alive, and their locks must be free all the same
    Trainer.resume(tmp_path, quiet=True)


def test_a_killed_process_holds_no_lock_even_if_its_child_lives(tmp_path):
    ready, tell = os.pipe()
    holder = os.fork()
    if holder == 0:
        folder = RunFolder(tmp_path)
        grandchild = os.fork()
        if grandchild == 0:
            os.write(tell, f"{os.getpid()}\n".encode())
            time.sleep(60)
        signal.pause()
        folder.close()
    grandchild = int(os.read(ready, 20))
    try:
        with pytest.raises(RunLockedError, match=f"process {holder} on"):
            RunFolder(tmp_path)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        RunFolder(tmp_path).close()
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_forked_copy_of_a_trainer_neither_saves_nor_unlocks(run):
    trainer = Trainer.resume(run.out, quiet=True)
    assert is_locked_for(trainer.save)
    assert not is_locked_for(trainer.close)
    with pytest.raises(RunLockedError):
        RunFolder(trainer._folder.path)


def test_a_file_system_without_locks_gives_a_warning(run, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.warns(UserWarning, match="cannot be locked .No locks available.; make sure that no other trainer"):
        trainer = Trainer.resume(run.out, quiet=True)
    trainer.train(iterations=1)
    trainer.close()
    assert load_checkpoint(run.out)["iteration"] == 2


def test_resuming_never_overwrites_another_run(run, tmp_path):
    other = Trainer(dataclasses.replace(run, out=str(tmp_path / "other"), seed=7), quiet=True)
    other.train(iterations=2)
    other.close()
    files = {path: path.read_bytes() for path in (tmp_path / "other").rglob("*") if path.is_file()}
    for source in (run.out, f"{run.out}/checkpoint/iteration-00000001.pt"):
        with pytest.raises(RunExistsError, match=f"{tmp_path}/other: expected a new folder"):
            Trainer.resume(source, quiet=True, out=str(tmp_path / "other"))
    changed = {path for path, content in files.items() if path.name != LOCK_FILE and path.read_bytes() != content}
    assert changed == set()
    branch = Trainer.resume(run.out, quiet=True, out=str(tmp_path / "new"))
    branch.train(iterations=1)
    assert [load_checkpoint(folder)["iteration"] for folder in (run.out, tmp_path / "new")] == [1, 2]


def test_a_moved_run_is_resumed_at_its_new_place(run, tmp_path):
    os.rename(run.out, tmp_path / "moved")
    trainer = Trainer.resume(tmp_path / "moved", quiet=True)
    trainer.train(iterations=1)
    assert not os.path.exists(run.out)
    assert load_checkpoint(tmp_path / "moved")["iteration"] == 2


def remove(folder):
    shutil.rmtree(folder)


def replace(folder):
    shutil.copytree(folder, f"{folder}-copy")
    shutil.rmtree(folder)
    os.rename(f"{folder}-copy", folder)


def remove_metrics(folder):
    os.unlink(f"{folder}/{METRICS_FILE}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's thread
@pytest.mark.parametrize("lose", [remove, replace, remove_metrics])
@pytest.mark.parametrize("interval", [1, 1000])
def test_a_lost_folder_raises_an_error(run, lose, interval):
    trainer = Trainer.resume(run.out, quiet=True, checkpoint_interval=interval)
    collect = trainer.parts.collector.collect

    def collect_then_lose():
        collect()
        if trainer.iteration == 1:
            lose(run.out)

    trainer.parts.collector.collect = collect_then_lose
    with pytest.raises(RunGoneError, match="the run's folder was removed or replaced while the trainer was running"):
        trainer.train(iterations=2)
    assert os.path.exists(run.out) == (lose is not remove)
    trainer.close()


def test_a_full_disk_raises_an_error_and_the_run_can_be_resumed(run, monkeypatch):
    before = load_checkpoint(run.out)
    trainer = Trainer.resume(run.out, quiet=True)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match=f"No space left on device: '{run.out}") as raised:
        patched.setattr(os, "fsync", full)
        trainer.save()
    assert raised.value.filename == f"{run.out}/checkpoint/iteration-00000001.pt"
    trainer.close()
    assert sorted(os.listdir(f"{run.out}/checkpoint")) == ["iteration-00000000.pt", "iteration-00000001.pt"]
    assert load_checkpoint(run.out)["iteration"] == before["iteration"]
    Trainer.resume(run.out, quiet=True).train()
    assert load_checkpoint(run.out)["iteration"] == 6


def test_old_partial_files_of_killed_processes_are_removed(run, tmp_path):
    folder = tmp_path / "run"
    left = ["checkpoint/iteration-00000001.12.partial.pt", "metrics.12.partial.jsonl"]
    left += ["curves.12.partial.png", "video.12.partial.mp4"]
    fresh = ["curves.34.partial.png", "video.34.partial.mp4"]
    long_ago = time.time() - 2 * 3600
    for name in [*left, *fresh, "notes.txt"]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
        if name not in fresh:
            os.utime(folder / name, (long_ago, long_ago))
    Trainer.resume(run.out, quiet=True).close()
    assert not any((folder / name).exists() for name in left)
    assert all((folder / name).exists() for name in [*fresh, "notes.txt", METRICS_FILE, "checkpoint/iteration-00000001.pt"])


def test_unreadable_metrics_raise_an_error_and_are_kept(tmp_path):
    file = tmp_path / METRICS_FILE
    good = '{"iteration": 1, "steps": 10, "return/a": null}\n'
    bad = [b"7\n", b"[]\n", b"{}\n", b'{"iteration": "1"}\n', b'{"iteration": 1, "a": "b"}\n', b"[" * 10**5 + b"\n"]
    bad.append(b"\xff\xfe\n\0\0")
    for line in bad:
        file.write_bytes(good.encode() + line)
        for read in (lambda: read_metrics(tmp_path), lambda: keep_until(file, 1)):
            with pytest.raises(MetricsError, match=f"{file}.*: expected "):
                read()
        assert file.read_bytes() == good.encode() + line


def test_a_lock_file_that_is_a_link_raises_an_error(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("thesis")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links.*lock"):
        RunFolder(tmp_path / "run")
    assert precious.read_text() == "thesis"


@pytest.mark.parametrize("read", [load_checkpoint, read_metrics])
def test_reading_a_pipe_raises_an_error_without_waiting(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises((CheckpointError, MetricsError), match="got something that is no file"):
        read(tmp_path / "pipe")
