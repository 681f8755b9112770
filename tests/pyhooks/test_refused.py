"""Wrong hooks in Python are refused, with the file, the line, the function and what to write instead."""

import dataclasses
import inspect
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv import Role, Scratch
from gpu_vecenv.errors import HookError
from gpu_vecenv.pyhooks.source import CHAIN, HooksFile
from gpu_vecenv.pyhooks.transform import load_hooks
from gpu_vecenv.pyhooks.translate import translate
from tests.pyhooks.ledger import FIRST, HEAD, ledger, spec_of_text, text_with

WRONG = tomllib.loads(Path(__file__).with_name("refused.toml").read_text())["hook"]


def refusal(text, folder):
    spec = spec_of_text(text, folder)
    with pytest.raises(HookError) as raised:
        translate(spec, spec.kernel, text)
    return str(raised.value)


@pytest.mark.parametrize("wrong", WRONG, ids=[wrong["name"] for wrong in WRONG])
def test_a_wrong_hook_is_refused(wrong, tmp_path):
    said = refusal(text_with("\n" + wrong["text"]), tmp_path)
    assert said.startswith(f"{tmp_path}/hooks.py:{FIRST + wrong['line']}: "), said
    assert wrong["says"] in said and said.endswith(".")


def test_there_are_sixty_wrong_hooks_with_different_names():
    assert len({wrong["name"] for wrong in WRONG}) == len(WRONG) >= 60


def test_the_hooks_around_the_wrong_ones_are_right(tmp_path):
    spec = spec_of_text(text_with(""), tmp_path)
    assert "GV_FN void env_step(GvWorld& w) {" in translate(spec, spec.kernel, text_with(""))


PHASE = "    for me in w.agents:\n        me.obs[1] = 1.0\n"
PAIRS = "    for me, k in w.pairs(w.agents, w.each(1)):\n        me.obs[k] = f32(me.gold)\n"


def test_features_that_gathered_rows_would_overwrite_are_refused(tmp_path):
    """Rows are gathered if scratch has an array `rows`. The last features of a row may be written behind the pairs."""
    for body, gathers, refused in ((PHASE + PAIRS, True, True), (PHASE + PAIRS, False, False), (PAIRS + PHASE, True, False)):
        text = text_with(f"\ndef env_observe(w):\n{body}")
        spec = spec_of_text(text, tmp_path)
        rows = (Scratch("rows", "float32", ("num_agents", 6), "gathered rows"),) if gathers else ()
        spec = dataclasses.replace(spec, scratch=spec.scratch + rows)
        if refused:
            with pytest.raises(HookError, match=rf"hooks.py:{FIRST + 4}: env_observe: w.pairs\(\) gathers whole rows"):
                translate(spec, spec.kernel, text)
        else:
            translate(spec, spec.kernel, text)


def test_a_number_in_a_role_is_refused_where_the_role_is_not_known(tmp_path):
    text = text_with("\ndef env_step(w):\n    for me in w.agents:\n        me.reward = f32(me.in_role)\n")
    spec = spec_of_text(text, tmp_path)
    translate(spec, spec.kernel, text)
    two_roles = dataclasses.replace(spec, roles=(*spec.roles, Role("clerk", 1)))
    with pytest.raises(HookError, match=rf"hooks.py:{FIRST + 3}: env_step: 'in_role' is known of agents of w.role.NAME"):
        translate(two_roles, spec.kernel, text)


@pytest.mark.parametrize("name", ["env_reset", "env_step", "env_observe"])
def test_a_file_without_a_hook_is_refused(name, tmp_path):
    text = text_with(f"def {name}(w):\n    pass\n").replace(f"def {name}(w):", f"def other_{name}(w):")
    assert f"the file has no function {name}(w)" in refusal(text, tmp_path)


@pytest.mark.parametrize("nest", [
    "    x = " + "(" * 150 + "1" + ")" * 150,
    "    x = " + "-(1 + " * 90 + "1" + ")" * 90,
    "    x = " + " + ".join(["1"] * 5000),
    "\n".join("    " + "    " * n + "if w.t > 3:" for n in range(70)) + "\n    " + "    " * 70 + "pass",
    "    if w.t > 3:\n        pass\n" + "".join(f"    elif w.t > {n}:\n        pass\n" for n in range(3000)),
    "    x = f0(w)\n" + "".join(f"\n\ndef f{n}(w) -> i32:\n    return f{n + 1}(w)\n" for n in range(400)),
], ids=["parentheses", "operations", "a long sum", "branches", "a chain of branches", "helpers"])  # fmt: skip
def test_deep_nests_are_refused_or_compile(nest, tmp_path):
    text = text_with(f"\ndef env_step(w):\n{nest}\n")
    spec = spec_of_text(text, tmp_path)
    try:
        translate(spec, spec.kernel, text)
    except HookError as error:
        assert str(error).startswith(f"{tmp_path}/hooks.py:")


@pytest.mark.parametrize("all_lanes", [True, False])
def test_the_longest_chain_of_branches_runs_and_a_longer_one_is_refused(all_lanes, tmp_path):
    pad = "    " * (1 if all_lanes else 2)
    head = "\ndef env_step(w):\n    for me in w.agents:\n        me.reward = 0.0\n"

    def chain(length):
        elifs = "".join(f"{pad}elif w.t > {n}:\n{pad}    k = {n}\n" for n in range(1000, 1000 + length))
        return f"{head}{pad}if w.t > 999:\n{pad}    k = 0\n{elifs}"

    for device in ("python", "cpu"):
        env = ledger(chain(CHAIN), tmp_path, device=device)
        env.reset(seed=0)
        env.step(np.zeros((2, 3), np.int32))
        env.close()
        line = FIRST + 6 + 2 * CHAIN
        with pytest.raises(HookError, match=rf"hooks.py:{line}: module: more than {CHAIN} elif behind one another"):
            ledger(chain(CHAIN + 1), tmp_path, device=device)


def test_a_stack_that_is_too_short_is_an_error_of_the_hooks(tmp_path):
    elifs = "".join(f"    elif w.t > {n}:\n        x = {n}\n" for n in range(CHAIN))
    file = HooksFile(tmp_path / "hooks.py", text_with(f"\ndef env_step(w):\n    if w.t > 3:\n        x = 0\n{elifs}"))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        with pytest.raises(HookError, match="hooks.py:1: module: too many branches or calls inside one another"):
            load_hooks(file, {"env_step"}, [], {})
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("text", ["", "\0", "\ufeff", "\t\n  x = 1", "x = 'a\nb'", HEAD])
def test_files_that_hold_no_hooks_are_refused(text, tmp_path):
    spec = spec_of_text("", tmp_path)
    with pytest.raises(HookError, match="hooks.py:"):
        translate(spec, spec.kernel, text)
