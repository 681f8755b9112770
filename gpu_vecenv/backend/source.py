"""Full text of a kernel: the env's ``.cu`` and the entry points, or the ``.cu`` of a program, with all headers inserted."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import stat
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from gpu_vecenv.backend.build_kind import RELEASE, BuildKind
from gpu_vecenv.backend.files import Files
from gpu_vecenv.errors import CompileError
from gpu_vecenv.pyhooks.translate import translate
from gpu_vecenv.spec.arguments import Array, EnvArgs, Nested, Number, Struct, program_header
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.header import args_header
from gpu_vecenv.spec.struct import is_single
from gpu_vecenv.spec.world_header import world_header

KERNEL_FOLDER = Path(__file__).parent.parent / "kernels"
ENTRY_POINTS = KERNEL_FOLDER / "launch" / "kernels.h"
_DIRECTIVE = re.compile(r'^(?:#include "([^"\n]+)".*|[^\S\n]*#pragma once[^\S\n]*)$', re.MULTILINE)
"""A line that includes a header, or that guards one against a second time. A search over the whole text costs the start of each
of many runs a tenth of a search line by line."""
OPTIONAL_HOOKS = {"env_observe_step": "OBSERVES_STEP", "env_settle": "SETTLES"}
"""Hooks that an env may leave out, and the macros that tell ``world.h`` of those that take ``GvWorld``."""


@dataclass(frozen=True)
class Program:
    """Kernels of the package beside those of envs. Their file has the entry points and includes ``program_args.h``."""

    name: str
    """Name in messages."""
    kernel: Path
    args: Struct = field(compare=False)
    """Argument struct of all kernels, see ``arguments()``."""
    constants: tuple[tuple[str, int | str], ...] = ()
    """Macros and their values, without the prefix ``GV_``."""
    lanes: int = 128
    """Lanes of a team on CUDA."""
    scratch: int | None = 0
    """Floats of scratch of a team; None if the kernels tell it, and on CUDA each launch."""
    resident: int | None = None
    """Blocks that a multiprocessor must have room for, which limits registers; None chooses by the number of lanes."""
    env: EnvSpec | None = None
    """Env whose ``.cu`` precedes the kernels. Its hooks have teams of one lane, and teams of ``lanes`` compute tiles."""
    small: int = 1 << 14
    """Work of a launch below which a second CPU thread saves less time than it takes to wake it."""
    wide: bool = False
    """On x86-64, processors with AVX-512 have kernels of their own."""
    prebuilt: bool = True
    """The package has it compiled. Others run on the CPU in tests alone, so they are compiled fast."""

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.name, self.kernel, self.constants, self.lanes))

    def __hash__(self) -> int:
        return self._hash  # each launch of a new call looks for the loaded kernels

    @functools.cached_property
    def writers(self) -> dict[Any, dict[tuple[str, ...], Callable[..., None]]]:
        """Functions that write arguments, by device and by members; see ``backend/programs.py``."""
        return {}

    @functools.cached_property
    def macros(self) -> dict[str, Any]:
        """The constants by name."""
        return dict(self.constants)


TEAMS = Number("teams", "int32", "teams of the launch")
"""Last member of the argument struct of each program, which ``Call.launch()`` writes."""


def arguments(*members: Number | Array | Nested | EnvArgs, name: str = "GvArgs", beside: tuple[Struct, ...] = ()) -> Struct:
    """Return the argument struct of a program; see ``Struct``."""
    return Struct(name, *members, TEAMS, beside=beside)


class _Source(NamedTuple):
    """Text of a kernel, and the files that it was made from."""

    text: str
    files: Files


def kernel_source(spec: EnvSpec | Program, kind: BuildKind = RELEASE) -> str:
    """Return the text of a kernel, the same for all compilers. ``#line`` keeps the names of the original files.

    ``kind`` is that of an env. Each env that is made asks for the text, so it is kept until one of its files changes.
    """
    debug = isinstance(spec, EnvSpec) and kind.debug
    sources = _sources_of(spec)
    source = sources.get(debug)
    if source is None or not source.files.unchanged():
        files = Files()
        source = sources[debug] = _Source(_expanded(spec, debug, files), files)
    return source.text


_sources: dict[int, dict[bool, _Source]] = {}
"""Texts by the ``id()`` of the spec or program, because specs have no hash, and by whether they are for debugging."""


def _sources_of(spec: EnvSpec | Program) -> dict[bool, _Source]:
    """Return the texts of a spec, which are kept until it is gone."""
    if id(spec) not in _sources:
        _sources[id(spec)] = {}
        weakref.finalize(spec, _sources.pop, id(spec), None).atexit = False  # two threads may both come here
    return _sources[id(spec)]


def _expanded(spec: EnvSpec | Program, debug: bool, read: Files) -> str:
    """Return the text of a kernel with all headers, and remember the files that it is made from."""
    written: set[str] = set()

    def expand(text: str, path: str | Path) -> str:
        pieces, end = _pieces(text)
        parts = [f'#line 1 "{path}"\n']
        for before, name, next_line in pieces:
            parts.append(before)
            if name is not None and name not in written:
                written.add(name)
                parts.append(f'{expand(*_header(spec, name, path, read))}\n#line {next_line} "{path}"')
        return "".join([*parts, end])

    env, constants = _env_of(spec), () if isinstance(spec, EnvSpec) else _constants(spec)
    # Worlds of a debug build stay in memory, where they have their numbers and a debugger finds them.
    defined = "#define GV_DEBUG 1\n" if debug else "#define GV_SINGLE 1\n" if env is not None and is_single(env) else ""
    defined += "".join(f"#define GV_{name} {value}\n" for name, value in constants)
    entry_points = ENTRY_POINTS if isinstance(spec, EnvSpec) else spec.kernel
    files = (entry_points,) if env is None else (env.kernel, entry_points)
    texts = [expand(_kernel_text(spec, path, read), path) for path in files]
    if env is not None:
        defined += "".join(f"#define GV_{macro} 1\n" for hook, macro in OPTIONAL_HOOKS.items() if _defines(texts[0], hook))
    if isinstance(spec, Program):
        texts.append(expand('#ifdef GV_THREADS\n#include "launch/threads.h"\n#endif', ENTRY_POINTS))
    return defined + "\n".join(texts) + "\n"


@functools.lru_cache(maxsize=256)
def _pieces(text: str) -> tuple[list[tuple[str, str | None, int]], str]:
    """Split a file at its directives: the text before each, the header that it includes, and the number of the next line.

    Each env that is made asks for the same files, so they are kept.
    """
    text = "\n".join(text.splitlines())
    pieces, end, line = [], 0, 1
    for directive in _DIRECTIVE.finditer(text):
        before = text[end : directive.start()]
        line += before.count("\n")
        pieces.append((before, directive[1], line + 1))
        end = directive.end()
    return pieces, text[end:]


def takes_old_hooks(spec: EnvSpec) -> bool:
    """Return True if the hooks of an env take ``(a, team)``, in place of ``GvWorld``.

    Raises:
        CompileError: the kernel cannot be read.
    """
    if spec.kernel.suffix == ".py" or _defines(read_text(spec.name, spec.kernel), "env_step"):
        return False
    return not _defines(kernel_source(spec), "env_step")  # it may be in a header


def _defines(text: str, hook: str) -> bool:
    """Return True if a kernel defines a hook that takes ``GvWorld``."""
    # A pattern that begins with letters is found ten times as fast as one that begins with \b.
    return re.search(rf"{hook}(?<!\w{hook})\s*\(\s*GvWorld\s*&[^;{{}}]*\)\s*{{", text) is not None


def _constants(program: Program) -> tuple[tuple[str, int | str], ...]:
    """Return the macros of a program. C++ has no arrays without entries."""
    return program.constants if program.scratch is None else (*program.constants, ("SCRATCH", max(1, program.scratch)))


def _kernel_text(spec: EnvSpec | Program, path: Path, read: Files) -> str:
    """Return the text of a kernel; hooks in Python are translated."""
    read.has(path)
    text, env = read_text(spec.name, path), _env_of(spec)
    return translate(env, path, text) if env is not None and path == env.kernel and path.suffix == ".py" else text


def read_text(name: str, path: str | Path) -> str:
    """Return the text of a file of the kernels with a name.

    Raises:
        CompileError: no plain file, such as a folder or a pipe, or one that cannot be read as text.
    """
    try:
        with open(path, opener=_open_at_once) as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"{name}: kernel must be a file of text, got {path}, which cannot be read: {error}.") from error


def _open_at_once(path: str, flags: int) -> int:
    """Open a plain file for ``open()``. A pipe would block."""
    file = os.open(path, flags | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(f"{path} is no plain file")


def _env_of(spec: EnvSpec | Program) -> EnvSpec | None:
    return spec if isinstance(spec, EnvSpec) else spec.env


def _header(spec: EnvSpec | Program, name: str, includer: str | Path, read: Files) -> tuple[str, str]:
    env = _env_of(spec)
    if name == "args.h" and env is not None:
        return args_header(env), f"{env.name}/args.h"
    if name == "world.h" and env is not None:
        return world_header(env), f"{env.name}/world.h"
    if name == "program_args.h" and isinstance(spec, Program):
        return program_header(spec.args), f"{spec.kernel.stem}/program_args.h"
    of_env = (env or spec).kernel.parent
    for folder in (of_env, KERNEL_FOLDER):
        if read.has(path := os.path.join(folder, name)):  # a hundred files: Path would take twice as long
            return read_text(spec.name, path), path
    raise CompileError(f'{spec.name}: {includer} includes "{name}", which is not in {of_env} or {KERNEL_FOLDER}.')


@functools.lru_cache(maxsize=64)
def content_hash(source: str, *build: str) -> str:
    """Return a hash of a kernel's text and build flags. It does not depend on the folder of the source."""
    text = re.sub(r'\n#line (\d+) ".*[/\\]', r'\n#line \1 "', f"\n{source}")
    return hashlib.sha256("\0".join([text, *build]).encode()).hexdigest()[:16]
