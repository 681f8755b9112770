"""Parameters that change between steps, compared with envs that were made with them."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ParameterError, ShapeError, UnknownParameterError
from tests.devices import DEVICES

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 50}


def made(name, device="cpu", **params):
    env = gymnasium.make_vec(name, num_envs=4, device=device, array="numpy", **params).unwrapped
    env.reset(seed=5)
    return env


def steps(env, count=6):
    generator = np.random.default_rng(0)
    space = env.single_action_space
    results = []
    for _ in range(count):
        if isinstance(space, gymnasium.spaces.Box):
            action = generator.uniform(space.low, space.high, (env.num_envs, *space.shape)).astype(np.float32)
        else:
            action = generator.integers(0, getattr(space, "nvec", getattr(space, "n", None)), (env.num_envs, *space.shape))
        results.append(env.step(action.astype(space.dtype)))
    return results


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "params", "changes"), [
    ("WarpTag-v0", TAG, {"tagging_distance": 0.3, "tag_reward_for_tagger": 3.0, "max_speed": 0.5}),
    ("WarpTag-v0", TAG, {"max_turn": 1.0, "min_acceleration": -0.05}),
    ("WarpTag-v0", TAG | {"tagging_distance": [0.1] * 4, "max_turn": [1.0] * 4},
     {"tagging_distance": [0.1, 0.2, 0.3, 0.4], "max_turn": [0.5, 1.0, 1.5, 2.0]}),
    ("WarpTag-v0", TAG | {"grid_length": [10.0, 20.0, 30.0, 40.0]}, {"grid_length": 15.0}),
    ("WarpCartPole-v1", {}, {"length": 1.5, "gravity": 3.0}),
    ("WarpCartPole-v1", {"length": [0.3, 0.5, 0.7, 0.9]}, {"length": [1.0, 1.1, 1.2, 1.3]}),
    ("WarpCartPole-v1", {"length": [0.3, 0.5, 0.7, 0.9]}, {"length": 1.0}),
    ("WarpGridTag-v0", {"grid_length": 8}, {"step_cost_for_tagger": 0.5, "wall_hit_penalty": 2.0}),
])  # fmt: skip
def test_steps_are_those_of_an_env_made_with_the_parameters(name, params, changes, device):
    changed, expected = made(name, device, **params), made(name, device, **{**params, **changes})
    steps(changed, 3)
    expected.set_state(changed.get_state())
    changed.set_params(**changes)
    for ours, theirs in zip(steps(changed), steps(expected), strict=True):
        for a, b in zip(ours[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(a, b)
    assert {*changed.changed_params} == {*changes}
    copies = copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))
    last = steps(changed)[-1][0]
    for each in copies:
        np.testing.assert_array_equal(steps(each)[-1][0], last)


def test_the_time_limit_and_bounds_of_observations_follow():
    env = made("WarpTag-v0", **TAG)
    high = env.single_observation_space.high.max()
    steps(env, 3)
    env.set_params(episode_length=5, skill_level_runner=3.0)
    assert [bool(result[3].any()) for result in steps(env, 2)] == [False, True]
    finite = env.single_observation_space.high[np.isfinite(env.single_observation_space.high)]
    assert finite.max() == pytest.approx(3.0, rel=1e-3) and finite.max() > high or not np.isfinite(high)
    assert env.observation_space.shape == (4, 5, *env.single_observation_space.shape[1:])
    assert env.get_attr("episode_length") == (5,) * 4 and env.params["episode_length"] == 5


@pytest.mark.parametrize(("changes", "error", "text"), [
    ({"num_runners": 4}, ParameterError, "cannot change sizes of its arrays and loops, as num_runners would; make another env"),
    ({"num_turn_levels": 4}, ParameterError, "cannot change the action space, as num_turn_levels would"),
    ({"starting_directions": [0.0] * 5}, ParameterError, "cannot change the length of a table"),
    ({"tagging_distance": 2.0}, ParameterError, "tagging_distance must be at least 0"),
    ({"tagging_distanse": 0.1}, UnknownParameterError, "Did you mean 'tagging_distance'"),
    ({"min_turn": 3.0}, ParameterError, "min_turn must not be above max_turn"),
])  # fmt: skip
def test_changes_that_a_running_env_cannot_take_are_refused_before_anything_changes(changes, error, text):
    env = made("WarpTag-v0", **TAG)
    before = dict(env.params)
    with pytest.raises(error, match=text):
        env.set_params(**changes)
    assert dict(env.params) == before and not env.changed_params


def test_values_by_world_need_an_env_that_has_some():
    with pytest.raises(ParameterError, match="length is one number for all worlds; make the env with values by world"):
        made("WarpCartPole-v1").set_params(length=[1.0] * 4)
    with pytest.raises(ShapeError, match=r"length must hold one number a world, \(4,\), got \(3,\)"):
        made("WarpCartPole-v1", length=[1.0] * 4).set_params(length=[1.0] * 3)


@pytest.mark.gpu
def test_a_captured_graph_sees_values_by_world_and_refuses_others():
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cuda:0", length=[0.5] * 4).unwrapped
    env.reset(seed=0)
    graph = gpu_vecenv.capture_steps(env, 3)
    state = env.get_state()
    graph.replay()
    before = graph.outputs["obs"].clone()
    env.set_state(state)
    env.set_params(length=[0.5, 0.5, 2.0, 2.0])
    graph.replay()
    same = (graph.outputs["obs"] == before).flatten(2).all(2).all(0)
    assert same.tolist() == [True, True, False, False]
    env.set_params(gravity=1.0)
    with pytest.raises(gpu_vecenv.errors.SequenceError, match="set_params.. changed parameters that this graph holds"):
        graph.replay()
