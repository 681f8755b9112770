"""Spaces that depend on parameters: arrays by role or not, masks or none, lengths of state fields."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict

from gpu_vecenv import Role, RoleRows
from gpu_vecenv.backend.compiler import compile_object, cpu_level
from gpu_vecenv.backend.cpu import CpuBackend
from gpu_vecenv.errors import ActionError, ParameterError, RoleSpacesError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.nvrtc import compile_ptx
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.devices import DEVICES
from tests.roles.choir import SPEC, Choir


def make(**options):
    return gymnasium.make_vec("Choir-v0", **{"num_worlds": 4, "device": "cpu", "array": "numpy", **options}).unwrapped


def worlds(env, array, agents):
    """An array of all agents with the axes (worlds, agents)."""
    return np.reshape(array, (env.num_worlds, agents, *np.shape(array)[1 if env.view == "agents" else 2 :]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("memory", [0, 1, 4])
@pytest.mark.parametrize("masks", [False, True])
@pytest.mark.parametrize("form", ["parts", "whole", "whole, agents view"])
def test_every_step_is_that_of_the_reference(form, masks, memory, device):
    whole, view = form != "parts", "agents" if "agents" in form else "worlds"
    form = {"whole": whole, "view": view}
    env = make(**form, may_not_repeat=masks, memory=memory, num_singers=5, device=device, autoreset_mode="disabled")
    obs, info = env.reset(seed=2)
    choirs = [Choir(note, memory) for note in env.get_state("note")["note"]]
    generator = np.random.default_rng(0)
    for _ in range(8):
        assert ("action_mask" in info) == masks
        for w, choir in enumerate(choirs):
            alike, own, allowed = choir.observe()
            if whole:
                row = np.concatenate([np.tile(alike, (5, 1)), own], 1)
                np.testing.assert_array_equal(worlds(env, obs, 5)[w], row)
            else:
                np.testing.assert_array_equal(obs["singer"]["shared"][w], alike)
                np.testing.assert_array_equal(obs["singer"]["own"][w], own)
            if masks:
                mask = info["action_mask"] if whole else info["action_mask"]["singer"]
                np.testing.assert_array_equal(worlds(env, mask, 5)[w], allowed)
        notes = generator.integers(0, 3, (4, 5))
        given = notes.reshape(-1) if view == "agents" else notes
        obs, reward, terminated, truncated, info = env.step(given if whole else {"singer": given})
        rewards = np.stack([choir.step(notes[w]) for w, choir in enumerate(choirs)])
        np.testing.assert_array_equal(worlds(env, info["agent_reward"], 5), rewards)
        expected = rewards.reshape(-1) if view == "agents" else rewards.mean(1)
        np.testing.assert_allclose(reward, expected, rtol=1e-6)
        assert terminated.shape == truncated.shape == (20 if view == "agents" else 4,)
        heard = np.stack([choir.heard for choir in choirs])
        np.testing.assert_array_equal(env.get_state("heard")["heard"], heard)
    assert heard.shape == (4, memory, 5)


def test_spaces_follow_the_parameters():
    parts, whole, rows = make(), make(whole=True), make(whole=True, view="agents")
    box = lambda *shape: Box(-np.inf, np.inf, shape, np.float32)  # noqa: E731
    assert parts.single_observation_space == Dict(singer=Dict(shared=box(2), own=box(3, 3)))
    assert whole.single_observation_space == box(3, 5) and rows.single_observation_space == box(5)
    assert isinstance(parts.single_action_space, Dict) and not isinstance(whole.single_action_space, Dict)
    assert SPEC.by_role(parts.params) and not SPEC.by_role(whole.params)
    with pytest.raises(RoleSpacesError, match="spaces of their own"):
        make(view="agents")
    with pytest.raises(ParameterError, match="RoleRows"):
        RoleRows(whole, "singer")


def test_parameters_may_not_join_several_roles(tmp_path):
    """Their rows would have to be one array, and kernels write an array for each role."""
    spec = dataclasses.replace(SPEC, roles=(*SPEC.roles, Role("listener", 1)))
    with pytest.raises(ParameterError, match="has one role; got singer, listener"):
        Layout(spec, spec.resolve({"whole": True}))
    assert Layout(spec, spec.resolve({})).by_role


@pytest.mark.parametrize("length", [-1, 1.5])
def test_a_wrong_length_of_an_axis_is_refused(length):
    fields = (dataclasses.replace(SPEC.state[1], shape=(lambda p: length, 2)),)
    spec = dataclasses.replace(SPEC, state=fields)
    with pytest.raises(ParameterError, match=f"heard_axis0 must be an integer from 0 to 2147483647, got {length}"):
        Layout(spec, spec.resolve({}))


@pytest.mark.parametrize(("whole", "lanes"), [(False, 1), (True, 1), (False, 7)])
def test_an_invalid_action_that_every_lane_reads_counts_once(whole, lanes, tmp_path):
    env = GpuVectorEnv(SPEC, num_envs=2, device="cpu", array="numpy", whole=whole, num_singers=9)
    if lanes > 1:
        compile_object(SPEC, cpu_level(), tmp_path / "k.so", (f"-DGV_LANES={lanes}", "-pthread", "-O0"))
        env.worlds.backend = CpuBackend(env.layout, tmp_path / "k.so", threads=1)
    env.reset(seed=0)
    notes = np.zeros((2, 9), np.int32)
    notes[0, 0], notes[1, 4], notes[1, 5] = 3, -1, 8  # the first is read by every lane
    read = (notes, notes.ctypes.data, 4)  # checked actions are refused on the CPU, so unchecked ones are launched
    env.worlds.step(read if whole else [read])
    assert int(env.worlds.arguments.invalid[0]) == 3
    with pytest.raises(ActionError, match="3 actions were out of range"):
        env.worlds.check()
    np.testing.assert_array_equal(env.get_state("note")["note"], 0)


@pytest.mark.parametrize("whole", [False, True])
def test_it_compiles_for_cuda(whole):
    assert "gv_step" in compile_ptx(SPEC, 90, whole=whole, may_not_repeat=not whole)
