"""Tag, compared with trajectories recorded from another implementation: whole runs, and single steps from their states."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES
from tests.envs.golden_tag import FILES, STATE, GoldenTag

TOLERANCE = 1e-5


def host(array):
    return array if isinstance(array, np.ndarray) else array.cpu().numpy()


@pytest.fixture(params=FILES)
def golden(request):
    return GoldenTag(request.param)


def step_every_row(golden, device):
    """Step once; world s is set to the state before row s and takes the action of row s."""
    env = gymnasium.make_vec(
        "WarpTag-v0", num_envs=golden.steps, device=device, array="numpy", autoreset_mode="disabled", **golden.params
    )
    env.reset(seed=0)
    state = {name: golden.before(name) for name in STATE}
    env.unwrapped.set_state({**state, "alive": golden.alive_before(), "t": golden.data["timestep"] - 1})
    out = env.step(golden.agents("actions").astype(np.int32))
    return out, env.unwrapped.get_state()


@pytest.mark.parametrize("device", DEVICES)
def test_a_step_from_every_recorded_state_matches_the_recording(golden, device):
    (obs, _, terminated, truncated, info), state = step_every_row(golden, device)
    wrap = golden.agents("dir_near_wrap") == 1
    edge = golden.agents("edge_ambiguous") == 1

    for name in ("loc_x", "loc_y", "speed", "acceleration"):
        np.testing.assert_allclose(state[name], golden.agents(name), atol=TOLERANCE, rtol=0, err_msg=name)
    turn = np.abs(state["direction"] - golden.agents("direction"))
    turn_or_wrapped = np.minimum(turn, np.abs(turn - 2 * np.pi))
    assert np.where(wrap, turn_or_wrapped, turn).max() <= TOLERANCE

    np.testing.assert_array_equal(state["alive"], golden.agents("still"))
    np.testing.assert_array_equal(info["agent_alive"], golden.agents("still") == 1)
    np.testing.assert_array_equal(terminated | truncated, golden.data["done"] == 1)
    np.testing.assert_array_equal(terminated, golden.data["num_runners"] == 0)
    np.testing.assert_array_equal(truncated, golden.data["timestep"] == golden.params["episode_length"])

    reward = np.abs(info["agent_reward"] - golden.agents("rew"))
    # Rounding decides whether these agents hit the edge, so the penalty for it may differ.
    with_other_edge = np.abs(reward - abs(golden.params.get("edge_hit_penalty", 0.0)))
    assert np.where(edge, np.minimum(reward, with_other_edge), reward).max() <= TOLERANCE

    catcher = golden.agents("tagged_by")
    position = np.argsort(golden.order)
    np.testing.assert_array_equal(state["tagged_by"], np.where(catcher < 0, -1, position[np.maximum(catcher, 0)]))
    compare_observations(golden, obs, wrap)


def compare_observations(golden, obs, wrap):
    expected = golden.observations(golden.data["obs"])
    width = (expected.shape[2] - 1) // 7
    difference = np.abs(obs - expected)
    heading = slice(4 * width, 5 * width)
    near_wrap = wrap.any(axis=1)
    wrapped = np.minimum(difference[near_wrap, :, heading], np.abs(difference[near_wrap, :, heading] - 1.0))
    difference[near_wrap, :, heading] = wrapped
    if "nbr_ambiguous" in golden.data:
        swapped = golden.agents("nbr_ambiguous") == 1
        assert swapped.sum() <= 2, "a recording has at most two rows whose neighbours rounding may swap"
        difference[swapped] = 0.0
    assert difference.max() <= TOLERANCE


@pytest.mark.parametrize("device", DEVICES)
def test_a_whole_run_stays_close_to_the_recording(golden, device):
    starts = {
        "starting_location_x": golden.start("loc_x"),
        "starting_location_y": golden.start("loc_y"),
        "starting_directions": golden.start("direction"),
    }
    env = gymnasium.make_vec("WarpTag-v0", num_envs=1, device=device, array="numpy", **golden.params, **starts)
    obs, _ = env.reset(seed=0)
    np.testing.assert_allclose(obs, golden.observations(golden.data["obs0"][None]), atol=TOLERANCE, rtol=0)
    actions = golden.agents("actions").astype(np.int64)
    edge = golden.agents("edge_ambiguous") == 1
    done = golden.data["done"] == 1
    for s in range(golden.steps):
        _, _, terminated, truncated, info = env.step(actions[s][None])
        assert (terminated | truncated)[0] == done[s]
        np.testing.assert_array_equal(info["agent_alive"][0], golden.agents("still")[s] == 1)
        reward = info["agent_reward"][0] - golden.agents("rew")[s]
        assert np.abs(reward[~edge[s]]).max(initial=0.0) <= 1e-3
        if not done[s]:
            loc_x = env.unwrapped.get_state()["loc_x"][0]
            np.testing.assert_allclose(loc_x, golden.agents("loc_x")[s], atol=1e-3, rtol=0)


@pytest.mark.parametrize("name", FILES)
def test_action_tables_match_the_recorded_ones(name):
    from gpu_vecenv.envs.tag.spec import SPEC

    golden = GoldenTag(name)
    params = SPEC.resolve(golden.params)
    tables = {table.name: table.values(params) for table in SPEC.tables}
    np.testing.assert_allclose(tables["acceleration_table"], golden.data["acceleration_actions"], atol=1e-7)
    np.testing.assert_allclose(tables["turn_table"], golden.data["turn_actions"], atol=1e-7)
