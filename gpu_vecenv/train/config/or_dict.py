"""The type of a field that takes a dataclass of options or a dict of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

_Options = TypeVar("_Options")


class OrDict(Generic[_Options]):
    """Type of a field of a dataclass that takes options of one kind, a dict of some or None, and holds the options or None.

    Editors and type checkers read such a field as the options, so ``config.ppo.learning_rate`` needs no test for None. At run
    time the field is a plain one. Checkers compare a default with this class, so a default of None needs
    ``# type: ignore[assignment]``.
    """

    if TYPE_CHECKING:

        def __get__(self, config: object, kind: type | None = None, /) -> _Options | Any: ...

        def __set__(self, config: object, value: _Options | Mapping[str, Any] | None, /) -> None: ...
