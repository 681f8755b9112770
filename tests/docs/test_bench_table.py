"""Tables and plots show the recorded measurements."""

import copy
import json
import re

import pytest

from tools.docs import bench_plots, bench_table, bench_words

BLOCKS = [f"<!-- generated: {name} ({bench_table.COMMAND}) -->\n<!-- /generated -->\n" for name in ("bench", "training")]
BEFORE = f"before\n{BLOCKS[0]}between\n{BLOCKS[1]}after\n"


def row(library="gpu_vecenv", path="python_copy_false", worlds=1_000, seconds=1e-5, **more):
    made = {"mode": "env", "library": library, "path": path, "device": "cpu", "env": "WarpCartPole-v1", "params": {},
            "starts": "own", "worlds": worlds, "agents": 1, "median_s": seconds, "low_s": seconds, "high_s": seconds}  # fmt: skip
    made |= {"env_steps_per_s": worlds / seconds, "agent_steps_per_s": worlds / seconds}
    if library == "gpu_vecenv":
        made |= {"floor_s": seconds / 4, "times_floor": 4.0, "host_s": seconds, "kernel_launches": 1.0, "host_syncs": None,
                 "bytes_per_world": 94.0, "floor_bytes": {"state": 40.0 * worlds}}  # fmt: skip
    return made | more


def made(rows):
    machine = {"device": "cpu", "cpu": "a CPU", "cores": 2, "python": "3", "torch": "2", "commit": "c", "date": "today"}
    head = {"machine": machine, "floors": {"copy_bytes_per_s": 5e9}, "peers": {"gymnax": "1.0.1", "VMAS": None}}
    return {**head, "rounds": 5, "command": "gpu-vecenv bench", "rows": rows}


def cells(text, worlds):
    (line,) = (line for line in text.splitlines() if f"| {worlds} |" in line)
    return line.strip("| ").split(" | ")


def test_documents_and_plots_are_current():
    assert bench_table.main(["--check"]) == 0, f"run {bench_table.COMMAND}"


def test_every_plot_was_made_from_the_recorded_rows():
    for data in bench_table.recorded():
        for file in bench_plots.names(data):
            assert bench_plots.fingerprint(data, file) in (bench_plots.FOLDER / file).read_text()


def test_lines_of_plots_are_named_in_words():
    for data in bench_table.recorded():
        for file in bench_plots.names(data):
            text = (bench_plots.FOLDER / file).read_text()
            assert "python_" not in text and "rollout_" not in text and "vector_entry" not in text
        for each in data["rows"]:
            if each["mode"] == "env" and each["env"] == "WarpCartPole-v1":
                assert "_" not in bench_words.named(each["library"], each["path"]).removeprefix("gpu_vecenv: ")


def test_a_line_shows_speeds_the_floor_and_peers():
    rows = [row(), row(path="python_copy_true", seconds=2e-5)]
    rows += [row("gymnax", "scan", seconds=4e-5), row("gymnax", "step", seconds=8e-5)]
    text = bench_table.env_table(bench_table.by_case(rows, "env"))
    others = "gymnax scan 25 M, ours 4 x<br>gymnax step 12.5 M, ours 8 x"
    assert cells(text, "1,000") == ["WarpCartPole-v1", "1,000", "100 M", "50 M", "4", others]


def test_installed_and_missing_peers_are_named():
    assert "Other libraries: gymnax 1.0.1, VMAS (not installed)." in bench_table.measured_on(made([]))


def test_errors_and_missing_paths_are_shown():
    broken = {name: value for name, value in row("VMAS", "x").items() if not name.endswith("_s")} | {"error": "ValueError: no"}
    text = bench_table.env_table(bench_table.by_case([row(), broken, row(path="graph", worlds=5, times_floor=2.0)], "env"))
    assert cells(text, "1,000")[-3:] == ["–", "4", "VMAS x failed"]
    assert cells(text, "5")[2:] == ["–", "500 K", "2", "–"]


def test_the_host_table_is_for_gpus_only():
    gpu = {"bare_launch_s": 6e-6, "fresh_arrays_s": 1e-5, "python_loop_s": 3.3e-6, "host_syncs": 0.0}
    rows = [row(host_s=7.04e-6, host_over_bare_s=1.2e-6, **gpu), row(path="python_copy_true", host_s=2.3e-5, **gpu)]
    told = cells(bench_table.host_table(bench_table.by_case(rows, "env")), "1,000")
    assert told[2:] == ["7.0 (1.2)", "–", "23.0", "6.0", "10.0", "3.3", "1", "0", "94"]
    for each in rows:  # it did not fit in memory
        del each["fresh_arrays_s"]
    assert cells(bench_table.host_table(bench_table.by_case(rows, "env")), "1,000")[6] == "–"
    assert bench_table.host_table(bench_table.by_case([row(), row(path="python_copy_true")], "env")) == ""


def test_labels_name_agents_and_parameters():
    params = {"num_taggers": 5, "num_runners": 100, "use_full_observation": True}
    tag = row(env="WarpTag-v0", params=params, agents=105, agent_steps_per_s=105e8)
    assert bench_table.label(tag) == "WarpTag-v0, 5 + 100 agents, all observed"
    assert bench_table.speed(tag) == "100 M (10.5 G)"


def test_the_short_table_has_the_largest_size_that_a_peer_ran():
    rows = [row(worlds=n) for n in (10, 100, 7_000)] + [row("EnvPool", "sync", worlds=n, seconds=1e-3) for n in (10, 100)]
    rows += [row("gymnax", "scan", worlds=100, seconds=4e-4), row(path="rollout", worlds=100, seconds=5e-6)]
    text = bench_table.short(made(rows))
    assert cells(text, "10 million") == ["WarpCartPole-v1; 100 worlds", "10 million", "40 times gymnax"]
    assert "; 10 worlds" not in text and "7,000" not in text
    assert "makes\n20 million steps a second in the first row." in text and "Measured on a CPU" in text


def test_the_short_table_begins_with_envs_of_many_agents():
    tag = {"env": "WarpTag-v0", "params": {"num_taggers": 5, "num_runners": 100}, "agents": 105, "worlds": 60}
    rows = [row(), row("EnvPool", "sync"), row(seconds=2e-5, **tag), row("WarpDrive", "step", seconds=2e-3, **tag)]
    text = bench_table.short(made(rows))
    assert cells(text, "3 million") == ["WarpTag-v0, 5 taggers, 100 runners; 60 worlds", "3 million", "100 times WarpDrive"]
    assert text.index("WarpTag") < text.index("WarpCartPole") and "makes\n3 million steps" in text


def test_the_blocks_of_the_readme_have_few_columns_and_no_jargon():
    results = bench_table.recorded()[0]
    text = bench_table.short(results) + bench_table.short_training(made([trained()]))
    assert {line.count("|") for line in text.splitlines() if line.startswith("|")} == {4}
    assert not re.search(r"\b(slabs?|floors?|bits?|copy bandwidth|nodes?)\b", text)


def test_short_training_names_the_fastest_run_and_another_library_with_the_same_setting():
    tag = {"env": "WarpTag-v0", "params": {}, "agents": 105}
    rows = [trained(path="graph", seconds=4e-5), trained(), trained(seconds=1e-6, runs=8), trained("PureJaxRL", "x", 7e-5)]
    rows += [trained("PyTorch", "x", 2e-5, hidden_sizes=[8]), trained(seconds=1e-3, **tag), trained(env="WarpAcrobot-v1")]
    text = bench_table.short_training(made(rows))
    assert [line for line in text.splitlines() if line.startswith("- ")] == [
        "- WarpCartPole-v1: 100 million steps a second, 7 times PureJaxRL",
        "- WarpTag-v0, 105 agents: 1 million steps a second",
    ]
    assert bench_table.short_training(made([row()])) == bench_table.ELSEWHERE


def trained(library="gpu_vecenv", path="fused", seconds=1e-5, **more):
    setting = {"num_steps": 8, "num_epochs": 4, "num_minibatches": 2, "hidden_sizes": [64, 32], "mode": "training"}
    made = row(library, path, seconds=seconds, **setting)
    return made | more


def test_training_has_a_row_for_every_way_and_its_speed_relative_to_the_fastest_single_run():
    rows = [trained(), trained(path="graph_tf32", seconds=2e-5), trained("PureJaxRL", "jitted training", 4e-5)]
    rows += [trained(path="fused_8_runs", seconds=5e-6, runs=8), row(seconds=1e-9)]
    text = bench_table.training([made(rows) | {"purejaxrl_sha256": "0123456789abcdef"}])
    told = [line.strip("| ").split(" | ")[3:] for line in text.splitlines() if "| 1,000 |" in line]
    assert told == [
        ["fused", "100 M", "0.08", "1"], ["graph, tf32", "50 M", "0.16", "0.5"],
        ["PureJaxRL, jitted training", "25 M", "0.32", "0.25"], ["fused 8 runs", "200 M", "0.04", "2"]]  # fmt: skip
    assert "| 8 steps, 4 x 2, 64-32 |" in text and "Other libraries: PureJaxRL 0123456789ab." in text


def test_goals_show_the_spread_over_seeds():
    goal = {"mode": "goal", "title": "preset", "goal": 475.0, "seconds_by_seed": [0.01, 0.02, 0.04], "reached": 2}
    ours = trained(seconds=0.02, iterations=[3, 5, 4], evaluated=[480.0, 490.0, 500.0]) | goal
    broken = {name: value for name, value in trained(path="graph").items() if not name.endswith("_s")} | goal | {"error": "x"}
    text = bench_table.training([made([ours, trained("PureJaxRL", "jitted training", 0.03) | goal, broken])])
    told = [line.strip("| ").split(" | ")[2:] for line in text.splitlines() if "preset:" in line]
    assert told[0] == ["fused", "475", "20 (10 to 40)", "2 of 3", "32 K", "490.0 (480.0 to 500.0)"]
    assert told[1][:2] == ["PureJaxRL, jitted training", "475"] and told[1][-2:] == ["–", "–"]
    assert "8 steps, 4 x 2, 64-32: graph failed." in text


def test_without_measurements_of_training_the_block_says_so():
    assert bench_table.training([]) == "No measurement is recorded.\n"


@pytest.mark.parametrize(("value", "text"), [(999.6, "1 K"), (0.794, "0.794"), (1.234e7, "12.3 M"), (2.5e9, "2.5 G"), (12, "12")])
def test_numbers_have_three_digits(value, text):
    assert bench_table.digits(value) == text


@pytest.mark.slow
def test_stale_documents_and_plots_are_found_and_rewritten(tmp_path, monkeypatch, capsys):
    for name in ("README", "PAGE"):
        path = tmp_path / f"{name}.md"
        path.write_text(BEFORE)
        monkeypatch.setattr(bench_table, name, path)
    data = tmp_path / "bench_cpu.json"
    rows = [row(worlds=n, seconds=n * 1e-8) for n in (10, 100)] + [row("EnvPool", "sync", worlds=10)]
    tag = {"env": "WarpTag-v0", "params": {"num_taggers": 5, "num_runners": 100}}
    rows += [row(agents=n, **tag) for n in (105, 205)]
    data.write_text(json.dumps(made(rows)))
    monkeypatch.setattr(bench_table, "RESULTS", [data])
    monkeypatch.setattr(bench_table, "TRAINING", [])
    monkeypatch.setattr(bench_plots, "FOLDER", tmp_path / "figures")
    assert bench_table.main(["--check"]) == 1 and (tmp_path / "README.md").read_text() == BEFORE
    assert bench_table.main([]) == 0
    assert bench_table.main(["--check"]) == 0
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == [
        "bench_cpu_cartpole.svg", "bench_cpu_per_world.svg", "bench_cpu_tag.svg"]  # fmt: skip
    changed = copy.deepcopy(rows)
    changed[0]["median_s"] *= 2
    data.write_text(json.dumps(made(changed)))
    capsys.readouterr()
    assert bench_table.main(["--check"]) == 1
    assert "bench_cpu_cartpole.svg" in capsys.readouterr().out
    assert bench_table.main(["--wrong"]) == 2
