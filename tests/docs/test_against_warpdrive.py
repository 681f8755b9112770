"""The page for users of WarpDrive, and the benchmark behind its figures."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import against_warpdrive as script  # noqa: E402
import tag_matches as matches  # noqa: E402
import tag_training as training  # noqa: E402

from gpu_vecenv.envs.grid_tag.spec import SPEC as GRID_TAG  # noqa: E402
from gpu_vecenv.envs.tag.spec import SPEC as TAG  # noqa: E402
from tools.docs import warpdrive_table  # noqa: E402


def section(heading):
    page = (ROOT / "docs" / "coming-from-warpdrive.md").read_text()
    return page.partition(f"## Keys of `{heading}`\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize(("heading", "spec"), [("tag_continuous.yaml", TAG), ("tag_gridworld.yaml", GRID_TAG)])
def test_keys_with_the_same_name_are_parameters(heading, spec):
    rows = [line.split("|")[1:3] for line in section(heading).splitlines() if line.startswith("| `")]
    same = [name for keys, ours in rows if ours.strip() == "same" for name in re.findall(r"`(\w+)`", keys)]
    assert len(same) >= 8
    assert set(same) <= {param.name for param in spec.params}


def test_the_page_shows_the_results():
    assert warpdrive_table.main(["--check"]) == 0


def test_network_of_warpdrive_has_its_formula():
    generator = np.random.default_rng(0)
    shapes = {"fc.0.0": (5, 7), "fc.1.0": (4, 5), "policy_head.0": (3, 4), "policy_head.1": (2, 4), "vf_head": (1, 4)}
    weights = {f"{name}.weight": generator.normal(size=shape) for name, shape in shapes.items()}
    weights |= {f"{name}.bias": generator.normal(size=shape[0]) for name, shape in shapes.items()}
    obs = generator.normal(size=(6, 7))
    hidden = obs
    for name in ("fc.0.0", "fc.1.0"):
        hidden = np.maximum(hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"], 0)
    expected = [hidden @ weights[f"{name}.weight"].T + weights[f"{name}.bias"] for name in ("policy_head.0", "policy_head.1")]
    network = matches.WarpDriveNetwork({name: torch.tensor(x, dtype=torch.float32) for name, x in weights.items()})
    assert (network.choices, network.features) == ((3, 2), 7)
    logits = network(torch.tensor(obs, dtype=torch.float32)).detach()
    np.testing.assert_allclose(logits, np.concatenate(expected, 1), atol=1e-5)


def test_snapshots_are_taken_once_for_each_time(monkeypatch):
    monkeypatch.setattr(training, "SNAPSHOT_SECONDS", (0.0, 1.0, 2.0, 4.0))
    policy, snapshots = {"weight": torch.zeros(1)}, training.Snapshots(0.0)
    for number, seconds in enumerate((0.0, 0.5, 1.2, 1.9, 5.0)):
        policy["weight"].fill_(number)
        snapshots.offer(seconds, number, 10 * number, dict.fromkeys(training.ROLES, policy))
    snapshots.offer(5.5, 6, 60, dict.fromkeys(training.ROLES, policy), last=True)
    assert [taken["seconds"] for taken in snapshots.taken] == [0.0, 1.2, 5.0, 5.5]
    assert [float(taken["policies"]["runner"]["weight"]) for taken in snapshots.taken] == [0, 2, 4, 4]


def results():
    """Results as the script writes them, of one run with two seeds and one that failed."""

    def played(survival):
        return {"caught": 100 - survival / 5, "survival": survival, "return_tagger": 1.0, "return_runner": -1.0}

    def seed(number):
        points = [
            {"seconds": s, "iterations": 3, "steps": 2_000_000, "taggers": played(300 - s), "runners": played(300 + s)}
            for s in (0.0, 2.0, 40.0 + number)
        ]
        facts = {"gpu": "a GPU", "torch": "2", "commit": "abc", "date": "2026-01-01"}
        return {"seed": number, "start_up": 9.0, "machine": facts, "points": points}

    return {
        "benchmark": "against_warpdrive",
        "runs": {
            "warpdrive_shipped": {"label": "WarpDrive, as shipped", "seeds": [{"seed": 0, "error": "Traceback"}]},
            "ours": {"label": "ours, 256 worlds", "seeds": [seed(0), seed(2)]},
        },
        "tournament": {
            "episodes": 4,
            "matches": [{"taggers": a, "runners": b, **played(200)} for a in ("random", "ours") for b in ("random", "ours")],
        },
    }


def test_results_are_written_drawn_and_listed(tmp_path, capsys):
    script.write(tmp_path / "results.json", results())
    assert json.loads((tmp_path / "results.json").read_text()) == results()
    script.write(tmp_path / "results.json", {**results(), "tournament": {}})
    assert json.loads((tmp_path / "results.json").read_text())["tournament"] == {"matches": []}
    script.draw(results(), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    script.table(results())
    assert "warpdrive_shipped    seed 0: failed" in capsys.readouterr().out
    text = warpdrive_table.block(results())
    assert "| ours, 256 worlds | 9 (9 to 9) | 41 (40 to 42) | 3 (3 to 3) | 2.0 (2.0 to 2.0) |" in text
    assert "| ours, 256 worlds | 259 (258 to 260) | 48 (48 to 48) | 341 (340 to 342) | 32 (32 to 32) |" in text
    assert "| all act at random | 200 | 60 | 200 | 60 |" in text


@pytest.mark.slow
def test_this_package_trains_and_plays_without_warpdrive(tmp_path):
    params = json.dumps({"num_runners": 20, "episode_length": 40})
    options = script.Options(
        runs=("warpdrive_shipped", "ours", "ours_extended"), seeds=1, seconds=5.0, worlds=4, total_steps=1_000, episodes=4,
        device="cpu", params=params, train='{"stagger_starts": true}', work=tmp_path, out=tmp_path / "results.json",
    )  # fmt: skip
    script.measure(options)
    found = json.loads(options.out.read_text())
    assert "Traceback" in found["runs"]["warpdrive_shipped"]["seeds"][0]["error"]  # it has no source here
    for name in ("ours", "ours_extended"):
        (seed,) = found["runs"][name]["seeds"]
        assert "error" not in seed
        assert seed["settings"]["stagger_starts"]
        assert seed["points"][-1]["steps"] == 1_000
        for point in seed["points"]:
            assert 0 <= point["runners"]["caught"] <= 20
            assert 0 < point["taggers"]["survival"] <= 40
    assert len(found["tournament"]["matches"]) == 9
