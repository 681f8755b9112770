"""Harvest, whose agents are alike and have masks, against its reference in both views; tables of integers; metrics."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv import Table
from gpu_vecenv.errors import ParameterError, ShapeError
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.api.envs import as_rows
from tests.devices import DEVICES
from tests.marks import slow_but
from tests.roles.harvest import MAPS, SPEC, TREE, WALL, Harvest

MODES = ("same_step", "next_step", "disabled")


def make(num_worlds=3, **options):
    return gymnasium.make_vec("Harvest-v0", num_worlds=num_worlds, **{"device": "cpu", "array": "numpy", **options}).unwrapped


class Expected:
    """Results that the env should give, from one reference for each world."""

    def __init__(self, env, seed, maps):
        self.env = env
        self.worlds = [Harvest(env.params, seed, w, int(maps[w])) for w in range(env.num_worlds)]
        for world in self.worlds:
            world.reset(0)

    def arrange(self, arrays):
        """Array of the env's view from those of the worlds, (A, ...) or a number for all agents of a world."""
        if self.env.view == "worlds":
            return np.stack(arrays)
        of_agents = [np.broadcast_to(array, (self.env.num_agents, *np.shape(array)[1:])) for array in arrays]
        return as_rows(np.stack(of_agents), self.env.role_counts)

    def assert_observed(self, obs, mask, where=slice(None)):
        expected = [self.arrange(arrays) for arrays in zip(*(world.observe() for world in self.worlds), strict=True)]
        np.testing.assert_array_equal(obs[where], expected[0][where])
        np.testing.assert_array_equal(mask[where], expected[1][where])
        assert mask.dtype == bool


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", slow_but(MODES[:1], MODES))
@pytest.mark.parametrize("view", ["worlds", "agents"])
@pytest.mark.parametrize(("number", "regrowth", "reds", "blues"), [(0, 0.0, 8, 4), (1, 0.1, 1, 2), ([2, 0, 1], 0.05, 2, 1)])
def test_every_step_is_that_of_the_reference(number, regrowth, reds, blues, view, mode, device):
    """The map is the same in all worlds, or chosen by world."""
    limit = 40 if number == 0 else 15
    params = {"num_red": reds, "num_blue": blues, "map": number, "regrowth": regrowth, "max_episode_steps": limit}
    env = make(3, view=view, autoreset_mode=mode, device=device, **params)
    obs, info = env.reset(seed=11)
    expected = Expected(env, 11, np.broadcast_to(number, 3))
    generator = np.random.default_rng(number)
    done, ends = np.zeros((3, 2), bool), np.zeros(2, int)
    for _ in range(90):
        expected.assert_observed(obs, info["action_mask"])
        actions = generator.integers(0, (5, 2), (3, env.num_agents, 2))
        given = actions if view == "worlds" else as_rows(actions, env.role_counts)
        obs, reward, terminated, truncated, info = env.step(given)
        out, waits = [], done.any(1)
        for w, world in enumerate(expected.worlds):
            if waits[w]:
                pay, *ended = np.zeros(env.num_agents), *(done[w] & (mode == "disabled"))
            else:
                pay, *ended = world.step(actions[w])
            out.append((pay, *ended))
        pays, *flags = zip(*out, strict=True)
        done = np.array(flags).T
        np.testing.assert_array_equal(np.stack([terminated, truncated]), [expected.arrange(flag) for flag in flags])
        np.testing.assert_array_equal(info.get("agent_reward", reward), expected.arrange(pays))
        if view == "worlds":
            np.testing.assert_allclose(reward, np.mean(pays, axis=1), atol=1e-6)
        finished = done.any(1) & ~waits
        np.testing.assert_array_equal(info["_episode"], expected.arrange(finished))
        ends += done[finished].sum(0)
        for name, values in info["episode"].items():
            metrics = [world.metrics()[name] if f else 0 for world, f in zip(expected.worlds, finished, strict=True)]
            np.testing.assert_array_equal(np.where(info["_episode"], values, 0), expected.arrange(np.float32(metrics)))
        if mode == "same_step":
            expected.assert_observed(info["final_obs"], info["final_action_mask"], info["_final_obs"])
        restart = finished if mode == "same_step" else waits if mode == "next_step" else waits & (generator.random(3) < 0.5)
        if mode == "disabled" and restart.any():
            obs, info = env.reset(options={"reset_mask": expected.arrange(restart)})
        for w in np.flatnonzero(restart):
            expected.worlds[w].reset(expected.worlds[w].episode + 1)
        done[restart] = False
    assert ends[1] > 0 and (number != 0 or ends[0] > 0)  # without regrowth, some episodes end when all apples are eaten


def test_frozen_agents_may_only_stay():
    """A zap freezes agents of the other team and forbids their moves; a forbidden move acts as staying."""
    env = make(1, num_red=1, num_blue=1)
    env.reset(seed=0)
    env.set_state({"x": np.int32([[2, 3]]), "y": np.int32([[4, 4]])})
    mask = env.step(np.array([[[0, 1], [0, 0]]]))[4]["action_mask"]
    np.testing.assert_array_equal(mask, [[[True] * 5, [True] + [False] * 4]])
    env.step(np.array([[[0, 0], [1, 0]]]))
    np.testing.assert_array_equal(env.get_state("x")["x"], [[2, 3]])


def test_invalid_entries_are_counted_and_act_as_zero():
    """Checked actions are refused on the CPU, so unchecked ones are launched."""
    env = make(2)
    env.reset(seed=0)
    x, y = env.get_state("x", "y").values()
    actions = np.zeros((2, 5, 2), np.int32)
    actions[0, 1], actions[1, 0, 1] = (5, -1), 2
    env.worlds.step((actions, actions.ctypes.data, 4))
    assert int(env.worlds.arguments.invalid[0]) == 3
    env.worlds.arguments.invalid[...] = 0
    after = env.get_state("x", "y", "zaps")
    np.testing.assert_array_equal(after["x"], x)
    np.testing.assert_array_equal(after["y"], y)
    assert not after["zaps"].any()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint16"])
def test_tables_hold_integers_of_their_dtype(dtype):
    """MOVES has negative steps, which only signed dtypes hold."""
    moves = replace(SPEC.tables[1], dtype=dtype)
    spec = replace(SPEC, tables=(SPEC.tables[0], moves))
    if dtype.startswith("u"):
        with pytest.raises(ParameterError, match=f"table 'moves' must hold integers from 0 to .* \\({dtype}\\), got -1 to 1"):
            GpuVectorEnv(spec, 2, device="cpu")
    else:
        env, same = (GpuVectorEnv(each, 2, device="cpu", array="numpy") for each in (spec, SPEC))
        for each in (env, same):
            each.reset(seed=1)
        np.testing.assert_array_equal(env.rollout(num_steps=20)[0], same.rollout(num_steps=20)[0])


def test_worlds_choose_their_maps():
    """A world starts on the map that its own number chooses, and so after each episode."""
    maps = np.array([2, 0, 1, 1, 0, 2])
    env = make(6, map=maps, max_episode_steps=4, num_red=1, num_blue=1)
    for steps in (0, 4):
        (env.rollout(num_steps=steps) if steps else env.reset(seed=1))
        trees = env.get_state("apples")["apples"].reshape(6, 8, 8)
        np.testing.assert_array_equal(trees, MAPS[maps] == TREE)
    for wrong in ([0, 1, 2, 3, 0, 0], [0.5] * 6, [-1] * 6, [0, 1]):
        with pytest.raises((ParameterError, ShapeError), match="map must"):
            make(6, map=np.array(wrong))


def test_wrong_tables_raise_an_error():
    with pytest.raises(ParameterError, match="table 'maps': dtype must be one of float32, .*, got 'float16'"):
        replace(SPEC, tables=(Table("maps", lambda p: MAPS, "maps", dtype="float16"), SPEC.tables[1]))
    maps = replace(SPEC.tables[0], values=lambda p: MAPS + 0.5)
    with pytest.raises(ParameterError, match="table 'maps' must hold integers from 0 to 255 .uint8., got float64"):
        GpuVectorEnv(replace(SPEC, tables=(maps, SPEC.tables[1])), 2, device="cpu")


def test_no_agent_starts_on_a_wall():
    for number, ground in enumerate(MAPS):
        env = make(200, map=number)
        env.reset(seed=number)
        x, y = env.get_state("x", "y").values()
        assert (ground[y, x] != WALL).all() and len(np.unique(y * 8 + x)) == (ground != WALL).sum()


def test_a_metric_without_a_record_is_nan():
    env = make(2, max_episode_steps=3)
    env.reset(seed=0)
    for _ in range(3):
        info = env.step(np.zeros((2, 5, 2), int))[4]
    assert info["_episode"].all() and np.isnan(info["episode"]["last_zaps"]).all()
    assert not np.isnan(info["episode"]["eaten"]).any()


def test_metrics_of_each_step_go_to_bound_slabs():
    env, plain = make(array="torch", max_episode_steps=2), make(max_episode_steps=2)
    env.reset(seed=0)
    plain.reset(seed=0)
    slabs = {metric.name: torch.zeros(4, 3) for metric in SPEC.metrics}
    with pytest.raises(ParameterError, match="bound episode must be a dict with the keys eaten, .* got \\['eaten'\\]"):
        env.bind(obs=torch.zeros(5, *env.observation_space.shape), episode={"eaten": slabs["eaten"]})
    env.bind(obs=torch.zeros(5, *env.observation_space.shape), episode=slabs)
    actions = np.ones((3, 5, 2), np.int32)
    for t in range(4):
        env.step(actions)
        info = plain.step(actions)[4]
        for name, slab in slabs.items():
            np.testing.assert_array_equal(slab[t][info["_episode"]], info["episode"][name][info["_episode"]])
    assert info["_episode"].all() and any(slab[3].any() for slab in slabs.values())
