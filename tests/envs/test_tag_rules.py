"""Rules of Tag in cases that random states and recordings rarely contain: positions on an edge, and states set by a caller."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES
from tests.envs import tag_cases as cases

SQUARE = {"grid_length": 16.0, "edge_hit_penalty": -4.0, "tag_reward_for_tagger": 10.0, "step_penalty_for_tagger": 0.0}


def at_rest(x, y, **fields):
    """State of one world whose agents stand at (x, y) and do not move."""
    zeros = np.zeros((1, len(x)), np.float32)
    state = {**dict.fromkeys(cases.STATE, zeros), "loc_x": np.array([x], np.float32), "loc_y": np.array([y], np.float32)}
    return {**state, "alive": np.ones((1, len(x)), np.int32), **{name: np.array([values]) for name, values in fields.items()}}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("start", "further"), [((15, 8), (1, 0)), ((8, 15), (0, 1)), ((1, 8), (-1, 0)), ((8, 1), (0, -1))])
def test_touching_an_edge_has_no_penalty_and_crossing_it_has(start, further, device):
    """A tagger at speed 1 ends on the edge, or half a step beyond it."""
    params = {**SQUARE, "num_taggers": 1, "num_runners": 1, "max_speed": 1.0}
    heading = np.arctan2(further[1], further[0]) % (2 * np.pi)
    motion = {"speed": np.float32([1, 0]), "direction": np.float32([heading, 0])}
    for beyond, penalty in ((0.0, 0.0), (0.5, -4.0)):
        x, y = np.array(start) + beyond * np.array(further)
        state = at_rest([x, 4], [y, 4], **motion)
        (*_, info), after = cases.kernel_step(params, state, np.zeros((1, 2, 2), np.int32), device)
        landed = np.array([after["loc_x"][0, 0], after["loc_y"][0, 0]])
        np.testing.assert_allclose(landed, np.array(start) + further, atol=1e-6)
        assert landed[abs(further[1])] in (0.0, 16.0)
        assert info["agent_reward"][0, 0] == penalty


@pytest.mark.parametrize("device", DEVICES)
def test_a_tagger_set_as_not_alive_still_catches(device):
    params = {**SQUARE, "num_taggers": 1, "num_runners": 2, "tagging_distance": 0.2}
    state = at_rest([5, 5.1, 14], [5, 5, 14], alive=np.array([0, 1, 1], np.int32))
    (*_, info), after = cases.kernel_step(params, state, np.zeros((1, 3, 2), np.int32), device)
    assert after["tagged_by"].tolist() == [[-1, 0, -1]]
    assert info["agent_reward"][0, 0] == 10


@pytest.mark.parametrize("device", DEVICES)
def test_tagged_by_is_cleared_when_the_runner_is_out_of_reach(device):
    params = {**SQUARE, "num_taggers": 1, "num_runners": 1, "tagging_distance": 0.1, "runner_exits_game_after_tagged": False}
    env = gymnasium.make_vec("WarpTag-v0", num_envs=1, device=device, array="numpy", **params).unwrapped
    env.reset(seed=0)
    for x, tagged_by in ((5.1, 0), (14, -1)):
        env.set_state(at_rest([5, x], [5, 5]))
        env.step(np.zeros((1, 2, 2), np.int32))
        assert env.get_state()["tagged_by"].tolist() == [[-1, tagged_by]]
