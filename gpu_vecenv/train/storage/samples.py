"""Samples of a rollout that one policy learns from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.train.policies.contract import Inputs, Observation, apply, wide


class Sequences(NamedTuple):
    """L consecutive steps of b samples, for ``Policy.evaluate_sequence()``.

    Numbers that do not count are replaced, so that results and gradients are finite: agents that do not count observe zeros, all
    their choices are allowed and their action is 0, as are all inputs of a world without one that counts.
    """

    inputs: Inputs
    """Their axes are (L, b) in place of B; without a state."""
    action: Tensor
    """int32 or float32, ``(L, b[, a][, k])``."""
    episode_end: Tensor
    """bool (L, b[, a]), see ``Samples``."""


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
    """bool (T + 1, B[, a], M); None without masks. In envs with flags of effect, step T is valid with ``Storage.next_masks``."""
    final_obs: Observation | None = None
    """float32 (T, B, ...), valid where an episode ended; None if the policy's algorithm did not ask for it by ``Storage``."""
    final_mask: Tensor | None = None
    """bool (T, B[, a], M), ``mask`` of ``final_obs``, valid where an episode ended; None if one of the two is None, or without
    ``Storage.next_masks``."""
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
    and elsewhere the state after step t. None for a policy without a state."""
    critic: Tensor | None = None
    """float32 (T + 1, B, C), inputs of the critic, once a world; None if it has none beside the observations."""
    present: Tensor | None = None
    """bool (T + 1, B, A), see ``Inputs``."""
    final_critic: Tensor | None = None
    """float32 (T, B, C), ``critic`` of ``final_obs``, valid where an episode ended; None if one of the two is None."""
    final_present: Tensor | None = None
    """bool (T, B, A), ``present`` of ``final_obs``."""

    @property
    def num_steps(self) -> int:
        """T."""
        return self.reward.shape[0]

    def steps(self, obs: Observation, steps: slice, with_mask: bool = False, state: Tensor | None = None) -> Inputs:
        """Return the inputs of some steps, their steps and samples as one axis; by default without masks.

        Args:
            obs: observations of all steps, such as ``obs``; with ``final_obs`` the inputs of the critic are those of it.
            steps: S of them.
            with_mask: also return masks, with ``final_obs`` those of it.
            state: float32 (S, B[, a], *state_shape), states of the policy at these steps; None for a policy without a state.
        """
        masks = self.final_mask if obs is self.final_obs else self.mask
        mask = masks[steps].flatten(0, 1) if with_mask and masks is not None else None
        chosen = apply(obs, lambda x: x[steps].flatten(0, 1))
        once = (self.final_critic, self.final_present) if obs is self.final_obs else (self.critic, self.present)
        critic, present = (None if x is None else x[steps].flatten(0, 1) for x in once)
        agent = None
        if self.agent is not None:
            num_rows = len(chosen["own"] if isinstance(chosen, dict) else chosen)
            agent = self.agent.repeat(num_rows // len(self.agent), *[1] * (self.agent.dim() - 1))
        return Inputs(chosen, mask, critic, None if state is None else state.flatten(0, 1), agent, present)

    def chosen(self, at: tuple[Tensor, Tensor], state: Tensor | None = None) -> Inputs:
        """Return the inputs of transitions.

        Agents that do not count observe zeros here, and all their choices are allowed: gradients of NaN would be NaN for all.

        Args:
            at: their steps and samples, each int64 (b,) or with further axes, which the inputs then have in place of b.
            state: float32 (b[, a], *state_shape), states of the policy before them; None for a policy without a state.
        """
        obs, mask = apply(self.obs, lambda x: x[at]), None if self.mask is None else self.mask[at]
        if isinstance(obs, dict):  # only then a sample that counts may hold agents that do not
            valid = self.valid[at]
            obs = {**obs, "own": torch.where(wide(valid, obs["own"]), obs["own"], 0.0)}
            mask = None if mask is None else mask | ~valid.unsqueeze(-1)
        critic, present = (None if x is None else x[at] for x in (self.critic, self.present))
        return Inputs(obs, mask, critic, state, None if self.agent is None else self.agent[at[1]], present)

    def sequences(self, start: tuple[Tensor, Tensor], length: int) -> Sequences:
        """Return consecutive steps.

        Args:
            start: first step and sample of each sequence, each int64 (b,).
            length: L, steps of a sequence; none may be beyond the rollout's T steps.
        """
        first, sample = start
        at = first + torch.arange(length, dtype=torch.int64, device=first.device).unsqueeze(1), sample.expand(length, -1)
        inputs, action, episode_end = self.chosen(at), self.action[at], self.episode_end[at]
        if self.all_valid:
            return Sequences(inputs, action, episode_end)
        valid = self.valid[at]
        of_world = valid if valid.dim() == 2 else valid.any(-1)

        def counted(x: Tensor) -> Tensor:
            return torch.where(wide(of_world, x), x, 0)

        mask = None if inputs.mask is None else inputs.mask | ~valid.unsqueeze(-1)
        critic = None if inputs.critic is None else counted(inputs.critic)
        inputs = inputs._replace(obs=apply(inputs.obs, counted), mask=mask, critic=critic)
        return Sequences(inputs, torch.where(wide(valid, action), action, 0), episode_end)

    def place(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the step and the sample of transitions by their indices into the T * B samples, int64 of any shape.

        Indexing by both copies no whole slab, which may be a view with gaps.
        """
        num_samples = self.reward.shape[1]
        return index // num_samples, index % num_samples
