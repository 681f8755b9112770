"""Space of a sweep: options of a run by their path, and the values that they may have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config.checks import is_name, is_number
from gpu_vecenv.train.errors import ConfigError

FIELDS = ("low", "high", "log", "step", "choices")
"""Names in the description of a setting."""


@dataclass(frozen=True)
class Setting:
    """Values that one option may have: a range of numbers, or some choices."""

    path: str
    """Option by its path in a file of options, such as ``ppo.learning_rate``."""
    low: float = 0.0
    """Smallest number."""
    high: float = 0.0
    """Largest number."""
    log: bool = False
    """Draw evenly on a logarithmic scale."""
    step: float | None = None
    """Distance of numbers from ``low`` on; None for all numbers."""
    choices: tuple[Any, ...] = ()
    """Values to choose from; empty for a range."""

    @property
    def is_integer(self) -> bool:
        """True for a range of integers."""
        return all(isinstance(x, int) for x in (self.low, self.high)) and isinstance(self.step, int | None)

    @property
    def spans_orders(self) -> bool:
        """True for what a logarithmic axis shows: a range with ``log``, and choices of numbers that span a factor of 30."""
        if not self.choices:
            return self.log
        return all(is_number(x) and x > 0 for x in self.choices) and max(self.choices) > 30 * min(self.choices)

    def suggest(self, trial: Any) -> Any:
        """Return the value of a trial, which Optuna suggests.

        Args:
            trial: an ``optuna.Trial``.
        """
        if self.choices:  # as text, because Optuna stores plain values alone
            return json.loads(trial.suggest_categorical(self.path, [json.dumps(choice) for choice in self.choices]))
        if self.is_integer:
            return trial.suggest_int(self.path, self.low, self.high, step=self.step or 1, log=self.log)
        return trial.suggest_float(self.path, self.low, self.high, step=self.step, log=self.log)


def read_space(space: Mapping[str, Any]) -> list[Setting]:
    """Return the settings of a sweep.

    Args:
        space: option by its path to ``{"low": ..., "high": ...}``, with ``log`` or ``step`` if wanted, or to a list of choices.
            Bounds that are integers stand for integers.

    Raises:
        ConfigError: no setting, or a description of another form.
    """
    if not isinstance(space, Mapping) or not space:
        raise ConfigError(f"space: expected options and their values, such as ppo.learning_rate: {{low: 1e-4, high: 1e-2}}, "
                          f"got {abbreviated(space)}")  # fmt: skip
    return [_setting(path, values) for path, values in space.items()]


def _setting(path: str, values: Any) -> Setting:
    where = f"space: {path}"
    if not is_name(path):
        raise ConfigError(f"space: expected the path of an option, such as ppo.gamma, got {abbreviated(path)}")
    if isinstance(values, list | tuple):
        values = {"choices": values}
    if not isinstance(values, Mapping) or not {*values} <= {*FIELDS} or ("choices" in values) == ("low" in values):
        expected = "{low: ..., high: ...} with log or step, or a list of choices"
        raise ConfigError(f"{where}: expected {expected}, got {abbreviated(values)}")
    if "choices" in values:
        choices = values["choices"]
        if not isinstance(choices, list | tuple) or not choices or len(values) > 1:
            raise ConfigError(f"{where}: expected a list of choices, got {abbreviated(values)}")
        return Setting(path, choices=tuple(choices))
    setting = Setting(path, values["low"], values.get("high", values["low"]), values.get("log", False), values.get("step"))
    are_numbers = all(map(is_number, (setting.low, setting.high)))
    if not are_numbers or setting.low > setting.high or setting.log not in (True, False) or (setting.log and setting.low <= 0):
        expected = "numbers low <= high, above 0 with log"
        raise ConfigError(f"{where}: expected {expected}, got {abbreviated(dict(values))}")
    if setting.step is not None and (not is_number(setting.step) or setting.step <= 0 or setting.log):
        raise ConfigError(f"{where}: expected a step above 0, without log, got {abbreviated(dict(values))}")
    return setting


def with_values(options: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as dicts in which options by their paths have other values.

    Raises:
        ConfigError: a path leads into an option that has no fields.
    """
    changed = dict(options)
    for path, value in values.items():
        *folders, last = path.split(".")
        inner = changed
        for name in folders:
            below = inner.get(name) or {}
            if not isinstance(below, Mapping):
                raise ConfigError(f"space: {path}: expected the path of an option, got one into {name}={abbreviated(below)}")
            inner[name] = dict(below)
            inner = inner[name]
        inner[last] = value
    return changed
