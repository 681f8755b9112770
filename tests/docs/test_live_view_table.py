"""The table of what the live page of a run costs."""

from tools.docs import live_view_table


def test_the_page_shows_the_committed_results():
    assert live_view_table.main(["--check"]) == 0


def test_a_line_has_the_times_over_those_without_the_live_view_and_shares_of_threads():
    no_page = {"time_ratio": {"median": 0.9999, "low": 0.999, "high": 1.0008}}
    shares = {"trainer_share": {"mean": 0.0012, "half": 0.0001}, "server_share": {"mean": 0.0003, "half": 0.00002}}
    page = {"time_ratio": {"median": 1.002, "low": 1.001, "high": 1.003}, **shares, "excerpts_a_second": 0.5, "in_flight": 16.0}
    row = {"num_envs": 1_024, "num_steps": 64, "no_page": no_page, "a_page": page}
    machine = {"cpu": "Some CPU", "gpu": "Some GPU", "cores": 8, "load": 0.3, "commit": "0123456789abcdef"}
    text = live_view_table.block({"devices": {"cuda:0": {"machine": machine, "rows": {"Env-v0": row}}}})
    times = "-0.01% (-0.10% to +0.08%) | +0.20% (+0.10% to +0.30%)"
    assert f"| cuda:0 | Env-v0, 1,024 x 64 steps | {times} | 0.120% ± 0.010% | 0.030% ± 0.002% | 0.50 | 16 |" in text
    assert text.endswith("\ncuda:0: Some GPU, 8 cores, load 0.3 of other programs, commit 01234567.\n")
