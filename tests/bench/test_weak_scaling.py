"""The benchmark of several processes: its counts, its table, and a small run."""

import json

import pytest

from benchmarks import weak_scaling


def test_efficiency_is_the_rate_of_each_process_over_that_of_one():
    rates = {1: {"rates": {"a": {"steps_per_second": 10.0}}}, 4: {"rates": {"a": {"steps_per_second": 30.0}}}}
    counts = weak_scaling.with_efficiency(rates)
    assert counts[1]["rates"]["a"]["efficiency"] == 1.0 and counts[4]["rates"]["a"]["efficiency"] == 0.75


def test_counts_are_powers_of_two():
    assert weak_scaling.counts_of("cpu", 6) == [1, 2, 4]
    assert weak_scaling.counts_of("cpu", 1) == [1]


@pytest.mark.slow
def test_a_small_run_writes_rates_and_times_of_sums(monkeypatch, tmp_path):
    out = tmp_path / "weak.json"
    words = ["weak_scaling.py", "--device", "cpu", "--iterations", "1", "--rounds", "1", "--most", "2", "--out", str(out)]
    monkeypatch.setattr("sys.argv", words)
    weak_scaling.main()
    counts = json.loads(out.read_text())["devices"]["cpu"]["counts"]
    assert counts.keys() == {"1", "2"} and counts["2"]["backend"] == "gloo" and len(counts["2"]["microseconds_of_sum"]) == 5
    assert all(row["efficiency"] > 0 for count in counts.values() for row in count["rates"].values())
