"""The table of training on several GPUs."""

from tools.docs import weak_scaling_table


def test_the_page_shows_the_committed_results():
    assert weak_scaling_table.main(["--check"]) == 0


def test_a_column_has_the_rate_and_the_efficiency_of_a_number_of_gpus():
    one, two = ({"Env-v0, graph": {"steps_per_second": rate, "efficiency": share}} for rate, share in ((1e6, 1.0), (1.5e6, 0.75)))
    counts = {"1": {"rates": one, "microseconds_of_sum": {}}, "2": {"rates": two, "microseconds_of_sum": {"256": 47.4}}}
    machine = {"gpu": "Some GPU", "commit": "0123456789abcdef"}
    row = {"counts": counts, "worlds_of_a_process": {"Env-v0": 1000}, "machine": machine}
    text = weak_scaling_table.block({"devices": {"cuda": row}})
    assert "| environment | worlds of a GPU | iterations | 1 GPU | 2 GPUs |" in text
    assert "| Env-v0 | 1,000 | graph | 1.00 M (1.00) | 1.50 M (0.75) |" in text
    assert "2 GPUs takes 47 us for 1,024 bytes." in text and "Some GPU, commit 0123456789ab." in text
