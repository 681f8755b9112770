"""Reset pools: every episode starts from the pool entry that its state field ``pool_entry`` names."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.worlds.reset_pool import join_states
from tests.api.envs import ALIKE
from tests.devices import DEVICES
from tests.kernels.test_rng import philox
from tests.roles.harvest import MAPS, TREE
from tests.roles.harvest import SPEC as HARVEST

SHORT = {
    "WarpTag-v0": {"num_taggers": 2, "num_runners": 4, "episode_length": 7},
    "WarpGridTag-v0": {"num_taggers": 3, "grid_length": 9, "episode_length": 7},
    "WarpCatalysis-v0": {"episode_length": 7},
    "WarpRecall-v0": {"delay": 6},
    "WarpRware-v2": {"max_steps": 7},
    "WarpSimpleSpread-v3": {"max_cycles": 7},
}
POOL_PURPOSE = 0xFFFF << 16  # last word of the counter of a draw from the pool; other draws have purpose << 16 | agent there


def make(name, num_worlds=6, **options):
    params = SHORT.get(name, {"max_episode_steps": 7})
    return gymnasium.make_vec(name, num_worlds=num_worlds, **{"device": "cpu", "array": "numpy", **params, **options})


def physical(env):
    return env.unwrapped.get_state(*(field.name for field in env.unwrapped.env_spec.state))


def assert_starts_are(env, worlds, pool):
    """Assert that the worlds' states equal the pool entries that they name, and return the entries."""
    entries = env.unwrapped.get_state("pool_entry")["pool_entry"][worlds]
    for name, values in physical(env).items():
        if name in pool:
            np.testing.assert_array_equal(values[worlds], pool[name][entries], err_msg=name)
    return entries


def steps(env, count, seed=0):
    env.action_space.seed(seed)
    return [env.step(env.action_space.sample()) for _ in range(count)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("name", ALIKE)
def test_every_reset_starts_from_an_entry_of_the_pool(name, mode, device):
    env = make(name, device=device, autoreset_mode=mode)
    pool = env.unwrapped.draw_start_states(5, seed=9)
    env.unwrapped.set_reset_pool(pool)
    obs, _ = env.reset(seed=2)
    seen = list(assert_starts_are(env, slice(None), pool))
    np.testing.assert_array_equal(obs, env.unwrapped.observe())
    for _ in range(30):
        before = env.unwrapped.get_state("episode")["episode"]
        steps(env, 1)
        new = env.unwrapped.get_state("episode")["episode"] > before
        seen += list(assert_starts_are(env, new, pool))
    assert len(seen) >= 6 * 4 and set(seen) == set(range(5))


def test_entries_are_drawn_from_seed_world_and_episode():
    """The entry is the high 32 bits of word * size. The word comes from counter (world, episode, 0, pool purpose), key = seed."""
    env = make("WarpCartPole-v1", num_worlds=4, first_world=11)
    env.unwrapped.set_reset_pool({"state": np.zeros((1000, 4), np.float32)})
    for episode in range(3):
        env.reset(seed=77 if episode == 0 else None)
        words = [philox(77, (11 + w, episode, 0, POOL_PURPOSE))[0] for w in range(4)]
        expected = [word * 1000 >> 32 for word in words]
        assert env.unwrapped.get_state("pool_entry")["pool_entry"].tolist() == expected


def test_a_worlds_entry_does_not_depend_on_the_number_of_worlds():
    pool = make("WarpCartPole-v1").unwrapped.draw_start_states(50, seed=1)
    few, many = make("WarpCartPole-v1", num_worlds=3), make("WarpCartPole-v1", num_worlds=40)
    for env in (few, many):
        env.unwrapped.set_reset_pool(pool)
        env.reset(seed=5)
    np.testing.assert_array_equal(physical(few)["state"], physical(many)["state"][:3])


def test_all_entries_are_equally_likely():
    env = make("WarpMountainCar-v0", num_worlds=20_000)
    env.unwrapped.set_reset_pool({"state": np.zeros((10, 2), np.float32)})
    env.reset(seed=3)
    counts = np.bincount(env.unwrapped.get_state("pool_entry")["pool_entry"], minlength=10)
    # chi-square with 9 degrees of freedom: one seed in a thousand exceeds 27.9
    assert counts.sum() == 20_000 and ((counts - 2000) ** 2 / 2000).sum() < 27.9


def test_fields_missing_from_the_pool_are_drawn_as_without_a_pool():
    plain, pooled = make("WarpTag-v0"), make("WarpTag-v0")
    pool = {"speed": np.full((4, 6), 0.25, np.float32)}
    pooled.unwrapped.set_reset_pool(pool)
    for env in (plain, pooled):
        env.reset(seed=8)
    usual, changed = physical(plain), physical(pooled)
    np.testing.assert_array_equal(changed.pop("speed"), np.full((6, 6), 0.25, np.float32))
    for name, values in changed.items():
        np.testing.assert_array_equal(values, usual[name])


def test_draw_start_states_equals_the_starts_of_a_reset():
    env = make("WarpGridTag-v0", num_worlds=5)
    env.reset(seed=31)
    drawn = env.unwrapped.draw_start_states(5, seed=31)
    assert list(drawn) == ["loc_x", "loc_y"]
    for name, values in physical(env).items():
        np.testing.assert_array_equal(drawn[name], values)


@pytest.mark.parametrize("size", [1, 3, 4, 10])
def test_start_states_take_parameters_by_world_in_turn(size):
    """Apples of Harvest start on the trees of its map."""
    maps = np.array([2, 0, 1, 0])
    env = GpuVectorEnv(HARVEST, num_worlds=4, device="cpu", array="numpy", map=maps)
    trees = env.draw_start_states(size, seed=3)["apples"].reshape(size, 8, 8) != 0
    np.testing.assert_array_equal(trees, [MAPS[maps[i % 4]] == TREE for i in range(size)])
    with pytest.raises(ParameterError, match="num_worlds must be an integer from 1 to .*, got -1"):
        env.draw_start_states(-1, seed=3)


@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_joined_states_of_a_run_make_a_pool(array):
    env = make("WarpCartPole-v1", array=array, autoreset_mode="next_step")
    env.reset(seed=1)
    recorded = []
    for _ in range(10):
        steps(env, 1)
        recorded.append(env.unwrapped.get_state())
    pool = join_states(recorded)
    finished = sum(int((state["terminated"] | state["truncated"]).sum()) for state in recorded)
    assert finished > 0 and len(pool["state"]) == 60 - finished
    env.unwrapped.set_reset_pool(pool)
    env.reset(seed=2)
    state = env.unwrapped.get_state()
    np.testing.assert_array_equal(state["state"], pool["state"][np.asarray(state["pool_entry"])])
    assert (np.asarray(state["t"]) == 0).all() and (np.asarray(state["episode"]) == 0).all()


def test_a_partial_reset_draws_for_its_worlds_only():
    env = make("WarpCartPole-v1", autoreset_mode="disabled")
    env.reset(seed=1)
    before = physical(env)["state"]
    env.unwrapped.set_reset_pool({"state": np.ones((3, 4), np.float32)})
    env.reset(options={"reset_mask": np.arange(6) < 2})
    after = env.unwrapped.get_state()
    np.testing.assert_array_equal(after["state"], np.concatenate([np.ones((2, 4), np.float32), before[2:]]))
    assert (after["pool_entry"][:2] >= 0).all() and (after["pool_entry"][2:] == -1).all()


def test_setting_the_pool_to_none_restores_the_envs_own_starts():
    env, plain = make("WarpPendulum-v1"), make("WarpPendulum-v1")
    env.unwrapped.set_reset_pool({"state": np.ones((3, 2), np.float32)})
    env.reset(seed=1)
    env.unwrapped.set_reset_pool(None)
    assert np.array_equal(env.reset(seed=1)[0], plain.reset(seed=1)[0])
    assert (env.unwrapped.get_state("pool_entry")["pool_entry"] == -1).all()


@pytest.mark.parametrize("name", ["WarpCartPole-v1", "WarpTag-v0"])
@pytest.mark.parametrize("device", DEVICES)
def test_a_reset_without_a_pool_clears_pool_entries_that_were_set(name, device):
    env = make(name, device=device)
    env.reset(seed=1)
    env.unwrapped.set_state({"pool_entry": np.full(6, 3, np.int32)})
    assert (env.unwrapped.get_state("pool_entry")["pool_entry"] == 3).all()
    env.reset()
    assert (env.unwrapped.get_state("pool_entry")["pool_entry"] == -1).all()


def test_the_env_copies_the_pool():
    env = make("WarpCartPole-v1")
    given = np.full((2, 4), 0.01, np.float32)
    env.unwrapped.set_reset_pool({"state": given})
    given[:] = 5
    env.reset(seed=1)
    assert (physical(env)["state"] == np.float32(0.01)).all()


@pytest.mark.parametrize(
    ("states", "error", "text"),
    [
        ({}, ParameterError, "a reset pool holds fields of loc_x, .*; got nothing"),
        ({"t": np.zeros(3, np.int32)}, ParameterError, "a reset pool holds fields of loc_x, .*; got t"),
        ({"loc_x": np.zeros((3, 6), np.float32), "where": 1}, ParameterError, "got loc_x, where"),
        ({"loc_x": np.zeros((0, 6), np.float32)}, ParameterError, r"holds 1 to 2\*\*31 - 1 start states, got 0"),
        ({"loc_x": np.zeros((3, 5), np.float32)}, ShapeError, r"reset pool loc_x must have shape \(3, 6\), got \(3, 5\)"),
        ({"loc_x": np.zeros((3, 6))}, ArrayTypeError, "reset pool loc_x must be float32, got float64"),
        ({"loc_x": np.zeros((3, 6), np.float32), "loc_y": np.zeros((2, 6), np.float32)}, ShapeError,
         r"reset pool loc_y must have shape \(3, 6\), got \(2, 6\)"),
    ],
)  # fmt: skip
def test_an_invalid_pool_raises_an_error_and_keeps_the_old_one(states, error, text):
    env = make("WarpTag-v0")
    pool = env.unwrapped.draw_start_states(4, seed=1)
    env.unwrapped.set_reset_pool(pool)
    with pytest.raises(error, match=text):
        env.unwrapped.set_reset_pool(states)
    env.reset(seed=3)
    assert_starts_are(env, slice(None), pool)


def test_joining_no_states_raises_an_error():
    with pytest.raises(ParameterError, match="needs at least one state"):
        join_states([])


def test_reading_an_unknown_field_raises_an_error():
    env = make("WarpCartPole-v1")
    env.reset(seed=0)
    with pytest.raises(ParameterError, match="the state has no field 'speed'; it has state, t"):
        env.unwrapped.get_state("speed")


@pytest.mark.gpu
def test_a_captured_step_uses_a_pool_that_is_set_later():
    torch = pytest.importorskip("torch")
    env = make("WarpCartPole-v1", num_worlds=64, device="cuda:0", array="torch", copy=False, max_episode_steps=1).unwrapped
    env.reset(seed=1)
    action = torch.zeros(64, dtype=torch.int32, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            env.step(action)
    torch.cuda.current_stream().wait_stream(side)
    for value in (0.01, 0.02):
        env.set_reset_pool({"state": torch.full((5, 4), value, device="cuda")})
        graph.replay()  # episodes last one step, so every world is reset
        assert (env.get_state("state")["state"] == torch.tensor(value, device="cuda")).all()
