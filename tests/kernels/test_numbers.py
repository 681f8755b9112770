"""Doubles and integers of the spec reach kernels with all their bits: parameters, constants and tables."""

import re
from dataclasses import replace

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import Constant, EnvSpec, Field, GpuVectorEnv, Param, Role, Table
from gpu_vecenv.errors import ParameterError, SpecError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.nvrtc import compile_ptx
from tests.devices import DEVICES
from tests.trees import to_host

KERNEL = """
#include "world.h"
// double: the test reads its bits.
GV_FN gv_u64 bits_of(double value) {
    union { double value; gv_u64 bits; } both;
    both.value = value;
    return both.bits;
}
GV_FN void env_reset(GvWorld& w) {
    const auto& s = w.state;
    if (w.once) {
        s.day_bits = bits_of(w.params.day);
        s.third_bits = bits_of(w.params.third);
        s.far_bits = (gv_u64)w.params.far;
        s.near_bits = (gv_u64)(gv_i64)w.params.near;
        s.rate_bits = s.curve_bits = s.stamp_bits = 0;
    }
}
GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    for (auto me : w.agents) me.reward = w.params.half;
    if (w.once) {
        s.rate_bits = bits_of(w.params.rate);
        s.curve_bits = bits_of(w.tables.curve[w.t]);
        s.stamp_bits = (gv_u64)w.tables.stamps[2 * w.t + 1];
        w.terminate(w.t == 3);
    }
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {0.0f};
}
"""
STATE = ("day_bits", "third_bits", "far_bits", "near_bits", "rate_bits", "curve_bits", "stamp_bits")
CURVE = np.linspace(0, 1, 7) / 3
STAMPS = np.arange(14).reshape(7, 2) * -(2**57) - 1


@pytest.fixture
def spec(tmp_path):
    kernel = tmp_path / "numbers.cu"
    kernel.write_text(KERNEL)
    return EnvSpec(
        name="Numbers-v0",
        kernel=kernel,
        roles=(Role("agent", 1),),
        params=(
            Param("num_steps_more", 3, "int32", "an odd number of members of four bytes"),
            Param("day", 18_341.1, "float64", "day of the start", "days"),
            Param("rate", 0.1, "float64", "a rate", per_world=True, low=0, high=1),
        ),
        state=tuple(Field(name, "uint64", (), "bits") for name in STATE),
        observation=lambda params: Box(-1, 1, (1,), np.float32),
        action=lambda params: Discrete(2),
        constants=(
            Constant("half", lambda p: 0.5, "a float"),
            Constant("third", lambda p: p["day"] / 3, "a double", dtype="float64"),
            Constant("far", lambda p: 2**53 + p["num_steps_more"], "no double", dtype="int64"),
            Constant("near", lambda p: -7, "an integer", dtype="int32"),
        ),
        tables=(
            Table("curve", lambda p: CURVE, "doubles", dtype="float64"),
            Table("stamps", lambda p: STAMPS, "integers", dtype="int64"),
        ),
    )


def as_bits(values):
    return np.asarray(values, np.float64).view(np.uint64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("agents", [1, 2])
@pytest.mark.parametrize("by_world", [False, True])
def test_all_bits_reach_the_kernel(spec, agents, by_world, device):
    """One agent: worlds in registers or packs of 32, and those left over; two agents: worlds in memory."""
    worlds = 70
    rate = np.random.default_rng(0).random(worlds) if by_world else 1 / 7
    spec = replace(spec, roles=(Role("agent", agents),))
    env = GpuVectorEnv(spec, worlds, device=device, array="numpy", day=18_341.7, rate=rate, autoreset_mode="disabled")
    env.reset(seed=0)
    for step in (1, 2):
        reward = env.step(np.zeros(env.action_space.shape, np.int32))[1]
        state = env.get_state()
        wanted = {
            "day_bits": as_bits(18_341.7),
            "third_bits": as_bits(18_341.7 / 3),
            "far_bits": 2**53 + 3,
            "near_bits": np.int64(-7).view(np.uint64),
            "rate_bits": as_bits(rate),
            "curve_bits": as_bits(CURVE[step]),
            "stamp_bits": STAMPS[step, 1].view(np.uint64),
        }
        for name, value in wanted.items():
            np.testing.assert_array_equal(state[name], np.broadcast_to(value, worlds), err_msg=name)
        assert (reward == 0.5).all()
    env.close()


STATE_KERNEL = """
#include "world.h"
// double: the state is in double.
GV_FN void env_reset(GvWorld& w) {
    for (int i : w.each(3)) w.state.level[i] = (double)w.draw(0, i).uniform() / 3.0;
    if (w.once) w.state.count = (1ll << 60) + 1;
}
// double: as above.
GV_FN void env_step(GvWorld& w) {
    for (int i : w.each(3)) w.state.level[i] = w.state.level[i] / 3.0;
    for (auto me : w.agents) me.reward = 0.0f;
    if (w.once) {
        w.state.count += 2;
        w.truncate(w.t == 4);
    }
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {0.0f};
}
"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("array", ["numpy", "torch"])
@pytest.mark.parametrize("agents", [1, 2])
def test_state_fields_keep_all_bits(spec, agents, array, device, tmp_path):
    """Steps, a rollout, set_state, copies of worlds and reset pools."""
    kernel = tmp_path / "state.cu"
    kernel.write_text(STATE_KERNEL)
    fields = (Field("count", "int64", (), "a count", low=0, high=2**62), Field("level", "float64", (3,), "levels"))
    spec = replace(spec, kernel=kernel, roles=(Role("agent", agents),), state=fields, params=(), constants=(), tables=())
    env, rolled = (GpuVectorEnv(spec, 70, device=device, array=array) for _ in range(2))
    for one in (env, rolled):
        one.reset(seed=0)
    level = to_host(env.get_state("level"))["level"]
    assert level.dtype == np.float64 and (level[0] != level[0].astype(np.float32)).any()
    actions = np.zeros(env.action_space.shape, np.uint8)
    given = actions if array == "numpy" else pytest.importorskip("torch").as_tensor(actions, device=device)
    for _ in range(3):
        env.step(given)
    rolled.rollout(given, num_steps=3)
    for one in (env, rolled):
        state = to_host(one.get_state())
        np.testing.assert_array_equal(state["level"], level / 3 / 3 / 3)
        np.testing.assert_array_equal(state["count"], np.full(70, 2**60 + 7))
    env.step(given)  # autoreset
    np.testing.assert_array_equal(to_host(env.get_state("count"))["count"], np.full(70, 2**60 + 1))
    env.set_state({"level": [[1 / 7, 1e-300, 1 / 3]] * 70, "count": np.arange(70) + 2**61})
    env.copy_worlds([3], [5])
    state = to_host(env.get_state())
    assert state["count"][[3, 4, 5]].tolist() == [2**61 + 3, 2**61 + 4, 2**61 + 3] and state["level"][5, 1] == 1e-300
    with pytest.raises(ParameterError, match="state field count must be .* got 4611686018427387905"):
        env.set_state({"count": np.full(70, 2**62 + 1)})
    env.set_reset_pool({"level": np.full((4, 3), 1 / 7)})
    env.reset(seed=1)
    assert (to_host(env.get_state("level"))["level"] == 1 / 7).all()


def test_gpu_compilers_take_the_struct(spec):
    """Its size is asserted there; doubles are aligned to eight bytes."""
    ptx = compile_ptx(spec, 90)
    assert re.search(r"ld\.param\.f64|ld\.param\.u64", ptx)
    layout = Layout(spec, spec.resolve({}))
    for name, (dtype, offset, *_) in layout.dtype.fields.items():
        assert offset % dtype.itemsize == 0, name
    ends = [offset + dtype.itemsize for dtype, offset, *_ in layout.dtype.fields.values()]
    assert [offset for _, offset, *_ in layout.dtype.fields.values()] == [0, *ends[:-1]], "members have no padding between them"


def test_defaults_and_bounds_of_a_double_are_doubles(spec):
    params = spec.resolve({"rate": 1.0})
    assert params["day"] == 18_341.1 and Layout(spec, params).scalars["third"] == 18_341.1 / 3
    with pytest.raises(ParameterError, match=r"rate must be .* 0.* 1"):
        spec.resolve({"rate": 1 + 2**-50})
    with pytest.raises(ParameterError, match=r"rate must be .* 0.* 1"):
        spec.resolve({"rate": np.array([0.5, 1 + 2**-50])})


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (Constant("x", lambda p: 1.0, "x", dtype="int32"), SpecError, r"'x' must hold integers from .* \(int32\), got float64"),
        (Constant("x", lambda p: 2**31, "x", dtype="int32"), SpecError, "'x' must hold integers .* got 2147483648"),
        (Constant("x", lambda p: 2**63, "x", dtype="int64"), SpecError, "'x' must hold integers .* got 9223372036854775808"),
        (Constant("x", lambda p: 1e400, "x", dtype="float64"), ParameterError, "must be finite in float64, .* give inf"),
        (Constant("x", lambda p: 1e39, "x"), ParameterError, "must be finite in float32, .* give inf"),
        (Constant("x", lambda p: [1], "x", dtype="int64"), SpecError, "constant 'x' must be one number"),
        (Table("x", lambda p: [1.5], "x", dtype="int64"), SpecError, r"'x' must hold integers from .* \(int64\), got float64"),
        (Table("x", lambda p: [np.nan], "x", dtype="float64"), ParameterError, "must be finite in float64, .* give nan"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(spec, part, error, message):
    name = "constants" if isinstance(part, Constant) else "tables"
    changed = replace(spec, **{name: (*getattr(spec, name), part)})
    with pytest.raises(error, match=message):
        Layout(changed, changed.resolve({}))


def test_other_dtypes_are_refused(spec):
    with pytest.raises(SpecError, match=r"constant 'x': dtype must be one of float32, float64, int32, int64, got 'uint8'"):
        replace(spec, constants=(Constant("x", lambda p: 1, "x", dtype="uint8"),))
