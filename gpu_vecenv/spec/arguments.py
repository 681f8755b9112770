"""Argument structs of kernels: each is declared once and has a C text and a form of ``ctypes``.

The structs of envs follow from their specs (``struct.py``, ``header.py``). Those of other kernels are written as a ``Struct``.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_vecenv.errors import SpecError
from gpu_vecenv.spec.struct import C_TYPES

NUMBERS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64, "float32": ctypes.c_float}
"""Forms of numbers by dtype."""

ARRAYS = C_TYPES | {"bool": "gv_u8", "half": "GvHalf", "any": "void"}
"""C types of the numbers of arrays by dtype. ``half`` is ``GvHalf`` of ``tile_types.h``; ``any`` is not checked."""

UNKNOWN = r"\*([a-z_0-9])"
"""Mark of an extent that no member of the struct tells."""

NAME = r"[a-z_]\w*"
"""Name of a number in an extent."""


@dataclass(frozen=True)
class Number:
    """Member that is a number."""

    name: str
    dtype: str
    doc: str = ""

    @property
    def declared(self) -> tuple[str, str]:
        """C declaration, and comment."""
        return f"{C_TYPES[self.dtype]} {self.name}", self.doc

    @property
    def form(self) -> type:
        """Form of ``ctypes``."""
        return NUMBERS[self.dtype]


@dataclass(frozen=True)
class Array:
    """Member that is the address of an array."""

    name: str
    dtype: str
    """A key of ``ARRAYS``, or the name of a struct."""
    shape: str
    """Extents as expressions of the numbers of the struct, such as ``"steps + 1, columns"``. ``*`` marks an extent that no member
    tells; the size of such an array is not checked."""
    doc: str = ""
    written: bool = False
    strided: bool = False
    """The array may have gaps; members of the struct say where its numbers lie."""
    form = ctypes.c_void_p

    @property
    def declared(self) -> tuple[str, str]:
        """C declaration, and comment."""
        const, shape = "" if self.written else "const ", re.sub(UNKNOWN, r"\1", self.shape)
        return f"{const}{ARRAYS.get(self.dtype, self.dtype)}* {self.name}", f"[{shape}] {self.doc}".rstrip()

    @property
    def count(self) -> str | None:
        """Number of entries as an expression of the numbers of the struct; None if it is not checked."""
        if re.search(UNKNOWN, self.shape) or self.dtype == "any":
            return None
        return " * ".join(f"({extent.strip()})" for extent in self.shape.split(","))


def numbers(dtype: str, *names: str) -> tuple[Number, ...]:
    """Return members that are numbers of one type."""
    return tuple(Number(name, dtype) for name in names)


def arrays(dtype: str, shape: str, *names: str, **facts: Any) -> tuple[Array, ...]:
    """Return members that are addresses of arrays of one form; see ``Array``."""
    return tuple(Array(name, dtype, shape, **facts) for name in names)


@dataclass(frozen=True)
class Nested:
    """Member that is a struct, or an array of them."""

    name: str
    struct: Struct
    lengths: tuple[int, ...] = ()
    doc: str = ""

    @property
    def declared(self) -> tuple[str, str]:
        """C declaration, and comment."""
        return f"{self.struct.name} {self.name}{''.join(f'[{length}]' for length in self.lengths)}", self.doc

    @property
    def form(self) -> Any:
        """Form of ``ctypes``."""
        form = self.struct.form
        for length in reversed(self.lengths):
            form = form * length
        return form


@dataclass(frozen=True)
class EnvArgs:
    """Member that is the argument struct of an env's kernels."""

    name: str
    size: int
    """Bytes, a multiple of 8."""

    @property
    def declared(self) -> tuple[str, str]:
        """C declaration, and comment."""
        return f"GvArgs {self.name}", "of the env's kernels"

    @property
    def form(self) -> type:
        """Form of ``ctypes``."""
        return ctypes.c_uint64 * (self.size // 8)


class Struct:
    """A struct of C and its form of ``ctypes``.

    Attributes:
        name: name in C.
        members: its members in order.
        form: subclass of ``ctypes.Structure``.
        arrays: its arrays by name.
        nested: its structs by name.
    """

    def __init__(self, name: str, *members: Number | Array | Nested | EnvArgs, beside: tuple[Struct, ...] = ()) -> None:
        """Declare a struct.

        Args:
            name: name in C.
            members: its members in order.
            beside: structs that its kernels use and that are none of its members.

        Raises:
            SpecError: an extent of an array has a name that is no number of the struct.
        """
        self.name, self.members, self.beside = name, members, beside
        fields = [(member.name, member.form) for member in members]
        self.form: Any = type(name, (ctypes.Structure,), {"__slots__": (), "_fields_": fields})
        self.arrays = {member.name: member for member in members if isinstance(member, Array)}
        self.nested = {member.name: member.struct for member in members if isinstance(member, Nested)}
        number_names = {member.name for member in members if isinstance(member, Number)}
        for array in self.arrays.values():
            if unknown := set(re.findall(NAME, array.count or "")) - number_names:
                raise SpecError(f"argument {array.name!r}: expected extents of numbers of the struct, got {sorted(unknown)}.")

    def parts(self) -> Iterator[Struct]:
        """Return the structs that this one needs, each before those that need it, and this one."""
        for struct in (*self.beside, *self.nested.values()):
            yield from struct.parts()
        yield self

    def text(self) -> list[str]:
        """Return the lines of its definition in C."""
        offsets = {member.name: getattr(self.form, member.name).offset for member in self.members}
        return struct_text(self.name, [member.declared for member in self.members], offsets, ctypes.sizeof(self.form))


def struct_text(name: str, members: Iterable[tuple[str, str]], offsets: Mapping[str, int], size: int) -> list[str]:
    """Return the lines of a struct in C, with assertions on its layout.

    An address takes eight bytes on every target, so all have one layout. WebAssembly's own have four and are the low half.

    Args:
        name: name of the struct.
        members: C declaration and comment of each member.
        offsets: offset of each member in bytes.
        size: bytes of the struct.
    """
    return [
        f"struct {name} {{",
        *(f"    {'alignas(8) ' * ('*' in declared)}{declared};{doc and f'  // {doc}'}" for declared, doc in members),
        "};",
        "#ifndef __CUDACC_RTC__",  # NVRTC 13.0 has no offsetof
        *(f'static_assert(__builtin_offsetof({name}, {member}) == {offset}, "{member}");' for member, offset in offsets.items()),
        "#endif",
        f'static_assert(sizeof({name}) == {size}, "size of {name}");',
    ]


def program_header(args: Struct) -> str:
    """Return the C text of ``program_args.h``: the argument struct of a program and the structs that it needs."""
    structs = list(dict.fromkeys(args.parts()))
    lines = ["// Generated from the program's declaration; do not edit.", "#pragma once", '#include "target/target.h"']
    lines += ["struct GvHalf;"] if any("half" in {array.dtype for array in struct.arrays.values()} for struct in structs) else []
    lines += [line for struct in structs for line in ("", *struct.text())]
    return "\n".join([*lines, "", f"#define GV_PLAIN_ARGS {args.name}", ""])
