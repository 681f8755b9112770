"""Parts of one env on two devices, in threads and in processes: each world is the same as in one env."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401  (registers the ids)

torch = pytest.importorskip("torch")

GPUS = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
WORLDS, STEPS = 6, 12
"""Worlds of a part, and steps."""

GAMES = {
    "WarpTag-v0": {"num_taggers": 2, "num_runners": 4, "episode_length": 8, "tagging_distance": 0.1},
    "WarpCartPole-v1": {"max_episode_steps": 8},
}
"""Envs with episodes that end within the steps."""

on_two_gpus = pytest.param(
    ("cuda:0", "cuda:1"), marks=[pytest.mark.gpu, pytest.mark.skipif(len(GPUS) < 2, reason="needs two GPUs")]
)
devices_of_parts = pytest.mark.parametrize("devices", [("cpu", "cpu"), on_two_gpus], ids=["cpu", "two_gpus"])
games = pytest.mark.parametrize("name", GAMES)


def make(name, device, worlds, first_world=0, array="numpy"):
    return gymnasium.make_vec(
        name, num_envs=worlds, first_world=first_world, device=device, array=array, **GAMES[name]
    )  # fmt: skip


def actions_of(name, worlds):
    env = make(name, "cpu", worlds)
    env.action_space.seed(2)
    actions = [env.action_space.sample() for _ in range(STEPS)]
    env.close()
    return actions


def steps(name, device, first_world, actions, array="numpy"):
    """Return all that an env gives in some steps, as NumPy arrays."""
    env = make(name, device, len(actions[0]), first_world, array)
    given = [env.reset(seed=4)[0]]
    for action in actions:
        moved = torch.as_tensor(action).to(device) if array == "torch" else action
        given += env.step(moved)[:4]
    given = [x.cpu().numpy() if array == "torch" else np.array(x) for x in given]
    env.close()
    return given


def in_parts(pool, name, devices, actions, array="numpy"):
    """Return the same, of an env for each device, all at a time."""
    parts = [
        pool.submit(steps, name, device, part * WORLDS, [x[part * WORLDS : (part + 1) * WORLDS] for x in actions], array)
        for part, device in enumerate(devices)
    ]
    return [np.concatenate(each) for each in zip(*(part.result() for part in parts), strict=True)]


def require_equal(found, expected):
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"output {number}")


@games
@devices_of_parts
@pytest.mark.parametrize("array", ["numpy", "torch"])
def test_threads_with_a_device_each_give_the_worlds_of_one_env(name, devices, array):
    actions = actions_of(name, WORLDS * len(devices))
    with ThreadPoolExecutor(len(devices)) as pool:
        found = in_parts(pool, name, devices, actions, array)
    require_equal(found, steps(name, devices[0], 0, actions, array))


@games
@pytest.mark.parametrize("devices", [pytest.param(("cpu", "cpu"), marks=pytest.mark.slow), on_two_gpus], ids=["cpu", "two_gpus"])
def test_processes_with_a_device_each_give_the_worlds_of_one_env(name, devices):
    actions = actions_of(name, WORLDS * len(devices))
    with ProcessPoolExecutor(len(devices), multiprocessing.get_context("spawn")) as pool:
        found = in_parts(pool, name, devices, actions)
    require_equal(found, steps(name, devices[0], 0, actions))


@pytest.mark.gpu
@pytest.mark.skipif(len(GPUS) < 2, reason="needs two GPUs")
def test_an_env_on_the_second_gpu_leaves_the_current_device_as_it_is():
    with torch.cuda.device(0):
        env = make("WarpTag-v0", "cuda:1", WORLDS, array="torch")
        obs, _ = env.reset(seed=0)
        obs, reward, *_ = env.step(torch.as_tensor(actions_of("WarpTag-v0", WORLDS)[0]).to("cuda:1"))
        assert torch.cuda.current_device() == 0
    assert {x.device for x in (obs, reward)} == {torch.device("cuda:1")}
    env.close()


def test_parts_with_wrong_numbers_of_their_worlds_differ():
    """The comparison can fail: without ``first_world`` both parts have the same starts."""
    actions = actions_of("WarpTag-v0", 2 * WORLDS)
    halves = [steps("WarpTag-v0", "cpu", 0, [x[:WORLDS] for x in actions]) for _ in range(2)]
    found = [np.concatenate(each) for each in zip(*halves, strict=True)]
    with pytest.raises(AssertionError):
        require_equal(found, steps("WarpTag-v0", "cpu", 0, actions))
