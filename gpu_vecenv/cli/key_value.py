"""Options of commands that take KEY=VALUE words."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

import tyro

from gpu_vecenv.train.errors import ConfigError

Settings = tuple[str, ...]
"""Command line words of the form KEY=VALUE."""


def help_option(default: str, metavar: str | None = None, text: str | None = None) -> Any:
    """Return the help of an option whose default is computed, so that its Python default (None or empty) would mislead.

    Args:
        default: the default as shown; empty if ``text`` contains it.
        metavar: form of the value, such as ``KEY=VALUE``.
        text: help of the option; None takes it from the function's docstring.
    """
    return tyro.conf.arg(metavar=metavar, help=text, help_behavior_hint=default and f"(default: {default})")


def parse_settings(words: Iterable[str], option: str) -> dict[str, Any]:
    """Turn KEY=VALUE words into a dict; a value that is no Python literal stays text.

    Args:
        words: such as ``num_taggers=5`` or ``hidden_sizes=(64,64)``.
        option: the option of the words, which errors name.

    Raises:
        ConfigError: a word has no ``=``, or a name is given twice.
    """
    settings: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not key or not equals:
            raise ConfigError(f"{option}: expected KEY=VALUE, got {word!r}")
        if key in settings:
            raise ConfigError(f"{option}: expected each name once, got {key!r} twice")
        try:
            settings[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):  # all that literal_eval raises for text
            settings[key] = text
    return settings


def require_within(option: str, value: int, low: int, high: int | None = None) -> None:
    """Raise ConfigError unless ``low <= value <= high``; None means no upper limit."""
    if value < low or (high is not None and value > high):
        expected = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"
        raise ConfigError(f"{option}: expected {expected}, got {value}")
