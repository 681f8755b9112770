"""Masks of a rollout's transitions, and their advantages."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.train.returns.scan import Advantages, advantages


class TransitionMasks(NamedTuple):
    """Facts about each transition, each bool (T, ...)."""

    valid: Tensor
    """The row's agent was alive when the step began, so the update may use the transition."""
    cut: Tensor
    """The agent left or was absent, or its world's episode ended in this step: later transitions belong to another episode."""
    timed_out: Tensor
    """The time limit alone ended the episode, and the agent was alive: its value may be bootstrapped."""


def transition_masks(
    alive_start: Tensor,
    agent_alive: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    alive_reset: Tensor | None = None,
) -> tuple[TransitionMasks, Tensor]:
    """Derive the masks of a rollout.

    Args:
        alive_start: bool (...), alive before the first step.
        agent_alive: bool (T, ...), alive after each step, before any reset.
        terminated: bool (T, ...), the row's world reached a terminal state in this step.
        truncated: bool (T, ...), the row's world hit its time limit in this step.
        alive_reset: bool (T, ...), alive at the start of the next episode; only read where this step ended one. The env's state
            tells it: after a step, the field that ``EnvSpec.alive`` names is that of the observation which the step returned.
            None: all agents take part from the start. ``agent_alive`` cannot tell an agent that is absent from an episode from
            one that leaves in its first step, so with None an absent agent has one valid transition in each episode.

    Returns:
        The masks, and bool (...): alive when the next rollout begins.
    """
    ended = terminated | truncated
    alive_next = agent_alive | ended if alive_reset is None else torch.where(ended, alive_reset, agent_alive)
    valid = torch.cat((alive_start.unsqueeze(0), alive_next[:-1]))
    present = valid & agent_alive
    cut = ended | ~present
    timed_out = truncated & ~terminated & present
    return TransitionMasks(valid, cut, timed_out), alive_next[-1]


def gae(
    reward: Tensor, value: Tensor, final_value: Tensor | None, masks: TransitionMasks, gamma: float, gae_lambda: float
) -> Advantages:
    """Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438).

    The value that follows a step is V(s_{t+1}) inside an episode and 0 after a terminal step. A time limit is no terminal state
    of the task, so the value goes on after it (Pardo et al. 2018, arXiv 1712.00378).

    Args:
        reward: float32 (T, ...).
        value: float32 (T + 1, ...), V(s_t), values of the rollout's observations, in order of time.
        final_value: float32 (T, ...), values of the final observations; only entries that timed out count.
            None treats a time limit as a terminal state.
        masks: masks of the same rows.
        gamma: discount per step.
        gae_lambda: decay of the trace.

    Returns:
        Advantages, and targets and values for the update, without gradients; 0 for transitions that are not valid, whose
        arguments may hold anything.

    Raises:
        ShapeError, ArrayTypeError, DeviceError: an array does not fit.
    """
    return advantages(reward, value, final_value, *masks, gamma, gamma * gae_lambda)
