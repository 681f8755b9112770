"""Command lines of random words: a command may succeed or report an error, and never ends with a traceback."""

import importlib
import inspect
import os
import random

import pytest

from gpu_vecenv.cli.main import COMMANDS, main
from tests.package.test_wrong_lines import METRICS, furnish


def options(command):
    """Options of a subcommand, from the signature of its function."""
    module, name = COMMANDS[command][0].split(":")
    function = getattr(importlib.import_module(module), name)
    return [
        f"--{'no-' if parameter.default is True else ''}{parameter.name.replace('_', '-')}"
        for parameter in inspect.signature(function).parameters.values()
        if "Positional" not in str(parameter.annotation)
    ]


OPTIONS = {command: options(command) for command in COMMANDS}
ANY_OPTION = ["--help", "-h", "--version", "--wrong", "-1", *sorted({o for options in OPTIONS.values() for o in options})]

VALUES = [
    "0", "1", "2", "3", "-1", "1.5", "1e400", "-1e400", "nan", "inf", "True", "None", "1+2j", "()", "(1,)", "[]", "{}", "{[]:1}",
    "'", "", " ", ".", "..", "/", "-", "=", "=1", "a=b", "a=", "[", "é", "\udcff", "$\\foo$", "%s", "{0}",
    "18446744073709551615", "18446744073709551616", "99999999999999999999", "WarpCartPole-v1", "WarpTag-v0", "WarpTag-v1",
    "CartPole-v1", "nowhere:Env-v0", "a:b:c", ":", "cpu", "cuda:99", "auto", "run", "file", "folder", "folder/", "new", "new/er",
    "curves.png", "folder.png", "film.gif", "film.mp4", "/proc/nowhere", "num_taggers=2", "num_taggers=0", "num_runners=True",
    "max_episode_steps=5", "view=agents", "id=1", "tagger=random", "agent=random", "agent=a", "agent=run", "num_steps=4",
    "num_steps=True", "num_minibatches=9", "learning_rate=1e400", "gamma=x", "hidden_sizes=(4,)", "hidden_sizes=(0,)",
    "hidden_sizes=()", "activation=relu", "activation=5", "worlds", "agents", "same_step", "disabled", "cartpole", "env",
    *METRICS,
]  # fmt: skip


class Stopped(KeyboardInterrupt):
    """Raised in place of work that would take long."""


def stop(*_, **__):
    raise Stopped


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Enter a folder with runs and files, with training, measuring and playing replaced by an interrupt."""
    monkeypatch.chdir(tmp_path)
    furnish(tmp_path)
    monkeypatch.setattr("gpu_vecenv.train.runner.trainer.Trainer.launch", stop)
    monkeypatch.setattr("gpu_vecenv.train.runner.evaluation.played", stop)
    monkeypatch.setattr("gpu_vecenv.cli.debug._start", stop)
    monkeypatch.setattr("gpu_vecenv.train.runner.watch.write_video", stop)
    monkeypatch.setattr("gpu_vecenv.cli.bench.measure_floors", stop)
    monkeypatch.setattr("gpu_vecenv.cli.check.results_of", stop)
    monkeypatch.setattr("gpu_vecenv.cli.doctor.doctor", lambda: 1)


def random_line(rng):
    """Words that mostly look like a command line."""
    command = rng.choice([*COMMANDS, *COMMANDS, "sing", ""])
    words = [command]
    if rng.random() < 0.8:
        words.append(rng.choice(["WarpCartPole-v1", "WarpTag-v0"] if command in ("train", "memory") else ["run", *METRICS]))
    for _ in range(rng.randrange(4)):
        words.append(rng.choice(OPTIONS.get(command) or ANY_OPTION) if rng.random() < 0.9 else rng.choice(ANY_OPTION))
        words += rng.choices(VALUES, k=rng.choice([0, 1, 1, 1, 1, 2]))
    return words


def try_lines(seed, count, capfd):
    rng = random.Random(seed)
    statuses = set()
    for _ in range(count):
        words = random_line(rng)
        status = main(words)
        out, error = capfd.readouterr()
        statuses.add(status)
        assert status in (0, 1, 2, 130), words
        assert "Traceback" not in out + error, words
        assert status != 2 or error or not words, words
    assert statuses >= {0, 2, 130}  # the words must lead to statuses of every kind


def test_random_lines_never_end_with_a_traceback(place, capfd):
    variables = dict(os.environ)
    try_lines(0, 150, capfd)
    assert dict(os.environ) == variables  # a command in this process changes no builds of later ones


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_many_random_lines_never_end_with_a_traceback(seed, place, capfd):
    try_lines(seed, 1000, capfd)
