"""The table of training on several GPUs."""

from tools.docs import weak_scaling_table


def test_the_page_shows_the_committed_results():
    assert weak_scaling_table.main(["--check"]) == 0


def test_a_column_has_the_rate_of_a_number_of_gpus_and_how_many_times_that_of_one_it_is():
    names = "Env-v0, 1,000 x 16, graph, weak", "Env-v0, 1,000 x 16, graph, strong"
    rates = (1e6, 1.0), (1.5e6, 1.5)
    one, two = ({name: {"steps_per_second": rate, "times": times} for name in names} for rate, times in rates)
    ways = ("nccl", "inside"), ("direct", "outside")
    sums = [{"numbers": 256, "by": by, "place": place, "microseconds": 47.4} for by, place in ways]
    counts = {"1": {"rates": one, "sums": []}, "2": {"rates": two, "sums": [*sums, {**sums[0], "numbers": 1}]}}
    row = {"counts": counts, "machine": {"gpu": "Some GPU", "commit": "0123456789abcdef"}}
    text = weak_scaling_table.block({"devices": {"cuda": row}})
    assert "| environment | worlds x steps | iterations | 1 GPU | 2 GPUs |" in text
    assert "| Env-v0 | 1,000 of a GPU x 16 | graph | 1.00 M (1.00) | 1.50 M (1.50) |" in text
    assert "| Env-v0 | 1,000 of all GPUs x 16 | graph | 1.00 M (1.00) | 1.50 M (1.50) |" in text
    assert "| GPUs | bytes | NCCL, inside | direct, outside |" in text and "| 2 | 1,024 | 47 | 47 |" in text
    assert "| 2 | 4 | 47 |  |" in text and "Some GPU, commit 01234567." in text
