"""The command line: subcommands, exit statuses, and one line in place of a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_vecenv.cli import COMMANDS, TRAIN_EXTRA, main

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--env", "num_taggers=2", "num_runners=8", "episode_length=20", "--num-envs", "2", "--total-steps", "80"]
SMALL += ["--ppo", "num_steps=20", "num_minibatches=2", "--device", "cpu"]


def run(*words: str, setup: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``python -m gpu_vecenv`` in an interpreter of its own."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {list(words)!r}; {setup}\n"
    code += "import runpy; runpy.run_module('gpu_vecenv', run_name='__main__')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_help_lists_every_command_without_the_train_extra():
    done = run("--help", setup=f"sys.modules.update(dict.fromkeys({TRAIN_EXTRA}))")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command}" in done.stdout


@pytest.mark.parametrize("command", ["train", "eval", "plot", "watch"])
def test_missing_extra_is_named(command):
    done = run(command, "WarpTag-v0", setup="sys.modules.update(tyro=None, rich=None)")
    assert done.returncode == 2
    assert done.stderr == f'gpu-vecenv {command}: this needs tyro, rich: pip install "gpu-vecenv[train]".\n'


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "WarpTag-v1", "--device", "cpu"], "WarpTag"),
        (["train", "WarpTag-v0", "--env", "num_taggerz=3", "--device", "cpu"], "Did you mean 'num_taggers'?"),
        (["train", "WarpTag-v0", "--env", "num_taggers=0", "--device", "cpu"], "at least 1, got 0"),
        (["train", "WarpTag-v0", "--device", "cuda:99"], "cuda:99"),
        (["eval", "nowhere"], "nowhere"),
        (["plot", "nowhere"], "nowhere"),
        (["watch", "nowhere"], "nowhere"),
        (["sing"], "no command 'sing'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("gpu-vecenv") and said in error.splitlines()[0]
    assert "Traceback" not in error


def test_no_command_shows_usage(capsys):
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: gpu-vecenv COMMAND")


def test_wrong_option_is_status_2(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["train", "WarpTag-v0", "--wrong"])
    assert exit_.value.code == 2


def test_train_then_eval_plot_watch(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "WarpTag-v0", *SMALL, "--out", str(out)]) == 0
    assert (out / "checkpoint" / "latest.pt").is_file()
    assert (out / "metrics.jsonl").read_text()
    assert (out / "curves.png").is_file()
    assert (out / "video.mp4").is_file()
    assert main(["eval", str(out), "--episodes", "2", "--policy", "runner=random"]) == 0
    assert "tagger: return" in capsys.readouterr().out
    assert main(["plot", str(out), "--out", str(tmp_path / "again.png")]) == 0
    assert (tmp_path / "again.png").is_file()
    assert main(["watch", str(out), "--max-frames", "3", "--out", str(tmp_path / "film.gif")]) == 0
    assert (tmp_path / "film.gif").is_file()
