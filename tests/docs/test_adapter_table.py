"""The table of libraries shows the recorded tests and benchmarks of every library."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.adapters import CASES, Case, measure, merged
from tests.adapters.conftest import DISTRIBUTIONS
from tools.docs import adapter_table
from tools.docs.adapter_table import COMMAND, DOCUMENT, PAGES, SPEED, SUPPORT, current_text, document, main

ROOT = Path(__file__).resolve().parents[2]

CLAIMS = """
import pytest

@pytest.mark.works("CleanRL-style", "holds for all")
@pytest.mark.parametrize("n", [1, 2])
def test_all(n): pass

@pytest.mark.works("CleanRL-style", "holds for some")
@pytest.mark.parametrize("n", [1, 2, 3])
def test_some(n): assert n != 2

@pytest.mark.works("CleanRL-style", "held once")
def test_fails_now(): assert False

@pytest.mark.works("CleanRL-style", "skipped, so as it was")
def test_without_its_library(): pytest.importorskip("no_such_library")
"""

START = f"<!-- generated: adapters ({COMMAND}) -->"
EMPTY = f"{START}\n<!-- /generated -->\n"
MADE = {"cpu": "a CPU", "torch": "2", "torch_threads": 1, "python": "3", "commit": "c", "date": "today"}


def sb3(path, **more):
    return {"library": "Stable-Baselines3", "path": path, "version": "2.9", "num_envs": 512, **more}


def cells(text, library):
    (line,) = (line for line in text.splitlines() if line.startswith(f"| [{library}]("))
    return line.replace("\\|", "/").strip("| ").split(" | ")[1:]


def test_the_table_is_current():
    assert DOCUMENT.read_text() == current_text(), f"run {COMMAND}"


@pytest.mark.parametrize("library", DISTRIBUTIONS)
def test_every_library_is_in_the_table(library):
    assert (DOCUMENT.parent / PAGES[library]).is_file()
    assert len(cells(DOCUMENT.read_text(), library)) == 5


def test_a_text_is_recorded_while_all_of_its_tests_pass(tmp_path):
    record, test = tmp_path / "support.json", tmp_path / "test_claims.py"
    test.write_text(CLAIMS)
    before = ["held once", "not asked", "skipped, so as it was"]
    record.write_text(json.dumps({"CleanRL-style": {"version": "1", "works": before, "limit": ["a limit"]}}))
    options = ["-p", "tests.adapters.conftest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", *options, test, f"--record-support={record}"]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    told = json.loads(record.read_text())["CleanRL-style"]
    assert told["works"] == ["holds for all", "not asked", "skipped, so as it was"] and told["limit"] == ["a limit"]
    assert told["version"] != "1"


def test_every_page_is_linked():
    pages = {page.name for page in DOCUMENT.parent.glob("*.md")} - {DOCUMENT.name}
    assert pages == set(PAGES.values())
    assert all(f"]({page})" in DOCUMENT.read_text().partition("<!--")[0] for page in pages)


def test_every_recorded_result_is_in_the_table():
    text, support, speed = DOCUMENT.read_text(), json.loads(SUPPORT.read_text()), json.loads(SPEED.read_text())
    assert set(support) <= set(PAGES)
    for library, said in support.items():
        works, limit, *_ = cells(text, library)
        assert [works, limit] == ["<br>".join(said[kind]) or "–" for kind in ("works", "limit")]
    for device, run in speed["devices"].items():
        for row in run["rows"]:
            assert f"{device}: " in cells(text, row["library"])[2 if row["path"] == "numpy" else 3]


def test_the_benchmark_knows_the_distributions():
    assert {case.library: case.distribution for case in CASES}.items() <= DISTRIBUTIONS.items()


def test_cells_show_speeds_failures_and_missing_libraries():
    support = {"Stable-Baselines3": {"version": "2.8", "works": ["a", "b | c"], "limit": []}}
    good = {"cpu": {"machine": MADE, "rows": [sb3("numpy", rows_per_second=12345.6), sb3("device", rows_per_second=30864)]}}
    bad = {"cuda:0": {"machine": {**MADE, "gpu": "a GPU"}, "rows": [
        sb3("numpy", error="ValueError: no\n<way>"), {"library": "skrl", "path": "device", "missing": True}]}}  # fmt: skip
    text = document(EMPTY, support, {"devices": {**good, **bad}})
    assert cells(text, "Stable-Baselines3") == [
        "a<br>b / c", "–", "cpu: 12,300<br>cuda:0: failed: ValueError: no &lt;way>", "cpu: 30,900", "2.8<br>2.9"]  # fmt: skip
    assert cells(text, "skrl") == ["–", "–", "–", "cuda:0: not installed", "–"]
    assert "- **cpu**: a CPU, PyTorch 2 with 1 thread(s) on the CPU, Python 3; 512 worlds; commit c, today." in text
    assert "- **cuda:0**: a GPU, host CPU a CPU" in text
    assert text.count("`GpuPPO` has 2.5 times the rows") == text.count("`GpuPPO`") == 1


def test_a_stale_table_is_found_and_rewritten(tmp_path, monkeypatch, capsys):
    page = tmp_path / "index.md"
    page.write_text(f"before\n{EMPTY}after\n")
    monkeypatch.setattr(adapter_table, "DOCUMENT", page)
    assert main(["--check"]) == 1 and page.read_text() == f"before\n{EMPTY}after\n"
    assert main([]) == 0 and page.read_text().startswith(f"before\n{START}\n| library |")
    assert main(["--check"]) == 0
    assert main(["--wrong"]) == 2
    assert capsys.readouterr().out == f"stale: {page.name}\n" * 2


def test_a_missing_library_and_a_failing_example_are_recorded():
    missing = measure(Case("None", "no-such-distribution", "device", "sb3_ppo"), "cpu", 1)
    assert missing["missing"] and "rows_per_second" not in missing
    failing = measure(Case("CleanRL-style", "torch", "device", "no_such_example"), "cpu", 1)
    assert failing["error"] == "ModuleNotFoundError: No module named 'examples.no_such_example'"


def test_results_of_other_devices_are_kept():
    recorded = {"benchmark": "adapters", "devices": {"cuda:0": {"rows": ["kept"]}, "cpu": {"rows": ["old"]}}}
    devices = merged(recorded, "cpu", ["new"])["devices"]
    assert {device: run["rows"] for device, run in devices.items()} == {"cuda:0": ["kept"], "cpu": ["new"]}
    assert devices["cpu"]["machine"]["device"] == "cpu"
