"""States of wrappers: a new env that takes them goes on with the same bits, and an evaluation takes their statistics."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv
from gpu_vecenv.errors import ArrayTypeError, ParameterError, SequenceError, ShapeError
from tests.api.envs import MODES, random_actions
from tests.api.test_wrapper_copies import ARRAYS, WRAPPERS
from tests.devices import DEVICES
from tests.roles.town import make_vec as make_town
from tests.trees import assert_trees_equal, map_tree, to_host

NORMALIZERS = {"obs_rms": gpu_vecenv.NormalizeObservation, "return_rms": gpu_vecenv.NormalizeReward}


def pendulum(array="torch", device="cpu", num_envs=5, **options):
    return gymnasium.make_vec("WarpPendulum-v1", num_envs=num_envs, max_episode_steps=7, device=device, array=array, **options)


def played(env, actions):
    return [to_host(dict(enumerate(env.step(row)))) for row in actions]


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("device", DEVICES)
def test_an_env_goes_on_from_a_state_with_the_same_bits(name, array, mode, device):
    wrap = WRAPPERS[name]
    first, second = (wrap(pendulum(array, device, autoreset_mode=mode)) for _ in range(2))
    first.reset(seed=3)
    actions = random_actions(first, 20)
    played(first, actions[:10])  # with autoreset disabled, envs wait for their reset now
    state, inner = first.state_dict(), first.unwrapped.get_state()
    before = to_host(state)
    second.reset(seed=4)
    second.unwrapped.set_state(inner)
    if array == "torch":  # arrays may be of another kind
        state = map_tree(lambda value: value if isinstance(value, bool) else value.cpu().numpy(), state)
    second.load_state_dict(state)
    expected = played(first, actions[10:])
    assert_trees_equal(before, to_host(state))  # later steps write no array of it
    got = played(second, actions[10:])
    for ours, theirs in zip(got, expected, strict=True):
        for key in range(1, 4):
            assert_trees_equal(ours[key], theirs[key])
        if "episode" in theirs[4]:
            assert_trees_equal(ours[4]["episode"], theirs[4]["episode"])
        assert_trees_equal(ours[0], theirs[0])
    assert_trees_equal(to_host(first.state_dict()), to_host(second.state_dict()))


def test_sums_of_roles_are_part_of_the_state():
    first, second = (gpu_vecenv.EpisodeStatistics(make_town(num_envs=3, device="cpu")) for _ in range(2))
    first.reset(seed=3)
    actions = [first.action_space.sample() for _ in range(4)]
    for row in actions[:2]:
        first.step(row)
    second.reset(seed=4)
    second.unwrapped.set_state(first.unwrapped.get_state())
    second.load_state_dict(first.state_dict())
    for row in actions[2:]:
        ours, theirs = (env.step(row)[4]["episode"] for env in (first, second))
        assert len(ours["role_r"]) > 1
        for name in ("r", "l", "role_r"):
            assert_trees_equal(to_host({name: ours[name]}), to_host({name: theirs[name]}))


@pytest.mark.parametrize("name", NORMALIZERS)
def test_frozen_statistics_are_those_of_another_env_and_stay(name):
    training, evaluation = NORMALIZERS[name](pendulum()), NORMALIZERS[name](pendulum(num_envs=2))
    shared = NORMALIZERS[name](pendulum())
    setattr(evaluation, name, getattr(shared, name))
    untouched = to_host(getattr(shared, name).state_dict())
    training.reset(seed=3)
    played(training, random_actions(training, 10))
    evaluation.freeze_statistics(training.state_dict())
    expected = to_host(training.state_dict()[name])
    evaluation.reset(seed=4)
    played(evaluation, random_actions(evaluation, 10))
    assert_trees_equal(to_host(evaluation.state_dict()[name]), expected)
    assert_trees_equal(to_host(getattr(shared, name).state_dict()), untouched)  # these were replaced, not overwritten
    assert expected["count"] > untouched["count"] and not evaluation.update_running_mean
    training.freeze_statistics()
    played(training, random_actions(training, 1))
    assert_trees_equal(to_host(training.state_dict()[name]), expected)


def changed(state, name, value):
    return {**state, name: value}


@pytest.mark.parametrize(
    "change, error, text",
    [
        (lambda s: [], ParameterError, r"the state of NormalizeReward must be a dict with the keys \['return_rms', .*got list"),
        (lambda s: {"sums": s["sums"]}, ParameterError, r"got the keys \['sums'\]"),
        (lambda s: changed(s, "return_rms", {}), ParameterError, r"return_rms, must be a dict with the keys \['mean', 'var', "),
        (lambda s: changed(s, "update_running_mean", 1), ParameterError, "update_running_mean, must be True or False, got 1"),
        (lambda s: changed(s, "sums", s["sums"].float()), ArrayTypeError, "sums, must be an array of float64, got float32"),
        (lambda s: changed(s, "sums", [0.0] * 5), ArrayTypeError, "sums, must be an array of float64, got list"),
        (lambda s: changed(s, "ended", s["ended"][:3]), ShapeError, r"ended, must have the shape \(5,\), got \(3,\)"),
    ],
)
def test_states_that_do_not_fit_are_refused_and_change_nothing(change, error, text):
    env = gpu_vecenv.NormalizeReward(pendulum())
    env.reset(seed=1)
    played(env, random_actions(env, 1))
    state = env.state_dict()
    before = to_host(state)
    with pytest.raises(error, match=text):
        env.load_state_dict(change(state))
    assert_trees_equal(to_host(env.state_dict()), before)


def test_other_statistics_are_not_frozen():
    env, other = gpu_vecenv.NormalizeObservation(pendulum()), gpu_vecenv.NormalizeReward(pendulum())
    other.reset()
    with pytest.raises(ParameterError, match="must be a dict with the key 'obs_rms', got the keys"):
        env.freeze_statistics(other.state_dict())
    wrong = {"obs_rms": {"mean": np.zeros(2), "var": np.zeros(2), "count": np.zeros(())}}
    with pytest.raises(ShapeError, match=r"obs_rms, mean, must have the shape \(3,\), got \(2,\)"):
        env.freeze_statistics(wrong)
    assert env.update_running_mean


@pytest.mark.parametrize("name", ["EpisodeStatistics", "NormalizeObservation", "NormalizeReward"])
def test_there_is_no_state_before_the_first_reset(name):
    env = WRAPPERS[name](pendulum())
    with pytest.raises(SequenceError, match=rf"call reset\(\) of {name} before state_dict\(\)"):
        env.state_dict()


def test_wrappers_that_keep_nothing_take_an_empty_state_alone():
    env = gpu_vecenv.ClipReward(pendulum(), 0, 1)
    assert env.state_dict() == {}
    env.load_state_dict({})
    with pytest.raises(ParameterError, match=r"keys \[\], got the keys \['sums'\]"):
        env.load_state_dict({"sums": np.zeros(5)})
