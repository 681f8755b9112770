"""Libraries of sanitizers that must be loaded before Python, which was built without them."""

import subprocess

from gpu_vecenv.backend.compiler import find_compiler


def is_clang():
    """Return True if the compiler of kernels is Clang."""
    return "clang" in find_compiler()[0]


def runtime(name="asan"):
    """Return the runtime of a sanitizer, and that of C++, whose exceptions it wraps, for ``LD_PRELOAD``."""
    sanitizer = f"libclang_rt.{name}-x86_64.so" if is_clang() else f"lib{name}.so"
    asked = [[*find_compiler(), f"-print-file-name={each}"] for each in (sanitizer, "libstdc++.so.6")]
    return " ".join(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() for words in asked)
