"""Text of kernels that hooks in Python become: lines of the file, barriers, cache keys; it compiles for every architecture."""

import itertools
import re
import unicodedata
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_vecenv.backend import compiler
from gpu_vecenv.backend.compiler import compile_to_bytes, cpu_level, object_name
from gpu_vecenv.backend.programs import program_options
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.errors import CompileError
from gpu_vecenv.pyhooks.calls import c_name
from gpu_vecenv.pyhooks.translate import translate, translator_of
from gpu_vecenv.spec.fields import Scratch
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.nvrtc import ARCHITECTURES, compile_ptx, compile_text, inexact_instructions, kernel_reports
from gpu_vecenv.train.fused.tile_plan import Sizes, rollout_program
from tests.marks import slow_but
from tests.pyhooks.cases import PORTS, port_of, spec_in_cpp
from tests.pyhooks.ledger import FIRST, spec_of_text, text_with

BARRIERS = {
    "WarpCartPole-v1": [],
    "WarpGridTag-v0": [("env_step", "tagged = w.any(w.role.tagger")],
    "Pot-v0": [("env_step", "for me in w.role.player:\n        me.purse")],
    "Harvest-v0": [
        ("env_step", "for me in w.agents:\n        meet"),
        ("env_step", "for cell in w.each(CELLS):\n        w.state.apples"),
    ],
    "Spread-v0": [("env_step", "for me in w.agents:\n        me.x +="), ("env_step", "for me in w.agents:  # the landmark")],
}
"""Hooks and beginnings of the statements before which a barrier is needed, and no other is."""


def translated(text, folder):
    spec = spec_of_text(text, folder)
    return translate(spec, spec.kernel, text)


def statements(text):
    """The lines of C++, without directives."""
    return [line.strip() for line in text.splitlines() if not line.startswith("#line")]


@pytest.mark.parametrize("name", PORTS)
def test_barriers_stand_where_a_lane_needs_the_results_of_another(name):
    spec = port_of(spec_in_cpp(name))
    text = spec.kernel.read_text()
    translator = translator_of(spec, spec.kernel, text)
    lines = text.splitlines()
    starts = [(hook, "\n".join(lines[number - 1 : number + 1])) for hook, number in translator.barriers]
    assert len(starts) == len(BARRIERS[name])
    for (hook, start), (expected, begins) in zip(starts, BARRIERS[name], strict=True):
        assert hook == expected and start.strip().startswith(begins)


PLACED = {
    "own elements in two phases": ("""
    for me in w.agents:
        me.gold = 1
    for me in w.agents:
        me.reward = f32(me.gold)
""", []),
    "an array by the numbers of its agents": ("""
    for me in w.agents:
        w.scratch.sums[me.index] = 1.0
    for k in w.each(w.agents.count()):
        w.scratch.sums[k] += 1.0
    for me in w.agents:
        me.reward = w.scratch.sums[me.index]
""", []),
    "the same lane twice": ("""
    if w.once:
        w.state.pot = 1
    if w.once:
        w.state.pot += 1
""", []),
    "different memory": ("""
    for me in w.agents:
        me.gold = 1
    if w.once:
        w.state.pot = w.state.cells[0]
""", []),
    "a number of the world in a phase": ("""
    if w.once:
        w.state.pot = 1
    for me in w.agents:
        me.gold = w.state.pot
""", [4]),
    "a number of the world that a phase has read": ("""
    for me in w.agents:
        me.gold = w.state.pot
    if w.once:
        w.state.pot = 1
""", [4]),
    "others that a phase has read": ("""
    for me in w.agents:
        me.reward = f32(w.agents[0].gold)
    for me in w.agents:
        me.gold = 1
""", [4]),
    "a role, and all agents": ("""
    for me in w.role.owner:
        me.gold = 1
    for me in w.agents:
        me.gold += 1
""", [4]),
    "a local of all lanes": ("""
    for me in w.agents:
        me.gold = 1
    first = w.agents[0].gold
""", [4]),
    "a sum waits by itself": ("""
    for me in w.agents:
        me.gold = 1
    total = w.sum(w.agents, lambda it: f32(it.gold))
    for me in w.agents:
        me.gold = i32(total)
""", []),
    "a count of others": ("""
    for me in w.agents:
        me.gold = 1
    rich = w.count(w.agents, lambda it: w.agents[0].gold > 0)
""", [4]),
    "a branch of all worlds": ("""
    for me in w.agents:
        me.gold = 1
    if w.params.num_owners > 2:
        if w.once:
            w.state.pot = w.agents[0].gold
    if w.once:
        w.state.pot += w.agents[1].gold
""", [5, 7]),
    "a second barrier is not needed": ("""
    for me in w.agents:
        me.gold = 1
    if w.once:
        w.state.pot = w.agents[0].gold
    if w.once:
        w.state.pot = w.agents[1].gold
""", [4]),
}  # fmt: skip
"""Bodies of `env_step`, and the lines before which barriers are placed, counted from the line of `def` on."""


@pytest.mark.parametrize("case", PLACED)
def test_where_barriers_are_placed(case, tmp_path):
    body, lines = PLACED[case]
    text = text_with(f"\ndef env_step(w):{body}")
    spec = spec_of_text(text, tmp_path)
    placed = translator_of(spec, spec.kernel, text).barriers
    assert [(hook, number - FIRST) for hook, number in placed] == [("env_step", line) for line in lines]


@pytest.mark.parametrize("rows", [False, True])
def test_pairs_that_gather_rows_in_turn_have_a_barrier_between(rows, tmp_path):
    """Rows of two roles are different memory, but both are gathered in one array of scratch."""
    spec = port_of(spec_in_cpp("Pot-v0"))
    spec = replace(spec, scratch=(Scratch("rows", "float32", lambda params: 100, align=4),) if rows else None)
    text = spec.kernel.read_text()
    observe = """
def env_observe(w):
    for me, it in w.pairs(w.role.player, w.each(1)):
        me.obs[it] = f32(me.purse)
    for me, it in w.pairs(w.role.judge, w.each(1)):
        me.obs[it] = f32(w.state.pot)
"""
    translator = translator_of(spec, tmp_path / "hooks.py", text.partition("\ndef env_observe")[0] + observe)
    assert [hook for hook, _ in translator.barriers].count("env_observe") == rows


def test_a_hook_is_translated_line_by_line(tmp_path):
    text = text_with("""
def env_step(w):
    for me in w.agents:
        half = me.gold // 2
        if half > w.t:
            me.gold -= 1
        me.reward = f32(half) * w.params.tax
""")
    made = translated(text, tmp_path)
    path = f'"{tmp_path}/hooks.py"'
    expected = {
        6: "GV_FN void env_step(GvWorld& w) {",
        7: "    for (auto me : w.agents) {",
        8: "        const gv_i32 half = gv_floor_quotient(me.gold, 2);",
        9: "        if ((half > w.t)) {",
        10: "            me.gold = (me.gold - 1);",
        11: "        me.reward = (gv_float_of(half) * w.params.tax);",
    }
    for number, piece in expected.items():
        assert f"#line {number} {path}\n{piece}\n" in made


@pytest.mark.parametrize(("python", "cpp"), [
    ("me.index // 2", "(me.index / 2)"),
    ("me.gold % 3", "gv_floor_rest(me.gold, 3)"),
    ("me.index % w.agents.count()", "(me.index % w.agents.count())"),
    ("-2147483648", "(-2147483647 - 1)"),
    ("min(me.gold, 3, w.t)", "gv_smaller(gv_smaller(me.gold, 3), w.t)"),
    ("abs(me.gold)", "gv_magnitude(me.gold)"),
    ("i32(0.1)", "(gv_i32)0.1f"),
    ("i32(2.5e-10)", "(gv_i32)2.5e-10f"),
    ("1 if me.gold > 0 and w.t != 2 else CELLS", "(((me.gold > 0) && (w.t != 2)) ? 1 : 6)"),
    ("i32(1 < me.gold <= 3)", "(gv_i32)((1 < me.gold) && (me.gold <= 3))"),
])  # fmt: skip
def test_an_expression(python, cpp, tmp_path):
    made = translated(text_with(f"\ndef env_step(w):\n    for me in w.agents:\n        me.gold = {python}\n"), tmp_path)
    assert f"me.gold = {cpp};" in statements(made)


def test_renamed_imports_annotate_results(tmp_path):
    text = text_with("""
from gpu_vecenv.pyhooks import f32 as t, i32 as u


def pair(w, x: t) -> tuple[t, u]:
    return x, 2


def env_step(w):
    for me in w.agents:
        me.reward, me.gold = pair(w, 1.0)
""")
    assert "GV_METHOD static Results_f32_i32 pair(GvWorld& w, float x) {" in statements(translated(text, tmp_path))


def test_names_change_places(tmp_path):
    text = "\ndef env_step(w):\n    for me in w.agents:\n        x, y = 1, 2\n        x, y = y, x\n        me.gold = x\n"
    made = statements(translated(text_with(text), tmp_path))
    swap = [line for line in made if line.startswith(("const gv_i32 Value", "x = Value", "y = Value"))]
    assert swap == ["const gv_i32 Value0_9_8 = y;", "const gv_i32 Value1_9_8 = x;", "x = Value0_9_8;", "y = Value1_9_8;"]


def test_names_of_python_that_cpp_keeps_for_itself(tmp_path):
    text = text_with("""
def env_step(w):
    for me in w.agents:
        int_, new, grösse, N, gv_x, _y, by = 1, 2, 3, 4, 5, 6, 7
        double = new + grösse + N + gv_x + _y + int_ + by
        me.gold = double
        me.reward = 0.0
""")
    spec = spec_of_text(text, tmp_path)
    assert "const gv_i32 grUf6_sse_U = 3;" in translate(spec, spec.kernel, text)
    compile_to_bytes(spec, cpu_level(), ("-O0",))
    compile_ptx(spec, 90)


def test_two_names_of_python_are_two_names_of_cpp():
    """Also with what the translator appends to them."""
    letters = ("", "e", "U", "_", "9", "é", "è", "E", "K")
    words = {"".join(parts) for parts in itertools.product(letters, repeat=5)}
    words |= {f"U{code}{end}" for code in ("e9", "55", "e8", "e9_U", "e9_", "e9__U") for end in ("", "_", "_U", "_K", "_End")}
    words = sorted(word for word in words if word.isidentifier() and unicodedata.normalize("NFKC", word) == word)
    suffixes = ("", "_K", "_End", "_Divisor", "_Argument", "_Agent")
    c_names = [f"{c_name(word)}{suffix}" for word in words for suffix in suffixes]
    c_names += ["Value0_9_8", "Values9_8", "Results_f32_i32", "GvPythonHooks"]
    assert len(set(c_names)) == len(c_names) > 100000 and all(name.isascii() and name.isidentifier() for name in c_names)


def test_every_change_of_the_file_makes_another_kernel(tmp_path):
    text = text_with("")
    names = set()
    for changed in (text, text + "# a comment\n", text.replace("0.0", "1.0")):
        names.add(object_name(spec_of_text(changed, tmp_path), cpu_level()))
    assert len(names) == 3 and all(name.startswith("hooks-") for name in names)


def test_the_folder_of_the_file_makes_no_other_kernel(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    assert len({object_name(spec_of_text(text_with(""), folder), cpu_level()) for folder in folders}) == 1


def test_a_message_of_the_compiler_names_the_line_of_the_file(tmp_path, monkeypatch):
    """The translator lets nothing pass that does not compile, so a function is renamed under it."""
    text = text_with("\ndef env_step(w):\n    for me in w.agents:\n        me.reward = sqrt(2.0)\n")
    spec = spec_of_text(text, tmp_path)
    source = kernel_source(spec).replace("gv_sqrt(2.0f)", "gv_root(2.0f)")
    monkeypatch.setattr(compiler, "kernel_source", lambda *_: source)
    with pytest.raises(CompileError, match=re.escape(f"{tmp_path}/hooks.py:8:")):
        compile_to_bytes(spec, cpu_level(), ("-O0",))


@pytest.mark.parametrize("name", slow_but(["Pot-v0"], PORTS))
@pytest.mark.parametrize("arch", slow_but([90], ARCHITECTURES))
def test_kernels_of_hooks_in_python_compile_for_gpus(name, arch):
    spec = port_of(spec_in_cpp(name))
    for module in (0, 1):
        assert inexact_instructions(compile_ptx(spec, arch, module)) == []


@pytest.mark.slow
@pytest.mark.parametrize("module", [0, 1])
@pytest.mark.parametrize("name", PORTS)
def test_kernels_of_hooks_in_python_use_no_more_registers_than_those_in_cpp(name, module):
    spec = spec_in_cpp(name)
    cpp, python = (kernel_reports(one, 90, module) for one in (spec, port_of(spec)))
    assert python.keys() == cpp.keys()
    assert {kernel: used for kernel, used in python.items() if used.registers > cpp[kernel].registers} == {}
    assert {kernel: used for kernel, used in python.items() if used.spills > cpp[kernel].spills} == {}


@pytest.mark.slow
def test_hooks_that_use_much_of_the_subset_compile_for_gpus(tmp_path):
    text = (Path(__file__).parent / "ports" / "ledger.py").read_text()
    for module in (0, 1):
        compile_ptx(spec_of_text(text, tmp_path), 90, module)


@pytest.mark.slow
def test_a_policy_and_hooks_in_python_share_a_kernel():
    """Fused rollouts: the same instructions as with the hooks in C++."""
    sizes = Sizes(4, (32,), "relu", 2, (2,), rows=64)
    texts = []
    for spec in (spec_in_cpp("WarpCartPole-v1"), port_of(spec_in_cpp("WarpCartPole-v1"))):
        program = rollout_program(sizes, Layout(spec, spec.resolve({})))
        texts.append(compile_text(kernel_source(program), 90, *program_options(program)))
    counts = [Counter(re.findall(r"^\s*(?:@!?%p\d+ )?([a-z][\w.]+)\s", text, re.MULTILINE)) for text in texts]
    assert abs(counts[0].total() - counts[1].total()) <= 0.01 * counts[0].total()
    assert ".local" not in texts[1]
