"""The kernel of policies in pages: its arguments, and its plan for ``policy.js``."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpu_vecenv.backend.source import Program, arguments
from gpu_vecenv.backend.trainer_programs import COUNTERS
from gpu_vecenv.spec.arguments import Array, Nested, Number, Struct, arrays, numbers

ACTIVATIONS = ("none", "tanh", "relu", "elu", "silu")
"""Activations between layers, in the order of ``GvActivation``."""

HEADS = ("choices", "greedy", "normal", "squashed", "tangent", "uniform")
"""Outputs of a network in the order of ``GvHead``: logits, values of choices, means, means and logarithms of deviations
before a hyperbolic tangent, numbers before a hyperbolic tangent; none for uniform actions."""

POLICY = Program(
    "policies of pages",
    Path(__file__).with_name("policy.cu"),
    arguments(
        Nested("draw", COUNTERS, doc="counters of the random numbers"),
        Array("obs", "float32", "rows, features"),
        Array("mask", "bool", "rows, mask_columns"),
        *arrays("float32", "features", "offset", "scale", "shift"),
        Array("weights", "float32", "*floats", "of each layer: biases, weights by input, gains and shifts of its normalisation"),
        Array("sizes", "int32", "layers + 1", "inputs, hidden sizes and outputs"),
        *arrays("int32", "entries", "first", "choices", "mask_first"),
        *arrays("float32", "entries", "log_std", "centre", "half", "low", "high"),
        Array("hidden", "float32", "rows, 2 * widest", written=True),
        Array("outputs", "float32", "rows, columns", written=True),
        Array("action", "any", "rows, entries", "int32 or float", written=True),
        Number("rows", "int64"),  # eight bytes behind the last address, whose own size in WebAssembly is four
        *numbers("int32", "features", "num_ids", "layers", "widest", "columns", "entries", "mask_columns"),
        *numbers("int32", "activation", "layer_norm", "head"),
        Number("likeliest", "int32", "1: take the likeliest action"),
        Number("clip", "float32", "bound of normalised observations; 0 for none"),
    ),
    prebuilt=False,
)  # fmt: skip


def program_plan() -> dict[str, Any]:
    """Return size and members of the argument struct, as a plan of an env has them."""
    return {"bytes": ctypes.sizeof(POLICY.args.form), "members": dict(_members(POLICY.args, "", 0))}


def _members(struct: Struct, before: str, offset: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield each number and each address with its offset and dtype; members of structs inside are named ``STRUCT.MEMBER``."""
    for member in struct.members:
        at = offset + getattr(struct.form, member.name).offset
        if isinstance(member, Nested):
            yield from _members(member.struct, f"{before}{member.name}.", at)
        else:
            yield f"{before}{member.name}", [at, member.dtype if isinstance(member, Number) else "uint64"]


