"""Particle environments: single steps as mpe2 makes them, recorded or beside it; the slow reference; starts of episodes."""

import os

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.testing import check_reference
from gpu_vecenv.testing.subject import Subject
from tests.envs.mpe_original import CASES, MODULES, RECORD, RECORDED, compare, differences, given, make, recorded

STATES = int(os.environ.get("MPE_STATES", 10_000))
"""States of a slow comparison with mpe2; 1,000,000 take some hours a case."""


@pytest.fixture(scope="module")
def rows():
    with np.load(RECORD) as arrays:
        return dict(arrays)


def test_every_case_is_recorded(rows):
    assert {case: len(rows[case]) for case in rows} == RECORDED
    assert {env_id for env_id, _ in CASES.values()} == {*MODULES}
    flags = [rows[case][:, -2:].any(axis=0) for case in rows]  # terminated, truncated
    assert (np.sum(flags, axis=0) > (0, 9)).all()


@pytest.mark.parametrize("case", CASES)
def test_a_step_from_a_recorded_state_is_that_of_mpe2(case, rows):
    env = make(case, RECORDED[case])
    state, actions, there = recorded(env, rows[case])
    found = differences(given(env, state, actions), there)
    assert all(value <= (2e-5 if name == "reward" else 1e-5) for name, value in found.items()), found
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_steps_beside_mpe2(case):
    """Places within float32 of a threshold, such as that of a touch, may fall on its other side: one state in 10,000."""
    pytest.importorskip("mpe2")
    tally = compare(case, STATES, seed=1)
    assert tally.states >= STATES and tally.at_thresholds == len(tally.differing) <= STATES / 10_000, tally.differing[:5]


@pytest.mark.parametrize("env_id", MODULES)
@pytest.mark.parametrize("continuous", [False, True])
def test_steps_are_those_of_the_slow_reference(env_id, continuous):
    check_reference(Subject(env_id, {"continuous_actions": continuous}, num_worlds=3, num_steps=12))


@pytest.mark.parametrize("env_id", MODULES)
def test_starts_are_drawn_from_the_square_at_rest(env_id):
    env = gymnasium.make_vec(env_id, num_envs=400, device="cpu", array="numpy").unwrapped
    env.reset(seed=3)
    state = env.get_state()
    half_side = 0.9 if env_id in ("WarpSimpleTag-v3", "WarpSimpleWorldComm-v3") else 1.0
    for name, most in (("agent_pos", 1.0), ("landmark_pos", half_side)):
        if name in state:
            assert 0.98 * most < np.abs(state[name]).max() < most
            assert np.abs(state[name].mean(axis=0)).max() < 0.15 and np.abs(state[name].std(axis=0) - most / 3**0.5).max() < 0.06
    assert not any(state[name].any() for name in ("agent_vel", "comm") if name in state)
    for name in ("goal", "key"):
        if name in state:
            number = 3 if env_id in ("WarpSimpleReference-v3", "WarpSimpleSpeakerListener-v4") else 2
            shares = np.bincount(state[name][..., -1:].ravel() if state[name].ndim > 1 else state[name]) / 400
            assert len(shares) == number and np.abs(shares - 1 / number).max() < 0.1
    env.close()


def test_agents_at_the_same_place_do_not_push_each_other():
    env = make("push", 1)
    env.reset(seed=0)
    zeros = np.zeros((1, 2, 2), np.float32)
    env.set_state({"agent_pos": zeros, "agent_vel": zeros, "t": np.zeros(1, np.int32)})
    env.step({role: np.zeros((1, 1), np.int64) for role in ("adversary", "agent")})
    assert not env.get_state("agent_vel")["agent_vel"].any()
    env.close()


def test_who_says_nothing_in_crypto_has_no_error():
    env = make("crypto, continuous", 1)
    env.reset(seed=0)
    env.set_state({"goal": np.array([1], np.int32)})
    said = {"eve": np.zeros(4), "bob": np.array([0, 1, 0, 0.5]), "alice": np.zeros(4)}
    *_, info = env.step({role: words.astype(np.float32)[None, None] for role, words in said.items()})
    np.testing.assert_array_equal(info["agent_reward"], [[0.0, -0.25, -0.25]])
    env.close()
