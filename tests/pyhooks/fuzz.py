"""Mutates hooks in Python. A mutant is refused, or Python and the compiled kernel run it to the same results.

``python -m tests.pyhooks.fuzz --minutes 60 --processes 2`` prints each mutant that breaks this, and how many were tried.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.envs.simple_crypto.spec import SPEC as CRYPTO
from gpu_vecenv.errors import HookError, HookFault
from gpu_vecenv.pyhooks.translate import translate
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.pyhooks.cases import actions_of, spec_in_cpp
from tests.pyhooks.ledger import spec_of_text
from tests.trees import leaves

PORTS = Path(__file__).parent / "ports"
SEEDS = {
    "ledger": (PORTS / "ledger.py", spec_of_text),
    "crypto": (CRYPTO.kernel, lambda text, folder: _with_hooks(CRYPTO, text, folder)),
    **{name: (PORTS / f"{name}.py", lambda text, folder, env_id=env_id: _with_hooks(spec_in_cpp(env_id), text, folder))
       for name, env_id in (("spread", "Spread-v0"), ("pot", "Pot-v0"), ("grid_tag", "WarpGridTag-v0"), ("harvest", "Harvest-v0"),
                            ("cartpole", "WarpCartPole-v1"))},
}  # fmt: skip
"""Files of hooks that are mutated, and functions from a text and a folder to the spec with these hooks."""

SECONDS = 4
"""Time of the processor after which a mutant that Python runs is given up, because it may never end."""

OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr, ast.BitXor)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
NUMBERS = (0, 1, 2, 3, -1, 7, 2**31 - 1, -(2**31), 0.0, 1.0, 0.5, -2.0, 1e6, 1e-6, 3e38, True, False)


def _with_hooks(spec: EnvSpec, text: str, folder: Path) -> EnvSpec:
    """Return a spec with hooks that are written to a folder."""
    path = folder / "hooks.py"
    path.write_text(text)
    return replace(spec, kernel=path)


# ---- mutants ----------------------------------------------------------------------------------------------------------


def mutant(text: str, chance: random.Random) -> str:
    """Return a text with one to three changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if chance.random() < 0.2:
            text = _changed_text(text, chance)
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return text
        chance.choice(CHANGES)(tree, chance)
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
    return text


def _changed_text(text: str, chance: random.Random) -> str:
    """Delete, repeat or exchange lines and tokens."""
    lines = text.splitlines()
    k = chance.randrange(len(lines))
    kind = chance.randrange(5)
    if kind == 0:
        del lines[k]
    elif kind == 1:
        lines.insert(chance.randrange(len(lines)), lines[k])
    elif kind == 2:
        lines[k] = "    " + lines[k] if chance.random() < 0.5 else lines[k].removeprefix("    ")
    else:
        tokens = re.findall(r"\w+|\s+|[^\w\s]", lines[k]) or [""]
        at = chance.randrange(len(tokens))
        tokens[at] = "" if kind == 3 else chance.choice(re.findall(r"\w+|[^\w\s]", text))
        lines[k] = "".join(tokens)
    return "\n".join(lines) + "\n"


def _nodes(tree: ast.AST, kind: Any) -> list[Any]:
    return [node for node in ast.walk(tree) if isinstance(node, kind)]


def _blocks(tree: ast.AST) -> list[list[ast.stmt]]:
    parts = [getattr(node, name, None) for node in ast.walk(tree) for name in ("body", "orelse")]
    return [part for part in parts if isinstance(part, list)]


def _operator(tree: ast.AST, chance: random.Random) -> None:
    if nodes := _nodes(tree, ast.BinOp | ast.AugAssign):
        chance.choice(nodes).op = chance.choice(OPERATORS)()


def _comparison(tree: ast.AST, chance: random.Random) -> None:
    if nodes := _nodes(tree, ast.Compare):
        chance.choice(nodes).ops[0] = chance.choice(COMPARISONS)()


def _number(tree: ast.AST, chance: random.Random) -> None:
    if nodes := [node for node in _nodes(tree, ast.Constant) if isinstance(node.value, int | float)]:
        node = chance.choice(nodes)
        alike = [number for number in NUMBERS if type(number) is type(node.value)]
        node.value = chance.choice(alike if chance.random() < 0.8 else NUMBERS)


def _expression(tree: ast.AST, chance: random.Random) -> None:
    """Replace an expression by another one of the file."""
    nodes = [node for node in _nodes(tree, ast.expr) if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    one, two = chance.choice(nodes), copy.deepcopy(chance.choice(nodes))
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is one:
                setattr(parent, name, two)
            elif isinstance(value, list) and one in value:
                value[value.index(one)] = two


def _axes(tree: ast.AST, chance: random.Random) -> None:
    """Index an array by axes, with `w.at`, or change the number or the order of the indices of one that is."""
    nodes = [node for node in _nodes(tree, ast.Subscript) if isinstance(node.value, ast.Attribute)]
    if not nodes:
        return
    node = chance.choice(nodes)
    if isinstance(node.slice, ast.Tuple):
        indices = node.slice.elts
        k = chance.randrange(len(indices))
        change = chance.randrange(4)
        if change == 0:
            indices.reverse()
        elif change == 1:
            indices.insert(k, copy.deepcopy(chance.choice(indices)))
        elif change == 2:
            del indices[k]
        else:
            indices[k] = ast.BinOp(indices[k], chance.choice((ast.Add, ast.Sub))(), ast.Constant(1))
        return
    node.value = ast.Attribute(ast.Attribute(ast.Name("w", ast.Load()), "at", ast.Load()), node.value.attr, ast.Load())
    row, column = (ast.BinOp(copy.deepcopy(node.slice), kind(), ast.Constant(2)) for kind in (ast.FloorDiv, ast.Mod))
    node.slice = chance.choice((node.slice, ast.Tuple([row, column]), ast.Tuple([node.slice, ast.Constant(0)])))


def _name(tree: ast.AST, chance: random.Random) -> None:
    names = _nodes(tree, ast.Name)
    chance.choice(names).id = chance.choice(names).id


def _member(tree: ast.AST, chance: random.Random) -> None:
    if nodes := _nodes(tree, ast.Attribute):
        chance.choice(nodes).attr = chance.choice(nodes).attr


def _delete(tree: ast.AST, chance: random.Random) -> None:
    block = chance.choice([block for block in _blocks(tree) if block])
    block[chance.randrange(len(block))] = ast.Pass()


def _repeat(tree: ast.AST, chance: random.Random) -> None:
    """Copy a statement to another place."""
    blocks = [block for block in _blocks(tree) if block]
    statement, block = copy.deepcopy(chance.choice(chance.choice(blocks))), chance.choice(blocks)
    block.insert(chance.randrange(len(block) + 1), statement)


def _swap(tree: ast.AST, chance: random.Random) -> None:
    blocks = [block for block in _blocks(tree) if len(block) > 1]
    block = chance.choice(blocks)
    k = chance.randrange(len(block) - 1)
    block[k], block[k + 1] = block[k + 1], block[k]


def _wrap(tree: ast.AST, chance: random.Random) -> None:
    """Put a statement into a branch, a loop or `if w.once`."""
    block = chance.choice([block for block in _blocks(tree) if block])
    k = chance.randrange(len(block))
    around = ast.parse(f"{chance.choice(HEADS)}\n    pass").body[0]
    around.body = [block[k]]  # type: ignore[attr-defined]
    block[k] = around


def _negate(tree: ast.AST, chance: random.Random) -> None:
    if nodes := _nodes(tree, ast.If | ast.While | ast.IfExp):
        node = chance.choice(nodes)
        node.test = ast.UnaryOp(ast.Not(), node.test)


def _named(tree: ast.AST, chance: random.Random) -> None:
    """Name a part of a statement in a line before it; maybe it becomes that of another agent, and a number of it changes."""
    block = chance.choice([block for block in _blocks(tree) if block])
    k = chance.randrange(len(block))
    parts = _nodes(block[k], ast.Attribute | ast.Subscript | ast.Call)
    parts = [part for part in parts if isinstance(getattr(part, "ctx", ast.Load()), ast.Load)]
    if not parts:
        return
    part, name = chance.choice(parts), ast.Name("named", ast.Load())
    for parent in ast.walk(block[k]):
        for field, value in ast.iter_fields(parent):
            if value is part:
                setattr(parent, field, name)
            elif isinstance(value, list) and part in value:
                value[value.index(part)] = name
    lines: list[ast.stmt] = [ast.Assign([ast.Name("named", ast.Store())], part)]
    if isinstance(part, ast.Attribute) and chance.random() < 0.5:
        part.value = ast.parse("w.agents[number]", mode="eval").body
        lines = [*ast.parse("number = 0").body, *lines, *ast.parse("number = 1").body]
    elif (places := _nodes(part, ast.Name | ast.Attribute)) and chance.random() < 0.5:
        lines += ast.parse(f"{ast.unparse(chance.choice(places))} = {chance.choice((0, 1, 2))}").body
    block[k:k] = lines


def _together(tree: ast.AST, chance: random.Random) -> None:
    """Join two assignments that follow each other to one of both."""
    places = [
        (block, k) for block in _blocks(tree) for k in range(len(block) - 1)
        if all(isinstance(each, ast.Assign) and not isinstance(each.targets[0], ast.Tuple) for each in block[k : k + 2])
    ]  # fmt: skip
    if places:
        block, k = chance.choice(places)
        one, two = block[k : k + 2]
        block[k : k + 2] = [ast.Assign([ast.Tuple([one.targets[0], two.targets[0]], ast.Store())],
                                       ast.Tuple([one.value, two.value], ast.Load()))]  # fmt: skip


def _numbered(tree: ast.AST, chance: random.Random) -> None:
    """Take the agent of a member by a number."""
    nodes = [node for node in _nodes(tree, ast.Attribute) if isinstance(node.value, ast.Name) and node.value.id != "w"]
    if nodes:
        node = chance.choice(nodes)
        number = chance.choice(("0", "1", f"{node.value.id}.index", *(name.id for name in _nodes(tree, ast.Name))))
        node.value = ast.parse(f"w.agents[{number}]", mode="eval").body


HEADS = ("if w.once:", "if w.t > 2:", "for extra in range(3):", "for other in w.agents:", "for extra in w.each(3):",
         "while w.t > 2:")  # fmt: skip
"""Statements that are put around others."""

CHANGES: list[Callable[[ast.AST, random.Random], None]] = [
    _operator, _comparison, _number, _number, _expression, _expression, _name, _member, _delete, _repeat, _swap, _wrap, _negate,
    _axes, _named, _named, _together, _numbered,
]  # fmt: skip


# ---- checks -----------------------------------------------------------------------------------------------------------


class OutOfTime(BaseException):
    """A mutant ran too long."""


def _alarm(*_: Any) -> None:
    raise OutOfTime


def results_of(env: GpuVectorEnv, steps: int = 7) -> list[np.ndarray]:
    """Return all results of some steps, and the state at the end."""
    generator, seen = np.random.default_rng(5), list(leaves(dict(enumerate(env.reset(seed=3)))))
    for _ in range(steps):
        *arrays, info = env.step(actions_of(env, generator))
        info = {name: value for name, value in info.items() if name not in ("final_obs", "final_action_mask", "episode")}
        seen += leaves(dict(enumerate([*arrays, info])))
    return [np.array(array) for array in [*seen, *env.get_state().values()]]


def options_of(name: str) -> dict[str, Any]:
    """Return options with which episodes end within the steps of a check."""
    limit = {"grid_tag": {"episode_length": 4, "grid_length": 5}, "crypto": {"max_cycles": 4}}
    return {"num_worlds": 2, "array": "numpy", **limit.get(name, {"max_episode_steps": 4})}


def verdict(name: str, text: str, folder: Path, flags: tuple[str, ...] = ("-O0",), compiles: bool = True) -> str:
    """Return what becomes of a text: ``refused``, ``fault``, ``endless``, ``same``, or a sentence about what is wrong."""
    spec = SEEDS[name][1](text, folder)
    try:
        translate(spec, spec.kernel, text)
    except HookError as error:
        said = re.match(rf"{re.escape(str(spec.kernel))}:\d+: \w+: .+\.$", str(error), re.DOTALL)
        return "refused" if said else f"message: {error}"
    except BaseException as error:
        return f"traceback: {type(error).__name__}: {error}"
    if not compiles:
        return "accepted"
    signal.signal(signal.SIGVTALRM, _alarm)
    try:
        env = GpuVectorEnv(spec, device="python", **options_of(name))
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        by_python = results_of(env)
    except HookFault as error:
        races = "in the same phase" in str(error) or "two lanes write" in str(error) and " obs of " not in str(error)
        return f"a race was accepted: {error}" if races else "fault"
    except OutOfTime:
        return "endless"
    except BaseException as error:
        return f"traceback in Python: {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return _compared(spec, name, folder, flags, by_python)


def _compared(spec: EnvSpec, name: str, folder: Path, flags: tuple[str, ...], by_python: list[np.ndarray]) -> str:
    """Compile a text, and compare its results with those of Python."""
    built = folder / f"hooks{time.monotonic_ns()}.so"
    try:
        compile_object(spec, cpu_level(), built, flags)
        env = GpuVectorEnv(spec, device="python", **options_of(name))
        env.worlds.backend = CpuBackend(env.layout, built, threads=1)
        compiled = results_of(env)
    except BaseException as error:
        return f"does not compile: {type(error).__name__}: {str(error)[-1500:]}"
    finally:
        built.unlink(missing_ok=True)
    same = all(bits(one) == bits(two) for one, two in zip(by_python, compiled, strict=True))
    return "same" if same else "Python and the kernel differ"


def bits(array: np.ndarray) -> bytes:
    """Return the bits of an array, which tell -0 from 0; those of NaN may differ between processors."""
    if array.dtype.kind != "f":
        return array.tobytes()
    return np.where(np.isnan(array), array.dtype.type(np.nan), array).tobytes()


GOOD = ("refused", "fault", "endless", "same", "accepted")


def fuzz(seconds: float, seed: int, compiles: bool = True, most: int = 10**9, flags: tuple[str, ...] = ("-O0",)) -> Counter[str]:
    """Try mutants for some time; print those with a wrong verdict, and return how many had each verdict."""
    chance, counts, known = random.Random(seed), Counter[str](), set()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end and sum(counts.values()) < most:
            name = chance.choice(list(SEEDS))
            text = mutant(SEEDS[name][0].read_text(), chance)
            if text in known:
                continue
            known.add(text)
            said = verdict(name, text, Path(folder), flags, compiles)
            if said not in GOOD:
                print(f"{name}: {said}\n{text}", flush=True)
            counts[said if said in GOOD else f"{name}: {said}"] += 1
    return counts


def main() -> None:
    """Fuzz, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.pyhooks.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="time to try mutants")
    parser.add_argument("--seed", type=int, default=0, help="start of the sequence of mutants; each further process adds 1")
    parser.add_argument("--processes", type=int, default=1, help="processes that try different mutants at the same time")
    parser.add_argument("--lanes", type=int, default=0, help="lanes of a team in compiled kernels; 0 for the host's one lane")
    given = parser.parse_args()
    flags = ("-O0", f"-DGV_LANES={given.lanes}", "-pthread") if given.lanes else ("-O0",)
    with ProcessPoolExecutor(given.processes) as pool:
        seeds = range(given.seed, given.seed + given.processes)
        counts = sum(pool.map(partial(fuzz, 60 * given.minutes, flags=flags), seeds), Counter[str]())
    for said, count in counts.most_common():
        print(count, said, flush=True)
    sys.exit(any(said not in GOOD for said in counts))


if __name__ == "__main__":
    main()
