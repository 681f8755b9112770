"""The command line: subcommands, exit statuses, and one line instead of a traceback."""

import dataclasses
import functools
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
import torch

import gpu_vecenv
from gpu_vecenv.cli.main import COMMANDS, EXTRA_MODULES, RUN_PARTS, TRAIN_EXTRA, main
from gpu_vecenv.cli.run_options import LearningOptions, RunOptions
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.registration import IDS
from gpu_vecenv.train import PPOConfig, PQNConfig, TrainConfig, Trainer
from gpu_vecenv.train.config import PRESETS, Preset, resolve

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["--env", "num_taggers=2", "num_runners=8", "episode_length=20", "--num-envs", "2", "--total-steps", "80"]
SMALL += ["--ppo", "num_steps=20", "num_minibatches=2", "--device", "cpu"]


def run(*words: str, setup: str = "", **options) -> subprocess.CompletedProcess[str]:
    """Run ``python -m gpu_vecenv`` in another process."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv[1:] = {list(words)!r}; {setup}\n"
    code += "import runpy; runpy.run_module('gpu_vecenv', run_name='__main__')"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run([sys.executable, "-c", code], text=True, **options)


def test_help_lists_every_command_without_the_train_extra():
    done = run("--help", setup=f"sys.modules.update(dict.fromkeys({TRAIN_EXTRA}))")
    assert done.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command}" in done.stdout


@pytest.mark.parametrize("command", ["train", "eval", "plot", "watch", "memory", "bench"])
def test_missing_extra_is_named(command):
    done = run(command, "WarpTag-v0", setup=f"sys.modules.update(dict.fromkeys({EXTRA_MODULES[command]}))")
    assert done.returncode == 2
    missing = ", ".join(EXTRA_MODULES[command])
    assert done.stderr == f'gpu-vecenv {command}: this command needs {missing}: pip install "gpu-vecenv[train]".\n'


@pytest.mark.slow
def test_a_run_leaves_out_what_needs_a_missing_package_and_says_so_once(tmp_path):
    without = {name: None for names in RUN_PARTS.values() for name in names}
    done = run("train", "WarpTag-v0", *SMALL, "--out", str(tmp_path / "run"), setup=f"sys.modules.update({without})")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "without PIL, imageio_ffmpeg, matplotlib, tensorboard: the run gets no curves and no video and no TensorBoard events; "
        'pip install "gpu-vecenv[train]"\n'
    )
    assert "(means over" in done.stdout and "none, because" not in done.stdout and "gpu-vecenv watch" not in done.stdout
    files = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"checkpoint", "metrics.jsonl"} <= files and files.isdisjoint({"curves.png", "video.mp4", "tensorboard"})


@pytest.mark.in_ci
@pytest.mark.parametrize("command", ["memory WarpTag-v0", "eval RUN --episodes 2", "export RUN OUT"])
def test_commands_that_draw_nothing_need_no_package_that_draws(command, tmp_path):
    config = TrainConfig("WarpCartPole-v1", num_envs=2, total_steps=8, out=str(tmp_path / "run"), ppo=PPOConfig(num_steps=4))
    Trainer(config, quiet=True).train()
    words = [{"RUN": str(config.out), "OUT": str(tmp_path / "policy.pt2")}.get(word, word) for word in command.split()]
    done = run(*words, setup=f"sys.modules.update({ {name: None for names in RUN_PARTS.values() for name in names} })")
    assert done.returncode == 0, done.stderr


@pytest.mark.in_ci
@pytest.mark.parametrize("part", ["matches against random play", "curves", "video"])
def test_a_run_that_learned_ends_with_status_0_although_a_part_of_its_end_fails(part, tmp_path, capsys, monkeypatch):
    functions = {"curves": "cli.train.plot", "video": "cli.watch.watch"}
    function = functions.get(part, "train.runner.matches.play_matches")

    def broken(*_, **__):
        raise ParameterError("it is broken")

    monkeypatch.setattr(f"gpu_vecenv.{function}", broken)
    assert main(["train", "WarpTag-v0", *SMALL, "--out", str(tmp_path / "run")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "none, because" in line] == [f"{part}: none, because it is broken"]
    assert any(line == "Next:" for line in lines)


@pytest.mark.slow
def test_bench_needs_no_video_library(tmp_path):
    out = str(tmp_path / "bench.json")
    words = ["bench", "--device", "cpu", "--modes", "env", "--envs", "cartpole", "--sizes", "2", "--no-peers", "--out", out]
    done = run(*words, "--rounds", "1", "--seconds", "0.0001", setup="sys.modules.update(imageio=None, imageio_ffmpeg=None)")
    assert done.returncode == 0, done.stderr
    assert Path(out).is_file()


def test_ctrl_c_is_one_line_and_status_130(capsys, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.main._run", fail(KeyboardInterrupt()))
    assert main(["train", "WarpTag-v0"]) == 130
    assert capsys.readouterr().err == "gpu-vecenv train: interrupted\n"


def fail(error):
    """Return a stand-in for a subcommand that raises the error."""

    def run(*_):
        raise error

    return run


@pytest.mark.parametrize("error", [MemoryError("no room for it"), torch.OutOfMemoryError("no room for it")], ids=type)
def test_memory_that_runs_out_is_one_line_and_status_2(error, capsys, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.main._run", fail(error))
    assert main(["train", "WarpTag-v0"]) == 2
    assert capsys.readouterr().err == "gpu-vecenv train: out of memory: no room for it\n"


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), ValueError("a mistake"), KeyError("a mistake")], ids=type)
def test_internal_errors_are_not_reported_as_wrong_input(error, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.main._run", fail(error))
    with pytest.raises(type(error), match="a mistake"):
        main(["train", "WarpTag-v0"])


def test_an_interrupt_before_the_first_iteration_is_no_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Trainer, "num_iterations", 0)  # no iteration runs, as after an early signal
    monkeypatch.setattr("gpu_vecenv.cli.watch.watch", lambda *_, **__: None)
    assert main(["train", "WarpCartPole-v1", "--device", "cpu", "--out", str(tmp_path / "run")]) == 0
    assert not (tmp_path / "run" / "curves.png").exists()


@pytest.mark.parametrize(("words", "unbuffered"), [(["envs"], ""), (["envs"], "1"), (["plot", "--help"], "")])
def test_a_broken_pipe_ends_quietly_with_141(words, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(*words, stdout=writer, env=os.environ | {"PYTHONUNBUFFERED": unbuffered})
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_full_disk_is_one_line_and_status_2():
    with open("/dev/full", "w") as full:
        done = run("envs", stdout=full)
    assert (done.returncode, done.stderr) == (2, "gpu-vecenv envs: [Errno 28] No space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["envs"], ["plot", "--help"]], ids=" ".join)
def test_a_closed_stdout_is_no_error(words):
    code = f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); from gpu_vecenv.cli.main import main; sys.exit(main({words!r}))"
    shell = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, code]
    done = subprocess.run(shell, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_arguments_that_are_not_utf_8_are_one_line_and_status_2():
    done = subprocess.run([sys.executable, "-m", "gpu_vecenv", "plot", b"run\xff"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "gpu-vecenv plot: expected words in UTF-8, got 'run\\udcff'.\n")


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpu-vecenv {gpu_vecenv.__version__}\n"


@pytest.mark.parametrize(("words", "status"), [(("--help",), 0), (("WarpTag-v0", "--totl-steps", "5"), 2)])
def test_options_of_train_are_read_before_torch_is_imported(words, status):
    done = run("train", *words, setup="import atexit; atexit.register(lambda: print('torch' in sys.modules))")
    assert done.returncode == status and "--total-steps" in done.stdout + done.stderr
    assert done.stdout.endswith("\nFalse\n") or done.stdout == "False\n"


def test_envs_lists_agents_and_actions_of_every_id_without_torch():
    done = run("envs", setup="sys.modules.update(torch=None, tyro=None)")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert list(lines) == list(IDS)
    for name, line in lines.items():
        env = gymnasium.make_vec(name, num_worlds=1, device="cpu", array="numpy").unwrapped
        for role, count in env.role_counts.items():
            assert f" {count} {role} " in line
        for group in env.layout.groups:
            assert str(group.action).removesuffix(", float32)") in line or name == "WarpRice-v0" and " 57 entries of 10 " in line
        assert line.endswith(".") and len(line) <= 160


def test_commands_without_options_have_help(capsys):
    for command in ("doctor", "envs"):
        assert main([command, "--help"]) == 0
        assert capsys.readouterr().out.startswith(f"usage: gpu-vecenv {command}\n\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_an_example_that_works(command, capsys, monkeypatch):
    module, name = COMMANDS[command][0].split(":")
    function = getattr(importlib.import_module(module), name)
    called = []
    monkeypatch.setattr(f"{module}.{name}", functools.wraps(function)(lambda *_, **__: called.append(command) or 0))
    assert main([command, "--help"]) == 0
    example = next(line for line in inspect.getdoc(function).splitlines() if line.startswith("Example: "))
    assert example in " ".join(capsys.readouterr().out.split())
    words = example.removeprefix("Example: ").split()
    assert words[:2] == ["gpu-vecenv", command] and not called
    assert main(words[1:]) == 0 and called == [command]


def help_of(command, capsys):
    """Output of ``--help``, in one line and without the box."""
    assert main([command, "--help"]) == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


@pytest.mark.parametrize("command", ["train", "eval", "plot", "watch", "bench", "memory"])
def test_help_shows_the_default_of_every_option(command, capsys):
    text = help_of(command, capsys).partition("--ppo")[0]
    assert "(default: None)" not in text and "(default: )" not in text


def test_help_of_train_shows_the_defaults_of_each_env(capsys):
    text = help_of("train", capsys)
    names = [*PRESETS, "Other-v0"]
    for field in dataclasses.fields(Preset):
        if field.name in ("algorithms", "cpu"):
            continue
        runs, on_cpu = ({name: getattr(resolve(TrainConfig(name, device=device)), field.name) for name in names}
                        for device in ("cuda:0", "cpu"))  # fmt: skip
        if field.name == "env_kwargs":
            words = {name: " ".join(f"{k}={v}" for k, v in run.items()) or "the env's" for name, run in runs.items()}
            assert_defaults(text.partition("--env KEY=VALUE")[2], words)
            continue
        if not dataclasses.is_dataclass(runs["Other-v0"]):
            values = "{True,False}" if isinstance(runs["Other-v0"], bool) else "INT"
            assert_defaults(text.partition(f"--{field.name.replace('_', '-')} {values}")[2], runs, on_cpu)
            continue
        for option in dataclasses.fields(runs["Other-v0"]):
            values, there = ({name: getattr(run, option.name) for name, run in each.items()} for each in (runs, on_cpu))
            assert_defaults(text.partition(f" {option.name}: ")[2], values, there)


def test_help_of_train_shows_the_defaults_of_another_algorithm(capsys):
    """Its options by env, and what it has in place of PPO's worlds, steps and networks."""
    text = help_of("train", capsys)
    names = [*PRESETS, "Other-v0"]
    runs = {name: resolve(TrainConfig(name, algorithm="pqn")) for name in names}
    for option in dataclasses.fields(PQNConfig):
        values = {name: getattr(run.options_of("any"), option.name) for name, run in runs.items()}
        assert_defaults(text.partition(f" pqn.{option.name}: ")[2], values)
    for place, of_run in {
        "--num-envs INT": lambda run: run.num_envs, "--total-steps INT": lambda run: run.total_steps,
        " hidden_sizes: ": lambda run: run.network.hidden_sizes, " layer_norm: ": lambda run: run.network.layer_norm,
    }.items():  # fmt: skip
        told = text.partition(place)[2].partition("(default: ")[2].partition("with pqn: ")[2]
        assert_defaults(f"(default: {told}", {name: of_run(run) for name, run in runs.items()})


def assert_defaults(text, values, on_cpu=None):
    """Compare the text after an option's name, ``... (default: 8 for A; 9 for others; with sac: 7)``, with each env's.

    ``on_cpu`` are those on the CPU, which the text names where they differ: ``on the CPU 6 for A``.
    """
    told = text.partition("(default: ")[2]
    for name, value in (on_cpu or {}).items():
        assert (value == values[name]) != (f"on the CPU {value} for {name}" in told.partition(" (default: ")[0])
    if len(set(values.values())) == 1:
        assert told.startswith((f"{values['Other-v0']})", f"{values['Other-v0']}; with "))
        return
    found = {}
    for part in told.partition(" for others")[0].split("; "):
        value, _, envs = part.partition(" for ")
        found.update(dict.fromkeys(envs.split(", ") if envs else ["others"], value))
    assert {name: found.get(name, found["others"]) for name in values} == {name: str(value) for name, value in values.items()}


def test_every_option_of_a_run_is_on_the_command_line():
    options = (*dataclasses.fields(RunOptions), *dataclasses.fields(LearningOptions))
    assert {f.name for f in options} | {"env_id"} == {f.name for f in dataclasses.fields(TrainConfig)}


def test_the_source_archive_holds_every_folder():
    lines = (ROOT / "MANIFEST.in").read_text().splitlines()
    taken = {line.split()[1] for line in lines if line.startswith("recursive-include")}
    assert {"adapters", "benchmarks", "docs", "envs", "examples", "tests", "tools"} <= taken


def test_no_command_shows_usage(capsys):
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: gpu-vecenv COMMAND")


@pytest.mark.in_ci
def test_eval_plot_and_watch_work_on_a_trained_run(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "WarpTag-v0", *SMALL, "--out", str(out)]) == 0
    assert (out / "checkpoint" / "iteration-00000002.pt").is_file()
    assert (out / "metrics.jsonl").read_text()
    assert (out / "curves.png").is_file()
    assert (out / "video.mp4").is_file()
    printed = capsys.readouterr().out
    number = r"[\d.]+"
    line = f"\n  trained runners against trained taggers: {number} of 8 runners caught; random runners: {number}"
    line += f"; flee runners: {number}\n"
    assert re.search(line, printed)
    assert f"\nNext:\n  gpu-vecenv watch {out} " in printed
    assert main(["eval", str(out), "--episodes", "2", "--policy", "runner=random"]) == 0
    assert "tagger: return" in capsys.readouterr().out
    assert main(["plot", str(out), "--out", str(tmp_path / "again.png")]) == 0
    assert (tmp_path / "again.png").is_file()
    assert main(["watch", str(out), "--max-frames", "3", "--out", str(tmp_path / "film.gif")]) == 0
    assert (tmp_path / "film.gif").is_file()


def test_train_without_words_asks_for_an_env(capsys):
    assert main(["train"]) == 2
    assert "expected an env id, such as WarpTag-v0, or a --config with one, got None" in capsys.readouterr().err
