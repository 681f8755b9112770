"""Checks that the options of a run share: types, ranges and names."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gpu_vecenv.registration import param_names
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import ConfigError

MAX_INT, MAX_LONG = 2**31 - 1, 2**63 - 1
"""Largest value of an option that 32-bit kernels read, and of one that only Python reads."""
MAX_FLOAT = float(np.finfo(np.float32).max)
MAX_TORCH_THREADS = 1024

MAX_DEPTH = 64
"""Most lists and dicts inside each other in a value that JSON and YAML store. Both are read and written by recursion."""


class Check(NamedTuple):
    """A condition on the value of an option."""

    test: Callable[[Any], bool]
    """True for valid values."""
    expected: str
    """Valid values, in words."""
    real: bool = False
    """Valid values are real numbers, which become float32 on the device; torch takes those beyond an int64 as floats only."""
    is_count: bool = False
    """Valid values are integers, which may be given as ``whole()`` takes them."""

    def read(self, value: Any) -> Any:
        """Return a value as it is tested and stored: a NumPy scalar as a plain number, and counts as integers."""
        if self.is_count and isinstance(value, list | tuple):
            entries = [whole(_scalar(entry)) for entry in value]
            return tuple(entries) if isinstance(value, tuple) else entries
        return whole(_scalar(value)) if self.is_count else _scalar(value)

    def or_none(self) -> Check:
        """Return a check that takes None, too."""
        return self._replace(test=lambda value: value is None or self.test(value), expected=f"{self.expected}, or None")


def _scalar(value: Any) -> Any:
    """Return a NumPy scalar as a plain number; other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def require(ok: bool, name: str, expected: str, got: object) -> None:
    """Raise ConfigError unless ``ok``."""
    if not ok:
        raise ConfigError(f"{name}: expected {expected}, got {abbreviated(got)}")


def checked(name: str, value: Any, check: Check) -> Any:
    """Return an argument as its check reads it.

    Raises:
        ConfigError: the value fails its check.
    """
    value = check.read(value)
    require(check.test(value), name, check.expected, value)
    return value


MOST_DIGITS = 100
"""Digits of a number that is read from text; messages about larger ones show the text."""


def whole(value: Any) -> Any:
    """Return a whole number that is a float or text, such as 1e5, "1e5" and "100_000", as an integer; other values unchanged."""
    if isinstance(value, str):
        return _whole_of(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _whole_of(text: str) -> Any:
    """Return the whole number that text is to its last digit; other text unchanged."""
    with contextlib.suppress(decimal.InvalidOperation):
        number = decimal.Decimal(text)
        if text.isascii() and number.is_finite() and number.adjusted() < MOST_DIGITS and number == number.to_integral_value():
            return int(number)
    return text


def is_number(value: object) -> bool:
    """Return True for a finite number within the range of a float64."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_name(value: object) -> bool:
    """Return True for printable text that is not empty."""
    return isinstance(value, str) and value != "" and value.isprintable()


def is_dict_of(test: Callable[[Any], bool], value: object) -> bool:
    """Return True for a dict with names as keys and values that pass the test."""
    return isinstance(value, dict) and all(is_name(key) and test(x) for key, x in value.items())


def integer(low: int, high: int) -> Check:
    """Return a check for integers from ``low`` to ``high``."""
    return Check(
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
        f"an integer from {low} to {high}",
    )


def count(most: int) -> Check:
    """Return a check for a number of steps or of other things from 1 on."""
    return integer(1, most)._replace(is_count=True)


def one_of(*values: str) -> Check:
    """Return a check for one of some words."""
    *first, last = map(repr, values)
    return Check(lambda value: isinstance(value, str) and value in values, f"{', '.join(first)} or {last}")


COUNT, LONG_COUNT = count(MAX_INT), count(MAX_LONG)
NUMBER = Check(is_number, "a number", real=True)
POSITIVE = Check(lambda value: is_number(value) and value > 0, "a number > 0", real=True)
NOT_NEGATIVE = Check(lambda value: is_number(value) and value >= 0, "a number >= 0", real=True)
SHARE = Check(lambda value: is_number(value) and 0 <= value <= 1, "a number in [0, 1]", real=True)
FLAG = Check(lambda value: isinstance(value, bool), "True or False")
NAME = Check(is_name, "a name")
THREADS = count(MAX_TORCH_THREADS)


def require_threads(threads: int) -> None:
    """Raise ConfigError unless torch can be set to this number of threads."""
    require(THREADS.test(threads), "threads", THREADS.expected, threads)


def check_fields(config: Any, checks: Mapping[str, Check]) -> None:
    """Check fields of a dataclass, and replace them by what ``Check.read()`` returns; real ones beyond an int64 become floats.

    Raises:
        ConfigError: a value fails its check, or a real one is beyond the range of a float32.
    """
    for name, check in checks.items():
        value = check.read(given := getattr(config, name))
        require(check.test(value), name, check.expected, value)
        if value is not given:
            object.__setattr__(config, name, value)
        fits = not check.real or value is None or abs(value) <= MAX_FLOAT
        require(fits, name, "a number within the range of a float32", value)
        if check.real and isinstance(value, int) and abs(value) > MAX_LONG:
            object.__setattr__(config, name, float(value))


def plain(name: str, value: object) -> Any:
    """Return a copy that JSON and YAML can store: NumPy values become numbers and lists, tuples become lists.

    Args:
        name: the option, which errors name.
        value: None, text, a number within the range of a float64, a NumPy scalar or array, or lists, tuples and dicts of these,
            at most ``MAX_DEPTH`` inside each other.

    Raises:
        ConfigError: any other value.
    """
    try:
        return _plain(value, MAX_DEPTH)
    except (TypeError, ValueError) as error:  # UnicodeEncodeError is a ValueError
        raise ConfigError(f"{name}: expected numbers, text, lists and dicts, got {abbreviated(value)}: {error}") from None


def _plain(value: object, depth: int) -> Any:
    """Return a plain copy of a value that has at most ``depth`` lists and dicts inside each other."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | Mapping) and depth == 0:
        raise TypeError(f"more than {MAX_DEPTH} lists and dicts inside each other")
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {_plain(str(key), 0): _plain(x, depth - 1) for key, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x, depth - 1) for x in value]
    if type(value) is str:
        value.encode()  # half of a surrogate pair cannot be written
    elif type(value) is int and abs(value) > sys.float_info.max:
        raise ValueError(f"{abbreviated(value)} is beyond the range of a float64")
    elif value is not None and type(value) not in (bool, int, float):
        raise TypeError(f"{type(value).__name__} {abbreviated(value)}")
    return value


OTHER_NAMES: Mapping[str, str] = {
    "clip": "clip_coef",
    "clip_range": "clip_coef",
    "discount": "gamma",
    "ent_coef": "entropy_coef",
    "epochs": "num_epochs",
    "hidden": "hidden_sizes",
    "hidden_size": "hidden_sizes",
    "lam": "gae_lambda",
    "lmbda": "gae_lambda",
    "lr": "learning_rate",
    "minibatches": "num_minibatches",
    "n_envs": "num_envs",
    "n_epochs": "num_epochs",
    "n_steps": "num_steps",
    "net_arch": "hidden_sizes",
    "num_worlds": "num_envs",
    "timesteps": "total_steps",
    "total_timesteps": "total_steps",
    "update_epochs": "num_epochs",
    "vf_coef": "value_coef",
}
"""Names that options have in other libraries, and those that they have here."""


def require_known(
    kind: str, names: Iterable[object], known: Iterable[str], groups: Mapping[str, Iterable[str]] | None = None
) -> None:
    """Raise ConfigError for a name that is not known; the error suggests a known one.

    Args:
        kind: start of the message, such as the name of a dataclass.
        names: the names to check.
        known: the allowed ones.
        groups: options of ``known`` whose fields may be meant, and the names of those fields.
    """
    known = list(known)
    for name in names:
        if name not in known:
            hint = _hint(name, known, groups or {}) if isinstance(name, str) else ""
            raise ConfigError(f"{kind} option: expected one of {', '.join(known)}, got {abbreviated(name)}{hint}")


def _hint(name: str, known: Sequence[str], groups: Mapping[str, Iterable[str]]) -> str:
    """Return the question that suggests a known name or a field of a group; empty text without a close one."""
    name = OTHER_NAMES.get(name, name)
    group = next((group for group, fields in groups.items() if name in fields), None)
    if group is not None:
        return f". Did you mean {name!r} of {group!r}?"
    close = [name] if name in known else difflib.get_close_matches(name, known, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


_Config = TypeVar("_Config")


def from_options(cls: type[_Config], options: Mapping[str, Any]) -> _Config:
    """Build one of the dataclasses of options.

    Raises:
        ConfigError: an option is unknown or out of range.
    """
    require(isinstance(options, Mapping), cls.__name__, "options by name", options)
    if unknown := [name for name in options if name not in _names(cls)]:
        require_known(cls.__name__, unknown, _names(cls), _groups(cls))
    return cls(**options)


def _names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _groups(cls: type) -> dict[str, list[str]]:
    """Return names by the option that holds them: fields of the dataclasses in ``cls.GROUPS``, and parameters of envs."""
    of_env = {"env_kwargs": param_names()} if "env_kwargs" in _names(cls) else {}
    return {option: _names(group) for option, group in getattr(cls, "GROUPS", {}).items()} | of_env


def suggests_names(cls: type[_Config]) -> type[_Config]:
    """Let the constructor of a dataclass raise ConfigError for an unknown option, with the name that may be meant."""
    construct: Callable[..., None] = cls.__init__
    known = inspect.signature(construct).parameters

    @functools.wraps(construct)
    def __init__(self: Any, *values: Any, **options: Any) -> None:
        if unknown := [name for name in options if name not in known]:
            require_known(cls.__name__, unknown, _names(cls), _groups(cls))
        construct(self, *values, **options)

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls
