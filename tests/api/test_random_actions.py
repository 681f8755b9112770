"""Uniform random actions: shapes, dtypes, and that each choice of each entry is drawn equally often."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from gpu_vecenv.vector.inputs.random_actions import uniform_actions


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([2, 5]), MultiDiscrete([[2, 5], [3, 4]])], ids=str)
def test_choices_are_drawn_equally_often(space):
    actions = uniform_actions(space, (3, 20_000), torch.Generator().manual_seed(0))
    assert actions.shape == (3, 20_000, *space.shape) and actions.dtype == torch.int32
    choices = np.ravel(space.nvec if isinstance(space, MultiDiscrete) else space.n)
    for entry, count in zip(actions.reshape(60_000, -1).unbind(1), choices, strict=True):
        assert torch.allclose(torch.bincount(entry) / 60_000, torch.full((int(count),), 1 / count), atol=0.01)


def test_numbers_are_uniform_within_the_bounds():
    space = Box(np.float32([-2, 0]), np.float32([2, 5]))
    actions = uniform_actions(space, (60_000,), torch.Generator().manual_seed(0))
    assert actions.dtype == torch.float32
    for k in range(2):
        ordered = actions[:, k].sort().values
        line = torch.linspace(float(space.low[k]), float(space.high[k]), 60_000)
        assert (ordered - line).abs().max() < 0.05


def test_bounds_on_the_device_change_nothing():
    space = Box(-1.0, 3.0, (4,))
    bounds = torch.as_tensor(space.low), torch.as_tensor(space.high)
    first, second = (uniform_actions(space, (7,), torch.Generator().manual_seed(5), given) for given in (None, bounds))
    assert torch.equal(first, second)
