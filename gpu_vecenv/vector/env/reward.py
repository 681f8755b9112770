"""Rewards of a caller's function in place of the env's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpu_vecenv.errors import ArrayTypeError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import abbreviated, array_library, describe
from gpu_vecenv.vector.inputs.rollout_plan import RolloutPlan
from gpu_vecenv.vector.outputs.outputs import OutputArrays
from gpu_vecenv.vector.worlds.worlds import Worlds

RewardFunction = Callable[..., Any]
"""From what ``PARAMETERS`` name to the rewards of agents; see ``Shaping``."""

PARAMETERS = ("agent_reward", "terminated", "truncated", "metrics", "state")
"""Arguments of a reward function, in this order."""

TEAM = "team"
"""Reward of each agent: the mean of its role's agents."""


class Shaping:
    """Changes rewards of agents by a function, or to those of teams.

    The function is called once a step with tensors on the device, which it must not change:

    - ``agent_reward`` float32 (N, A), the env's own rewards of the step;
    - ``terminated``, ``truncated`` bool (N,);
    - ``metrics``: numbers of episodes by name, float32 (N,), valid where one of the two is True;
    - ``state``: fields of the env's state by name, after the step, with the leading axis N. In same-step mode the state of a
      world whose episode ended is the start of the next one.

    It returns float32 (N, A).

    Args:
        reward: the function, or ``"team"``.
        env: name of the env, for messages.
        role_counts: agents of each role in a world.

    Raises:
        ParameterError: another value, or a function of other parameters.
    """

    def __init__(self, reward: RewardFunction | str, env: str, role_counts: Mapping[str, int]) -> None:
        if reward != TEAM and not callable(reward):
            raise ParameterError(f"{env}: reward must be a function, 'team' or None, got {abbreviated(reward)}.")
        if callable(reward):
            _require_parameters(reward, env)
        self.reward, self._env = reward, env
        self._counts = [count for count in role_counts.values() if count]

    def __call__(
        self, agent_reward: Any, terminated: Any, truncated: Any, metrics: Mapping[str, Any], state: Mapping[str, Any]
    ) -> Any:
        """Return the rewards of a step, a tensor float32 (N, A); see the class.

        Raises:
            ArrayTypeError, ShapeError: the function returned something else.
        """
        if not callable(self.reward):
            return team_rewards(agent_reward, self._counts)
        changed = self.reward(agent_reward, terminated, truncated, metrics, state)
        got, want = describe(changed), describe(agent_reward)
        if got.kind != "torch" or (got.dtype, got.device) != (want.dtype, want.device):
            text = f"{got.dtype} on {got.device}" if got.kind == "torch" else type(changed).__name__
            raise ArrayTypeError(f"{self._env}: reward must return a tensor of float32 on {want.device}, got {text}.")
        if changed.shape != agent_reward.shape:
            expected, shape = tuple(agent_reward.shape), tuple(changed.shape)
            raise ShapeError(f"{self._env}: reward must return the shape {expected}, got {shape}.")
        return changed


def _require_parameters(function: RewardFunction, env: str) -> None:
    """Raise ParameterError for a function that cannot be called with what ``Shaping`` gives it, before the first step does."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*PARAMETERS)
    except TypeError:
        raise ParameterError(f"{env}: reward must be a function of {', '.join(PARAMETERS)}, got one of {signature}.") from None


def team_rewards(agent_reward: Any, counts: Sequence[int]) -> Any:
    """Return for each agent the mean reward of its role's agents.

    Args:
        agent_reward: a tensor (N, A).
        counts: agents of each role in a world.
    """
    import torch

    return torch.cat([part.mean(1, keepdim=True).expand_as(part) for part in agent_reward.split(list(counts), dim=1)], dim=1)


class StepRewards:
    """Changes the rewards that steps of an env write.

    Args:
        reward: see ``Shaping``.
        worlds: the worlds.

    Attributes:
        shaping: the change.
    """

    def __init__(self, reward: RewardFunction | str, worlds: Worlds) -> None:
        layout = worlds.view.layout
        self._worlds, self.shaping = worlds, Shaping(reward, layout.spec.name, layout.role_counts)
        role, counts = layout.spec.reward_role, layout.role_counts
        before = sum(list(counts.values())[: list(counts).index(role)]) if role else 0
        self._of_world = slice(before, before + (counts[role] if role else layout.num_agents))
        self._has_warned = False

    def change(self, arrays: Sequence[Any]) -> None:
        """Overwrite the rewards in the arrays of a step, in the order of ``Results``."""
        import torch

        view, index = self._worlds.view, self._worlds.outputs.results.indices
        rewards = _tensor(arrays[index["agent_reward"]])
        flags = [_tensor(arrays[index[name]]) for name in ("terminated", "truncated")]
        metrics = {each.name: _tensor(arrays[index[f"episode_{each.name}"]]) for each in view.layout.spec.metrics}
        if view.flat:
            first = next(rows for rows in view.role_rows.values() if rows.stop > rows.start)
            worlds = slice(first.start, first.stop, (first.stop - first.start) // view.num_worlds)
            flags, metrics = [flag[worlds] for flag in flags], {name: x[worlds] for name, x in metrics.items()}
            by_role = [rewards[rows].view(view.num_worlds, -1) for rows in view.role_rows.values() if rows.stop > rows.start]
            agent_reward = torch.cat(by_role, dim=1)
        else:
            by_role, agent_reward = [rewards], rewards
        state = {name: _tensor(array) for name, array in self._worlds.state.fields.items()}
        with torch.no_grad():
            changed = self.shaping(agent_reward, flags[0], flags[1], metrics, state)
            for target, part in zip(by_role, changed.split([role.shape[1] for role in by_role], dim=1), strict=True):
                target.copy_(part)
            if not view.flat:
                _tensor(arrays[index["reward"]]).copy_(changed[:, self._of_world].mean(1))

    def rollout(self, plan: RolloutPlan) -> OutputArrays:
        """Make the steps of a plan one at a time, and return their results in new arrays.

        Random actions are those of as many rollouts of one step.
        """
        if not self._has_warned:
            self._has_warned = True
            name = self._worlds.view.layout.spec.name
            warnings.warn(f"{name}: rollout() makes its steps one at a time, because the env has a reward function", stacklevel=4)
        memory, done = self._worlds.output_memory, list[OutputArrays]()
        for step in range(plan.num_steps):
            one = self._worlds.rollout(plan._replace(num_steps=1, actions=_actions_of(plan, step)))
            self.change([array[0] for array in one.arrays])
            copies = [[memory.copy(array) for array in arrays] for arrays in (one.arrays, one.actions)]
            done.append(replace(one, arrays=copies[0], actions=copies[1]))
        library = array_library(memory.kind)

        def joined(parts: Iterable[Sequence[Any]]) -> list[Any]:
            with memory.here():
                return [library.concatenate(arrays) for arrays in zip(*parts, strict=True)]

        return replace(done[0], arrays=joined(one.arrays for one in done), actions=joined(one.actions for one in done))


def _actions_of(plan: RolloutPlan, step: int) -> Any:
    """Return the actions of one step of a plan."""
    if plan.draw:
        return plan.actions
    by_role = plan.actions if isinstance(plan.actions, list) else [plan.actions]
    moved = [(owner, address + step * stride, kind) for (owner, address, kind), stride in zip(by_role, plan.strides, strict=True)]
    return moved if isinstance(plan.actions, list) else moved[0]


def _tensor(array: Any) -> Any:
    """Return a tensor that shares the memory of an array."""
    import torch
    from torch.utils.dlpack import from_dlpack

    if isinstance(array, torch.Tensor):
        return array
    return torch.from_numpy(array) if describe(array).kind == "numpy" else from_dlpack(array)
