"""An env that computes in double as economic models do: tables, parameters, logarithms and exponentials without a detour."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import Constant, EnvSpec, Field, GpuVectorEnv, Param, Role, Table
from gpu_vecenv.testing.nvrtc import compile_ptx, inexact_instructions
from tests.devices import DEVICES

KERNEL = """
#include "world.h"
#include "lib/powers.h"

// double: output is computed in double and rounded once.
GV_FN float output_of(const GvWorld& w, float capital, float labor) {
    const double gamma = w.params.gamma, people = gv_log_in_double((double)labor / w.params.thousand);
    return (float)gv_exp_in_double(gamma * gv_log_in_double((double)capital) + (1.0 - gamma) * people);
}

// double: factors are nearly 1.
GV_FN float grown(const GvWorld& w, float capital, float invested) {
    return (float)(w.tables.keep[w.t] * (double)capital + gv_pow_in_double((double)invested, w.params.returns));
}

GV_FN void env_reset(GvWorld& w) {
    if (w.once) {
        w.state.capital = 1.0f + w.draw(0).uniform();
        w.state.labor = 1000.0f + (float)w.params.people;
        w.state.output = 0.0f;
    }
}

GV_FN void env_step(GvWorld& w) {
    const auto& s = w.state;
    for (auto me : w.agents) {
        s.output = output_of(w, s.capital, s.labor);
        s.capital = grown(w, s.capital, me.action.index() == 1 ? 0.5f * s.output : 0.25f * s.output);
        me.reward = s.output;
    }
    if (w.once) w.terminate(w.t == 9);
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {w.state.capital};
}
"""
KEEP = 0.9 ** np.linspace(1, 2, 10)
RETURNS = 0.9876543210987654


@pytest.fixture
def spec(tmp_path):
    kernel = tmp_path / "growth.cu"
    kernel.write_text(KERNEL)
    return EnvSpec(
        name="Growth-v0",
        kernel=kernel,
        roles=(Role("region", 1),),
        params=(
            Param("gamma", 0.3, "float64", "share of capital", low=0, high=1, per_world=True),
            Param("returns", RETURNS, "float64", "exponent of investment", low=0, high=1),
        ),
        state=tuple(Field(name, "float32", (), name) for name in ("capital", "labor", "output")),
        observation=lambda params: Box(0, np.inf, (1,), np.float32),
        action=lambda params: Discrete(2),
        constants=(
            Constant("thousand", lambda p: 1000, "a thousand", dtype="float64"),
            Constant("people", lambda p: 234, "people", dtype="int64"),
        ),
        tables=(Table("keep", lambda p: KEEP, "capital that is left after a step", dtype="float64"),),
    )


@pytest.mark.parametrize("device", DEVICES)
def test_steps_in_double_equal_numpys(spec, device):
    """Results are rounded to float32 once, so that errors below 1 ulp of a double do not show."""
    worlds = 100
    gamma = np.linspace(0.2, 0.5, worlds)
    env = GpuVectorEnv(spec, worlds, device=device, array="numpy", gamma=gamma, autoreset_mode="disabled")
    capital = env.reset(seed=3)[0][:, 0].astype(np.float64)
    actions = np.random.default_rng(0).integers(0, 2, (8, worlds))
    for t, action in enumerate(actions, 1):
        env.step(action)
        output = np.exp(gamma * np.log(capital) + (1 - gamma) * np.log(1234 / 1000)).astype(np.float32)
        invested = (np.where(action == 1, np.float32(0.5), np.float32(0.25)) * output).astype(np.float64)
        capital = (KEEP[t] * capital + invested**RETURNS).astype(np.float32).astype(np.float64)
        state = env.get_state()
        np.testing.assert_array_equal(state["output"], output)
        np.testing.assert_array_equal(state["capital"], capital.astype(np.float32))
    env.close()


def test_its_text_for_gpus_gives_the_bits_of_the_cpu(spec):
    ptx = compile_ptx(spec, 90)
    assert "div.rn.f64" in ptx and inexact_instructions(ptx, doubles=True) == []
