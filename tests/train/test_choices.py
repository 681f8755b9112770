"""Transitions with a choice, compared with loops over agents and entries."""

import dataclasses

import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0 and Pairs-v0)
import torch
from gymnasium.spaces import Box, MultiDiscrete

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.returns.choices import TILE, have_choice, may_lack_choice

CHOICES = (3, 1, 4)


def has_choice(mask, choices):
    """Return for masks (..., M) if any entry has two allowed choices, by a loop."""
    found = np.zeros(mask.shape[:-1], bool)
    for place in np.ndindex(found.shape):
        first = 0
        for size in choices:
            found[place] |= mask[place][first : first + size].sum() > 1
            first += size
    return found


def masks_of(shape, device="cpu"):
    """Return masks with few allowed choices, whose rows have gaps, and who counts."""
    g = torch.Generator().manual_seed(len(shape))
    wide = torch.rand(shape[0] + 1, *shape[1:], sum(CHOICES) + 3, generator=g) < 0.2
    return wide.to(device)[..., 1:-2], (torch.rand(shape, generator=g) < 0.7).to(device)


@pytest.mark.parametrize("shape", [(5, TILE + 3), (5, 11, 4), (1, 1)])
def test_choices_are_those_of_loops(shape):
    mask, valid = masks_of(shape)
    for given in (mask, mask.contiguous(), mask.transpose(1, 1)):
        want = has_choice(given[:-1].numpy(), CHOICES) & valid.numpy()
        assert np.array_equal(have_choice(given, CHOICES, valid), want)
    if valid.numel() > 1:
        assert want.any() and not want[valid.numpy()].all()


def test_masks_may_lie_in_any_order():
    mask, valid = masks_of((5, 7))
    turned = mask.flip(-1).transpose(0, 2).contiguous().transpose(0, 2)
    assert turned.stride(-1) != 1
    want = has_choice(turned[:-1].numpy(), CHOICES) & valid.numpy()
    assert np.array_equal(have_choice(turned, CHOICES, valid), want)


@pytest.mark.gpu
def test_choices_are_the_same_on_a_gpu():
    for shape in ((5, TILE + 3), (5, 11, 4)):
        assert torch.equal(have_choice(*_args(shape, "cuda")).cpu(), have_choice(*_args(shape, "cpu")))


def _args(shape, device):
    mask, valid = masks_of(shape, device)
    return mask, CHOICES, valid


@pytest.mark.parametrize(
    ("choices", "masked", "lacks"),
    [((2, 3), (), False), ((2, 3), (1,), False), ((2, 3), (0, 1), True), ((1, 3), (1,), True), ((1, 1), (), False)],
)
def test_an_entry_without_a_mask_is_a_choice(choices, masked, lacks):
    group = Group("", "", 1, Box(-1, 1, (1,), np.float32), MultiDiscrete(choices), masked)
    assert may_lack_choice(group) == lacks


@pytest.mark.parametrize("policy_map", [None, {"red[0:1]": "red", "red[1:3]": "random"}], ids=["roles", "some agents"])
@pytest.mark.parametrize("shut", [0, 1])
def test_samples_say_which_transitions_have_a_choice(shut, policy_map):
    """Agents of the blue role observe a shared part, so their samples are worlds."""
    config = TrainConfig(
        "Arena-v0", num_envs=5, total_steps=5 * 12, device="cpu", env_kwargs={"shut": shut}, network=NetworkConfig((8,)),
        ppo=PPOConfig(num_steps=12, num_minibatches=2),
    )  # fmt: skip
    config = dataclasses.replace(config, policy_map=policy_map and {**policy_map, "blue": "blue"})
    trainer = Trainer(config, quiet=True)
    trainer.parts.collector.collect()
    for name in ("red", "blue"):
        samples = trainer.parts.rows[name].samples()
        if not shut:
            assert samples.choice is None
            continue
        want = has_choice(samples.mask[:-1].numpy(), (3, 4)) & samples.valid.numpy()
        assert np.array_equal(samples.choice, want) and want.any() and want.sum() < 0.5 * samples.valid.sum()
