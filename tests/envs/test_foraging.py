"""Level-based foraging: episodes against the reference, parameters, ids, and policies that act in lbforaging."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.envs.foraging.reference import ForagingReference
from gpu_vecenv.envs.foraging.spec import SPEC
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.variants import VARIANTS
from tests.devices import DEVICES
from tests.envs import foraging_original as original


def make(num_envs, device="cpu", env_id="WarpForaging-v3", **options):
    return gymnasium.make_vec(env_id, num_envs=num_envs, device=device, array="numpy", **options).unwrapped


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["a crowd, short sight", "more columns than rows", "hidden levels", "sums of levels"])
def test_episodes_match_the_reference(name, device):
    """A crowd collides and shares cells; actions are mostly loads, so that boards get empty."""
    params, worlds = {**original.CONFIGS[name], "max_episode_steps": 30}, 12
    env = make(worlds, device, autoreset_mode="disabled", **params)
    obs, _ = env.reset(seed=1)
    references, state = [ForagingReference(SPEC.resolve(params)) for _ in range(worlds)], env.get_state()
    for world, one in enumerate(references):
        one.set_state({key: values[world] for key, values in state.items()})
        np.testing.assert_array_equal(obs[world], one.observe())
    generator, running = np.random.default_rng(2), np.ones(worlds, bool)
    for _ in range(30):
        actions = generator.choice(6, (worlds, len(state["player_pos"][0])), p=[0.1, 0.15, 0.15, 0.15, 0.15, 0.3])
        obs, _, terminated, truncated, info = env.step(actions.astype(np.int32))
        for world in np.flatnonzero(running):
            seen, reward, over, limit = references[world].step(actions[world])
            np.testing.assert_array_equal(obs[world], seen)
            np.testing.assert_allclose(info["agent_reward"][world], reward, rtol=2e-7)
            assert (terminated[world], truncated[world]) == (over, limit)
        running &= ~(terminated | truncated)
    assert not running.any()


@pytest.mark.parametrize("highest", [0, 3])
def test_with_force_coop_all_food_has_the_highest_level(highest):
    env = make(200, players=5, max_num_food=3, force_coop=True, max_food_level=highest)
    env.reset(seed=3)
    state = env.get_state()
    lowest = np.sort(state["player_level"], axis=1)[:, :3].sum(1)
    expected = np.full(200, highest) if highest else lowest
    np.testing.assert_array_equal(state["food"], np.where(state["food"] > 0, expected[:, None, None], 0))
    np.testing.assert_array_equal(state["food_spawned"], state["food"].sum((1, 2)))
    assert len(set(lowest.tolist())) == 4 and (state["food"] > 0).sum() == 600


def test_food_beside_each_other_is_loaded_from_the_first_side():
    """No start has such a board: the player loads the food to its north, though it alone could load the one to its east."""
    food = np.zeros((1, 8, 8), np.int32)
    food[0, 3, 4], food[0, 4, 5] = 3, 1
    state = {"player_pos": [[[4, 4], [0, 0]]], "player_level": [[2, 1]], "food_spawned": [4], "food": food}
    env = make(1, penalty=0.5)
    env.reset(seed=0)
    env.set_state({name: np.array(value, np.int32) for name, value in state.items()})
    *_, info = env.step(np.array([[5, 0]], np.int32))
    np.testing.assert_array_equal(info["agent_reward"], [[-0.5, 0.0]])
    np.testing.assert_array_equal(env.get_state("food")["food"], food)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cols", [8, 9])  # numbers of cells that four divides and that it does not
def test_a_board_may_have_more_food_than_the_list(device, cols):
    """Only a state from outside has it: the first foods are observed, and the episode ends when none is left."""
    cells = np.array([[1, 1], [1, 4], [3, 2], [5, 5], [5, 7]])
    food = np.zeros((1, 7, cols), np.int32)
    food[0, *cells.T] = 1
    state = {"player_pos": [[[0, 1], [6, 0]]], "player_level": [[2, 1]], "food_spawned": [5], "food": food}
    env = make(1, device, rows=7, cols=cols, max_num_food=2, sight=9)
    env.reset(seed=0)
    env.set_state({name: np.array(value, np.int32) for name, value in state.items()})
    foods = slice(0, 6)  # row, column and level of two
    np.testing.assert_array_equal(env.observe()[0, 1, foods], [1, 1, 1, 1, 4, 1])
    obs, _, terminated, *_ = env.step(np.array([[5, 0]], np.int32))
    np.testing.assert_array_equal(obs[0, 1, foods], [1, 4, 1, 3, 2, 1])
    assert not terminated[0] and env.get_state("food")["food"].sum() == 4


def test_players_outside_the_board_do_no_harm():
    """The range of a state field is one for rows and columns, so a state may have them on boards that are not square."""
    env = make(2, rows=3, cols=9, players=3)
    env.reset(seed=0)
    state = env.get_state()
    pos = np.full_like(state["player_pos"], 8)
    env.set_state({"player_pos": pos})
    env.step(np.full((2, 3), 5, np.int32))
    np.testing.assert_array_equal(env.get_state("player_pos", "food")["player_pos"], pos)
    np.testing.assert_array_equal(env.get_state("food")["food"], state["food"])


@pytest.mark.parametrize(("params", "message"), [
    ({"players": 10, "rows": 3, "cols": 3}, "players must be at most the 9 cells, got 10"),
    ({"min_player_level": 3}, "min_player_level must be at most max_player_level, got 3 and 2"),
    ({"min_food_level": 3, "max_food_level": 2}, "min_food_level must be at most max_food_level, got 3 and 2"),
    ({"min_food_level": 3, "max_food_level": 2, "force_coop": True}, "min_food_level must be at most max_food_level"),
    ({"min_food_level": 3}, "min_food_level must be at most 2, the least sum of the 3 lowest player levels, got 3"),
    ({"min_food_level": 4, "players": 5}, "min_food_level must be at most 3, the least sum"),
    ({"max_episode_steps": 0}, "max_episode_steps must be at least 1, got 0"),
    ({"rows": 2}, "rows must be at least 3 and at most 255, got 2"),
    ({"min_food_level": 0}, "min_food_level must be at least 1"),
])  # fmt: skip
def test_parameters_that_contradict_each_other_raise_errors(params, message):
    with pytest.raises(ParameterError, match=f"WarpForaging-v3: {message}"):
        make(1, **params)


def test_food_that_needs_all_players_may_exceed_the_least_sum():
    make(1, min_food_level=9, force_coop=True)
    make(1, min_food_level=9, max_food_level=9)


def test_the_ids_are_those_of_lbforaging():
    """They were counted in lbforaging 2.0.0: sizes from 5 to 19, 2 to 9 players, 1 to 4 foods, two flags."""
    ids = {name for name, variant in VARIANTS.items() if variant.env_id == "WarpForaging-v3"}
    assert len(ids) == 15 * 8 * 4 * 2 * 2 and ids <= set(gymnasium.registry)
    env = make(1, env_id="WarpForaging-2s-19x19-9p-4f-coop-v3")
    expected = {"players": 9, "rows": 19, "cols": 19, "max_num_food": 4, "sight": 2, "force_coop": True}
    assert env.params == SPEC.resolve(expected)
    assert make(1, env_id="WarpForaging-5x5-2p-1f-v3").params == SPEC.resolve({"rows": 5, "cols": 5, "sight": 5})
    assert make(1, env_id="WarpForaging-5x5-2p-1f-v3", penalty=0.1, sight=3).params["sight"] == 3


@pytest.mark.slow
def test_every_id_has_the_arguments_of_lbforaging():
    pytest.importorskip("lbforaging")
    theirs = {name: spec.kwargs for name, spec in gymnasium.registry.items() if name.startswith("Foraging")}
    assert {f"Warp{name}" for name in theirs} == set(VARIANTS)
    for name, kwargs in theirs.items():
        given = {key: value for key, value in kwargs.items() if key not in ("field_size", "grid_observation")}
        given["rows"], given["cols"] = kwargs["field_size"]
        given["max_food_level"] = given["max_food_level"] or 0
        assert SPEC.resolve(given) == SPEC.resolve(VARIANTS[f"Warp{name}"].params)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_trained_policy_acts_in_lbforaging(tmp_path):
    """Trained by its preset here, it clears the board of the original in nearly all episodes."""
    pytest.importorskip("lbforaging")
    from gpu_vecenv.train import Run, TrainConfig, Trainer

    env_id = "WarpForaging-8x8-2p-2f-coop-v3"
    Trainer(TrainConfig(env_id, device="cpu", seed=1, out=str(tmp_path / "run")), quiet=True).train()
    policy = Run(tmp_path / "run").policy(device="cpu")
    env = original.make(VARIANTS[env_id].params)
    total, episodes = 0.0, 200
    for episode in range(episodes):
        obs, done = original.start(env, episode), False
        while not done:
            actions, _ = policy.act(obs)
            obs, reward, done, _, _ = env.step(actions.tolist())
            obs, total = np.array(obs), total + sum(reward)
    assert total / episodes >= 0.95
