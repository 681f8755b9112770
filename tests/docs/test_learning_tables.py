"""The tables of what algorithms learn."""

import json

import pytest

from gpu_vecenv.train.config import AlgorithmPreset, PQNConfig, Preset, SACConfig
from tools.docs import learning_tables
from tools.docs.generated import short_commit


def test_the_pages_show_the_committed_results():
    assert learning_tables.main(["--check"]) == 0


def run(seed, likeliest, random, trained=None):
    matches = [{"random": [], "mean_return": trained or likeliest}, {"random": [*likeliest], "mean_return": random}]
    return {"seed": seed, "matches": matches, "likeliest": {"mean_return": likeliest}}


MACHINE = {"cpu": "Some CPU", "torch": "2", "commit": "abc", "date": "2026-01-01"}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file of results, and read results from its folder alone."""
    monkeypatch.setattr(learning_tables, "RESULTS", tmp_path)
    return lambda name, key, rows: (tmp_path / f"{name}.json").write_text(json.dumps({key: rows}))


def test_a_page_without_results_says_so(write):
    assert {block() for block in learning_tables.LEARNED.values()} == {"Not measured yet."}


def test_a_row_counts_the_seeds_that_reach_the_target_and_leaves_failed_runs_out(write):
    runs = [run(0, {"agent": -150.0}, {"agent": -1200.0}), run(1, {"agent": -170.0}, {"agent": -1210.0}), {"error": "x"}]
    row = {"machine": MACHINE, "hyperparameters": {"sac": {}}, "runs": runs}
    other = {**row, "hyperparameters": {"td3": {}}}
    write("learning_off_policy", "envs", {"WarpPendulum-v1 sac": row, "WarpPendulum-v1 td3": other})
    text = learning_tables.off_policy_block("sac")
    assert "| `WarpPendulum-v1 sac` | 2 | -160.0 ± 127.1 | -1205.0 ± 63.5 | -160 | 1 of 2 |" in text
    assert "td3" not in text and '--cases "WarpPendulum-v1 sac"` on Some CPU' in text


def test_roles_stand_beside_random_and_scripted_ones_with_the_same_opponents(write, tmp_path):
    returns = {(): (5.0, -3.0), ("tagger",): (1.0, 9.0), ("runner",): (7.0, -4.0), ("tagger", "runner"): (2.0, -1.0)}
    matches = [{"random": list(roles), "mean_return": {"tagger": x, "runner": y}} for roles, (x, y) in returns.items()]
    one = {"seed": 0, "matches": matches, "likeliest": {"mean_return": {"tagger": 0.0, "runner": 0.0}}}
    write("learning_pqn", "envs", {"TAG": {"machine": MACHINE, "hyperparameters": {"pqn": {}}, "runs": [one]}})
    (tmp_path / "scripted.json").write_text('{"cases": {"TAG": {"tagger": {"policy": "chase", "returns": [6.5, 7.5]}}}}')
    text = learning_tables.pqn_block()
    assert "| `TAG` | taggers | random | 7.00 | 2.00 | `chase`: 7.00 ± 6.35 | 1 of 1 |" in text
    assert "| `TAG` | taggers | trained | 5.00 | 1.00 | – | 1 of 1 |" in text
    assert "| `TAG` | runners | random | 9.00 | -1.00 | – | 1 of 1 |" in text
    assert "| `TAG` | runners | trained | -3.00 | -4.00 | – | 1 of 1 |" in text


def test_the_page_of_pqn_has_the_ids_with_a_preset_by_their_mixing(monkeypatch):
    preset = Preset(algorithms={"pqn": AlgorithmPreset(PQNConfig(mixing="vdn"))})
    alone = Preset(algorithms={"pqn": AlgorithmPreset(PQNConfig()), "sac": AlgorithmPreset(SACConfig())})
    presets = {"A-v0": preset, "B-v0": alone, "C-v0": Preset(algorithms={"sac": AlgorithmPreset(SACConfig())}), "D-v0": preset}
    monkeypatch.setattr(learning_tables, "PRESETS", presets)
    text = learning_tables.pqn_presets()
    assert "| values of single agents | `B-v0` |\n" in text and "| sums over teams, PQN-VDN | `A-v0`, `D-v0` |\n" in text
    assert "C-v0" not in text


@pytest.mark.parametrize(("commit", "shown"), [
    ("2f67797ca43bf89a784d22489139ddba694d843d", "2f67797c"), ("c22c6004-dirty", "c22c6004-dirty"),
    ("b99220a-dirty", "b99220a-dirty"), ("2f67797ca43bf89a-dirty", "2f67797c-dirty"), ("unknown", "unknown"),
])  # fmt: skip
def test_a_commit_is_shown_with_the_state_of_its_files(commit, shown):
    assert short_commit(commit) == shown


def test_libraries_stand_side_by_side_with_the_test(write):
    runs = [{"library": library, "seed": seed, "area": area + seed, "likeliest": -150.0 - 20 * seed}
            for library, area in (("gpu_vecenv", -300.0), ("Stable-Baselines3", -310.0)) for seed in range(2)]  # fmt: skip
    comparison = {"difference": 10.0, "bootstrap_95": [9.0, 11.0], "p_value": 0.001, "equivalent": True}
    row = {"machine": MACHINE, "margin": 107.3, "runs": runs, "comparison": comparison}
    write("off_policy_sb3", "cases", {"ddpg": row})
    text = learning_tables.off_policy_block("ddpg")
    assert "| gpu_vecenv | 2 | -299.5 ± 6.4 | -160.0 ± 127.1 | 1 of 2 |" in text
    assert "| Stable-Baselines3 | 2 | -309.5 ± 6.4 |" in text
    assert "is 10.0, 95 % interval by bootstrap 9.0 to 11.0; with the margin 107.3" in text and "p = 0.001: equivalent." in text


def test_the_areas_of_ppo_stand_beside_those_of_the_other_library(write):
    found = {"mean_area": {"gpu_vecenv": 399.04, "Stable-Baselines3": 405.0}, "difference": -5.96, "bootstrap_95": [-16.0, 2.5],
             "p_value": 1.6e-07, "equivalent": False}  # fmt: skip
    runs = [{"library": library} for library in ("gpu_vecenv", "Stable-Baselines3")]
    row = {"machine": MACHINE, "margin": 47.8, "settings": {"env_id": "Pole-v0"}, "comparison": found, "runs": runs}
    write("against_sb3", "cases", {"pole": row})
    line = "| `Pole-v0` | 1 | 399.0 | 405.0 | -6.0, -16.0 to 2.5 | 47.8 | 1.6e-07 | not shown to be equivalent |"
    assert line in learning_tables.ppo_block()


def test_a_memory_is_measured_on_the_range_from_random_actions_to_the_full_observation(write):
    rows = {way: {"machine": MACHINE, "runs": [run(0, {"agent": value}, {"agent": 20.0}, {"agent": value})]}
            for way, value in (("CartPole: all observed", 500.0), ("CartPole: velocities hidden, GRU", 452.0))}  # fmt: skip
    rows["Recall: LSTM"] = {"machine": MACHINE, "runs": [run(0, {"agent": 0.85}, {"agent": 0.25})]}
    write("memory", "envs", rows)
    text = learning_tables.memory_block()
    assert "| CartPole | velocities hidden, GRU | 1 | 452.0 | 0.90 |" in text
    assert "| Recall | LSTM | 1 | 0.85 | 0.80 |" in text


def test_critics_stand_beside_ippo(write):
    intervals = {"area": {"mean": [2.0, 0.5], "difference": [1.0, None]}, "evaluation": {"mean": [3.0, None]}}
    intervals["explained_variance"] = {"mean": [0.25, 0.125]}
    write("central_critic", "cases", {"MAPPO": {"machine": MACHINE, "intervals": intervals, "runs": [{}, {}]}})
    assert "| MAPPO | 2 | 2.00 ± 0.50 | 1.00 | 3.00 | – | 0.25 ± 0.12 |" in learning_tables.critic_block()
