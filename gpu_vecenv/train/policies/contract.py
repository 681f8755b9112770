"""The calls between policies, the collector and algorithms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

Observation = Tensor | dict[str, Tensor]
"""float32 (B, *shape); for samples of worlds ``{"own": (B, a, *shape)}``, a agents of each of B worlds, and for a role with a
shared part ``{"shared": (B, S), "own": (B, a, P)}``."""

OBSERVATIONS, SHARED = "observations", "shared"
"""Sources of critics beside the fields of the env's state, which cannot be read if they have these names: observations of all
agents of a policy, and the shared part of observations, once a world."""


def fields_of(sources: tuple[str, ...]) -> tuple[str, ...]:
    """Return the fields of the env's state among the sources of a critic."""
    return tuple(name for name in sources if name not in (OBSERVATIONS, SHARED))


def apply(obs: Observation, change: Callable[[Tensor], Tensor]) -> Observation:
    """Return an observation whose arrays, one or two parts, are changed by a function."""
    return {name: change(part) for name, part in obs.items()} if isinstance(obs, dict) else change(obs)


def wide(flags: Tensor, like: Tensor) -> Tensor:
    """Return a view of flags with as many axes as another array, whose first axes they have."""
    return flags.view(*flags.shape, *[1] * (like.dim() - flags.dim()))


class Inputs(NamedTuple):
    """Inputs of a policy for B samples: rows, or worlds with a rows each.

    Samples are worlds if the role's observations have a shared part or the policy's critic has inputs of its own.
    """

    obs: Observation
    """Observations as the env writes them, not normalised."""
    mask: Tensor | None = None
    """bool (B, M) or (B, a, M), True where a choice is allowed, of the entries ``Group.limited`` side by side; None allows all.
    An entry that has no effect in the step has no allowed choice."""
    critic: Tensor | None = None
    """float32 (B, C), what ``Policy.critic_sources`` name, once a world, not normalised; None without sources, and for
    ``act()``."""
    state: Tensor | None = None
    """float32 (B, *state_shape) or (B, a, *state_shape), the policy's state before the step; None for a policy without one."""
    agent: Tensor | None = None
    """int32 (B,) or (B, a), number of each row's agent in its world; None if the policy's network does not read it, and for
    ``act()``, which reads it from ``Draw``."""
    present: Tensor | None = None
    """bool (B, A), True for agents in the game, of those whose observations are in ``critic``, in their order; None without
    observations in it, or if agents never leave."""

    def at(self, step: int) -> Inputs:
        """Return the inputs of one step, of inputs with the axes (L, B) in place of B."""
        return Inputs(apply(self.obs, lambda x: x[step]), *(None if x is None else x[step] for x in self[1:]))


class Evaluated(NamedTuple):
    """A policy's evaluation of actions, each float32 (B,) or (B, a)."""

    log_prob: Tensor
    """Log-probability of the action; of a continuous action its log-density."""
    entropy: Tensor
    """Entropy of the distribution, in nats."""
    value: Tensor
    """Expected discounted return, in the units of the rewards that the policy learns from."""


Acted = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor]
"""Action and log-probability, and for a policy with a state the state after the step."""


@dataclass(frozen=True, eq=False)
class Draw:
    """Counters of the random numbers of one policy's actions in one step.

    An action is a function of its row's counters and of the policy's outputs. It does not depend on the device, on the other
    worlds of the run, or on earlier draws.
    """

    seed: Tensor
    """int64 (N,), the bits of each world's seed."""
    world_id: Tensor
    """int32 (N,)."""
    episode: Tensor
    """int32 (N,)."""
    t: Tensor
    """int32 (N,), steps of the episode that are done."""
    world: Tensor
    """int32 (B,) or (B, a), index of each row's world in the four arrays above."""
    agent: Tensor
    """int32 (B,) or (B, a), number of each row's agent in its world."""
    out: tuple[Tensor, Tensor, Tensor] | None = None
    """Arrays for actions (B[, a], k), log-probabilities (B[, a]) and entropies, which nobody reads. If a policy writes its
    results to them and returns them, they need not be copied."""


class Actor(Protocol):
    """Chooses actions as a policy does.

    An actor may have a method ``whole_rollout(env, rollout)``, which returns a function that fills all slots of a rollout at once
    as the actor would step by step, or None. It is called if the actor is the only one of its env, which has no wrappers. For a
    policy with a state it has a third argument, the ``RowStates``, whose ``now`` the function moves to the end of the rollout.

    An actor may also have a method ``hold_weights()``, a context manager that is open during a rollout.
    """

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> Acted:
        """See ``Policy.act()``."""


class Policy(nn.Module, ABC):
    """Chooses actions, and evaluates them for an algorithm.

    All shapes are fixed for fixed inputs, and no call reads the device, so a CUDA graph can capture each of them.
    """

    name: str = ""
    """Name of the policy, for messages."""
    state_shape: tuple[int, ...] | None = None
    """Shape of the state that the policy takes from step to step for each row, float32; None for a policy without a state. It is
    zeros where an episode or a life begins."""
    critic_sources: tuple[str, ...] = ()
    """Sources that the critic reads once a world, out of ``NetworkSpec.sources``; empty for a critic that reads what its row
    observes."""

    @abstractmethod
    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> Acted:
        """Choose an action for every row.

        Args:
            inputs: what the rows observe.
            draw: counters of the random numbers.
            deterministic: take the likeliest action instead of a draw.

        Returns:
            action: int32 or float32, (B,) or (B, k), with ``a`` after B for samples of worlds.
            log_prob: float32 (B,) or (B, a), of that action.
            state: only of a policy with a state, in the form of ``Inputs.state``; ``Inputs.state`` is not changed.
        """

    @abstractmethod
    def evaluate(self, inputs: Inputs, action: Tensor) -> Evaluated:
        """Evaluate actions taken earlier, with gradients."""

    def evaluate_with_state(self, inputs: Inputs, action: Tensor) -> tuple[Evaluated, Tensor]:
        """Return ``evaluate()`` and the state after the step, with gradients; a policy without a state has no such call."""
        raise NotImplementedError(f"policy {self.name!r} has no state")

    def evaluate_sequence(
        self, inputs: Inputs, action: Tensor, episode_end: Tensor, state: Tensor
    ) -> tuple[Evaluated, Tensor]:
        """Evaluate the actions of L consecutive steps, with gradients through the state; see ``Samples.sequences()``.

        Args:
            inputs: with the axes (L, B) in place of B, and without a state.
            action: the actions, (L, B, ...).
            episode_end: bool (L, B) or (L, B, a), True where the state begins anew after the step.
            state: state before the first step, in the form of ``Inputs.state``.

        Returns:
            The evaluations, each float32 (L, B) or (L, B, a), and the state after each step, before it begins anew, float32
            (L, B, *state_shape) or (L, B, a, *state_shape).
        """
        evaluations, states = [], []
        for t in range(len(action)):
            evaluated, after = self.evaluate_with_state(inputs.at(t)._replace(state=state), action[t])
            evaluations.append(evaluated)
            states.append(after)
            state = torch.where(wide(episode_end[t], after), 0.0, after)
        return Evaluated(*map(torch.stack, zip(*evaluations, strict=True))), torch.stack(states)

    @abstractmethod
    def value(self, inputs: Inputs) -> Tensor:
        """Return the value of ``evaluate()`` alone, float32 (B,) or (B, a)."""

    def critic_state(self) -> dict[str, Tensor]:
        """Return the entries of ``state_dict()`` whose size is that of inputs of the critic, and which no action depends on."""
        return {}

    def normalized(self, obs: Observation) -> Observation:
        """Return observations as the network reads them, in the same form; ``obs`` itself without running statistics.

        Args:
            obs: observations as the env writes them.
        """
        return obs

    def env_actions(self, action: Tensor) -> Tensor:
        """Return actions in the env's units, which ``act()`` returns and ``Samples.action`` holds.

        Args:
            action: float32 (..., k) in normalised units, in which finite bounds of a Box are -1 and 1. Other actions, and entries
                without two finite bounds, are the same in both units.
        """
        return action

    def normalized_actions(self, action: Tensor) -> Tensor:
        """Return actions in normalised units, the inverse of ``env_actions()``."""
        return action

    def observe(self, obs: Observation, valid: Tensor, critic: Tensor | None = None) -> None:
        """Update the policy's running statistics, if it keeps any.

        Args:
            obs: observations of all steps, with the axes (T, B) in place of B.
            valid: bool (T, B) or (T, B, a), False for rows to leave out; these may hold anything, NaN included.
            critic: float32 (T, B, C), see ``Inputs``; a world without rows that count is left out. None for a policy without
                ``critic_sources``.
        """
