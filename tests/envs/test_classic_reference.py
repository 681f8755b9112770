"""Kernels of classic control against NumPy references; the references against Gymnasium's envs and the recordings."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES
from tests.envs.classic_cases import CASES
from tests.envs.golden_tag import GOLDEN
from tests.envs.test_classic_golden import FILES

ALL_OPTIONS = [(name, options) for name, case in CASES.items() for options in case.options]
SOME_OPTIONS = [
    pytest.param(*of, 1000 if number % 3 else 200, marks=pytest.mark.slow if number % 3 else ())
    for number, of in enumerate(ALL_OPTIONS)
]
"""All options, and numbers of worlds; two of three are slow."""


def kernel_step(case, states, times, actions, device, params):
    """Step every world once with the kernel; return the results of ``step`` and the states after it."""
    env = gymnasium.make_vec(
        case.spec.name, num_envs=len(states), device=device, array="numpy", autoreset_mode="disabled", **params
    )
    env.reset(seed=0)
    env.unwrapped.set_state({"state": states, "t": times})
    out = env.step(actions)
    after = env.unwrapped.get_state()["state"]
    env.close()
    return out, after


def compare(name, device, count, params, physics=lambda world: {}):
    """Compare a step of random worlds with the reference. Returns the share of worlds compared in full, and the flags."""
    case, generator = CASES[name], np.random.default_rng(1)
    states, times = case.states(generator, count), generator.integers(0, 20, count).astype(np.int32)
    actions = case.actions(generator, count)
    (obs, reward, terminated, truncated, _), after = kernel_step(case, states, times, actions, device, params)
    compared = 0
    for i, action in enumerate(actions):
        resolved = case.spec.resolve({**params, **physics(i)})
        reference = case.reference(resolved)
        slack = case.slack(reference, states[i], action)
        reference.reset(states[i])
        reference.t = int(times[i])
        _, pay, over, limit = reference.step(action)
        assert (case.difference(after[i], reference.state) <= slack).all(), (states[i], action, after[i], reference.state)
        assert truncated[i] == limit
        # Rounding may decide on which side of a bound a value near it lies. A value exactly on the bound is compared.
        if not any(0 < margin < 3 * slack.max() for margin in case.margins(reference, resolved)):
            compared += 1
            assert terminated[i] == over
            np.testing.assert_allclose(reward[i], pay, atol=1e-5, rtol=1e-6)
        reference.state = after[i]
        np.testing.assert_allclose(obs[i], reference.observe(), atol=2e-7, rtol=0)
    assert np.abs(after[:, : case.angles]).max(initial=0) <= np.float32(np.pi)
    return compared / count, terminated, truncated


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "options", "count"), SOME_OPTIONS)
def test_a_step_from_random_states_is_right(name, options, count, device):
    compared, terminated, truncated = compare(name, device, count, {"max_episode_steps": 0, **options})
    assert compared > 0.99
    assert 0.02 < terminated.mean() < 0.5 or name == "pendulum"
    assert (truncated.mean() > 0.02) == ("max_episode_steps" in options)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_a_step_with_parameters_of_each_world_is_right(name, device):
    physics = CASES[name].random_physics(np.random.default_rng(2), 250)
    compared, *_ = compare(name, device, 250, physics, lambda world: {key: float(v[world]) for key, v in physics.items()})
    assert compared > 0.99


@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["cartpole", "pendulum"])
def test_hidden_velocities_change_nothing_but_the_columns_of_observations(name, device, mode):
    """Same bits as the env with its defaults, in steps and rollouts; 70 worlds fill packs and leave some over."""
    case, hidden, runs = CASES[name], {"observe_velocity": False}, []
    for given in ({}, hidden):
        env = gymnasium.make_vec(
            case.spec.name, num_envs=70, device=device, array="numpy", autoreset_mode=mode, max_episode_steps=17, **given
        ).unwrapped
        space, generator = env.single_observation_space, np.random.default_rng(5)
        observations, others = [space.low, space.high, env.reset(seed=3)[0]], []
        for steps in (1,) * 30 + (25, 25):
            actions = np.stack([case.actions(generator, 70) for _ in range(steps)])
            obs, *results, info = env.step(actions[0]) if steps == 1 else env.rollout(actions)
            observations += [obs] if mode != "same_step" else [obs, info["final_obs"][info["_final_obs"]]]
            others += results
        runs.append([*(obs if given else case.observed(obs, hidden) for obs in observations), *others, *env.get_state().values()])
        env.close()
    assert len(runs[0]) == len(runs[1])
    for whole, without in zip(*runs, strict=True):
        np.testing.assert_array_equal(whole, without)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("where", range(4))
def test_cartpole_treats_nan_as_its_reference_does(where, device):
    case, states = CASES["cartpole"], np.zeros((1, 4), np.float32)
    states[0, where] = np.nan
    (obs, _, terminated, _, _), _ = kernel_step(case, states, np.zeros(1, np.int32), np.ones(1, np.int32), device, {})
    reference = case.reference(case.spec.resolve({}))
    reference.reset(states[0])
    expected, _, over, _ = reference.step(1)
    np.testing.assert_array_equal(np.isnan(obs[0]), np.isnan(expected))
    assert terminated[0] == over


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["mountain car, continuous", "pendulum"])
def test_an_action_far_beyond_its_bounds_is_clipped(name, device):
    case = CASES[name]
    actions = np.array([[np.inf], [-np.inf], [1e4], [-1e4]], np.float32)
    states = np.full((4, 2), 0.02, np.float32)
    (_, reward, *_), after = kernel_step(case, states, np.zeros(4, np.int32), actions, device, {})
    reference = case.reference(case.spec.resolve({}))
    for i, action in enumerate(actions):
        reference.reset(states[i])
        _, pay, *_ = reference.step(action)
        np.testing.assert_allclose(after[i], reference.state, atol=1e-7)
        np.testing.assert_allclose(reward[i], pay, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["mountain car", "mountain car, continuous"])
@pytest.mark.parametrize(
    ("start", "end", "arrived"),
    [
        ((-1.19, -0.05), (-1.2, 0.0), False),  # the wall stops the car
        ((-1.2, 0.01), (-1.19, 0.01), False),  # a car at the wall can leave it
        ((0.58, 0.07), (0.6, 0.07), True),  # the right end stops the position but keeps the velocity
        ((0.58, -0.01), (0.57, -0.01), False),  # beyond the flag, but too slow
        ((0.55, 0.0), (0.55, 0.0), True),  # just fast enough
    ],
)
def test_walls_and_flags_without_gravity(name, start, end, arrived, device):
    case, params, states = CASES[name], {"gravity": 0.0}, np.array([start], np.float32)
    idle = np.zeros((1, 1), np.float32) if case.continuous else np.ones(1, np.int32)
    (_, _, terminated, _, _), after = kernel_step(case, states, np.zeros(1, np.int32), idle, device, params)
    reference = case.reference(case.spec.resolve(params))
    reference.reset(states[0])
    _, _, over, _ = reference.step(idle[0])
    for state, flag in ((after[0], terminated[0]), (reference.state, over)):
        np.testing.assert_allclose(state, end, atol=1e-7)
        assert flag == arrived


@pytest.mark.parametrize("device", DEVICES)
def test_a_wrapped_angle_never_exceeds_pi_by_rounding(device):
    """Angles of 1.5 turns, at rest: subtracting whole turns in float32 leaves more than pi."""
    case, angle = CASES["acrobot"], np.float32(3 * np.pi)
    states = np.array([[angle, 0, 0, 0], [-angle, 0, 0, 0], [0, angle, 0, 0]], np.float32)
    _, after = kernel_step(case, states, np.zeros(3, np.int32), np.ones(3, np.int32), device, {"gravity": 0.0})
    np.testing.assert_allclose(np.abs(after).max(axis=1), np.pi, rtol=1e-6)
    assert np.abs(after).max() <= np.float32(np.pi)


@pytest.mark.parametrize(("name", "options"), ALL_OPTIONS)
def test_the_reference_matches_gymnasium(name, options):
    case, generator, count = CASES[name], np.random.default_rng(3), 80
    states, actions, physics = (draw(generator, count) for draw in (case.states, case.actions, case.random_physics))
    compared = 0
    for i, action in enumerate(actions):
        other = {key: float(numbers[i]) for key, numbers in physics.items() if i % 2 and key not in case.fixed}
        params = case.spec.resolve({**options, **other})
        theirs, ours = case.theirs(params), case.reference(params)
        theirs.reset()
        theirs.state = states[i].astype(np.float64)
        expected, pay, over, _, _ = theirs.step(action)
        slack = case.slack(ours, states[i], action)
        ours.reset(states[i])
        obs, reward, terminated, _ = ours.step(action)
        assert (case.difference(ours.state, np.array(theirs.state)) <= slack).all()
        np.testing.assert_allclose(obs, case.observed(expected, params), atol=slack.max(), rtol=0)
        if min(case.margins(ours, params), default=1) > 3 * slack.max():
            compared += 1
            assert terminated == over
            np.testing.assert_allclose(reward, pay, rtol=1e-7)
    assert compared >= 0.9 * count


@pytest.mark.parametrize("name", CASES)
def test_the_reference_matches_the_recording(name):
    case = CASES[name]
    ((file, params),) = ((file, params) for file, (env_id, params) in FILES.items() if env_id == case.spec.name)
    data, reference = np.load(GOLDEN / file), case.reference(case.spec.resolve(params))
    for world, actions in enumerate(data["act"][:1]):
        state, seen = data["state0"][world], []
        for t, action in enumerate(actions):
            reference.reset(state)
            obs, reward, terminated, _ = reference.step(np.array([action]) if case.continuous else int(action))
            seen.append((*obs, *reference.state, reward, terminated))
            state = data["state0"][world] if data["done"][world, t] else data["state"][world, t]
        columns = [data[key][world] for key in ("obs", "state", "rew", "terminated_before_limit")]
        np.testing.assert_allclose(seen, np.column_stack(columns), atol=1e-5, rtol=1e-6)
