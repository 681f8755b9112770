"""Checks of the code that a GPU gets, without a GPU: it compiles for every architecture, is exact, and how much it spills."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpu_vecenv.backend.cuda import module_blocks
from gpu_vecenv.backend.registers import Report, choose_limit
from gpu_vecenv.backend.source import read_text
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import MODULES, Layout
from gpu_vecenv.testing.errors import CheckError
from gpu_vecenv.testing.lint import DOUBLE_MARK
from gpu_vecenv.testing.nvrtc import ARCHITECTURES, Used, compile_ptx, has_trap, inexact_instructions, kernel_reports
from gpu_vecenv.testing.subject import Subject


def computes_in_double(spec: EnvSpec) -> bool:
    """Return True if functions of the kernel or its headers are marked ``// double: REASON``, or include ``lib/powers.h``."""
    files = [spec.kernel, *spec.kernel.parent.glob("*.h")]
    text = "\n".join(read_text(spec.name, path) for path in files)
    return re.search(DOUBLE_MARK, text, re.MULTILINE) is not None or "lib/powers.h" in text or "_in_double" in text


def check_ptx(subject: Subject, architectures: Sequence[int] = ARCHITECTURES, modules: int = len(MODULES)) -> str:
    """Compile the kernels for GPUs, and look for traps and for instructions whose results may differ from the CPU's.

    Args:
        subject: the env.
        architectures: such as 80 for sm_80.
        modules: the first of ``layout.MODULES`` to compile: 1 for steps alone, 2 with rollouts.
    """
    layout = subject.layout()
    for arch in architectures:
        for module in range(modules):
            try:
                ptx = compile_ptx(layout.spec, arch, module, **layout.params)
            except RuntimeError as error:
                raise CheckError(f"NVRTC, for sm_{arch}: {error}") from error
            if has_trap(ptx):
                raise CheckError(
                    f"{MODULES[module][0]} for sm_{arch} has a trap: its behaviour is undefined somewhere, as that of a "
                    "loop without an end, or of an atomic addition to a variable of one lane."
                )
            wrong = inexact_instructions(ptx, doubles=computes_in_double(layout.spec))
            if wrong:
                raise CheckError(f"{MODULES[module][0]} for sm_{arch} has {wrong[0]}, whose results may differ from the CPU's.")
    return ", ".join(f"sm_{arch}" for arch in architectures)


def chosen_registers(layout: Layout, module: int, arch: int) -> tuple[int | None, dict[str, Used], int]:
    """Return the limit that the back end chooses for a module, what its kernels use then, and how often it compiles.

    Args:
        layout: memory layout of the env.
        module: index into ``layout.MODULES``.
        arch: such as 90 for sm_90.
    """
    blocks = module_blocks(layout, module)
    by_limit: dict[int | None, dict[str, Used]] = {}

    def report(limit: int | None) -> Report:
        by_limit[limit] = kernel_reports(layout.spec, arch, module, limit, **layout.params)
        first = by_limit[limit][MODULES[module][0]]
        return Report(first.registers, first.local)

    limit = None
    if layout.requested_registers is None:
        limit = choose_limit(report, blocks.lanes * blocks.teams)
    else:
        report(None)
    return limit, by_limit[limit], len(by_limit)


def check_registers(subject: Subject, arch: int = 90) -> str:
    """Return the registers of steps and rollouts and the bytes that they spill. Spills cost time and change no result."""
    layout, words = subject.layout(), []
    for module, names in enumerate(MODULES):
        used = chosen_registers(layout, module, arch)[1][names[0]]
        spilled = f"spills {used.spills} bytes, see EnvSpec(registers=...)" if used.spills else "no spills"
        words.append(f"{names[0].removeprefix('gv_')}: {used.registers} registers, {spilled}")
    return "; ".join(words)
