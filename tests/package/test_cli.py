"""The command line: subcommands, exit statuses, and one line in place of a traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpu_vecenv.cli import COMMANDS, TRAIN_EXTRA, main
from gpu_vecenv.train import Trainer

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


@pytest.mark.parametrize("command", ["train", "eval", "plot", "watch", "memory", "bench"])
def test_missing_extra_is_named(command):
    done = run(command, "WarpTag-v0", setup="sys.modules.update(tyro=None, rich=None)")
    assert done.returncode == 2
    assert done.stderr == f'gpu-vecenv {command}: this needs tyro, rich: pip install "gpu-vecenv[train]".\n'


def test_bench_does_without_what_makes_videos(tmp_path):
    out = str(tmp_path / "bench.json")
    words = ["bench", "--device", "cpu", "--modes", "env", "--envs", "cartpole", "--sizes", "2", "--no-peers", "--out", out]
    done = run(*words, "--rounds", "1", "--seconds", "0.0001", setup="sys.modules.update(imageio=None, imageio_ffmpeg=None)")
    assert done.returncode == 0, done.stderr
    assert Path(out).is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "WarpTag-v1", "--device", "cpu"], "expected one of WarpTag-v0, WarpGridTag-v0, WarpCartPole-v1"),
        (["train", "CartPole-v1", "--device", "cpu"], "expected one of WarpTag-v0, WarpGridTag-v0, WarpCartPole-v1"),
        (["train", "WarpTag-v0", "--ppo", "learning_rate=abc"], "learning_rate: expected a number > 0, got 'abc'"),
        (["train", "WarpTag-v0", "--ppo", "gamma=abc"], "gamma: expected a number in [0, 1], got 'abc'"),
        (["train", "WarpTag-v0", "--network", "hidden_sizes=64"], "expected a tuple of integers >= 1"),
        (["train", "WarpTag-v0", "--threads", "0"], "--threads: expected an integer >= 1, got 0"),
        (["train", "WarpCartPole-v1", "--device", "cpu", "--out", "file"], "file"),
        (["plot", "empty"], "expected at least one iteration, got none"),
        (["train", "WarpTag-v0", "--env", "num_taggerz=3", "--device", "cpu"], "Did you mean 'num_taggers'?"),
        (["train", "WarpTag-v0", "--env", "num_taggers=0", "--device", "cpu"], "at least 1, got 0"),
        (["train", "WarpTag-v0", "--device", "cuda:99"], "cuda:99"),
        (["eval", "nowhere"], "nowhere"),
        (["plot", "nowhere"], "nowhere"),
        (["watch", "nowhere"], "nowhere"),
        (["memory", "WarpTag-v0", "--device", "cpu", "--view", "rows"], "--view must be worlds or agents, got rows"),
        (["sing"], "no command 'sing'"),
    ],
)
def test_bad_input_is_one_line_and_status_2(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "metrics.jsonl").touch()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("gpu-vecenv") and said in error.splitlines()[0]
    assert "Traceback" not in error


def test_ctrl_c_is_one_line_and_status_130(capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gpu_vecenv.cli._run", interrupt)
    assert main(["train", "WarpTag-v0"]) == 130
    assert capsys.readouterr().err == "gpu-vecenv train: interrupted\n"


def test_an_interrupt_before_the_first_iteration_ends_quietly(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Trainer, "num_iterations", 0)  # nothing is collected, as after an early signal
    monkeypatch.setattr("gpu_vecenv.watch.watch", lambda *_, **__: None)
    assert main(["train", "WarpCartPole-v1", "--device", "cpu", "--out", str(tmp_path / "run")]) == 0
    assert not (tmp_path / "run" / "curves.png").exists()


def test_the_source_archive_takes_every_folder():
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    taken = {line.split()[1] for line in lines if line.startswith("recursive-include")}
    assert {"adapters", "benchmarks", "docs", "envs", "examples", "tests", "tools"} <= taken


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
