"""Masks of a rollout's transitions, and their advantages."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class TransitionMasks(NamedTuple):
    """Facts about each transition, each bool (T, R)."""

    valid: Tensor
    """The row's agent was alive when the step began, so the update may use the transition."""
    cut: Tensor
    """The agent left or its world's episode ended in this step: later transitions belong to another episode."""
    timed_out: Tensor
    """The time limit alone ended the episode, and the agent was alive: its value may be bootstrapped."""


def transition_masks(
    alive_start: Tensor, agent_alive: Tensor, terminated: Tensor, truncated: Tensor
) -> tuple[TransitionMasks, Tensor]:
    """Derive the masks of a rollout.

    Args:
        alive_start: bool (R,), alive before the first step.
        agent_alive: bool (T, R), alive after each step, before any reset.
        terminated: bool (T, R), the row's world reached a terminal state in this step.
        truncated: bool (T, R), the row's world hit its time limit in this step.

    Returns:
        The masks, and bool (R,): alive when the next rollout begins (a new episode starts with all alive).
    """
    ended = terminated | truncated
    alive_next = agent_alive | ended
    valid = torch.cat((alive_start.unsqueeze(0), alive_next[:-1]))
    cut = ended | ~agent_alive
    timed_out = truncated & ~terminated & agent_alive
    return TransitionMasks(valid, cut, timed_out), alive_next[-1]


def gae(
    reward: Tensor, value: Tensor, next_value: Tensor, cut: Tensor, gamma: float, gae_lambda: float
) -> Tensor:
    """Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438, equation 16).

    Args:
        reward: float32 (T, n).
        value: float32 (T, n), value of the observation before each step.
        next_value: float32 (T, n), value of the observation after each step in the same episode: 0 after a terminal
            step, the value of the final observation where a time limit is bootstrapped.
        cut: bool (T, n), True where the episode ends with the step, so no later advantage flows back.
        gamma: discount per step.
        gae_lambda: decay of the trace.

    Returns:
        Advantages, float32 (T, n); undefined for transitions that are not valid.
    """
    delta = reward + gamma * next_value - value
    decay = gamma * gae_lambda * (~cut).to(delta.dtype)
    advantage = torch.empty_like(delta)
    trace = torch.zeros_like(delta[0])
    for t in reversed(range(delta.shape[0])):
        trace = torch.addcmul(delta[t], decay[t], trace)
        advantage[t] = trace
    return advantage


def next_values(value: Tensor, final_value: Tensor | None, masks: TransitionMasks) -> Tensor:
    """Choose the value that follows each step.

    Args:
        value: float32 (T + 1, n), values of the rollout's observations, in order of time.
        final_value: float32 (T, n), values of the final observations; only entries that timed out are read.
            None treats a time limit as a terminal state.
        masks: masks of the same n rows.

    Returns:
        float32 (T, n) for ``gae()``.
    """
    following = value[1:].masked_fill(masks.cut, 0.0)
    if final_value is None:
        return following
    return torch.where(masks.timed_out, final_value, following)
