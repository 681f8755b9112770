"""The page of reproduced results, and the script that runs the tasks."""

import json
import sys
from pathlib import Path

import pytest

from tools.docs import reproduce_table

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import reproduce_all  # noqa: E402


def test_the_page_shows_the_committed_results():
    assert reproduce_table.main(["--check"]) == 0


def result(task, algorithm, *returns):
    """Results of a task with three agents of one role and these returns of an agent."""
    runs = [{"seed": seed, "final": {"agent": x, "sum": 3 * x}} for seed, x in enumerate(returns)]
    random = {"agent": -25.0, "sum": -75.0}
    facts = {"steps": 1_000_000, "seconds": 12.4, "roles": {"agent": 3}, "device": "cuda:0"}
    return {"task": task, "algorithm": algorithm, "random": random, "runs": runs, **facts}


ANCHOR = {"steps": 2_000, "seconds": 7.0, "seeds": 2, "random": {"agent": -25.0, "sum": -75.0}, "runs": [{"agent": -9.0}] * 2}


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """The rows after the results of two algorithms were taken twice; the second ones are better."""
    monkeypatch.setattr(reproduce_table, "RESULTS", tmp_path / "reproduce.json")
    for mean in (-8.0, -5.0):
        for algorithm in ("ippo", "mappo"):
            (tmp_path / algorithm).mkdir(exist_ok=True)
            content = result("WarpSimpleSpread-v3", algorithm, mean, mean)
            (tmp_path / algorithm / "results.json").write_text(json.dumps(content))
        reproduce_table.take(tmp_path)
    return json.loads((tmp_path / "reproduce.json").read_text())["rows"]


def test_a_row_has_the_returns_of_the_latest_results(rows):
    returns = "agent: -5.00 (-5.00 to -5.00) | -15.00 (-15.00 to -15.00) | -75.00"
    line = f"| WarpSimpleSpread-v3 | ippo | 2 x 1,000,000 | {returns} | 12 |"
    assert line in reproduce_table.all_results(rows) and len(rows) == 2


def test_runs_of_jaxmarl_stand_above_those_of_the_same_algorithm(rows):
    lines = reproduce_table.beside_jaxmarl(rows, {"spread-mappo": ANCHOR}).splitlines()[2:]
    assert lines == [
        "| spread | JaxMARL mappo | 2 x 2,000 | agent: -9.00 (-9.00 to -9.00) | 7 |",
        "| spread | mappo | 2 x 1,000,000 | agent: -5.00 (-5.00 to -5.00) | 12 |",
    ]


def test_seconds_on_the_cpu_are_marked(rows):
    (row, *_) = rows.values()
    row["device"] = "cpu"
    first, second = reproduce_table.all_results(rows).splitlines()[2:]
    assert first.endswith("| 12, CPU |") and second.endswith("| 12 |")


def test_published_runs_stand_above_those_of_the_same_task(rows):
    facts = {"env": "mpe2", "steps": 20_000, "at_equal_steps": -30.0, "at_the_end": -20.5, "source": "figure"}
    run = {"task": "WarpSimpleSpread-v3", "trained_by": "Other ippo", **facts}
    published = {"sources": {"figure": {"name": "a figure", "url": "https://example.org"}}, "rows": [run]}
    lines = reproduce_table.beside_published({**rows, "another": {"task": "WarpSimpleTag-v3"}}, published).splitlines()[2:]
    ours = "this package | the same | -15.00 (-15.00 to -15.00) after 1,000,000 | [above](#results) |"
    assert lines == [
        "| WarpSimpleSpread-v3 | Other ippo | mpe2 | -30.0 | -20.5 after 20,000 | [a figure](https://example.org) |",
        f"| WarpSimpleSpread-v3 | ippo | {ours}",
        f"| WarpSimpleSpread-v3 | mappo | {ours}",
    ]


def test_published_runs_are_of_tasks_that_exist():
    published = json.loads(reproduce_table.PUBLISHED.read_text())
    assert {row["task"] for row in published["rows"]} <= {*reproduce_all.TASKS}
    assert {row["source"] for row in published["rows"]} == {*published["sources"]}


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="expected a folder with folders of results"):
        reproduce_table.take(tmp_path)


def test_jobs_are_those_of_suites_and_algorithms_without_results(tmp_path):
    options = reproduce_all.Options(suites=("mpe",), algorithms=("mappo",), only_missing=True, out=tmp_path)
    (tmp_path / "WarpSimpleTag-v3-mappo").mkdir()
    (tmp_path / "WarpSimpleTag-v3-mappo" / "results.json").touch()
    names = [name for name, algorithm in reproduce_all.jobs_of(options)]
    assert names == ["WarpSimpleSpread-v3", "WarpSimpleReference-v3", "WarpSimpleSpeakerListener-v4"]


@pytest.mark.parametrize("option", ["suites", "algorithms", "jobs"])
def test_unknown_jobs_are_refused(option):
    with pytest.raises(SystemExit, match=f"--{option}: expected some of .*; got wrong"):
        reproduce_all.jobs_of(reproduce_all.Options(**{option: ("wrong",)}))
