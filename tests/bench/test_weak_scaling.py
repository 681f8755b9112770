"""The benchmark of several processes: its counts, its table, and a small run."""

import json

import pytest

from benchmarks import weak_scaling


def test_a_rate_is_told_in_rates_of_one_process():
    rates = {1: {"rates": {"a": {"steps_per_second": 10.0}}}, 4: {"rates": {"a": {"steps_per_second": 30.0}}}}
    counts = weak_scaling.with_times(rates)
    assert counts[1]["rates"]["a"]["times"] == 1.0 and counts[4]["rates"]["a"]["times"] == 3.0


def test_weak_scaling_has_the_worlds_of_each_process_and_strong_scaling_those_of_all():
    assert weak_scaling.Row("WarpTag-v0", 2_000, "fused", 16).setting(4).worlds == 8_000
    assert weak_scaling.Row("WarpTag-v0", 2_000, "fused", 16, weak=False).setting(4).worlds == 2_000
    assert weak_scaling.BARS.keys() < {row.name for row in weak_scaling.ROWS["cuda"]}


def test_counts_are_powers_of_two():
    assert weak_scaling.counts_of("cpu", 6) == [1, 2, 4]
    assert weak_scaling.counts_of("cpu", 1) == [1]


@pytest.mark.slow
def test_a_small_run_writes_rates_and_times_of_sums(monkeypatch, tmp_path):
    out = tmp_path / "weak.json"
    words = ["weak_scaling.py", "--device", "cpu", "--seconds", "0.01", "--rounds", "1", "--most", "2", "--out", str(out)]
    monkeypatch.setattr("sys.argv", words)
    weak_scaling.main()
    counts = json.loads(out.read_text())["devices"]["cpu"]["counts"]
    assert counts.keys() == {"1", "2"} and counts["2"]["summed_by"] == "gloo"
    assert [row["place"] for row in counts["2"]["sums"]] == ["outside"] * 5
    assert all(row["times"] > 0 for count in counts.values() for row in count["rates"].values())
