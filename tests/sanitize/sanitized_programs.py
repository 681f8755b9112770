"""Plugin of pytest that builds the trainer's kernels with a sanitizer: ``pytest -p tests.sanitize.sanitized_programs ...``.

The compiler flags are in ``SANITIZER``, and the sanitizer's runtime is in ``LD_PRELOAD``, as Python was built without it.
"""

import ctypes
import functools
import os
import tempfile
from pathlib import Path

from gpu_vecenv.backend import compiler, programs

os.environ.pop("LD_PRELOAD", None)  # the compiler needs no sanitizer
FLAGS = tuple(os.environ["SANITIZER"].split())
FOLDER = tempfile.TemporaryDirectory(prefix="sanitized-")

UNCHANGED = compiler.compile_to_bytes
compiler.compile_to_bytes = lambda spec, level, extra=(), **options: UNCHANGED(spec, level, (*extra, *FLAGS), **options)


@functools.cache
def sanitized(program):
    """Return the kernels of a program, built here."""
    target = Path(FOLDER.name) / f"{len(list(Path(FOLDER.name).iterdir()))}.so"
    return ctypes.CDLL(str(compiler.compile_object(program, compiler.LEVELS[-1], target)))


programs.load_kernels = sanitized
