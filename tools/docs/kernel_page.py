"""Writes ``docs/api/kernel.md`` from headers of kernels and ``kernel_examples.toml``; ``--check`` only says if it is stale."""

from __future__ import annotations

import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import update_page, with_block  # noqa: E402

WIDTH = 130
"""Columns of the page."""
COMMAND = "python tools/docs/kernel_page.py"
PAGE = ROOT / "docs" / "api" / "kernel.md"
KERNELS = ROOT / "gpu_vecenv" / "kernels"
SECTIONS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("kernel_examples.toml").read_text())["section"]
NAMES = [name for section in SECTIONS for name in section["name"]]
INCLUDES = ("world.h", "lib/powers.h", "lib/powers_in_double.h")
HOOKS = ("env_reset", "env_step", "env_observe")


def example_spec(kernel: Path) -> Any:
    """The spec of an env whose kernel can hold the examples: prey and hunters on cells with grass."""
    import numpy as np
    from gymnasium.spaces import Box, MultiDiscrete

    from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Param, ResetOption, Role, Scratch, Table

    return EnvSpec(
        name="Meadow-v0",
        kernel=kernel,
        roles=tuple(Role(name, n, masked=(0,), effects={"meal": (1,)}) for name, n in (("prey", "num_prey"), ("hunter", 2))),
        params=(
            Param("num_prey", 6, "int32", "number of prey", low=1, high=100),
            Param("num_cells", 16, "int32", "number of cells", low=1, high=100),
            Param("hunger", 0.1, "float32", "energy that a step takes", per_world=True),
            TIME_LIMIT,
        ),
        state=(
            Field("energy", "float32", ("num_agents",), "energy of an agent"),
            Field("cell", "int32", ("num_agents",), "cell of an agent"),
            Field("grass", "int32", ("num_cells",), "grass of a cell"),
            Field("day", "int32", (), "number of the day"),
        ),
        observation=lambda params: Box(-np.inf, np.inf, (params["num_prey"] + 2,), np.float32),
        action=lambda params: MultiDiscrete([5, 2]),
        sizes=("num_prey", "num_cells"),
        tables=(Table("prices", lambda params: np.arange(4) / 4, "prices"),),
        scratch=(Scratch("wish", "float32", ("num_agents",), "a wish of each agent"),),
        reset_options=(ResetOption("first_day", 0.0, "day of the start"),),
        metrics=(Metric("days", "last", "days of the episode"),),
    )


def example_kernel() -> str:
    """The text of a kernel with all examples. Messages of compilers name the example in place of the file."""
    lines = [f'#include "{name}"' for name in INCLUDES]
    for hook in HOOKS:
        lines.append(f"GV_FN void {hook}(GvWorld& w) {{")
        for name in NAMES:
            if name.get("hook", "env_step") == hook:
                lines += ["{", f'#line 1 "example of {name["name"]}"', name["code"].strip(), "}"]
        lines.append("}")
    return "\n".join(lines) + "\n"


def headers() -> str:
    """The text of the headers that declare the structs of hooks: that of a spec, and the parts that all specs share."""
    from gpu_vecenv.spec.world_header import world_header

    return (KERNELS / "world_parts.h").read_text() + world_header(example_spec(Path("meadow.cu")))


def struct_text(name: str, text: str) -> str:
    """The body of a struct.

    Raises:
        ValueError: the headers have no such struct.
    """
    match = re.search(rf"^struct {name}(?: : \w+)? {{\n(.*?)^}};", text, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ValueError(f"expected a struct {name} in the headers.")
    return match[1]


def declared(name: dict[str, Any], text: str) -> tuple[str, str]:
    """The declaration of a name without its body, and the comment on it; "" without one.

    Raises:
        ValueError: the headers do not declare the name.
    """
    last, of = name["name"].rpartition(".")[2], name["of"]
    body = (KERNELS / of).read_text() if of.endswith(".h") else struct_text(of, text)
    lines = body.splitlines()
    start = r"(?:GV_FN|GV_INLINE) " if of.endswith(".h") else r"\s+(?:GV_METHOD )?"
    pattern = re.compile(rf"^{start}(.*?[\s&*]{last}\b(?:\(.*?\))?)(?: const)?(?:;| {{|$)")
    for number, line in enumerate(lines):
        code, _, trailing = line.partition("  // ")
        if code.strip().startswith(":"):  # values of a constructor
            continue
        single = next((part.strip() for part in code.split(";") if re.search(rf"[\s&*]{last}$", part.rstrip())), "")
        match = pattern.match(code)
        if match is None and not (single and "(" not in single):
            continue
        above, comment = number - 1, list[str]()
        while above >= 0 and lines[above].strip().startswith("template"):
            above -= 1
        while above >= 0 and lines[above].strip().startswith("// ") and "----" not in lines[above]:
            comment.insert(0, lines[above].strip()[3:])
            above -= 1
        signature = match[1] if match and "(" in match[1] else single or (match[1] if match else "")
        signature = signature.replace("GvIndex", "gv_i32").replace("GV_HERE(0)", "0")  # but for debug builds
        return " ".join(signature.split()).removeprefix("const "), trailing.strip() or " ".join(comment)
    raise ValueError(f"expected a declaration of {name['name']} in {of}.")


def page_text(text: str) -> str:
    """The page ``text`` with the present names.

    Raises:
        ValueError: a name is not declared, or has neither a comment nor a text.
    """
    parts, source = [], headers()
    for section in SECTIONS:
        parts.append(f"## {section['title']}\n\n{section['about']}")
        for name in section["name"]:
            signature, comment = declared(name, source)
            meaning = name.get("text") or sentence(comment)
            if not meaning:
                raise ValueError(f"expected a comment on {name['name']} in the headers, or a text in kernel_examples.toml.")
            meaning = textwrap.fill(meaning, WIDTH, break_on_hyphens=False, break_long_words=False)
            parts.append(f"### `{name['name']}`\n\n`{signature}`\n\n{meaning}\n\n```cuda\n{name['code'].strip()}\n```")
    return with_block(text, "names", COMMAND, "\n\n".join(parts))


def sentence(comment: str) -> str:
    """A comment that begins with a capital letter and ends with a stop."""
    stopped = comment.rstrip(":.")
    return stopped and f"{stopped[0].upper()}{stopped[1:]}."


def main(arguments: list[str]) -> int:
    """Update the page, or only say if it is out of date; returns the exit status."""
    return update_page(PAGE, page_text(PAGE.read_text()), arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
