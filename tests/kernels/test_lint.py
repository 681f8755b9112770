"""The kernels keep the rules for kernels, and the linter reports each kind of offence at its line."""

import re
from pathlib import Path

import pytest

from gpu_vecenv.cli.main import main
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing import lint as lint_kernels
from gpu_vecenv.testing.axes import joined_axes
from gpu_vecenv.testing.casts import joined_casts
from tests.debug.faulty import SPEC as FAULTY
from tests.kernels.test_ptx import SHAPES, spec_of
from tests.pyhooks.cases import PORTS, port_of, spec_in_cpp

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (ROOT / "envs", ROOT / "gpu_vecenv" / "kernels", ROOT / "tests" / "roles")
SOURCES = sorted(path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in (".cu", ".h"))

FRAME = """#include "hooks.h"
// threadIdx, sinf(x) and 0.5 in a comment are nothing /* nor is this
GV_FN float half(float x) { return 0.5f * gv_abs(x); }
GV_FN float total(const GvTeam& team, const float* x) {
    return gv_sum(team, 3, [&](gv_i32 i) { return x[i]; });
}
GV_FN void env_step(const GvArgs& a, const GvTeam& team) {
    GV_FOR(i, a.n) a.x[i] = 1e-3f;
    %s
    gv_barrier(team);
    GV_ONCE { a.y[0] = half(2.0f) + 1.f + 3; }
}
"""

OFFENCES = {
    "int i = threadIdx.x;": "threadIdx",
    "if (blockIdx.x == 0) a.x[0] = 1.0f;": "blockIdx",
    "if (team.lane == 0) a.x[0] = 1.0f;": "team.lane",
    "__syncthreads();": "__syncthreads",
    "__shared__ float slots[3];": "__shared__",
    "x = __shfl_sync(~0u, x, 0);": "__shfl_sync",
    "x = sinf(x);": "sinf(",
    "x = cosf (x);": "cosf (",
    "x = expf(x);": "expf(",
    "x = powf(x, 2.0f);": "powf(",
    "x = fmaf(x, x, x);": "fmaf(",
    "x = sqrt(x);": "sqrt(",
    "x = fminf(x, 0.0f);": "fminf(",
    "x = 0.5 * x;": "0.5",
    "x = .5 * x;": ".5",
    "x = 2. * x;": "2.",
    "x = 1e-3 * x;": "1e-3",
    "double y = x;": "double",
    "atomicAdd(&a.x[0], 1.0f);": "atomicAdd",
    "#include <math.h>": "#include",
    '#include "target/cuda.h"': "#include",
    '#include "../../gpu_vecenv/kernels/lib/math.h"': "#include",
    "if (a.n == 0) return;": "return",
    "GV_ONCE gv_barrier(team);": "GV_ONCE",
    "gv_block_barrier(team);": "gv_block_barrier",
    "GV_FOR(i, a.n) { total(team, a.x); }": "GV_FOR",
}

CASTS = [
    "(float)(int)x", "(float) (gv_i32) x", "(float)int(x)", "(float)static_cast<gv_i64>(x + y)", "(float)((int)x)",
    "(float)(int)-x", "(float)(gv_i32)(x + 0.5f) + 1.0f", "float(int(x))", "float((unsigned int)p->x[i + 1])",
    "float((gv_i32)f(x + y))",
    "float( ((int)w.at.heights(y, x)) )", "static_cast<float>(static_cast<int>(x))", "static_cast< float >((unsigned char)x)",
    "y * (float)(int)x", "(float)(int)*p", "float((int)*p)",
]  # fmt: skip
NO_JOINED_CASTS = [
    "(float)x", "(float)(x)", "float(x)", "(float)((int)x + 1)", "float(int(x) + 1)", "float(int(x) * int(y))", "(int)(float)k",
    "gv_float_of((gv_i32)x)", "(float)interest(x)", "(float)(interest)", "my_float(int(x))", "float(f((int)x))",
    "(double)(int)x", "static_cast<float>(k)", "(float)(k = 1, (int)x + 2)",
]  # fmt: skip


@pytest.mark.parametrize("cast", CASTS)
def test_a_float_of_an_integer_of_a_float_is_reported(cast):
    violations = lint_kernels.lint(FRAME % f"x = {cast};")
    assert [number for number, _ in violations] == [9], violations
    assert "write gv_float_of((gv_i32)x)" in violations[0][1]


@pytest.mark.parametrize("text", NO_JOINED_CASTS)
def test_other_conversions_are_not_reported(text):
    assert list(joined_casts(text)) == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_kernel_keeps_the_rules(path):
    assert lint_kernels.lint_file(path) == []


@pytest.mark.parametrize("name", SHAPES)
def test_an_env_keeps_the_rules(name):
    """Its spec tells roles and numbers of agents, and its headers are read with it."""
    spec = spec_of(name)
    assert lint_kernels.lint_env(Layout(spec, spec.resolve(SHAPES[name][0]))) == []


@pytest.mark.parametrize("name", PORTS)
def test_hooks_in_python_keep_the_rules(name):
    spec = port_of(spec_in_cpp(name))
    assert lint_kernels.lint_env(Layout(spec, spec.resolve({}))) == []


def test_kernels_and_headers_are_linted():
    assert {path.name for path in SOURCES} >= {"tag.cu", "cartpole.cu", "valley.h", "powers.h", "protocol.h"}


def test_allowed_text_is_not_reported():
    assert lint_kernels.lint(FRAME % "") == []
    for header in ('"valley.h"', '"../mountain_car/valley.h"', '"lib/rows.h"'):
        assert lint_kernels.lint((FRAME % "").replace('"hooks.h"', header)) == []
    assert lint_kernels.lint(FRAME.replace("/* nor is this", "") % "x = gv_sqrt(2.0f); a.min(1); /* sinf(x)\n 0.5 */") == []


@pytest.mark.parametrize("line", OFFENCES)
def test_an_offence_is_reported_once_at_its_line(line):
    found = lint_kernels.lint(FRAME % line)
    assert [number for number, _ in found] == [9], found
    assert OFFENCES[line] in found[0][1]


MARKED = """// double: the sum of a million floats needs it.
// A second line.
GV_FN float mean(const float* x) {
    double sum = 0.0;
    return (float)(sum * 1e-6);
}
"""


@pytest.mark.parametrize("check", [lint_kernels.lint, lint_kernels.lint_doubles])
def test_doubles_are_allowed_in_the_function_below_a_mark(check):
    assert check(MARKED) == []
    unmarked = MARKED.replace("double: the", "the")
    assert [number for number, _ in check(unmarked)] == [4, 4, 5]
    assert [number for number, _ in check(unmarked + MARKED)] == [4, 4, 5]
    assert [number for number, _ in check(MARKED + "GV_FN float one() { return 1.0; }")] == [7]
    assert len(check(MARKED.replace("the sum of a million floats needs it.", ""))) == 3, "a mark gives a reason"
    assert len(check(MARKED.replace("GV_FN", "\nGV_FN"))) == 3, "a mark belongs to the next line of code"


def test_a_mark_allows_nothing_but_doubles():
    found = lint_kernels.lint(MARKED.replace("sum * 1e-6", "expf(sum)"))
    assert len(found) == 1 and "expf(" in found[0][1]


def test_headers_of_the_package_keep_the_rule_on_doubles(tmp_path, monkeypatch):
    monkeypatch.setattr(lint_kernels, "KERNEL_FOLDER", tmp_path)
    header = tmp_path / "reduce.h"
    header.write_text("GV_FN gv_i32 first(const GvTeam& team) { return team.lane; }\nGV_FN float one() { return 1.0; }\n")
    assert [number for number, _ in lint_kernels.lint_file(header)] == [2]


def test_a_return_before_a_barrier_in_a_called_function_is_reported():
    text = (FRAME % "total(team, a.x);").replace("    gv_barrier(team);\n", "")
    assert lint_kernels.lint(text) == []
    early = text.replace("    GV_FOR(i, a.n) a.x[i] = 1e-3f;", "    if (a.n == 0) return;")
    assert [number for number, _ in lint_kernels.lint(early)] == [8]


def test_a_return_after_the_last_barrier_is_allowed():
    assert lint_kernels.lint((FRAME % "").replace("    GV_ONCE {", "    if (a.n == 0) return;\n    GV_ONCE {")) == []


def test_the_command_names_file_and_line(tmp_path, capsys):
    bad = tmp_path / "bad.cu"
    bad.write_text(FRAME % "x = sinf(x);")
    assert main(["lint", str(bad)]) == 1
    assert f"{bad}:9: `sinf(`" in capsys.readouterr().out
    assert main(["lint", str(SOURCES[0]), "WarpCovid-v0", "tests.roles:Pot-v0"]) == 0
    assert "no broken rule" in capsys.readouterr().out


@pytest.mark.parametrize(("word", "says"), [
    ("hooks.py", "expected MODULE:ID for hooks in Python"), ("nothing.cu", "cannot be read"), ("WarpTig-v0", "WarpTig"),
    ("no_module:Env-v0", "the module 'no_module' cannot be imported"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused(word, says, capsys):
    assert main(["lint", word]) == 2
    assert says in capsys.readouterr().err


HOOKS = """#include "world.h"
GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    int most = 0;
    %s
    w.barrier();
    for (auto me : w.agents) me.reward = me.x;
}
"""

RACES = {
    "for (auto me : w.agents) me.x = w.agents[0].x;": "reads a neighbour",
    "for (auto me : w.agents) { const auto it = w.agents[me.index + 1]; me.x = it.x; }": "reads a neighbour",
    "for (auto me : w.agents) me.x = s.x[me.index + 1];": "reads a neighbour",
    "for (int k : w.each(9)) s.cells[k] = s.cells[k - 1];": "reads a neighbour",
    "for (auto me : w.agents) s.cells[me.x] = 1;": "not the loop's",
    "for (auto me : w.agents) s.cells[(me.index + 1) % 9] += 1;": "not the loop's",
    "for (int k : w.each(81)) w.scratch.sums[k / 9] += 1.0f;": "not the loop's",
    "for (auto me : w.agents) w.agents[me.x].reward += 1.0f;": "not the loop's",
    "if (w.once) s.pot = 1; for (auto me : w.agents) me.x = s.pot;": "put w.barrier() between",
    "for (auto me : w.agents) me.x = 1; if (w.once) s.pot = s.x[0];": "put w.barrier() between",
    "for (auto me : w.agents) me.y = w.agents[0].x; for (auto me : w.agents) me.x = 1;": "put w.barrier() between",
    "for (auto me : w.agents) w.at.cells(me.y, me.x) = 0;": "written at an index that is not the loop's",
    "for (int k : w.each(n)) w.at.cells(k % 3, k / 3) = 0;": "written at an index that is not the loop's",
    "for (int k : w.each(n)) s.cells[k] = 1; for (auto me : w.agents) me.x = w.at.cells(0, 1);": "put w.barrier() between",
    "for (auto me : w.agents) most = me.x; w.barrier(); for (auto me : w.agents) me.y = most;": "each lane has another value",
    "if (w.once) most = 3; for (auto me : w.agents) me.x = most;": "each lane has another value",
}
FINE = [
    "for (int k : w.each(n)) w.at.cells(k / 3, k % 3) = w.at.cells(k / 3, k % 3) + 1;",
    "for (auto me : w.agents) w.at.rows(me.index, 2) = 1; if (w.once) w.at.cells(y, 0) = 1;",
    "for (auto me : w.agents) me.x = w.agents[0].y;",
    "for (auto me : w.agents) { me.x = 1; me.y = me.x; }",
    "for (auto me : w.agents) me.x = 1; for (auto me : w.agents) me.y = me.x;",
    "for (auto me : w.agents) me.x = 1; w.barrier(); for (auto me : w.agents) me.y = w.agents[0].x;",
    "for (auto me : w.agents) s.heard[3 * me.index + 1] = 1;",
    "for (auto me : w.agents) { const int i = me.index; for (int k = 0; k < 3; ++k) s.heard[k * 9 + i] = 1; }",
    "for (int k : w.each(9)) s.cells[k] += 1;",
    "for (auto me : w.agents) { const int first = 4 * me.index; for (int k = 0; k < 4; ++k) w.scratch.sums[first + k] = 0.0f; }",
    "for (auto me : w.agents) for (int k = me.index; k < 99; k += w.agents.count()) w.scratch.sums[k] = 0.0f;",
    "for (auto me : w.agents) if (me.x > 3) w.scratch.list[gv_fetch_add(w.scratch.count)] = me.index;",
    "for (auto me : w.agents) { const int slot = gv_fetch_add(w.scratch.count); w.scratch.list[slot] = me.index; }",
    "for (auto me : w.agents) w.agents[me.index].x = w.agents[me.index].x + 1;",
    "for (auto me : w.role.prey) me.place = 0; for (int k : w.each(9)) s.place[k] += 1;",
    "if (w.once) { s.pot = 1; s.x[0] = 1; w.agents[1].reward = (float)s.pot; }",
    "if (w.once) s.pot = 1; if (w.once) s.pot += 1;",
    "if (w.once) s.pot = 1; w.barrier(); for (auto me : w.agents) me.x = s.pot;",
    "bool far = false; for (auto me : w.agents) far |= me.x > 3; const bool all = w.any(far);",
    "for (auto me : w.agents) { most = me.x; me.y = most; }",
    "for (auto me : w.role.red) me.reward = 1.0f; if (w.once) w.role.blue[0].reward = 2.0f;",
    "for (auto me : w.agents) me.x = 1; const float sum = w.sum(w.agents, [&](auto it) { return (float)it.x; });",
]


@pytest.mark.parametrize("line", RACES)
def test_a_conflict_between_lanes_is_reported(line):
    found = lint_kernels.lint(HOOKS % line)
    assert [number for number, _ in found] == [5], found
    assert RACES[line] in found[0][1]


@pytest.mark.parametrize("line", FINE)
def test_phases_without_a_conflict_are_not_reported(line):
    assert lint_kernels.lint(HOOKS % line) == []


ONLY_STEPS = {
    "for (auto me : w.agents) me.obs[0] = gv_float_of(me.action.index(0));": "`me.action.index`",
    "for (auto me : w.agents) { const auto [x, y] = me.action.indices<2>().value; me.obs[0] = x; }": "`me.action.indices`",
    "for (auto me : w.agents) me.obs[0] = w.agents[of[0]].action.value();": "`.action.value`",
    "for (auto me : w.agents) me.reward = 1.0f;": "env_step alone gives rewards",
    "if (w.once) w.terminate(true);": "env_step alone ends episodes",
    "if (w.once) w.truncate_at(w.params.max_episode_steps);": "env_step alone ends episodes",
    "if (w.once) w.record.most(1.0f);": "env_step alone records metrics",
}
ONLY_OBSERVED = {
    "for (auto me : w.agents) me.x += 1;": "`me.x`",
    "for (auto me : w.agents) me.v[1] = 0.0f;": "`me.v[1]`",
    "for (int k : w.each(9)) s.cells[k]--;": "`s.cells[k]`",
    "if (w.once) w.at.cells(0, 1) = 0;": "`w.at.cells(0, 1)`",
    "if (w.once) s.pot = 0;": "`s.pot`",
}
OBSERVED = [
    "for (auto me : w.agents) { me.obs[0] = me.reward + s.action[me.index]; me.mask[0] = me.action.choices() > 1; }",
    "for (auto me : w.agents) { w.scratch.sums[me.index] = me.x; me.obs = {gv_float_of(me.x)}; int near = me.x; near += 1; }",
    "for (auto [me, it] : w.pairs(w.agents)) me.obs[it.index] = gv_float_of(it.x);",
]


def of_hook(name, line):
    rest = "    w.barrier();\n    for (auto me : w.agents) me.reward = me.x;\n"
    assert rest in HOOKS
    return HOOKS.replace("env_step", name).replace(rest, "") % line


@pytest.mark.parametrize("hook", ["env_reset", "env_observe", "env_observe_step"])
@pytest.mark.parametrize("line", [*ONLY_STEPS, *ONLY_OBSERVED])
def test_work_of_a_step_in_another_hook_is_reported(hook, line):
    violations = lint_kernels.lint(of_hook(hook, line))
    if line in ONLY_OBSERVED and hook == "env_reset":
        assert violations == []
    else:
        assert [number for number, _ in violations] == [5], violations
        assert (ONLY_STEPS | ONLY_OBSERVED)[line] in violations[0][1] and f" in {hook}" in violations[0][1]


@pytest.mark.parametrize("line", [*ONLY_STEPS, *ONLY_OBSERVED])
def test_a_step_may_do_it(line):
    assert lint_kernels.lint(of_hook("env_step", line)) == []


@pytest.mark.parametrize("line", OBSERVED)
def test_observations_and_scratch_may_be_written(line):
    assert lint_kernels.lint(of_hook("env_observe", line)) == []


def test_work_of_a_step_in_a_function_that_an_observation_calls_is_reported_at_its_line():
    helper = "template <class Agent>\nGV_FN float near(const GvWorld& w, const Agent& me) {\n    %s\n    return 0.0f;\n}\n"
    for line in ("me.x = 1;", "return me.action.value();", "if (w.once) w.truncate(true);"):
        for hook, lines in (("env_observe", [3]), ("env_step", [])):
            text = helper % line + of_hook(hook, "for (auto me : w.agents) me.obs[0] = near(w, me);")
            assert [number for number, _ in lint_kernels.lint(text)] == lines


SCATTER = "for (auto me : w.agents) {\n%s\n    s.cells[me.x] = 1;%s\n}"


@pytest.mark.parametrize(("above", "behind", "lines"), [
    ("// scatter: each agent is in a cell of its own", "", []),
    ("// scatter: each agent is in a cell of its own,\n// by the rules.", "", []),
    ("", "  // scatter: each agent is in a cell of its own", []),
    ("", "  // scatter:", [7]),
    ("// scatter: the write of another line\n    me.y = 0;", "", [6, 8]),
    ("// scatter: a cell each", "  // scatter: a cell each", [7]),
    ("", "\n  // scatter: no write follows", [7, 8]),
    ("// scatter: a race is none\n    me.z = w.agents[0].z;", "  // scatter: a cell each", [6, 7]),
])  # fmt: skip
def test_a_mark_allows_a_scatter_and_nothing_else(above, behind, lines):
    found = lint_kernels.lint(HOOKS % (SCATTER % (above, behind)))
    assert [line for line, _ in found] == lines, found


def test_a_conflict_in_a_called_function_is_reported_at_its_line():
    helper = "GV_FN void meet(const GvWorld& w, const GvAgent& me, int k) {\n    me.x = w.agents[k].x;\n}\n"
    found = lint_kernels.lint(helper + HOOKS % "for (auto me : w.agents) meet(w, me, 0);")
    assert [number for number, _ in found] == [2] and "reads a neighbour" in found[0][1]


JOINED = ["y * width + x", "y * width + x - 1", "(y * width) + x", "x + width * y", "y * width - 1", "(2 + y) * width + x"]
SEPARATE = ["2 * y + 1", "y", "y - 1", "(y + 1) * 4", "cell(y * width + x)", "order[y * width + x]", "4 * y"]


@pytest.mark.parametrize("index", [*JOINED, *SEPARATE])
@pytest.mark.parametrize(("state", "field", "says"), [
    ("w.state", "cells", r"`w.at.cells\(i, j\)`, which has the axes \(height, width\)"),
    ("s", "x", r"`w.at.x\(i, j\)`, and declare the axes in the spec"),
])  # fmt: skip
def test_an_index_that_joins_those_of_several_axes_is_reported(index, state, field, says):
    head = "" if state == "w.state" else "const auto& s = w.state; "
    text = f"GV_FN void env_step(GvWorld& w) {{ {head}{state}.{field}[{index}] = w.tables.list[{index}]; }}"
    found = [message for _, message in joined_axes(text, Layout(FAULTY, FAULTY.resolve({})))]
    assert len(found) == (index in JOINED) and all(re.search(says, message) for message in found)
