"""Advantages, compared with a slow reference that goes through every agent's episodes one by one, and with Stable-Baselines3."""

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.errors import ArrayTypeError, ShapeError
from gpu_vecenv.train.returns.gae import gae
from gpu_vecenv.train.returns.masks import STEPS, TILE, transition_masks

GAMMA, LAMBDA = 0.9, 0.8


def random_rollout(seed, steps=23, rows=9, present=1.0):
    """Random results of `steps`, and the alive flags; each agent takes part in an episode with probability `present`."""
    g = torch.Generator().manual_seed(seed)

    def flags(p):
        return torch.rand(steps, rows, generator=g) < p

    terminated, truncated, died, alive_reset = flags(0.08), flags(0.1), flags(0.1), flags(present)
    # An agent that is not alive stays so until its world's episode ends.
    alive_start = torch.rand(rows, generator=g) < 0.7
    alive, now = torch.empty(steps, rows, dtype=torch.bool), alive_start.clone()
    for t in range(steps):
        alive[t] = now & ~died[t]
        now = torch.where(terminated[t] | truncated[t], alive_reset[t], alive[t])
    reward, value = torch.randn(steps, rows, generator=g), torch.randn(steps + 1, rows, generator=g)
    final_value = torch.randn(steps, rows, generator=g)
    return reward, value, final_value, terminated, truncated, alive, alive_start, alive_reset


def slow_advantages(reward, value, final_value, terminated, truncated, alive, alive_start, alive_reset, bootstrap):
    """Sum the discounted errors of each valid transition forward until its agent's episode ends."""
    steps, rows = reward.shape
    result = {}
    for row in range(rows):
        living = bool(alive_start[row])
        for t in range(steps):
            if living:
                total, weight = 0.0, 1.0
                for k in range(t, steps):
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
            living = bool(alive_reset[t, row]) if world_ended else living and bool(alive[t, row])
    return result


def estimate(reward, value, final_value, masks):
    return gae(reward, value, final_value, masks, GAMMA, LAMBDA).advantage


@pytest.mark.parametrize("bootstrap", [True, False])
@pytest.mark.parametrize("present", [1.0, 0.6])
@pytest.mark.parametrize("seed", range(4))
def test_advantages_equal_the_slow_reference(seed, present, bootstrap):
    rollout = random_rollout(seed, present=present)
    reward, value, final_value, terminated, truncated, alive, alive_start, alive_reset = rollout
    starts = None if present == 1.0 else alive_reset
    masks = transition_masks(alive_start, alive, terminated, truncated, starts)
    got = estimate(reward, value, final_value if bootstrap else None, masks)
    want = slow_advantages(*rollout, bootstrap)
    assert {tuple(x) for x in masks.valid.nonzero().tolist()} == set(want)
    for (t, row), advantage in want.items():
        assert got[t, row].item() == pytest.approx(advantage, abs=1e-5)


def test_an_absent_agent_has_no_transition_and_one_that_leaves_in_its_first_step_has_one():
    ended = torch.tensor([[True], [False], [False]]).expand(3, 2)
    alive = torch.tensor([[True], [False], [False]]).expand(3, 2)
    alive_reset = torch.tensor([False, True]).expand(3, 2)
    masks = transition_masks(torch.ones(2, dtype=torch.bool), alive, ended, torch.zeros_like(ended), alive_reset)
    assert masks.valid.t().tolist() == [[True, False, False], [True, True, False]]


def test_the_state_after_a_step_tells_who_takes_part_in_the_next_episode():
    """An agent that a reset pool leaves out has no transition: its state field is 0 from the reset to the end."""
    size = {"num_taggers": 1, "num_runners": 3, "num_other_agents_observed": 3, "episode_length": 4}
    env = gymnasium.make_vec("gpu_vecenv:WarpTag-v0", num_envs=3, device="cpu", array="torch", **size)
    inner = env.unwrapped

    def present():
        return inner.get_state("alive")["alive"] != 0

    inner.set_reset_pool({"alive": torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1]], dtype=torch.int32)})
    env.reset(seed=1)
    alive_start, results, alive_reset = present(), [], []
    for _ in range(10):
        _, _, terminated, truncated, info = env.step(torch.zeros(3, 4, 2, dtype=torch.int64))
        flags = (flag.unsqueeze(1).expand(3, 4) for flag in (terminated, truncated))
        results.append((info["agent_alive"], *flags))
        alive_reset.append(present())
    slabs = (torch.stack(x) for x in zip(*results, strict=True))
    masks = transition_masks(alive_start, *slabs, torch.stack(alive_reset))
    first_steps = masks.valid[::4]
    assert (first_steps.sum(-1) == 3).all()  # one runner is absent from each episode
    assert first_steps.any(0).all()  # no runner is absent from all


def test_an_absent_agent_does_not_time_out():
    one = torch.ones(1, 1, dtype=torch.bool)
    masks = transition_masks(~one[0], one, ~one, one)
    assert (masks.valid.item(), masks.episode_end.item(), masks.timed_out.item()) == (False, True, False)


def test_an_agent_that_died_in_the_step_of_the_time_limit_is_not_bootstrapped():
    one = torch.ones(1, 1, dtype=torch.bool)
    masks = transition_masks(one[0], ~one, ~one, one)
    assert estimate(torch.zeros(1, 1), torch.zeros(2, 1), torch.full((1, 1), 5.0), masks).item() == 0.0


@pytest.mark.parametrize("junk", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("seed", range(4))
def test_what_does_not_count_may_hold_anything(seed, junk):
    reward, value, final_value, terminated, truncated, alive, alive_start, alive_reset = random_rollout(seed, present=0.6)
    masks = transition_masks(alive_start, alive, terminated, truncated, alive_reset)
    counts = torch.cat((masks.valid, torch.where(masks.ended[-1:], alive_reset[-1:], alive[-1:])))
    clean = estimate(reward, value, final_value, masks)
    dirty = estimate(
        torch.where(masks.valid, reward, junk),
        torch.where(counts, value, junk),
        torch.where(masks.timed_out, final_value, junk),
        masks,
    )
    assert masks.timed_out.any() and not masks.valid.all()
    assert torch.equal(clean, dirty)
    assert (clean[~masks.valid] == 0.0).all()


def test_a_lost_agent_stays_alone_with_its_nan():
    """A NaN of a transition that counts reaches the episode it belongs to, and no other."""
    reward, no = torch.zeros(6, 1), torch.zeros(6, 1, dtype=torch.bool)
    reward[4], ended = torch.nan, no.clone()
    ended[2] = True
    masks = transition_masks(~no[0], ~no, ended, no)
    got = estimate(reward, torch.zeros(7, 1), None, masks)
    assert got.isnan()[:, 0].tolist() == [False, False, False, True, True, False]


def test_advantages_take_more_axes():
    rollout = random_rollout(5, rows=12)
    flat, deep = rollout[:6], [x.unflatten(1, (4, 3)) for x in rollout[:6]]

    def result(reward, value, final_value, terminated, truncated, alive):
        masks = transition_masks(torch.ones_like(alive[0]), alive, terminated, truncated)
        return estimate(reward, value, final_value, masks)

    assert torch.equal(result(*deep).flatten(1), result(*flat))


@pytest.mark.parametrize("gae_lambda", [0.0, 0.95, 1.0])
def test_advantages_equal_those_of_stable_baselines3(gae_lambda):
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    from gymnasium.spaces import Box, Discrete

    steps, rows, gamma = 128, 16, 0.99
    reward, value, final_value, terminated, truncated, *_ = random_rollout(6, steps, rows)
    done = (terminated | truncated).float().numpy()
    alive = torch.ones_like(terminated)
    masks = transition_masks(alive[0], alive, terminated, truncated)

    buffer = buffers.RolloutBuffer(steps, Box(0, 1, (1,)), Discrete(2), "cpu", gae_lambda, gamma, n_envs=rows)
    buffer.values, buffer.episode_starts[1:] = value[:-1].numpy(), done[:-1]
    # SB3 adds the value after a time limit to the reward, in OnPolicyAlgorithm.collect_rollouts.
    buffer.rewards = (reward + gamma * torch.where(masks.timed_out, final_value, 0.0)).numpy()
    buffer.compute_returns_and_advantage(value[-1], done[-1])

    got = gae(reward, value, final_value, masks, gamma, gae_lambda)
    np.testing.assert_allclose(got.advantage, buffer.advantages, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(got.target, buffer.returns, rtol=2e-6, atol=2e-6)
    assert torch.equal(got.value, value[:-1])


def test_targets_and_values_of_invalid_transitions_are_zero():
    reward, value, final_value, terminated, truncated, alive, alive_start, alive_reset = random_rollout(7, present=0.6)
    masks = transition_masks(alive_start, alive, terminated, truncated, alive_reset)
    counts = torch.cat((masks.valid, torch.where(masks.ended[-1:], alive_reset[-1:], alive[-1:])))
    got = gae(reward, torch.where(counts, value, torch.nan), final_value, masks, GAMMA, LAMBDA)
    assert torch.equal(got.value, torch.where(masks.valid, value[:-1], 0.0))
    assert torch.equal(got.target, got.advantage + got.value)
    assert (~masks.valid).any()


def reference(alive_start, agent_alive, terminated, truncated, alive_reset):
    """The masks by operations on whole arrays."""
    ended = terminated | truncated
    alive_next = agent_alive | ended if alive_reset is None else torch.where(ended, alive_reset, agent_alive)
    valid = torch.cat((alive_start.unsqueeze(0), alive_next[:-1]))
    present = valid & agent_alive
    return valid, ended | ~present, truncated & ~terminated & present, ended


@pytest.mark.parametrize("reset", [True, False])
@pytest.mark.parametrize("shape", [(1,), (TILE + 3,), (50, 3), (2 * TILE, 1)])
@pytest.mark.parametrize("steps", [1, STEPS - 1, STEPS, 2 * STEPS + 1])
def test_masks_equal_operations_on_whole_arrays(steps, shape, reset):
    """Arrays have any strides, and the masks go into a part of a larger array, whose other entries stay."""
    g = torch.Generator().manual_seed(steps)
    flags = [torch.rand(2 * steps, *shape[:-1], 2 * shape[-1], generator=g)[::2, ..., 1::2] < 0.3 for _ in range(4)]
    flags[1] = flags[1].movedim(0, -1).contiguous().movedim(-1, 0)
    alive_start = torch.rand(2, *shape, generator=g)[1] < 0.5
    args = (alive_start, *flags[:3], flags[3] if reset else None)
    want = reference(*args)
    for got, expected in zip(transition_masks(*args), want, strict=True):
        assert torch.equal(got, expected)
    count = flags[0][0].numel()
    whole = torch.ones(4, steps, count + 7, dtype=torch.bool)
    transition_masks(*args, whole[:, :, 4 : 4 + count])
    assert torch.equal(whole[:, :, 4 : 4 + count], torch.stack(want).flatten(2))
    assert whole[:, :, :4].all() and whole[:, :, 4 + count :].all()


def test_flags_that_do_not_fit_are_refused():
    flag = torch.zeros(5, 2, dtype=torch.bool)
    with pytest.raises(ShapeError, match=r"terminated: expected shape \(5, 2\), of two or three axes, got \(4, 2\)"):
        transition_masks(flag[0], flag, flag[:4], flag)
    with pytest.raises(ArrayTypeError, match=r"alive_reset: expected torch.bool, got torch.float32"):
        transition_masks(flag[0], flag, flag, flag, flag.float())
    with pytest.raises(ShapeError, match=r"out: expected shape \(4, 5, 2\) without gaps in a step, got \(4, 2, 5\)"):
        transition_masks(flag[0], flag, flag, flag, None, torch.zeros(4, 2, 5, dtype=torch.bool))


@pytest.mark.parametrize("scale", [0.5, 40.0])
def test_rewards_are_scaled_and_clipped(scale):
    reward, *_, terminated, truncated, alive, alive_start, alive_reset = random_rollout(8, present=0.6)
    masks = transition_masks(alive_start, alive, terminated, truncated, alive_reset)
    reward[3, 2] = torch.nan
    value = torch.zeros(len(reward) + 1, *reward.shape[1:])
    got = gae(reward, value, None, masks, GAMMA, LAMBDA, torch.tensor(scale)).advantage
    want = gae((reward * scale).clamp(-10.0, 10.0), value, None, masks, GAMMA, LAMBDA).advantage
    torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    with pytest.raises(ArrayTypeError, match=r"reward_scale must be torch.float32, got torch.float64"):
        gae(reward, value, None, masks, GAMMA, LAMBDA, torch.tensor(1.0, dtype=torch.float64))
