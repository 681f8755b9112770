"""The tables of learners beside other libraries."""

import json

import pytest

from gpu_vecenv.train.fused.cost import TIMES
from tools.docs import learner_speed_table

ROWS = {
    "sac one gpu_vecenv": {"steps_per_second": 2000.0},
    "sac one peer, graphs": {"steps_per_second": 400.0},
    "sac one broken": {"error": "no module"},
    "sac many gpu_vecenv": {"steps_per_second": 9.0},
}


def test_the_page_shows_the_committed_results():
    assert learner_speed_table.main(["--check"]) == 0


@pytest.mark.parametrize(("kind", "way"), [("cpu", "eager"), ("cuda", "graph")])
def test_a_run_names_the_cost_of_torch_that_was_measured(kind, way):
    rows = json.loads((learner_speed_table.RESULTS / f"training_{kind}.json").read_text())["rows"]
    times = learner_speed_table.times_of_torch(rows, way)
    assert len(times) > 5 and f"{times[0]:.0f} to {times[-1]:.0f}" == TIMES[kind]


def test_a_row_has_our_rate_over_that_of_the_library():
    rows = learner_speed_table.off_policy_rows(ROWS)
    assert rows == [["SAC", "gpu_vecenv", "2,000", "1.00"], ["SAC", "peer, graphs", "400", "5.00"]]


def test_a_memory_stands_beside_the_peer_with_sequences_of_the_same_length():
    ways = {f"{way}, {kind}": {"ms": ms} for way in learner_speed_table.MEMORY for kind, ms in (("auto", 2.0), ("torch", 30.0))}
    ways["PureJaxRL, 64 units, sequences of 16"] = {"ms": 50.0}
    options = {"worlds": 2048, "num_steps": 128, "rounds": 3}
    machine = {"cpu": "x", "gpu": "Some GPU", "commit": "0123456789abcdef"}
    text = learner_speed_table.memory_block({"ways": ways, "options": options, "machine": machine})
    assert "| GRU of 64 units, segments of 16 steps | 2.00 | 30.0 | 50.0 (25 times) |" in text
    assert "| GRU of 64 units, whole sequences of 128 steps | 2.00 | 30.0 |  |" in text
    assert "Some GPU, commit 01234567, medians of 3 rounds." in text


def test_a_memory_on_a_core_stands_beside_each_kind_of_the_other_library():
    machine = {"cpu": "Some CPU", "commit": "0123456789abcdef"}
    times = {"peer, one": {"steps_per_core_second": 2.04}, "peer, two": {"steps_per_core_second": 10.0}}
    ours = {"machine": machine, "steps_per_core_second": 5000.4, "times_faster": times}
    rows = {"LSTM": ours, "peer, one": {"steps_per_core_second": 2451.0}, "peer, two": {"steps_per_core_second": 500.0}}
    text = learner_speed_table.recurrent_block({"rows": {"pole": rows, "swing": rows}, "sb3_contrib": "2.0"})
    assert "| steps a second of a core | pole | swing |" in text
    assert "| LSTM | 5,000 (2.0, 10.0) | 5,000 (2.0, 10.0) |" in text and "| peer, one | 2,451 | 2,451 |" in text
    assert "times the steps of peer, one and of peer, two, version 2.0. Some CPU, commit 01234567." in text


def test_iterations_are_those_of_this_package_by_each_way():
    row = {
        "mode": "training", "library": "gpu_vecenv", "path": "graph_tf32", "env": "Pole-v0", "worlds": 2048, "num_steps": 128,
        "num_epochs": 4, "num_minibatches": 2, "hidden_sizes": [64, 32], "median_s": 1e-4, "env_steps_per_s": 20480.4,
    }  # fmt: skip
    changes = ({}, {"path": "fused_8_runs"}, {"library": "a peer"}, {"mode": "goal"}, {"env": "Lost-v0"})
    rows = [{**row, **change} for change in changes]
    del rows[-1]["median_s"]
    text = learner_speed_table.iterations_block({"rows": rows, "rounds": 5, "machine": {"cpu": "x", "commit": "abc"}})
    assert "| `Pole-v0` | 2,048 x 128, 4 x 2 | 64-32 | graph, tf32 | 12.8 | 20,480 |" in text
    assert "fused, 8 runs side by side" in text and "peer" not in text and "Lost" not in text and text.count("Pole-v0") == 2
