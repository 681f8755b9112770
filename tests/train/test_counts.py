"""Counts of options are read from text by one rule: 1e5, 100_000 and 100000 are the same."""

import dataclasses
import importlib
import inspect
from typing import NamedTuple, get_args, get_type_hints

import pytest

from gpu_vecenv.cli.main import COMMANDS, main
from gpu_vecenv.cli.new import parse_roles
from gpu_vecenv.cli.words import count_options, with_counts
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.train import AutoSizes, NetworkConfig, TrainConfig
from gpu_vecenv.train.config.algorithms import ALGORITHMS
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.runner.page import PageOptions
from gpu_vecenv.train.runner.sweep import SweepOptions
from gpu_vecenv.train.runner.watch import FilmOptions

NO_COUNTS = ("seed", "sampler_seed", "live_port")
"""Names of integers that count nothing."""


def holds_integers(hint):
    """Return True for int, and for unions and tuples of it."""
    return hint is int or any(map(holds_integers, get_args(hint)))


def function_of(command):
    module, name = COMMANDS[command][0].split(":")
    return getattr(importlib.import_module(module), name)


def integers(command):
    """Names of the options of a command that are integers, by their types; those of groups among them."""
    function = function_of(command)
    groups = [type(p.default) for p in inspect.signature(function).parameters.values() if dataclasses.is_dataclass(p.default)]
    hints = {name: hint for holder in (function, *groups) for name, hint in get_type_hints(holder).items() if name != "return"}
    return [name for name, hint in hints.items() if holds_integers(hint)]


INTEGERS = [(command, name) for command in COMMANDS for name in integers(command)]
COUNTS = [(command, f"--{name.replace('_', '-')}") for command, name in INTEGERS if name not in NO_COUNTS]


def test_commands_have_counts():
    """The search for them finds those of functions, of groups, in tuples and in unions."""
    expected = {("eval", "--seeds"), ("train", "--num-envs"), ("sweep", "--patience"), ("bench", "--sizes"), ("debug", "--steps")}
    assert expected < set(COUNTS) and ("eval", "seed") in INTEGERS


@pytest.mark.parametrize(("command", "option"), COUNTS)
def test_a_count_that_is_no_whole_number_is_refused_by_name_in_one_line(command, option, capsys):
    for words in ([option, "2.5"], [f"{option}=2.5"]):
        assert main([command, *words]) == 2
        printed = capsys.readouterr()
        said = f"{option}: expected a whole number such as 100000 or 1e5, got '2.5'."
        assert (printed.out, printed.err) == ("", f"gpu-vecenv {command}: {said}\n")


@pytest.mark.parametrize(("command", "option"), COUNTS)
def test_a_count_may_have_an_exponent(command, option):
    counts = count_options(function_of(command))
    underscores = f"--{option[2:].replace('-', '_')}"
    words = f"--out 1e3 {option} 1e3 --seed 1e3 {underscores} 2.5e6 {option}=1_000 {option}"
    read = f"--out 1e3 {option} 1000 --seed 1e3 {underscores} 2500000 {option}=1000 {option}"
    assert with_counts(words.split(), counts) == read.split()


def test_words_behind_a_count_are_left_alone():
    """The numbers of an option that takes several end at the next option."""
    words = "--steps 1e2 1e3 --steps=1e2 1e3 --sizes 1e2 1e3 --env 1e2"
    read = "--steps 100 1e3 --steps=100 1e3 --sizes 100 1000 --env 1e2"
    assert with_counts(words.split(), {"--steps": False, "--sizes": True}) == read.split()


def test_auto_is_a_word_of_one_option(capsys):
    assert with_counts(["--num-envs", "auto"], count_options(function_of("train"))) == ["--num-envs", "auto"]
    assert main("train WarpTag-v0 --total-steps auto".split()) == 2
    assert "--total-steps: expected a whole number" in capsys.readouterr().err


def test_roles_of_a_new_env_are_counted_alike():
    assert parse_roles("walker:1e1,guard:1_000") == {"walker": 10, "guard": 1000}
    for number in ("", "0", "1001", "1e4", "2.5", "-1", "many"):
        with pytest.raises(ParameterError, match="numbers from 1 to 1000, got 'walker:"):
            parse_roles(f"walker:{number}")


CONFIGS = {
    **{name: entry.config_class for name, entry in ALGORITHMS.items() if entry.config_class.__module__.startswith("gpu_vecenv.")},
    **{kind.__name__: kind for kind in (AutoSizes, NetworkConfig, TrainConfig, PageOptions, SweepOptions, FilmOptions)},
}
FIELDS = [(name, field) for name, kind in CONFIGS.items() for field, hint in get_type_hints(kind).items()
          if field in {f.name for f in dataclasses.fields(kind)} and holds_integers(hint) and field not in NO_COUNTS]  # fmt: skip


def as_text(value):
    """Return an integer, or each one of a tuple, as text with an exponent."""
    if isinstance(value, tuple):
        return tuple(map(as_text, value))
    return f"{value}e0" if isinstance(value, int) else value


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_a_count_among_options_of_a_file_may_be_text(name, field):
    kind, others = CONFIGS[name], {"env_id": "WarpCartPole-v1", "evaluation_interval": 1} if name == "TrainConfig" else {}
    value = getattr(kind(**others), field)
    if value is None:
        value = (2, 4) if name == "AutoSizes" else ((32, 0.5),) if field == "entropy_schedule" else 32
    assert getattr(kind(**{**others, field: as_text(value)}), field) == value


@pytest.mark.parametrize("depth", [1, 3000])
def test_lists_in_lists_are_no_counts(depth):
    """Messages about deep lists say that they cannot be printed."""
    nested = 64
    for _ in range(depth):
        nested = [nested]
    for make in (lambda: TrainConfig("WarpCartPole-v1", total_steps=nested), lambda: NetworkConfig(hidden_sizes=[nested])):
        with pytest.raises(ConfigError, match="expected"):
            make()


def test_a_named_tuple_of_counts_is_read_as_a_tuple():
    class Widths(NamedTuple):
        first: int
        second: int

    assert NetworkConfig(hidden_sizes=Widths(64, 32)) == NetworkConfig(hidden_sizes=(64, 32))
