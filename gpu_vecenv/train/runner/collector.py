"""The loop that fills a rollout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from gpu_vecenv.train.policies.contract import Actor
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.rollout import Rollout, alive_field, critic_copies
from gpu_vecenv.train.storage.wrapped_env import as_wrapped

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def whole_rollout(
    env: GpuVectorEnv, rollout: Rollout, actors: Mapping[str, Actor], rows: Mapping[str, PolicyRows]
) -> Callable[[], None] | None:
    """Return what fills a rollout at once, or None if env and actors must be called in every step."""
    (name, first), *further = actors.items()
    make, states = getattr(first, "whole_rollout", None), rows[name].states
    if further or make is None or as_wrapped(env):
        return None
    return make(env, rollout) if states is None else make(env, rollout, states)  # type: ignore[no-any-return]


class Collector:
    """Steps the env with the actions of policies.

    Before and after each ``collect()`` the last observations, masks and flags of agents in the game are in slot T of the rollout.
    """

    def __init__(
        self,
        env: GpuVectorEnv,
        rollout: Rollout,
        policies: Mapping[str, Actor],
        rows: Mapping[str, PolicyRows],
        fill_rollout: Callable[[], None] | None = None,
        shaping: Callable[[int], None] | None = None,
    ):
        """Bind the env to the rollout; call ``reset()`` before the first ``collect()``.

        Args:
            env: vector env in the agents view, or one whose arrays are by role.
            rollout: slabs to fill.
            policies: what chooses actions, by the name of the policy.
            rows: rows that each policy acts for.
            fill_rollout: fills all slots at once, as the actors would step by step.
            shaping: changes the rewards of a step in the rollout; None: they are the env's own.
        """
        self.env, self.rollout, self.fill_rollout, self.shaping = env, rollout, fill_rollout, shaping
        self.step_views = [
            (policies[name], policy_rows.step_views(span, env))
            for name, policy_rows in rows.items()
            for span in policy_rows.spans
        ]
        self.actions = [self._actions(t) for t in range(rollout.num_steps)]
        self.limited = [slabs for slabs in rollout.groups if slabs.limits is not None]
        self.alive = alive_field(env)
        self._critic = critic_copies(env, rollout)
        self._states = {name: policy_rows.states for name, policy_rows in rows.items() if policy_rows.states is not None}
        self._t = torch.as_tensor(env.worlds.state.fields["t"], device=env.device).unsqueeze(1)
        self._slots = as_wrapped(env) or env.worlds.outputs
        rollout.bind(env)

    def reset(self, seed: int) -> None:
        """Start new episodes in all worlds."""
        self.env.reset(seed=seed)
        self.begin_at_end()

    def begin_at_end(self) -> None:
        """Move the last observations, which a reset or ``bind()`` wrote to slot 0, to slot T."""
        for slabs in self.rollout.groups:
            slabs.copy_to_end()
        self.count_all_steps()
        if self.alive is not None:
            self.rollout.alive_last.copy_(self.alive)

    def count_all_steps(self) -> None:
        """Make T the slot of the last observations. A capture that fails has counted steps that were not made."""
        self._slots.move_to(self.rollout.num_steps)

    @property
    def is_at_end(self) -> bool:
        """True if the last observations are in slot T; False after a reset by the env itself, which writes slot 0."""
        return self._slots.slot == self.rollout.num_steps

    @torch.no_grad()
    def collect(self, deterministic: bool = False) -> None:
        """Move to the next rollout, and fill the slabs with T steps. The host does not wait for the device.

        Args:
            deterministic: take the likeliest actions instead of draws.
        """
        self.rollout.begin()
        self.env.rewind()
        for states in self._states.values():
            states.begin(self._t)
        if self.fill_rollout is not None and not deterministic:
            self.fill_rollout()
            return
        with contextlib.ExitStack() as held:
            for policy, _ in self.step_views:
                if (hold_weights := getattr(policy, "hold_weights", None)) is not None:
                    held.enter_context(hold_weights())
            self._step_by_step(deterministic)

    def _step_by_step(self, deterministic: bool) -> None:
        for t in range(self.rollout.num_steps):
            for slab, values in self._critic:
                slab[t].copy_(values)
            for slabs in self.limited:
                slabs.limit(t)
            for policy, step_views in self.step_views:
                views = step_views[t]
                views.store(*policy.act(views.inputs(), views.draw, deterministic))
            self.env.step(self.actions[t])
            if self.shaping is not None:
                self.shaping(t)
            if self.rollout.alive_next is not None and self.alive is not None:
                self.rollout.alive_next[t] = self.alive
            for states in self._states.values():
                states.end_step(self._t, t)
        for slab, values in self._critic:
            slab[-1].copy_(values)
        self.rollout.spread()

    def state_dict(self) -> dict[str, object]:
        """Return the state to save between two rollouts."""
        by_role = {group.role: slabs.last() for group, slabs in zip(self.env.layout.groups, self.rollout.groups, strict=True)}
        wrapped = as_wrapped(self.env)
        return {
            "env": dict(self.env.get_state()),
            **({"wrappers": wrapped.wrapper_states()} if wrapped else {}),
            "roles": by_role,
            "alive": self.rollout.alive_last.clone(),
            **({"states": {name: states.now.clone() for name, states in self._states.items()}} if self._states else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict()`` returned, after a ``reset()``."""
        self.env.set_state(state["env"])
        for group, slabs in zip(self.env.layout.groups, self.rollout.groups, strict=True):
            slabs.restore(state["roles"][group.role])
        self.rollout.alive_last.copy_(state["alive"])
        for name, states in self._states.items():
            states.now.copy_(state["states"][name])
        if wrapped := as_wrapped(self.env):
            wrapped.load_wrapper_states(state["wrappers"])

    def _actions(self, t: int) -> Any:
        """Return the actions of a step in the form that the env takes."""
        groups = list(zip(self.env.layout.groups, self.rollout.groups, strict=True))
        if not groups[0][0].role:
            return groups[0][1].action[t]
        return {group.role: slabs.action[t].unflatten(0, (-1, group.count)) for group, slabs in groups}
