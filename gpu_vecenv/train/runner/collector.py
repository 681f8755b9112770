"""The loop that fills a rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from gpu_vecenv.train.policies.contract import Actor
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.rollout import Rollout, alive_field
from gpu_vecenv.train.storage.wrapped_env import as_wrapped

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def whole_rollout(env: GpuVectorEnv, rollout: Rollout, actors: Mapping[str, Actor]) -> Callable[[], None] | None:
    """Return what fills a rollout at once, or None if env and actors must be called in every step."""
    first, *others = actors.values()
    make = getattr(first, "whole_rollout", None)
    return None if others or make is None or as_wrapped(env) else make(env, rollout)


class Collector:
    """Steps the env with the actions of policies."""

    def __init__(
        self,
        env: GpuVectorEnv,
        rollout: Rollout,
        policies: Mapping[str, Actor],
        rows: Mapping[str, PolicyRows],
        whole: Callable[[], None] | None = None,
    ):
        """Bind the env to the rollout; call ``reset()`` before the first ``collect()``.

        Args:
            env: vector env in the agents view, or one whose arrays are by role.
            rollout: slabs to fill.
            policies: what chooses actions, by the name of the policy.
            rows: rows that each policy acts for.
            whole: fills all slots at once, as the actors would step by step.
        """
        self.env, self.rollout, self.whole = env, rollout, whole
        self.turns = [(policies[name], own.turns(part, env)) for name, own in rows.items() for part in own.parts]
        self.actions = [self._actions(t) for t in range(rollout.num_steps)]
        self.limited = [slabs for slabs in rollout.groups if slabs.limits is not None]
        self.alive = alive_field(env)
        self._collected = False
        rollout.bind(env)

    def reset(self, seed: int) -> None:
        """Start new episodes in all worlds."""
        self.env.reset(seed=seed)
        self.read_alive()
        self._collected = False

    def read_alive(self) -> None:
        """Take who is alive before step 0 from the env's present state."""
        if self.alive is not None:
            self.rollout.alive_start.copy_(self.alive)

    @torch.no_grad()
    def collect(self, deterministic: bool = False) -> None:
        """Fill the slabs with T steps. The host does not wait for the device.

        Args:
            deterministic: take the likeliest actions instead of draws.
        """
        if self.whole is not None and not deterministic:
            self.whole()
        else:
            self._step_by_step(deterministic)
        self._collected = True

    def _step_by_step(self, deterministic: bool) -> None:
        for t in range(self.rollout.num_steps):
            for slabs in self.limited:
                slabs.limit(t)
            for policy, turns in self.turns:
                turn = turns[t]
                turn.store(*policy.act(turn.inputs(), turn.draw, deterministic))
            self.env.step(self.actions[t])
            if self.rollout.alive_next is not None and self.alive is not None:
                self.rollout.alive_next[t] = self.alive
        self.rollout.spread()

    def advance(self) -> None:
        """Move to the next rollout: its slot 0 of observations and masks becomes a copy of the last ones.

        Nothing changes if no rollout was collected since the last call.
        """
        if self._collected:
            self.rollout.carry()
            self.env.rewind()
            self._collected = False

    def retreat(self) -> None:
        """Undo ``advance()``, if it was called since the last rollout, for a graph that begins with it and ends at this place."""
        if not self._collected:
            self.rollout.carry_back()
        self.env.worlds.outputs.wind()
        self._collected = True

    def undo_capture(self) -> None:
        """Go back to the end of the last rollout after a capture, in which the env may have counted steps that were not made."""
        self.env.worlds.outputs.move_to(self.rollout.num_steps)
        self._collected = True

    def state_dict(self) -> dict[str, object]:
        """Return the state to save after ``advance()``."""
        kept = {group.role: slabs.kept() for group, slabs in zip(self.env.layout.groups, self.rollout.groups, strict=True)}
        wrapped = as_wrapped(self.env)
        return {
            "env": dict(self.env.get_state()),
            **({"wrappers": wrapped.wrapper_states()} if wrapped else {}),
            "roles": kept,
            "alive": self.rollout.alive_start.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict()`` returned, after a ``reset()``."""
        self.env.set_state(state["env"])
        for group, slabs in zip(self.env.layout.groups, self.rollout.groups, strict=True):
            slabs.restore(state["roles"][group.role])
        self.rollout.alive_start.copy_(state["alive"])
        if wrapped := as_wrapped(self.env):
            wrapped.load_wrapper_states(state["wrappers"])
        self._collected = False

    def _actions(self, t: int) -> Any:
        """Return the actions of a step in the form that the env takes."""
        groups = list(zip(self.env.layout.groups, self.rollout.groups, strict=True))
        if not groups[0][0].role:
            return groups[0][1].action[t]
        return {group.role: slabs.action[t].unflatten(0, (-1, group.count)) for group, slabs in groups}
