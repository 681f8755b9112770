"""Requests for lanes, and actions of many entries."""

import dataclasses

import numpy as np
import pytest
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Param, Role
from gpu_vecenv.backend.blocks import blocks_of
from gpu_vecenv.backend.cuda import module_blocks
from gpu_vecenv.errors import ParameterError, SpecError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.struct import is_single
from gpu_vecenv.testing.nvrtc import compile_ptx
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.kernels.test_ptx import spec_of
from tests.roles.town import SPEC
from tests.trees import assert_trees_equal, to_host

KERNEL = """
#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.total = 0;
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        int total = 0;
        for (int e = 0; e < w.agents.num_entries(); ++e) total = 7 * total % 65521 + me.action.index(e);
        me.total = total;
        me.reward = (float)total;
    }
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {(float)me.total};
}
"""


def levers(folder, agents=2):
    """Spec of an env whose agents pull ``levers`` levers in each step."""
    (folder / "levers.cu").write_text(KERNEL)
    return EnvSpec(
        name="Levers-v0",
        kernel=folder / "levers.cu",
        roles=(Role("agent", agents),),
        params=(Param("levers", 138, "int32", "entries of an action", low=1, high=2000), TIME_LIMIT),
        state=(Field("total", "int32", ("num_agents",), "checksum of the last action"),),
        observation=lambda params: Box(-np.inf, np.inf, (1,), np.float32),
        action=lambda params: MultiDiscrete([3] * params["levers"]),
    )


def checksum(actions):
    total = np.zeros(actions.shape[:-1], np.int64)
    for entry in np.moveaxis(actions, -1, 0):
        total = 7 * total % 65521 + entry
    return total.astype(np.float32)


def test_an_action_may_have_138_entries(tmp_path):
    env = GpuVectorEnv(levers(tmp_path), num_envs=50, device="cpu", array="numpy")
    env.reset(seed=1)
    *_, info = env.rollout(num_steps=40)
    actions = info["actions"]
    np.testing.assert_array_equal(info["agent_reward"], checksum(actions))
    counts = np.stack([np.bincount(actions[..., entry].ravel(), minlength=3) for entry in range(138)])
    assert (abs(counts - 4000 / 3) < 6 * np.sqrt(4000 * 2 / 9)).all()
    entries = actions.reshape(-1, 138).astype(float)
    assert abs(np.corrcoef(entries.T) - np.eye(138)).max() < 0.1, "entries are drawn independently"


def test_the_number_of_entries_has_a_limit(tmp_path):
    with pytest.raises(ParameterError, match="1 to 1024 entries, got 1025"):
        GpuVectorEnv(levers(tmp_path), num_envs=1, device="cpu", levers=1025)


def test_a_team_has_the_lanes_requested():
    sizes = [blocks_of(6, 0, lanes)[:2] for lanes in (1, 6, 9, 33, 1000)]
    assert sizes == [(8, 16), (8, 16), (16, 8), (64, 1), (1024, 1)]
    assert blocks_of(1, 0, 32)[:2] == (32, 4)


@pytest.mark.parametrize("lanes", [0, 1025])
def test_a_request_outside_the_limits_raises_an_error(lanes):
    spec = dataclasses.replace(SPEC, lanes=lambda params: lanes)
    with pytest.raises(ParameterError, match=f"lanes must be an integer from 1 to 1024, got {lanes}"):
        Layout(spec, spec.resolve({}))


@pytest.mark.parametrize("lanes", [1, 64, 1024])
def test_kernels_with_a_request_for_lanes_compile(lanes):
    assert "gv_rollout" in compile_ptx(dataclasses.replace(SPEC, lanes=lambda params: lanes), 90, module=1)


def with_work(folder, work):
    return dataclasses.replace(levers(folder, agents=6), work=work, sizes=("levers",))


@pytest.mark.parametrize(("work", "lanes"), [
    (None, 8), ("levers", 160), (lambda params: 1, 1), (lambda params: 20, 32), (lambda params: 70_000, 256)])  # fmt: skip
def test_a_team_follows_the_work_of_a_world(work, lanes, tmp_path):
    spec = with_work(tmp_path, work)
    layout = Layout(spec, spec.resolve({}))
    assert module_blocks(layout, 0).lanes == module_blocks(layout, 1).lanes == lanes
    assert "gv_step" in compile_ptx(spec, 90, module=0)


@pytest.mark.parametrize(("part", "said"), [
    ({"work": "cells"}, r"work must be the name of a size \(levers\), a function of the parameters or None, got 'cells'"),
    ({"work": 7}, "work must be the name of a size"),
    ({"work": "levers", "lanes": lambda params: 3}, "work must be left out where lanes requests lanes"),
    ({"work": lambda params: 0}, "work must be an integer from 1 to 2147483647, got 0")])  # fmt: skip
def test_work_that_no_team_can_follow_is_refused(part, said, tmp_path):
    with pytest.raises(SpecError, match=said):
        spec = dataclasses.replace(with_work(tmp_path, None), **part)
        Layout(spec, spec.resolve({}))


def test_a_world_of_one_agent_with_work_has_a_team():
    spec = spec_of("WarpCartPole-v1")
    assert is_single(spec) and not is_single(dataclasses.replace(spec, work=lambda params: 64))


@pytest.mark.gpu
@pytest.mark.parametrize("request_of_spec", ["lanes", "work"])
@pytest.mark.parametrize("lanes", [1, 16, 64, 1024])
def test_other_lanes_give_the_same_bits(lanes, request_of_spec):
    seen = []
    for spec, device in ((SPEC, "cpu"), (dataclasses.replace(SPEC, **{request_of_spec: lambda params: lanes}), "cuda:0")):
        env = GpuVectorEnv(spec, num_envs=33, device=device, array="numpy", max_episode_steps=9)
        env.reset(seed=3)
        obs, reward, *_, info = env.rollout(num_steps=40)
        seen.append(to_host({"obs": obs, "reward": {"of": reward}, "actions": info["actions"], "mask": info["action_mask"]}))
    assert_trees_equal(*seen)
