"""Options as YAML text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.errors import ConfigError

MAX_BYTES = 32 << 20
"""Most bytes of a file. Options with a value for each of a million worlds have fewer."""

MAX_VALUES = 1_000_000
"""Most values in a file, names among them; an alias counts as all that it repeats. PyYAML reads this number in about 20 s."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Reads plain values only, and refuses what YAML 1.1 would turn into something else than its text says.

    Differs from YAML 1.1: 1e-3 is a number; a name that stands twice is an error, and so are ``yes`` and ``off``, which stand for
    bools there, ``010``, ``1:30`` and dates.
    """

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._count = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        """Return the next node; raise ConfigError for too many nodes, or for an alias in the list or mapping that it repeats."""
        event, before = self.peek_event(), self._count
        node: yaml.Node = super().compose_node(parent, index)
        if not isinstance(event, yaml.AliasEvent):
            self._count += 1
            self._sizes[node] = self._count - before
        elif node in self._sizes:
            self._count += self._sizes[node]
        else:
            raise ConfigError(f"{_place(event)}: expected an alias of something complete, got *{event.anchor[:40]} inside itself")
        if self._count > MAX_VALUES:
            expected = f"at most {MAX_VALUES:,} values, an alias counted as all that it repeats"
            raise ConfigError(f"{_place(event)}: expected {expected}, got more")
        return node

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Return the next mapping; raise ConfigError for a name that stands twice."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        names = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    raise ConfigError(f"{_place(key)}: expected each name once, got {abbreviated(key.value)} twice")
                names.add(key.value)
        return node

    def read_null(self, node: yaml.ScalarNode) -> None:
        if node.value.lower() not in ("", "~", "null"):
            _refuse(node, "null")

    def read_bool(self, node: yaml.ScalarNode) -> bool:
        if node.value.lower() not in ("true", "false"):
            _refuse(node, "true, false or text in quotes")
        return bool(node.value.lower() == "true")

    def read_int(self, node: yaml.ScalarNode) -> int:
        try:
            return int(node.value.replace("_", ""), 0)
        except ValueError:
            _refuse(node, "an integer such as 10, 0xa or 0b1010, or text in quotes")

    def read_float(self, node: yaml.ScalarNode) -> float:
        text = node.value.replace("_", "").lower()
        try:
            number = float(re.sub(r"^([-+]?)\.(inf|nan)$", r"\1\2", text))
        except ValueError:
            _refuse(node, "a number such as 0.5 or 5e-1, or text in quotes")
        if math.isinf(number) and "inf" not in text:
            _refuse(node, "a number within the range of a float64")
        return number

    def read_other(self, node: yaml.Node) -> NoReturn:
        _refuse(node, "a number, true, false, null, text, a list or a mapping; a date needs quotes")


def _place(item: yaml.Node | yaml.Event) -> str:
    return f"line {item.start_mark.line + 1}, column {item.start_mark.column + 1}"


def _refuse(node: yaml.Node, expected: str) -> NoReturn:
    kind = node.tag.removeprefix("tag:yaml.org,2002:")[:40]
    got = abbreviated(node.value) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"
    raise ConfigError(f"{_place(node)}: expected {expected}, got {got} with the tag {kind}")


_Loader.yaml_constructors = {
    None: _Loader.read_other,
    **{
        f"tag:yaml.org,2002:{kind}": read
        for kind, read in {
            "null": _Loader.read_null,
            "bool": _Loader.read_bool,
            "int": _Loader.read_int,
            "float": _Loader.read_float,
            "str": _Loader.construct_yaml_str,
            "seq": _Loader.construct_yaml_seq,
            "map": _Loader.construct_yaml_map,
        }.items()
    },
}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes plain values only, and quotes text that the loader would take for a number."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
    )


def read_bytes(path: str | Path) -> bytes:
    """Return the content of a file.

    Raises:
        ConfigError: ``path`` is no path, or the file has more than ``MAX_BYTES``.
        OSError: the file cannot be read.
    """
    try:
        with open(Path(path), "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (TypeError, ValueError) as error:  # a value of another type; a path with a NUL
        raise ConfigError(f"expected the path of a YAML file, got {abbreviated(path)}: {error}") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"expected a file of at most {MAX_BYTES:,} bytes, got more")
    return content


def from_yaml(text: str | bytes) -> dict[str, Any]:
    """Return the options that YAML text holds.

    Args:
        text: a mapping of options; bytes are UTF-8.

    Raises:
        ConfigError: the text is no YAML, no mapping, or has more than ``MAX_VALUES`` values.
    """
    try:
        options = yaml.load(text, _Loader)  # a subclass of SafeLoader
    except ConfigError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        reason = str(error)
        reason = reason if len(reason) < 500 else f"{reason[:300]} ... {reason[-100:]}"  # the end holds the line
        raise ConfigError(f"expected YAML, got {reason}") from error
    if not isinstance(options, dict):
        raise ConfigError(f"expected options by name, got {abbreviated(options)}")
    return options


def to_yaml(options: Mapping[str, Any]) -> str:
    """Return options as YAML text, in their order."""
    return str(yaml.dump(dict(options), Dumper=_Dumper, sort_keys=False, allow_unicode=True))
