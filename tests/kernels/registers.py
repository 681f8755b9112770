"""Registers and spills of the kernels of the shipped envs, for sm_90.

``python -m tests.kernels.registers`` records them; a change in the record shows what a change of a kernel costs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import MODULES, Layout
from gpu_vecenv.testing.gpu_code import chosen_registers
from gpu_vecenv.testing.nvrtc import Used, version
from tests.kernels.test_ptx import spec_of

RECORD = Path(__file__).with_name("registers.json")
ARCH = 90


def chosen(spec: EnvSpec, module: int, **params: Any) -> tuple[int | None, dict[str, Used], int]:
    """The limit that the back end chooses for a module, what its kernels use then, and how often it compiles."""
    return chosen_registers(Layout(spec, spec.resolve(params)), module, ARCH)


def rows(used: dict[str, Used]) -> dict[str, dict[str, int]]:
    """Registers and local memory of each kernel of a module, as they are recorded, in the order of ``MODULES``."""
    return {kernel: used[kernel]._asdict() for names in MODULES for kernel in names if kernel in used}


def table(spec: EnvSpec) -> list[dict[str, Any]]:
    """For each module of an env with default parameters, the limit chosen (null for the usual one), and what each kernel uses."""
    found = [chosen(spec, module)[:2] for module in range(len(MODULES))]
    return [{"limit": limit, **rows(used)} for limit, used in found]


def main() -> None:
    """Record all envs."""
    lines = [f'"{name}": [{", ".join(map(_text, table(spec_of(name))))}]' for name in IDS]
    RECORD.write_text(",\n".join([f'{{"nvrtc": "{version()}"', *lines]) + "\n}\n")


def _text(module: dict[str, Any]) -> str:
    entries = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in module.items()]
    return "{\n  " + ",\n  ".join(entries) + "}"


if __name__ == "__main__":
    main()
