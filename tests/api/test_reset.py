"""Seeds, reset masks and reset options."""

import numpy as np
import pytest

from gpu_vecenv.errors import ArrayTypeError, ParameterError, SequenceError, ShapeError
from tests.api.envs import VIEWS, assert_same, make, random_actions


def test_an_int_gives_all_worlds_that_seed_and_their_numbers():
    env = make("cartpole", first_world=10)
    env.reset(seed=7)
    state = env.get_state()
    assert state["seed"].tolist() == [7, 7, 7]
    assert state["world_id"].tolist() == [10, 11, 12]
    assert state["episode"].tolist() == [0, 0, 0]
    assert env.np_random_seed == 7


@pytest.mark.parametrize("seeds", [[5, 6, 5], (5, 6, 5), np.array([5, 6, 5])])
def test_a_list_gives_each_world_its_seed_and_number_0(seeds):
    env = make("cartpole", first_world=10)
    obs, _ = env.reset(seed=seeds)
    state = env.get_state()
    assert state["seed"].tolist() == [5, 6, 5]
    assert state["world_id"].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(obs[0], obs[2])
    assert not np.array_equal(obs[0], obs[1])
    alone, _ = make("cartpole", num_worlds=1).reset(seed=6)
    np.testing.assert_array_equal(obs[1], alone[0])


def test_none_in_a_list_draws_a_seed():
    env = make("cartpole")
    env.reset(seed=1)
    env.reset(seed=[None, 5, None])
    seeds = env.get_state()["seed"]
    assert seeds[1] == 5 and len(set(seeds.tolist())) == 3


def test_the_largest_seed_is_stored_exactly():
    env = make("cartpole")
    env.reset(seed=2**64 - 1)
    assert env.get_state()["seed"].tolist() == [2**64 - 1] * 3


def test_a_reset_without_a_seed_starts_the_next_episode_of_the_same_seed():
    env = make("cartpole")
    first, _ = env.reset(seed=3)
    second, _ = env.reset()
    third, _ = env.reset()
    assert env.get_state()["episode"].tolist() == [2, 2, 2]
    assert env.get_state()["seed"].tolist() == [3, 3, 3]
    assert not np.array_equal(first, second) and not np.array_equal(second, third)
    np.testing.assert_array_equal(env.reset(seed=3)[0], first)
    np.testing.assert_array_equal(env.reset()[0], second)


def test_a_first_reset_without_a_seed_draws_one_from_np_random():
    starts = []
    for seed in (1, 1, 2):
        env = make("cartpole")
        env.unwrapped.np_random = np.random.default_rng(seed)
        starts.append(env.reset()[0])
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0], starts[2])


def test_a_list_holds_one_seed_a_world_in_both_views():
    for view in VIEWS:
        env = make("tag", view=view)
        env.reset(seed=[1, 2, 3])
        assert env.get_state()["seed"].tolist() == [1, 2, 3]
        with pytest.raises(ShapeError, match="a list of seeds holds one seed a world: expected 3, got 18"):
            env.reset(seed=list(range(18)))


@pytest.mark.parametrize("seed", [-1, True, 1.5, "7", 2**64, [1, 2, -3], [1, 2, 2.5]])
def test_an_invalid_seed_raises_an_error_and_draws_nothing(seed):
    env, twin = make("cartpole"), make("cartpole")
    for each in (env, twin):
        each.unwrapped.np_random = np.random.default_rng(0)
    with pytest.raises(ParameterError, match=r"a seed must be an integer from 0 to 2\*\*64 - 1, got"):
        env.reset(seed=seed)
    np.testing.assert_array_equal(env.reset()[0], twin.reset()[0])


def test_a_mask_resets_those_envs_only():
    env = make("cartpole", num_worlds=4, max_episode_steps=0)
    env.reset(seed=1)
    for action in random_actions(env, 5):
        last, *_ = env.step(action)
    before = env.get_state()
    mask = np.array([False, True, False, True])
    options = {"reset_mask": mask}
    obs, _ = env.reset(options=options)
    assert list(options) == ["reset_mask"] and options["reset_mask"] is mask
    after = env.get_state()
    np.testing.assert_array_equal(obs[~mask], last[~mask])
    np.testing.assert_array_equal(after["state"][~mask], before["state"][~mask])
    np.testing.assert_array_equal(obs, after["state"])
    assert after["episode"].tolist() == [0, 1, 0, 1]
    assert after["t"].tolist() == [5, 0, 5, 0]


def test_a_mask_with_seeds_sets_the_seeds_of_its_worlds_only():
    env = make("cartpole")
    env.reset(seed=1)
    mask = np.array([False, True, True])
    env.reset(seed=9, options={"reset_mask": mask})
    assert env.get_state()["seed"].tolist() == [1, 9, 9]
    assert env.get_state()["world_id"].tolist() == [0, 1, 2]
    env.reset(seed=[4, 5, 6], options={"reset_mask": mask})
    assert env.get_state()["seed"].tolist() == [1, 5, 6]
    assert env.get_state()["world_id"].tolist() == [0, 0, 0]
    assert env.get_state()["episode"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_numpy_and_torch_masks_give_the_same_reset(array):
    import torch

    results = []
    for convert in (np.asarray, torch.as_tensor):
        env = make("cartpole", array=array)
        env.reset(seed=1)
        results.append(env.reset(options={"reset_mask": convert(np.array([True, False, True]))}))
    assert_same(results[0][:1], results[1][:1])


def test_a_mask_of_rows_must_agree_within_a_world():
    env = make("tag", view="agents", num_worlds=3)
    env.reset(seed=0)
    rows = env.unwrapped.role_rows
    mask = np.zeros(18, bool)
    mask[rows["tagger"]] = [False, False, False, False, True, True]
    mask[rows["runner"]] = np.repeat([False, False, True], 4)
    env.reset(options={"reset_mask": mask})
    assert env.get_state()["episode"].tolist() == [0, 0, 1]
    mask[rows["runner"].start] = True
    with pytest.raises(ParameterError, match="same for all agents of a world.*world 0 is mixed"):
        env.reset(options={"reset_mask": mask})
    assert env.get_state()["episode"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("mask, error, text", [
    ([True, False, True], ArrayTypeError, "reset_mask must be a bool array, got list"),
    (np.array([1, 0, 1]), ArrayTypeError, "reset_mask must be a bool array, got int64"),
    (np.ones(2, bool), ShapeError, r"reset_mask must have shape \(3,\), got \(2,\)"),
    (np.zeros(3, bool), ParameterError, "reset_mask must have at least one True"),
])  # fmt: skip
def test_invalid_masks_raise_errors_and_change_nothing(mask, error, text):
    env = make("cartpole")
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(error, match=text):
        env.reset(seed=8, options={"reset_mask": mask})
    assert_same(env.get_state(), before)
    assert env.np_random_seed == 0


def test_the_first_reset_must_be_of_all_worlds():
    env = make("cartpole")
    with pytest.raises(SequenceError, match="first reset must be of all worlds"):
        env.reset(seed=1, options={"reset_mask": np.array([True, True, False])})
    with pytest.raises(SequenceError, match="call reset"):
        env.step(np.zeros(3, int))


def test_low_and_high_bound_starts_until_the_next_reset():
    env = make("cartpole", num_worlds=200, max_episode_steps=3)
    obs, _ = env.reset(seed=0, options={"low": 0.06, "high": 0.1})
    assert obs.min() >= 0.06 and obs.max() <= 0.1 and np.ptp(obs) > 0.038
    for _ in range(3):
        obs, *_ = env.step(np.zeros(200, int))
    assert obs.min() >= 0.06 and obs.max() <= 0.1  # starts by autoreset too
    obs, _ = env.reset()
    assert obs.min() >= -0.05 and obs.max() <= 0.05 and np.ptp(obs) > 0.09


@pytest.mark.parametrize("options, text", [
    ({"hihg": 1}, "WarpCartPole-v1 has no reset option 'hihg'; it has reset_mask, low, high"),
    ({"low": "x"}, "reset option low must be a finite float32, got 'x'"),
    ({"high": float("nan")}, "reset option high must be a finite float32, got nan"),
    ({"low": 0.2, "high": 0.1}, "low must not be above high, got 0.2 and 0.1"),
])  # fmt: skip
def test_invalid_reset_options_raise_errors_and_change_nothing(options, text):
    env = make("cartpole")
    env.reset(seed=0)
    before = env.get_state()
    with pytest.raises(ParameterError, match=text):
        env.reset(seed=1, options=options)
    assert_same(env.get_state(), before)
