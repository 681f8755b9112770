"""Samples of a rollout that one policy learns from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_vecenv.train.policies.contract import Inputs, Observation


@dataclass
class Samples:
    """T steps of B samples. A sample is a row, or a world with ``a`` rows if the policy's observations have a shared part.

    Arrays are views of the rollout's slabs where their memory allows it, else copies.
    """

    obs: Observation
    """float32 (T + 1, B, ...), see ``Inputs``."""
    action: Tensor
    """int32 or float32, ``(T, B[, a][, k])``."""
    log_prob: Tensor
    """float32 (T, B[, a]), of the actions when they were taken."""
    reward: Tensor
    """float32 (T, B[, a])."""
    valid: Tensor
    """bool (T, B[, a]), False for transitions that must not count."""
    episode_end: Tensor
    """bool (T, B[, a]), True where the agent left or the episode ended in this step."""
    ended: Tensor
    """bool (T, B[, a]), True where the episode of the row's world ended in this step."""
    timed_out: Tensor
    """bool (T, B[, a]), True where the time limit alone ended the episode, and the agent was alive; also where the limit is a
    rule of the game, ``EnvSpec.limit_is_rule``, whose end is terminal."""
    mask: Tensor | None = None
    """bool (T + 1, B[, a], M); None without masks."""
    final_obs: Observation | None = None
    """float32 (T, B, ...), valid where an episode ended; None if the policy's algorithm did not ask for it by ``Storage``."""
    env_reward: Tensor | None = None
    """float32 (T, B[, a]), rewards before wrappers change them; None if they are ``reward``."""
    agent: Tensor | None = None
    """int32 (B[, a]), number of each row's agent in its world; None if the policy's network does not read it."""
    all_valid: bool = False
    """True if ``valid`` is known to be True everywhere, because agents of the env never leave."""
    choice: Tensor | None = None
    """bool (T, B[, a]), True where ``valid`` and the masks allow two choices of one entry at least: only such transitions have a
    weight in the terms of a policy. None if each transition has a choice."""
    state: Tensor | None = None
    """float32 (B[, a], *state_shape), the policy's state before step 0. Before step t + 1 it has zeros where ``episode_end[t]``,
    and
    elsewhere the state after step t. None for a policy without a state."""
    critic: Tensor | None = None
    """float32 (T + 1, B, C), inputs of the critic, once a world; None if it has none beside the observations."""

    @property
    def num_steps(self) -> int:
        """T."""
        return self.reward.shape[0]

    def steps(self, obs: Observation, steps: slice, with_mask: bool = False) -> Inputs:
        """Return the inputs of some steps, their steps and samples as one axis; by default without masks."""
        mask = self.mask[steps].flatten(0, 1) if with_mask and self.mask is not None else None
        chosen = apply(obs, lambda x: x[steps].flatten(0, 1))
        critic = None if self.critic is None else self.critic[steps].flatten(0, 1)
        if self.agent is None:
            return Inputs(chosen, mask, critic)
        num_rows = len(chosen["own"] if isinstance(chosen, dict) else chosen)
        return Inputs(chosen, mask, critic, agent=self.agent.repeat(num_rows // len(self.agent), *[1] * (self.agent.dim() - 1)))

    def chosen(self, at: tuple[Tensor, Tensor]) -> Inputs:
        """Return the inputs of transitions by their steps and samples, each int64 (b,).

        Agents that do not count observe zeros here, and all their choices are allowed: gradients of NaN would be NaN for all.
        """
        obs, mask = apply(self.obs, lambda x: x[at]), None if self.mask is None else self.mask[at]
        if isinstance(obs, dict):  # only then a sample that counts may hold agents that do not
            valid, own = self.valid[at].unsqueeze(-1), obs["own"]
            obs = {**obs, "own": torch.where(valid.view(*valid.shape, *[1] * (own.dim() - 3)), own, 0.0)}
            mask = None if mask is None else mask | ~valid
        critic = None if self.critic is None else self.critic[at]
        return Inputs(obs, mask, critic, agent=None if self.agent is None else self.agent[at[1]])

    def place(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the step and the sample of transitions by their indices into the T * B samples, int64 of any shape.

        Indexing by both copies no whole slab, which may be a view with gaps.
        """
        num_samples = self.reward.shape[1]
        return index // num_samples, index % num_samples


def apply(obs: Observation, change: Callable[[Tensor], Tensor]) -> Observation:
    """Return an observation whose arrays, one or two parts, are changed by a function."""
    return {name: change(part) for name, part in obs.items()} if isinstance(obs, dict) else change(obs)
