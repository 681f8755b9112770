"""The kernels keep the rules for kernels, and the linter reports each kind of offence at its line."""

from pathlib import Path

import pytest

from tools.lint import kernels as lint_kernels

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [*lint_kernels.sources(), *sorted((ROOT / "tests" / "roles").glob("*.cu"))]

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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_a_kernel_keeps_the_rules(path):
    assert lint_kernels.lint_file(path) == []


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
    monkeypatch.setattr(lint_kernels, "HEADERS", tmp_path)
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


def test_the_exit_status_is_1_with_an_offence(tmp_path, capsys):
    bad = tmp_path / "bad.cu"
    bad.write_text(FRAME % "x = sinf(x);")
    assert lint_kernels.main([str(bad)]) == 1
    assert f"{bad}:9: `sinf(`" in capsys.readouterr().out
    assert lint_kernels.main([]) == 0
