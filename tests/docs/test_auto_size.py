"""The tables of sizes that are found, and the script that measures them."""

import json
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import auto_size  # noqa: E402

from gpu_vecenv.train.config import PRESETS  # noqa: E402
from gpu_vecenv.train.runner.auto_sizes import Plan  # noqa: E402
from gpu_vecenv.train.runner.size_grid import Place, Sizes  # noqa: E402
from tools.docs import auto_size_table  # noqa: E402


def test_the_page_shows_the_committed_results():
    assert auto_size_table.main(["--check"]) == 0


def test_the_committed_results_hold():
    devices = json.loads(auto_size_table.RESULTS.read_text())["devices"]
    for row in devices.values():
        for case in (case for cases in row["cases"].values() for case in cases):
            assert case["ratio"] >= 0.9 and case["search_s"] <= 30
        for learned in row["learning"].values():
            assert all(means["difference_at_least"] >= -means["margin"] for means in learned["roles"].values())


def test_rows_show_their_numbers(tmp_path, monkeypatch):
    sizes, best = ({"num_envs": 1000 * n, "num_steps": 8, "num_minibatches": n} for n in (1, 2))
    case = {
        "total_steps": 5000, "search_s": 9.6, "tried": 7, "found": sizes, "found_steps_per_second": 1234.4, "best": best,
        "swept": 50, "ratio": 0.956,
    }  # fmt: skip
    means = {"random": 1.0, "preset": 2.0, "found": 2.5, "difference_at_least": 0.25, "margin": 0.1}
    row = {
        "machine": {"gpu": "Some GPU", "cpu": "x", "commit": "abc"},
        "cases": {"Env-v0": [case]},
        "learning": {"Env-v0": {"sizes": sizes, "roles": {"runner": means}}},
    }
    path = tmp_path / "auto_size.json"
    path.write_text(json.dumps({"devices": {"cuda:0": row}}))
    monkeypatch.setattr(auto_size_table, "RESULTS", path)
    text = auto_size_table.block()
    assert "| cuda:0 | Env-v0 | 5,000 | 1,000 x 8, 1 | 7 sizes in 10 s | 1,234 | 2,000 x 8, 2, of 50 | 0.96 |" in text
    assert "| cuda:0 | Env-v0 | runner | 1,000 x 8, 1 | 1.00 | 2.00 | 2.50 | 0.25 | -0.10 |" in text
    assert "on Some GPU (cuda:0), commit abc." in text


def test_returns_measured_apart_from_sizes_name_their_machine():
    own, later = ({"gpu": "Some GPU", "cpu": "x", "commit": commit} for commit in ("abc", "0123456789-dirty"))
    learned = {"A": {}, "B": {"machine": later}, "C": {"machine": {**own, "date": "later"}}, "D": {"machine": later}}
    results = {"devices": {"cpu": {"machine": {"cpu": "x", "commit": "ab"}, "learning": {}},
                           "cuda:0": {"machine": own, "learning": learned}}}  # fmt: skip
    text = "x (cpu), commit ab; Some GPU (cuda:0), commit abc; returns of B (cuda:0) and D (cuda:0) on Some GPU, commit "
    assert auto_size_table.machines(results) == text + "01234567-dirty"


def test_the_first_steps_of_a_case_are_those_of_the_preset():
    for device, cases in auto_size.CASES.items():
        assert all(PRESETS[env_id].on(device).total_steps == steps[0] for env_id, steps in cases.items())


class Grid:
    """Three sizes, of which the second does not fit into memory."""

    def places(self):
        return [Place(0, worlds, 0) for worlds in (0, 1, 2)]

    def at(self, place):
        return Sizes(4 >> place.worlds, 1, 1)

    def fits(self, sizes):
        return sizes.num_envs != 2


class Measure:
    """Rates that grow with the worlds."""

    def __call__(self, sizes):
        return 10.0 * sizes.num_envs**2

    def seconds(self, iteration):
        return iteration


def test_the_sweep_measures_all_sizes_that_fit_and_end_in_time():
    plan = Plan(Grid(), Measure(), None, None)
    assert auto_size.sweep(plan, longest=1.0) == [(Sizes(1, 1, 1), 10.0), (Sizes(4, 1, 1), 160.0)]
    assert auto_size.sweep(plan, longest=0.3) == [(Sizes(1, 1, 1), 10.0)]


def test_sizes_found_learn_as_the_preset_within_the_margin_or_not():
    spread = [0.0, 1.0, -1.0, 0.5, -0.5]
    runs = {"preset": [{"a": 100 + x} for x in spread], "found": [{"a": 90 + x} for x in spread]}
    (within,), (beyond,) = (auto_size.compare(runs, {"a": random}).values() for random in (20.0, 80.0))
    assert within["margin"] == 16.0 and beyond["margin"] == 4.0
    assert within["holds"] and not beyond["holds"]
    half = 1.860 * math.sqrt(2 * 0.625 / 5)  # Student's t at 95 % with 8 degrees of freedom
    assert within["difference_at_least"] == pytest.approx(-10 - half, abs=1e-3)


@pytest.mark.parametrize("returns", [[500.0] * 3, [500.0, 100.0, 450.0]])
def test_equal_runs_do_not_differ(returns):
    """The spread over seeds of the second ones is wider than the margin."""
    runs = {name: [{"a": x} for x in returns] for name in ("preset", "found")}
    compared = auto_size.compare(runs, {"a": 20.0})["a"]
    assert compared["difference_at_least"] == 0.0 and compared["holds"]
    runs["found"].reverse()  # as far as one can tell, other runs
    assert auto_size.compare(runs, {"a": 20.0})["a"]["holds"] == (len({*returns}) == 1)
