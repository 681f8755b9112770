"""RICE-N against trajectories recorded from the authors' class, one step at a time and as whole episodes.

Files in ``tests/golden`` hold the observations of some times. ``RICE_GOLDEN`` may name a folder with files that hold all.
"""

import os
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.train import NetworkConfig
from tests.devices import DEVICES
from tests.envs.golden_rice import FLOATS, N, check, forced, free

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
FILES = sorted(GOLDEN.glob("rice_n*.npz"))
WHOLE_FILES = sorted(Path(os.environ["RICE_GOLDEN"]).glob("rice_n*.npz")) if "RICE_GOLDEN" in os.environ else []
FORMS = ("parts", "whole")


def load(path):
    z = dict(np.load(path))
    return {"obs_at": np.arange(len(z["actions"]) + 1), **z, "name": path.stem}


def test_there_are_recordings():
    names = ["rice_neg_L10_masked_s102", "rice_noneg_L10_mild_s103", "rice_noneg_L10_uniform_s101"]
    assert [path.stem for path in FILES] == names


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("observe", FORMS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_step_from_a_recorded_state(path, observe, device):
    z = load(path)
    check(z, forced(z, observe=observe, device=device, array="torch"), free_running=False)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("observe", FORMS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_whole_episode(path, observe, device):
    z = load(path)
    check(z, free(z, observe=observe, device=device, array="torch"), free_running=True)


@pytest.mark.slow
@pytest.mark.skipif(not WHOLE_FILES, reason="RICE_GOLDEN names no folder of recordings")
@pytest.mark.parametrize("observe", FORMS)
@pytest.mark.parametrize("path", WHOLE_FILES, ids=lambda path: path.stem)
def test_recordings_with_all_observations(path, observe):
    z = load(path)
    check(z, forced(z, observe=observe), free_running=False)
    check(z, free(z, observe=observe), free_running=True)


POLICIES = {"low_savings_full_mitigation": (0, 10), "full_savings_no_mitigation": (10, 0), "all_zero": (0, 0),
            "sav3_mit3": (3, 3)}  # fmt: skip
"""Levels of savings and mitigation of the policies that the authors' bounds come from; all other levels are 0."""

OF_POLICIES = {"temperature": "global_temperature", "carbon": "global_carbon_mass", "capital": "capital_all_regions",
               "labor": "labor_all_regions", "gross_output": "gross_output_all_regions",
               "intensity": "intensity_all_regions", "technology": "production_factor_all_regions"}  # fmt: skip


def test_the_published_bounds_of_the_indices():
    z = np.load(GOLDEN / "rice_scripted_extremes.npz")
    env = gymnasium.make_vec("WarpRice-v0", num_envs=4, full_rates=True, autoreset_mode="disabled", array="numpy", device="cpu")
    env.reset(seed=0)
    actions = np.zeros((4, N, 57), np.int32)
    actions[:, :, :2] = np.array(list(POLICIES.values()))[:, None]
    for t in range(20):
        *_, terminated, truncated, info = env.step({"region": actions})
        state = env.get_state()
        for w, name in enumerate(POLICIES):
            np.testing.assert_allclose(info["agent_reward"][w], z[f"{name}__rewards"][t], rtol=0, atol=3e-4)
            for field, recorded in OF_POLICIES.items():
                np.testing.assert_allclose(state[field][w], z[f"{name}__{recorded}"][t + 1], rtol=1e-5)
    assert terminated.all() and not truncated.any()
    episode = info["episode"]
    recorded = np.stack([z[f"{name}__index"] for name in POLICIES])
    found = np.stack([episode["temperature_rise"], episode["gross_output"]], 1)
    np.testing.assert_allclose(found, recorded, rtol=2e-6)
    published = [[1.2506777048110962, 606.57275390625], [7.006738662719727, 9673.5322265625]]
    np.testing.assert_allclose(found[:2], published, rtol=2e-6)
    np.testing.assert_allclose(episode["climate_index"][:2], [1, 0], atol=2e-6)
    np.testing.assert_allclose(episode["economic_index"][:2], [0, 1], atol=2e-6)
    middle = (recorded[2:] - published[0]) / np.diff(published, axis=0) * [-1, 1] + [1, 0]
    np.testing.assert_allclose(np.stack([episode["climate_index"], episode["economic_index"]], 1)[2:], middle, atol=1e-5)


@pytest.mark.parametrize("mode", ["noneg", "neg"])
def test_the_rollout_that_the_authors_recorded(mode):
    """It has the debt rule of that time."""
    z = np.load(GOLDEN / "rice_published_example2.npz")
    env = gymnasium.make_vec("WarpRice-v0", num_envs=1, old_debt_rule=True, full_rates=True, negotiation_on=mode == "neg",
                             autoreset_mode="disabled", array="numpy", device="cpu")  # fmt: skip
    env.reset(seed=0)
    physical = {"temperature": "global_temperature", "carbon": "global_carbon_mass"}
    physical |= {k: f"{v}_all_regions" for k, v in FLOATS.items() if k not in ("balance", "consumption", "utility")}
    for t, action in enumerate(z[f"{mode}/actions"].astype(np.int32)):
        *_, info = env.step({"region": action[None]})
        state = {name: values[0] for name, values in env.get_state().items()}
        recorded = {name: z[f"{mode}/state_{name}"][t + 1] for name in (*physical.values(), "reward_all_regions", "tariffs")}
        for field, name in physical.items():
            np.testing.assert_allclose(state[field], recorded[name], rtol=1e-5, err_msg=f"{field} {t}")
        np.testing.assert_allclose(state["balance"], z[f"{mode}/state_current_balance_all_regions"][t + 1], rtol=0, atol=0.5)
        np.testing.assert_allclose(state["consumption"], z[f"{mode}/state_consumption_all_regions"][t + 1], rtol=0, atol=3e-3)
        np.testing.assert_allclose(info["agent_reward"][0], recorded["reward_all_regions"], rtol=0, atol=3e-4)
        np.testing.assert_array_equal(state["tariffs"], recorded["tariffs"])
    rise = float(state["temperature"][0]) - 0.85
    np.testing.assert_allclose(rise, {"noneg": 4.0999, "neg": 1.8436}[mode], atol=1e-4)


@pytest.mark.slow
def test_the_example_compares_negotiation_with_random_play(monkeypatch, tmp_path, capsys):
    from examples import train_rice

    monkeypatch.setattr(train_rice, "OUT", str(tmp_path / "run"))
    train_rice.main(num_envs=1, total_steps=60, network=NetworkConfig(hidden_sizes=(8,)), device="cpu")
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[-4:]]
    assert [line[:2] for line in lines] == [[form, play] for form in ("no", "yes") for play in ("trained", "random")]
    without, agreed = (float(lines[k][3]) for k in (1, 3))
    assert agreed < without - 1.5 and 4 < without < 5  # of random play, in K
