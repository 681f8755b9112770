"""Words of a command line as users write them: numbers of steps such as 1e5, and options that stand elsewhere."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from gpu_vecenv.cli.run_options import LearningOptions, RunOptions, option_name
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.registration import IDS, param_names
from gpu_vecenv.train.config import AUTO, NetworkConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.config.checks import OTHER_NAMES, whole
from gpu_vecenv.variants import VARIANTS

NO_COUNTS = ("--seed", "--sampler-seed", "--live-port")
"""Options of integers that count nothing."""


def count_options(function: Callable[..., object]) -> dict[str, bool]:
    """Return the options of a command that are counts, and True for those that take several: all integers but ``NO_COUNTS``."""
    types: dict[str, str] = {}  # as they are written: tyro evaluates them, which takes time
    for parameter in inspect.signature(function).parameters.values():
        if isinstance(parameter.default, RunOptions | LearningOptions):
            types |= {option_name(field.name): str(field.type) for field in dataclasses.fields(parameter.default)}
        else:
            types[option_name(parameter.name)] = parameter.annotation
    of_integers = {option: re.match(r"(?:Annotated\[)?(tuple\[)?int\b", written) for option, written in types.items()}
    return {option: match[1] is not None for option, match in of_integers.items() if match and option not in NO_COUNTS}


def with_counts(words: Sequence[str], counts: Mapping[str, bool]) -> list[str]:
    """Return words in which numbers such as 1e5 and 100_000 after options of counts are integers.

    Args:
        words: words of a command.
        counts: options, and True for those that take several numbers.

    Raises:
        ParameterError: a word after such an option is no whole number.
    """
    read: list[str] = []
    current = ""  # the option whose numbers follow
    for word in words:
        if word.startswith("--"):
            option, equals, value = word.partition("=")
            name = option.replace("_", "-")
            if equals and name in counts:
                word = f"{option}={_count(name, value)}"
            current = "" if equals else name
        elif current in counts:
            word = _count(current, word)
            current = current if counts[current] else ""
        read.append(word)
    return read


def _count(option: str, text: str) -> str:
    """Return a whole number without an exponent; None, and ``auto`` of the option that takes it, unchanged."""
    number = whole(text)
    if not isinstance(number, int) and text != "None" and (option, text) != ("--num-envs", AUTO):
        raise ParameterError(f"{option}: expected a whole number such as 100000 or 1e5, got {text!r}.")
    return str(number)


def require_places(words: Sequence[str], options: Iterable[str]) -> None:
    """Raise ParameterError for an option that stands for a parameter of the env, or for an option of a group.

    Args:
        words: words of a command.
        options: options of the command besides those of runs, such as ``--seeds``.
    """
    fields = [field.name for group in (RunOptions, LearningOptions) for field in dataclasses.fields(group)]
    known = {*options, *map(option_name, fields)}
    for number, word in enumerate(words):
        option, _, value = word.partition("=")
        if not option.startswith("--") or option in known:
            continue
        after = list(itertools.takewhile(lambda word: not word.startswith("--"), words[number + 1 :]))
        if "=" not in word and len(after) == 1:
            value = after[0]
        place = _place(option[2:].replace("-", "_"), words)
        if place:
            raise ParameterError(f"{option}: expected {place}{value or 'VALUE'} in its place.")


def _place(name: str, words: Sequence[str]) -> str:
    """Return where a parameter or an option of a group stands, such as ``--ppo learning_rate=``; empty if it is neither."""
    former = OTHER_NAMES.get(name, name)
    for group, config in (("ppo", PPOConfig), ("network", NetworkConfig)):
        if former in [field.name for field in dataclasses.fields(config)]:
            return f"--{group} {former}="
    if former != name and former in [field.name for field in dataclasses.fields(TrainConfig)]:
        return f"{option_name(former)} "
    params = _params(words)
    return f"--env {name}=" if name in params else ""


def _params(words: Sequence[str]) -> list[str]:
    """Return the names of the parameters of the env that the words name, or of all bundled envs without one."""
    named = [VARIANTS[word].env_id if word in VARIANTS else word for word in words]
    return param_names([name for name in named if name in IDS] or IDS)
