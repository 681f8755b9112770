"""Tag on a grid, compared with recorded trajectories one step at a time."""

import json

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES
from tests.envs.golden_tag import GOLDEN

FILES = sorted(path.name for path in GOLDEN.glob("grid_*.npz"))
DEFAULTS = {"num_taggers": 10, "grid_length": 10, "episode_length": 100, "tag_penalty_for_runner": 2.0}
"""Defaults of the project that made the recordings, where they differ from ours."""


@pytest.fixture(params=FILES)
def golden(request):
    data = np.load(GOLDEN / request.param)
    given = {key: value for key, value in json.loads(str(data["meta_json"]))["params"].items() if key != "seed"}
    return data, {**DEFAULTS, **given}


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_from_every_recorded_state_matches_the_recording(golden, device):
    data, params = golden
    steps = len(data["done"])
    fresh = np.concatenate([[True], data["done"][:-1] == 1])
    state = {}
    for name in ("loc_x", "loc_y"):
        rows = np.concatenate([data[f"init_{name}"][None], data[name][:-1]])
        state[name] = np.where(fresh[:, None], data[f"init_{name}"], rows).astype(np.int32)
    env = gymnasium.make_vec(
        "WarpGridTag-v0", num_envs=steps, device=device, array="numpy", autoreset_mode="disabled", **params
    )
    env.reset(seed=0)
    env.unwrapped.set_state({**state, "t": data["timestep"] - 1})
    obs, _, terminated, truncated, info = env.step(data["actions"].astype(np.int32))
    after = env.unwrapped.get_state()
    np.testing.assert_array_equal(after["loc_x"], data["loc_x"])
    np.testing.assert_array_equal(after["loc_y"], data["loc_y"])
    np.testing.assert_allclose(obs, data["obs"], atol=1e-6, rtol=0)
    np.testing.assert_allclose(info["agent_reward"], data["rew"], atol=1e-6, rtol=0)
    np.testing.assert_array_equal(terminated, data["tag"] > 0)
    np.testing.assert_array_equal(terminated | truncated, data["done"] == 1)


@pytest.mark.parametrize("device", DEVICES)
def test_the_fixed_start_matches_the_recording(golden, device):
    data, params = golden
    env = gymnasium.make_vec("WarpGridTag-v0", num_envs=2, device=device, array="numpy", fixed_start=True, **params)
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs, np.stack([data["obs0"]] * 2), atol=1e-6, rtol=0)
    np.testing.assert_array_equal(env.unwrapped.get_state()["loc_x"][0], data["init_loc_x"])


def test_random_starts_are_uniform_and_no_runner_starts_on_a_tagger():
    env = gymnasium.make_vec("WarpGridTag-v0", num_envs=20_000, device="cpu", array="numpy", grid_length=3, num_taggers=2)
    env.reset(seed=4)
    state = env.unwrapped.get_state()
    cell = state["loc_x"] + 4 * state["loc_y"]
    assert (cell[:, :2] != cell[:, 2:]).all()
    for agent in range(3):
        counts = np.bincount(cell[:, agent], minlength=16)
        chi_square = ((counts - 1250) ** 2 / 1250).sum()
        assert chi_square < 44.3  # 15 degrees of freedom: one seed in ten thousand exceeds 44.3
