"""The page of findings, and the scripts behind its numbers."""

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import findings  # noqa: E402
import findings_catalysis  # noqa: E402
import findings_covid  # noqa: E402
import findings_rice  # noqa: E402

from gpu_vecenv.envs.catalysis.reference import CatalysisReference  # noqa: E402
from gpu_vecenv.envs.catalysis.spec import landscape  # noqa: E402
from gpu_vecenv.envs.covid import scripted  # noqa: E402
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer  # noqa: E402
from tools.docs import findings_table  # noqa: E402

SMALL = {"num_envs": 2, "network": NetworkConfig(hidden_sizes=(8,))}


def test_the_page_shows_the_results():
    assert findings_table.main(["--check"]) == 0


def lines(table):
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines() if line.startswith("| ")]


def row(case, play, numbers, **facts):
    """A row whose run i has the numbers i of all lists."""
    runs = [{"seed": i, "measured": dict(zip(numbers, each, strict=True))} for i, each in enumerate(zip(*numbers.values()))]  # noqa: B905
    machine = {"cpu": "a CPU", "python": "3", "torch": "2", "commit": "abc", "date": "today"}
    return {"case": case, "play": play, "command": "python x.py", "machine": machine, **facts, "runs": runs}


def test_a_policy_reaches_the_optimum_if_its_return_is_the_best_one():
    rows = [
        row("gas1", "exact", {"agent": [5.0], "barrier": [1.0]}),
        row("gas1", "trained on a GPU", {"agent": [5.00005, 4.99, 4.99995], "barrier": [1.0, 1.0, 1.0]}, seconds=12.3),
        row("gas2", "exact", {"agent": [7.0], "barrier": [0.0]}),
    ]
    header, _, first, second = lines(findings_table.pathways(rows))
    assert header[4:] == ["trained on a GPU: return", "seeds with the best return", "barrier, eV", "s a seed"]
    assert first[:4] == ["`gas1`", "–", "5.0000", "1.0000"]
    assert first[5:] == ["2 of 3", "1.0000 ± 0.0000", "4.1"]
    assert second == ["`gas2`", "–", "7.0000", "0.0000", "–", "–", "–", "–"]


def test_trained_play_is_followed_by_its_difference_from_random_play_of_the_same_seed():
    numbers = [3.0, 5.0, 7.0]
    rows = [
        row("a game", "random", {"region": [1.0, 4.0, 7.0]}),
        row("a game", "trained on a CPU", {"region": numbers}),
        row("another game", "trained on a CPU", {"region": numbers}),
    ]
    table = lines(findings_table.plays(rows, [findings_table.Column("region", "return", ".2f")]))
    half = 4.302653 * np.std(numbers, ddof=1) / np.sqrt(3)  # Student's t with two degrees of freedom
    assert ["trained on a CPU", f"5.00 ± {half:.2f}"] in table
    differences = [2.0, 1.0, 0.0]
    half = 4.302653 * np.std(differences, ddof=1) / np.sqrt(3)
    assert ["*trained on a CPU, minus random*", f"+1.00 ± {half:.2f}"] in table
    assert sum("minus" in line[0] for line in table) == 1


def results(path):
    return {name: row["runs"] for name, row in json.loads(path.read_text())["rows"].items()}


@pytest.mark.slow
def test_catalysis_is_played_exactly_at_random_and_by_a_trained_policy(tmp_path, monkeypatch):
    out = tmp_path / "results.json"
    ppo = PPOConfig(num_steps=16)
    monkeypatch.setattr(findings_catalysis, "base", lambda case, options: TrainConfig(
        "WarpCatalysis-v0", env_kwargs={"configuration": case}, total_steps=32, ppo=ppo, **SMALL))  # fmt: skip
    monkeypatch.setattr(findings_catalysis, "EPISODES", 2)
    findings_catalysis.main(findings.Options(seeds=2, cases=("check_two_atom_c",), out=out))
    rows = results(out)
    (exact,) = rows["check_two_atom_c: exact"]
    assert exact["measured"]["agent"] == pytest.approx(29.28885) and exact["measured"]["steps"] == 2
    for play in ("random", "trained on a CPU", "trained from everywhere on a CPU"):
        runs = rows[f"check_two_atom_c: {play}"]
        assert [run["seed"] for run in runs] == [0, 1]
        assert all(set(run["measured"]) == {"agent", "barrier", "arrived", "steps"} for run in runs)
        assert all(run["measured"]["agent"] <= exact["measured"]["agent"] + 1e-5 for run in runs)
    # Rows that are not played again stay.
    findings_catalysis.main(findings.Options(seeds=1, cases=("check_two_atom_c",), plays=("random",), out=out))
    assert {name: len(runs) for name, runs in results(out).items()} == {
        "check_two_atom_c: exact": 1, "check_two_atom_c: random": 1, "check_two_atom_c: trained on a CPU": 2,
        "check_two_atom_c: trained from everywhere on a CPU": 2}  # fmt: skip


@pytest.mark.parametrize(("case", "number"), [("diffusion3d", 1), ("check_two_atom_b", 2)])
def test_half_of_the_episodes_start_in_random_cells_that_cost_little(case, number):
    config = TrainConfig("WarpCatalysis-v0", num_envs=400, env_kwargs={"configuration": case}, device="cpu")
    trainer = Trainer(config, quiet=True)
    findings_catalysis.start_everywhere(trainer)
    env = trainer.env
    env.reset(seed=1)
    state = env.get_state("position", "position2")
    cells = np.concatenate([state[name][:, :3].numpy() for name in ("position", "position2")[:number]], axis=1).astype(int)
    at_start = (cells == env.params["initial_state"]).all(axis=1)
    assert 140 < at_start.sum() < 260 and len(np.unique(cells[~at_start], axis=0)) > 100
    reference = CatalysisReference(env.params, landscape(env.params))
    for cell in cells[~at_start]:
        reference.position = cell.tolist()
        assert not reference.is_outside() and (env.params["ienergy"] - reference.energy()) / env.params["max_denergy"] > -0.2
        assert reference.position != list(env.params["final_state"])
    trainer.close()


def test_a_signal_ends_the_script(tmp_path):
    config = TrainConfig("WarpCartPole-v1", num_envs=2, total_steps=2_000, device="cpu", ppo=PPOConfig(num_steps=10))

    def send_at_the_next_launch(trainer):
        launch = trainer.launch
        trainer.launch = lambda: (os.kill(os.getpid(), signal.SIGTERM), launch())

    with pytest.raises(SystemExit, match="stopped"):
        findings.train("a game", [config], tmp_path, send_at_the_next_launch)
    assert not list(tmp_path.iterdir())


def test_options_name_cases_that_exist():
    with pytest.raises(SystemExit, match="--cases: expected some of without negotiation, with negotiation, got peace"):
        findings_rice.main(findings.Options(cases=("peace",)))


def test_covid_scenarios_are_the_published_ones(tmp_path):
    out = tmp_path / "results.json"
    options = findings.Options(out=out)
    findings_covid.published(findings.Rows("findings_covid", options), "published game", options)
    rows = json.loads(out.read_text())["rows"]
    found = {row["play"]: row["runs"][0]["measured"]["planner"] for row in rows.values()}
    assert {name: round(value, 1) for name, value in found.items()} == scripted.PUBLISHED
    assert [row["published"]["planner"] for row in rows.values()] == list(scripted.PUBLISHED.values())


@pytest.mark.slow
def test_covid_is_trained_together_and_in_two_phases(tmp_path, monkeypatch):
    out = tmp_path / "results.json"
    monkeypatch.setattr(findings_covid, "CASES", {"a game": {"episode_length": 40, "subsidy_interval": 10}})
    monkeypatch.setattr(findings_covid, "EPISODES", 2)
    base = findings_covid.base
    monkeypatch.setattr(findings_covid, "base", lambda case, options: dataclasses.replace(
        base(case, options), total_steps=40, ppo=PPOConfig(num_steps=20), **SMALL))  # fmt: skip
    findings_covid.main(findings.Options(seeds=2, out=out))
    rows = json.loads(out.read_text())["rows"]
    assert set(rows) == {f"a game: {play}" for play in (
        "best simple policy for governors", "best simple policy for the planner", "random",
        "trained on a CPU", "trained, random planner on a CPU", "trained, random governors on a CPU",
        "two phases on a CPU")}  # fmt: skip
    assert rows["a game: two phases on a CPU"]["steps"] == 2 * rows["a game: trained on a CPU"]["steps"]
    best = rows["a game: best simple policy for the planner"]
    policy = best["policy"]
    env_days = np.arange(40)

    def actions(t):
        level = policy["stringency"] if env_days[t] < policy["days"] else 1
        return np.full((1, 51), level), np.full(1, policy["subsidy"])

    alone = findings_covid.play(findings_covid.CASES["a game"], 1, actions, "cpu")
    assert alone["planner"][0] == pytest.approx(best["runs"][0]["measured"]["planner"], rel=1e-6)


def test_rice_is_bounded_recorded_and_trained(tmp_path, monkeypatch):
    out = tmp_path / "results.json"
    monkeypatch.setattr(findings_rice, "EPISODES", 2)
    base = findings_rice.base
    monkeypatch.setattr(findings_rice, "base", lambda case, options: dataclasses.replace(
        base(case, options), total_steps=40, num_envs=2, network=NetworkConfig(hidden_sizes=(8,))))  # fmt: skip
    findings_rice.main(findings.Options(seeds=1, cases=("without negotiation",), out=out))
    rows = results(out)
    for name, (_, published) in findings_rice.BOUNDS.items():
        (run,) = rows[f"without negotiation: {name}"]
        assert {x: run["measured"][x] for x in published} == pytest.approx(published, rel=2e-6)
    (recorded,) = rows["without negotiation: recorded"]
    assert recorded["measured"]["temperature_rise"] == pytest.approx(4.0999, abs=1e-4)
    assert len(rows["without negotiation: random"]) == len(rows["without negotiation: trained on a CPU"]) == 1
