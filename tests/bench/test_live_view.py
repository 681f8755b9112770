"""The benchmark of live pages: a small run, where no kernels can be compiled for browsers."""

import json

import pytest

from benchmarks import live_view
from gpu_vecenv.backend import wasm


def test_only_a_page_gets_excerpts_and_no_kernels_are_compiled_for_it(monkeypatch, tmp_path):
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    out = tmp_path / "live_view.json"
    words = "live_view.py --device cpu --envs WarpCartPole-v1 --rounds 2 --seconds 0.2 --out"
    monkeypatch.setattr("sys.argv", [*words.split(), str(out)])
    live_view.main()
    row = json.loads(out.read_text())["devices"]["cpu"]["rows"]["WarpCartPole-v1"]
    assert [row[way]["excerpts_a_second"] > 0 for way in ("without", "no_page", "a_page")] == [False, False, True]
    assert all(row[way]["in_flight"] == 1 for way in live_view.WAYS)
    assert "time_ratio" not in row["without"] and row["a_page"]["time_ratio"]["coverage"] == pytest.approx(0.5)
