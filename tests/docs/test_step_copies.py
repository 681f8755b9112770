"""The table of steps against copies, and the cases that its script measures."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import step_copies  # noqa: E402

from tools.docs import step_copies_table  # noqa: E402


def test_the_page_shows_the_committed_results():
    assert step_copies_table.main(["--check"]) == 0


def test_a_row_shows_its_numbers(tmp_path, monkeypatch):
    case = {
        "machine": {"gpu": "Some GPU", "commit": "abc"},
        "rows": [{"worlds": 1000, "bytes": 8, "step_us": 3.0, "copy_us": 2.0, "ratio": 1.5}],
    }
    path = tmp_path / "step_copies.json"
    path.write_text(json.dumps({"town": case}))
    monkeypatch.setattr(step_copies_table, "RESULTS", path)
    assert "| town | 1,000 | 3.0 | 2.0 | 1.50 |" in step_copies_table.block()
    assert "on Some GPU, commit abc." in step_copies_table.block()


def test_an_unknown_case_is_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.set_device", lambda device: None)
    with pytest.raises(SystemExit, match="--cases: expected some of town, RICE-N, .*, got nothing"):
        step_copies.main(step_copies.Options(cases=("nothing",)))
