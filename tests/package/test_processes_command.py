"""``gpu-vecenv train --gpus``: the command that it starts, and a restart by torchrun."""

import shlex
import sys

import pytest

from gpu_vecenv.cli import main, processes
from gpu_vecenv.train import ConfigError, joined


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("WarpTag-v0 --gpus 4 --dry-run --num-envs 8", "WarpTag-v0 --num-envs 8"),
        ("--dry-run --gpus=4 WarpTag-v0 --num-envs 8 --env num_taggers=2", "WarpTag-v0 --num-envs 8 --env num_taggers=2"),
        ("WarpTag-v0 --num-envs 4 --out 'a b' --gpus 4 --dry-run", "WarpTag-v0 --num-envs 4 --out 'a b'"),
    ],
)
def test_a_dry_run_prints_the_command_of_torchrun(words, kept, capsys):
    assert main.main(["train", *shlex.split(words)]) == 0
    torchrun = f"{sys.executable} -m torch.distributed.run --standalone --nproc-per-node 4 -m gpu_vecenv train"
    assert capsys.readouterr().out.strip() == f"{torchrun} {kept}"


def test_one_gpu_needs_no_torchrun(capsys):
    assert main.main(["train", "WarpTag-v0", "--gpus", "1", "--dry-run"]) == 0
    assert capsys.readouterr().out.strip() == f"{sys.executable} -m gpu_vecenv train WarpTag-v0"


def test_the_command_becomes_torchrun(monkeypatch):
    started = []
    monkeypatch.setattr(processes.os, "execve", lambda *words: started.append(words) or sys.exit(0))
    main.main(["train", "WarpTag-v0", "--num-envs", "4", "--gpus", "2", "--device", "cpu"])
    ((program, words, variables),) = started
    assert program == sys.executable and words[1:3] == ["-m", "torch.distributed.run"]
    assert words[-6:] == ["train", "WarpTag-v0", "--num-envs", "4", "--device", "cpu"]
    assert variables["OMP_NUM_THREADS"]


def test_a_process_of_torchrun_goes_on_after_a_restart_alone(monkeypatch, tmp_path):
    folder = tmp_path / "checkpoint"
    given = {"out": str(tmp_path)}
    assert not processes.restarted_run(given)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert not processes.restarted_run(given)  # nothing was saved
    folder.mkdir()
    (folder / "iteration-00000003.pt").touch()
    assert processes.restarted_run(given)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert not processes.restarted_run(given)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"WORLD_SIZE": "2"}, "which torchrun sets, got none of"),
        ({"WORLD_SIZE": "two"}, "expected a number in the variable WORLD_SIZE, got 'two'"),
    ],
)
def test_wrong_variables_of_a_launcher_are_named(variables, text, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=text), joined():
        pass


def test_errors_of_a_process_name_its_rank(monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert main.main(["train", "WarpTag-v0", "--gpus", "2"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gpu-vecenv train, rank 1 of 3: --gpus: expected none in a process of torchrun, which has started 3")
