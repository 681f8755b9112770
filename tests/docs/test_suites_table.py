"""The tables of comparisons with the original packages."""

from tools.docs import suites_table

ROW = {
    "suite": "mpe", "case": "spread", "states": 12_000, "differ": 3, "at_thresholds": 2, "counts": {}, "differing": [],
    "largest": {"obs": 2e-7, "before": 4.04e-6, "agent_pos": 3e-7, "agent_vel": 1e-8, "reward": 0.0, "done": 0.0},
    "episodes": {"episodes": 1500, "differ": {"return": 9, "length": 4},
                 "quantiles": {"return": [0.0, 1e-6, 0.25], "length": [0.0, 0.0, 1.0]}},
}  # fmt: skip
HEAD = {"command": "python -m x", "packages": {"mpe2": "1.1.1"}, "parts": [7, 1008], "errors": ["one"]}


def test_the_page_shows_the_committed_results():
    assert suites_table.main(["--check"]) == 0


def test_a_configuration_has_a_row_in_both_tables_of_its_suite():
    text = suites_table.block("mpe", {**HEAD, "rows": [ROW, {**ROW, "suite": "rware", "case": "tiny", "largest": {}}]})
    assert "| configuration | states | differ | of these at a threshold | observations | rewards | state | flags |" in text
    assert "| spread | 12,000 | 3 | 2 | 4.0e-06 | 0 | 3.0e-07 | 0 |" in text
    assert "| spread | 1,500 | 4 | 0 / 1.0e-06 / 2.5e-01 |" in text and "tiny" not in text
    assert "Measured with `python -m x` and mpe2 1.1.1: 7 of 1,008 parts, 1 errors." in text


def test_a_quantity_that_a_configuration_lacks_is_a_dash():
    other = {**ROW, "case": "push", "episodes": {"episodes": 2, "differ": {"length": 0}, "quantiles": {"places": [0, 0, 0.5]}}}
    text = suites_table.block("mpe", {**HEAD, "rows": [ROW, other]})
    assert "| spread | 1,500 | 4 | 0 / 1.0e-06 / 2.5e-01 | – |" in text and "| push | 2 | 0 | – | 0 / 0 / 5.0e-01 |" in text
