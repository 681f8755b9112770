"""Advantages, compared with a slow reference that goes through every agent's episodes one by one."""

import pytest
import torch

from gpu_vecenv.train.returns.gae import gae, next_values, transition_masks

GAMMA, LAMBDA = 0.9, 0.8


def random_rollout(seed, steps=23, rows=9):
    g = torch.Generator().manual_seed(seed)

    def flags(p):
        return torch.rand(steps, rows, generator=g) < p

    terminated, truncated, died = flags(0.08), flags(0.1), flags(0.1)
    # An agent that is not alive stays so until its world's episode ends.
    alive_start = torch.rand(rows, generator=g) < 0.7
    alive, now = torch.empty(steps, rows, dtype=torch.bool), alive_start.clone()
    for t in range(steps):
        alive[t] = now & ~died[t]
        now = alive[t] | terminated[t] | truncated[t]
    reward, value = torch.randn(steps, rows, generator=g), torch.randn(steps + 1, rows, generator=g)
    final_value = torch.randn(steps, rows, generator=g)
    return reward, value, final_value, terminated, truncated, alive, alive_start


def slow_advantages(reward, value, final_value, terminated, truncated, alive, alive_start, bootstrap):
    """Sum the discounted errors of each valid transition forward until its agent's episode ends."""
    steps, rows = reward.shape
    result = {}
    for row in range(rows):
        living = bool(alive_start[row])
        for t in range(steps):
            if living:
                total, weight = 0.0, 1.0
                for k in range(t, steps):
                    world_ended = bool(terminated[k, row] or truncated[k, row])
                    if not alive[k, row] or terminated[k, row]:
                        following, last = 0.0, True
                    elif truncated[k, row]:
                        following, last = (float(final_value[k, row]) if bootstrap else 0.0), True
                    else:
                        following, last = float(value[k + 1, row]), False
                    total += weight * (float(reward[k, row]) + GAMMA * following - float(value[k, row]))
                    weight *= GAMMA * LAMBDA
                    if last:
                        break
                result[t, row] = total
            world_ended = bool(terminated[t, row] or truncated[t, row])
            living = world_ended or (living and bool(alive[t, row]))
    return result


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_advantages_equal_the_slow_reference(seed, bootstrap):
    reward, value, final_value, terminated, truncated, alive, alive_start = random_rollout(seed)
    masks, alive_next = transition_masks(alive_start, alive, terminated, truncated)
    following = next_values(value, final_value if bootstrap else None, masks)
    got = gae(reward, value[:-1], following, masks.cut, GAMMA, LAMBDA)
    want = slow_advantages(reward, value, final_value, terminated, truncated, alive, alive_start, bootstrap)
    assert {tuple(x) for x in masks.valid.nonzero().tolist()} == set(want)
    for (t, row), advantage in want.items():
        assert got[t, row].item() == pytest.approx(advantage, abs=1e-5)
    assert torch.equal(alive_next, alive[-1] | terminated[-1] | truncated[-1])


def test_unused_final_values_may_be_nan():
    reward, value, final_value, terminated, truncated, alive, alive_start = random_rollout(7)
    masks, _ = transition_masks(alive_start, alive, terminated, truncated)
    clean = next_values(value, final_value, masks)
    dirty = next_values(value, torch.where(masks.timed_out, final_value, torch.nan), masks)
    assert masks.timed_out.any()
    assert torch.equal(clean, dirty)
