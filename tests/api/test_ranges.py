"""Ranges that a spec gives to state fields, to parameters and to numbers derived from parameters."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.fields import Constant, Field, Table
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.params import LARGEST, Param
from tests.api.envs import assert_same, make
from tests.devices import DEVICES
from tests.ids import EVERY_ID


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("mode", ["same_step", "next_step", "disabled"])
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_a_flag_other_than_0_or_1_raises_an_error(name, mode, device):
    env = make("cartpole", num_worlds=64, autoreset_mode=mode, device=device, array="torch").unwrapped
    env.reset(seed=0)
    before = env.get_state()
    for value in (2, 7, 255):
        flags = torch.ones(64, dtype=torch.uint8, device=device)
        flags[17] = value
        with pytest.raises(ParameterError, match=f"state field {name} must be at least 0 and at most 1, got {value}"):
            env.set_state({"t": torch.ones(64, dtype=torch.int32), name: flags})
    assert_same({n: v.cpu() for n, v in env.get_state().items()}, {n: v.cpu() for n, v in before.items()})


OUTSIDE = [
    ("WarpTag-v0", "alive", 2), ("WarpTag-v0", "alive", -1), ("WarpTag-v0", "tagged_by", -2), ("WarpTag-v0", "tagged_by", 5),
    ("WarpGridTag-v0", "loc_x", -1), ("WarpGridTag-v0", "loc_y", 101), ("WarpCartPole-v1", "t", -1),
    ("WarpCartPole-v1", "t", 2**31 - 1), ("WarpCartPole-v1", "episode", -2), ("WarpCartPole-v1", "world_id", -1),
    ("WarpCartPole-v1", "pool_entry", -2),
]  # fmt: skip


@pytest.mark.parametrize(("env_id", "name", "value"), OUTSIDE)
def test_a_field_outside_its_range_raises_an_error(env_id, name, value):
    env = gymnasium.make_vec(env_id, num_envs=2, device="cpu", array="numpy").unwrapped
    env.reset(seed=0)
    before = env.get_state()
    field = before[name].copy()
    field.flat[-1] = value
    with pytest.raises(ParameterError, match=f"state field {name} must be at .*, got {value}"):
        env.set_state({name: field})
    assert_same(env.get_state(), before)
    if name in [f.name for f in env.env_spec.state]:
        with pytest.raises(ParameterError, match=f"reset pool {name} must be at .*, got {value}"):
            env.set_reset_pool({name: field})


@pytest.mark.parametrize("env_id", EVERY_ID)
def test_states_reached_by_steps_can_be_set(env_id):
    env = gymnasium.make_vec(env_id, num_envs=3, device="cpu", array="numpy").unwrapped
    env.reset(seed=0)
    for _ in range(50):
        env.step(env.action_space.sample())
        env.set_state(env.get_state())


def test_ranges_of_dtypes_that_torch_cannot_compare_are_checked():
    """A uint16 field with a range: torch has no comparison for uint16."""
    spec = dataclasses.replace(SPEC, state=(*SPEC.state, Field("mark", "uint16", (), "a mark", high=9)))
    field, layout = spec.state[-1], Layout(spec, spec.resolve({}))
    assert field.bounds(layout.params) == (-np.inf, 9)
    from gpu_vecenv.backend.memory import TorchMemory
    from gpu_vecenv.vector.worlds.state import checked_field

    marks = torch.tensor([1, 10], dtype=torch.int32).to(torch.uint16)
    with pytest.raises(ParameterError, match="mark must be at most 9, got 10"):
        checked_field("mark", marks, (2,), "uint16", field.bounds(layout.params), TorchMemory("cpu"))


@pytest.mark.parametrize("length", [1e-39, 1e-12, 1e12, 3e38])
def test_lengths_without_a_finite_scale_raise_an_error(length):
    with pytest.raises(ParameterError, match="grid_length must be at least 1e-09 and at most 1e.06, got"):
        gymnasium.make_vec("WarpTag-v0", num_runners=1100, grid_length=length, device="cpu")


@pytest.mark.parametrize("length", [1e-9, 1e6])
def test_the_smallest_and_the_largest_length_give_finite_observations(length):
    env = gymnasium.make_vec("WarpTag-v0", num_envs=1, num_runners=1100, grid_length=length, device="cpu", array="numpy")
    obs, _ = env.reset(seed=0)
    for _ in range(3):
        assert np.isfinite(obs).all()
        obs, *_ = env.step(env.action_space.sample())


@pytest.mark.parametrize("part", [
    {"constants": (Constant("inverse", lambda p: 1 / p["gravity"], "an inverse"),)},
    {"constants": (Constant("inverse", lambda p: 1e39 + p["gravity"], "an inverse"),)},
    {"constants": (Constant("inverse", lambda p: float("nan"), "an inverse"),)},
    {"tables": (Table("inverse", lambda p: np.array([1.0, 2.0]) / p["gravity"], "an inverse"),)},
])  # fmt: skip
def test_constants_and_tables_must_be_finite(part):
    spec = dataclasses.replace(SPEC, **part)
    with pytest.raises(ParameterError, match=r"WarpCartPole-v1: inverse \(an inverse\) must be finite in float32"):
        Layout(spec, spec.resolve({"gravity": 0.0}))


def test_a_float_parameter_without_bounds_must_be_finite():
    assert (Param("x", 0.0, "float32", "x").low, Param("x", 0.0, "float64", "x").high) == (-LARGEST, LARGEST)
    assert Param("x", 0.0, "float32", "x", high=1e9).high == 1e9
    assert Param("n", 0, "int32", "n").high == np.inf
