"""Whole rows of observations in parts, and masks of all entries, compared with NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv import Role, whole_obs
from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.vector.outputs.join_shared import full_mask, joined_space
from tests.roles.town import SPEC


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_whole_masks_cover_every_entry(kind):
    group = Group("x", "x_", 2, Box(0, 1, (1,)), MultiDiscrete([2, 3, 2]), masked=(2, 0))
    mask = np.array([[[0, 1, 1, 0]], [[1, 1, 0, 1]]], bool)  # entry 2, then entry 0
    expected = np.array([[[1, 0, 1, 1, 1, 0, 1]], [[0, 1, 1, 1, 1, 1, 1]]], bool)
    np.testing.assert_array_equal(np.asarray(full_mask(group, kind(mask))), expected)
    full = replace(group, masked=(0, 1, 2))
    assert full_mask(full, mask) is mask


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
@pytest.mark.parametrize("lead", [(3,), (2, 3)])
def test_whole_obs_joins_parts(kind, lead):
    shared, own = np.random.default_rng(0).normal(size=(*lead, 2)), np.random.default_rng(1).normal(size=(*lead, 4, 5))
    whole = np.asarray(whole_obs({"shared": kind(shared), "own": kind(own)}))
    assert whole.shape == (*lead, 4, 7)
    for agent in range(4):
        np.testing.assert_array_equal(whole[..., agent, :], np.concatenate([shared, own[..., agent, :]], -1))


def shared_spec():
    """Town with one role more, whose agents share a part; only its spaces are used."""
    vector = lambda n: lambda p: Box(-1, n, (n,), np.float32)  # noqa: E731
    return replace(SPEC, roles=(*SPEC.roles, Role("guard", 2, vector(3), vector(1), shared=vector(2))))


def test_spaces_of_whole_rows():
    spec = shared_spec()
    guard = Layout(spec, spec.resolve({})).groups[-1]
    assert joined_space(guard) == Box(np.float32([-1] * 5), np.float32([2, 2, 3, 3, 3]))
    with pytest.raises(ParameterError, match=r"guard: shared and own part must be vectors .* got \(2,\) and \(1, 3\)"):
        joined_space(replace(guard, observation=Box(0, 1, (1, 3))))


WRONG_PARTS = {
    "one part": ({"own": np.zeros((1, 2, 3))}, ParameterError, "parts must be a dict with the keys shared, own"),
    "two kinds": ({"shared": torch.zeros(1, 2), "own": np.zeros((1, 2, 3))}, ArrayTypeError, "got numpy and torch"),
    "lists": ({"shared": [[1.0]], "own": [[[1.0]]]}, ArrayTypeError, "got builtins"),
    "shape": ({"shared": np.zeros((1, 2)), "own": np.zeros((4, 2, 3))}, ShapeError, r"got \(1, 2\) and \(4, 2, 3\)"),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_wrong_parts(case):
    parts, error, message = WRONG_PARTS[case]
    with pytest.raises(error, match=message):
        whole_obs(parts)
