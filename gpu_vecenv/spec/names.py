"""Names that a spec may use: those of C++ in kernels, and of keywords in calls."""

from __future__ import annotations

import re

_IDENTIFIER = re.compile(r"(?!GV_)[A-Za-z_][A-Za-z0-9_]*")

_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class "
    "co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype "
    "default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline int "
    "long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template "
    "this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t "
    "while xor xor_eq".split()
)

ARGUMENTS = (
    *("self", "env_spec", "num_envs", "num_worlds", "view", "device", "array", "autoreset_mode", "copy", "debug", "first_world"),
    *("render_mode", "render_theme", "render_scale", "preset", "reward"),
    *("id", "vectorization_mode", "vector_kwargs", "wrappers", "disable_env_checker"),
)
"""Arguments of ``GpuVectorEnv``, of ``gymnasium.make_vec`` and of ``gymnasium.make``; a parameter of such a name gets none."""

STATE_NAMES = ("t", "terminated", "truncated")
"""Members of ``gv_state()`` in every env, which fields must not use as names."""

NAME = "an identifier of ASCII characters that does not begin with GV_"

C_NAME = f"{NAME} and is no keyword of C++"


def is_name(value: object) -> bool:
    """Return True for a name that generated code can hold as a part of longer names."""
    return isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None


def is_c_name(value: object) -> bool:
    """Return True for a name that generated code can hold by itself."""
    return is_name(value) and value not in _KEYWORDS


def is_one_line(value: object) -> bool:
    """Return True for text that fits a comment of generated code, and a cell of a table."""
    if not isinstance(value, str) or value.splitlines() not in ([], [value]):
        return False
    joins_lines = value.rstrip().endswith("\\")  # in C, such a line and the next one are one
    return not joins_lines and value.encode(errors="ignore").decode() == value  # no half of a surrogate pair
