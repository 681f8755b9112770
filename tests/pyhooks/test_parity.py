"""Hooks in Python give the bits of the same hooks in C++: compiled for any number of lanes, and run by Python."""

import functools
import json

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, GpuVectorEnv, Role
from gpu_vecenv.backend.python import PythonBackend
from gpu_vecenv.backend.select import make_backend
from gpu_vecenv.testing.builds import Builds
from tests.devices import DEVICES
from tests.marks import slow_but
from tests.parity import trajectory
from tests.parity.trajectory import RECORD
from tests.pyhooks.cases import CASES, OF_SPREAD, bits_of, hash_of, ported

MODES = ("same_step", "next_step", "disabled")
QUICK = ("cartpole", "grid tag", "harvest", "pot", "walkers")
"""Cases that run in each run of the tests, one of each env."""

CASES_OF_ALL = slow_but(QUICK, CASES)

ALIKE = [case for case, name in CASES.items() if name != "Pot-v0"]
"""Cases whose roles have no spaces of their own, so that they have an agents view."""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Return a maker of back ends for hooks in Python, compiled with further flags; each is compiled once."""
    builds = Builds(tmp_path_factory.mktemp("ports"))
    return lambda *flags: lambda layout: builds.backend(*flags)(ported(layout))


@functools.cache
def in_cpp(case, steps, **options):
    return hash_of(case, steps=steps, **options)


def test_cases_of_spread_have_names_of_their_own():
    """The record and the numbers of steps go by name."""
    assert not OF_SPREAD.keys() & trajectory.CASES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES_OF_ALL)
def test_compiled_hooks_give_the_bits_of_those_in_cpp(case, compiled):
    assert hash_of(case, steps=60, backend=compiled()) == in_cpp(case, 60)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_thousand_steps_give_the_recorded_bits(case, compiled):
    record = json.loads(RECORD.read_text())
    assert hash_of(case, backend=compiled()) == (record[case] if case in record else in_cpp(case, None))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_a_thousand_steps_in_each_mode_of_autoreset(case, mode, compiled):
    assert bits_of(case, 1000, mode, backend=compiled()) == bits_of(case, 1000, mode)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", [case for case in ALIKE if "a map for each world" not in case])
def test_a_thousand_steps_in_the_agents_view(case, mode, compiled):
    options = {"view": "agents", "num_envs": 1, "num_worlds": 12}
    assert bits_of(case, 1000, mode, backend=compiled(), **options) == bits_of(case, 1000, mode, **options)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 7, 32])
@pytest.mark.parametrize("case", CASES)
def test_teams_of_threads_give_the_same_bits(case, lanes, compiled):
    backend = compiled(f"-DGV_LANES={lanes}", "-pthread")
    assert hash_of(case, steps=50, backend=backend) == in_cpp(case, 50)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 7, 32])
@pytest.mark.parametrize("case", CASES)
def test_a_thousand_steps_of_teams_of_threads(case, lanes, compiled):
    backend = compiled(f"-DGV_LANES={lanes}", "-pthread")
    assert hash_of(case, steps=999, backend=backend) == in_cpp(case, 999)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["grid tag", "pot"])
def test_python_gives_the_bits_of_the_compiled_hooks(case):
    assert hash_of(case, steps=3, backend=lambda layout: PythonBackend(ported(layout))) == in_cpp(case, 3)


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_python_gives_the_same_bits_for_many_steps(case, mode):
    """Episodes end and start again."""
    assert bits_of(case, 65, mode, backend=lambda layout: PythonBackend(ported(layout))) == bits_of(case, 65, mode)


@pytest.mark.gpu
@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("case", CASES)
def test_a_gpu_gives_the_same_bits(case, block, monkeypatch):
    monkeypatch.setenv("GPU_VECENV_BLOCK_SIZE", str(block))
    on_gpu = hash_of(case, device="cuda:0", backend=lambda layout: make_backend(ported(layout), "cuda:0", "numpy"))
    assert on_gpu == in_cpp(case, None)


ROUNDED = {
    "hooks.cu": """
#include "world.h"
GV_FN void env_reset(GvWorld& w) { for (auto me : w.agents) me.x = -0.5f; }
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) me.x = gv_float_of((gv_i32)me.x);
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}
GV_FN void env_observe(GvWorld& w) { for (auto me : w.agents) me.obs = {me.x}; }
""",
    "hooks.py": """
from gpu_vecenv.pyhooks import f32, i32
def env_reset(w):
    for me in w.agents:
        me.x = -0.5
def env_step(w):
    for me in w.agents:
        me.x = f32(i32(me.x))
    if w.once:
        w.truncate_at(w.params.max_episode_steps)
def env_observe(w):
    for me in w.agents:
        me.obs = [me.x]
""",
}


@pytest.mark.parametrize("device", [*DEVICES, "optimised"])
@pytest.mark.parametrize("name", ROUNDED)
def test_the_float_of_an_integer_is_never_minus_zero(name, device, tmp_path):
    """GCC makes of the plain conversions one instruction that keeps the sign."""
    kernel = tmp_path / name
    kernel.write_text(ROUNDED[name])
    spec = EnvSpec(
        name="Rounded-v0", kernel=kernel, roles=(Role("point", 3),), params=(TIME_LIMIT,),
        state=(Field("x", "float32", ("num_agents",), "place"),), action=lambda p: Discrete(2),
        observation=lambda p: Box(-1, 1, (1,)),
    )  # fmt: skip
    env = GpuVectorEnv(spec, num_envs=2, device="cpu" if device == "optimised" else device, array="numpy")
    if device == "optimised":  # whatever the level of the tests is
        env.worlds.backend = Builds(tmp_path).backend("-O3")(env.layout)
    env.reset(seed=0)
    obs = env.step(np.zeros((2, 3), np.int32))[0]
    np.testing.assert_array_equal(obs.view(np.uint32), 0)
