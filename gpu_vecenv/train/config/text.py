"""Options as YAML text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from gpu_vecenv.train.errors import ConfigError


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Reads plain values only. Differs from YAML 1.1: 1e-3 is a number, and a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping.

        Raises:
            ConstructorError: a key stands twice.
        """
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", node.start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Writes plain values only, and quotes text that the loader would take for a number."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
    )


def from_yaml(text: str | bytes) -> dict[str, Any]:
    """Return the options that YAML text holds.

    Args:
        text: a mapping of options; bytes are UTF-8.

    Raises:
        ConfigError: the text is no YAML, or no mapping.
    """
    try:
        options = yaml.load(text, _Loader)  # a subclass of SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"expected YAML, got {error}") from error
    if not isinstance(options, dict):
        raise ConfigError(f"expected options by name, got {options!r}")
    return options


def to_yaml(options: Mapping[str, Any]) -> str:
    """Return options as YAML text, in their order."""
    return str(yaml.dump(dict(options), Dumper=_Dumper, sort_keys=False, allow_unicode=True))
