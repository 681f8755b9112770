"""BenchMARL: any env of this package as a task, with its roles as groups."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import MultiDiscrete
from torch import Tensor

from gpu_vecenv.adapters.torchrl import TorchRLEnv
from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.spec.params import step_limit
from gpu_vecenv.spec.roles import Group
from gpu_vecenv.spec.validation import abbreviated, require_one_of, whole_number

try:
    from benchmarl.environments import TaskClass
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Bounded, Categorical, Composite, TensorSpec, Unbounded
except ImportError as error:
    text = 'this adapter needs BenchMARL and the version of TorchRL that BenchMARL requires: pip install "gpu-vecenv[benchmarl]"'
    raise MissingExtraError(text) from error


MOST_JOINED = 2**16
"""Most choices of an action whose entries are joined in one index."""


def _is_joined(group: Group) -> bool:
    """True if an action is one index for BenchMARL."""
    return not group.continuous and math.prod(group.choices) <= MOST_JOINED


class BenchMARLTask(TaskClass):
    """A task of BenchMARL's ``Experiment`` and ``Benchmark``, whose worlds are stepped together on ``sampling_device``.

    BenchMARL's numbers of envs are numbers of worlds. Each role is a group, also with one agent in a world. A task takes both
    kinds of algorithms, discrete and continuous, if its env has a parameter ``continuous_actions`` that is not given here.
    Discrete actions with more than ``MOST_JOINED`` choices are for continuous algorithms, see ``TaskEnv``.

    Args:
        env_id: an id of this package, or one registered with an env of your own; ``module:id`` imports the module first.
        state: True for a global state, the observations of all agents one after the other, float32. Central critics then read
            it; otherwise they read the observations of their own group.
        max_steps: largest number of steps of an evaluation; None for the env's time limit. A parameter of this name, such as the
            robot warehouse has, keeps its default.
        options: the env's own parameters.

    Attributes:
        config: ``state``, ``max_steps`` and the options; BenchMARL logs them.

    Raises:
        ParameterError: the env has no time limit, and ``max_steps`` is None; or the id makes an env of another kind.
        MissingExtraError: on import, when BenchMARL is not installed, or another TorchRL than it requires.
    """

    def __init__(self, env_id: str, *, state: bool = False, max_steps: int | None = None, **options: Any) -> None:
        if not isinstance(env_id, str):
            raise ParameterError(f"BenchMARLTask takes an id of an env of this package, got {type(env_id).__name__}.")
        require_one_of("state", state, (True, False))
        if max_steps is not None and (whole_number(max_steps) or 0) < 1:
            raise ParameterError(f"max_steps must be an integer from 1 or None, got {abbreviated(max_steps)}.")
        name = env_id.rpartition(":")[-1].replace("/", "-")  # BenchMARL names files after it
        super().__init__(name, {"state": state, "max_steps": max_steps, **options})
        self.env_id = env_id
        env = self._make(1, "auto")
        params, groups = env.vector_env.params, env.vector_env.layout.groups
        self.max_steps(env)
        env.close()
        self._chooses = "continuous_actions" in params and options.keys().isdisjoint({"continuous_actions", "flatten_actions"})
        self._continuous = not all(_is_joined(group) for group in groups)

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: torch.device | str | int
    ) -> Callable[[], TaskEnv]:
        """Return a function that makes the env of ``num_envs`` worlds."""
        chosen = {"continuous_actions": continuous_actions} if self._chooses else {}
        return partial(self._make, num_envs, str(torch.device(device)), seed, **chosen)

    def supports_continuous_actions(self) -> bool:
        """True if a role has continuous actions, or more choices than one index has."""
        return self._chooses or self._continuous

    def supports_discrete_actions(self) -> bool:
        """True if all roles have discrete actions that are one index."""
        return self._chooses or not self._continuous

    def max_steps(self, env: TaskEnv) -> int:
        """Largest number of steps of an evaluation.

        Raises:
            ParameterError: the env has no time limit, and the task has no ``max_steps``.
        """
        steps: int = self.config["max_steps"] or step_limit(env.vector_env.params)
        if not steps:
            raise ParameterError(f"{self.name} has no time limit, so its task needs max_steps, the length of an evaluation.")
        return steps

    def has_render(self, env: TaskEnv) -> bool:
        """Return True: evaluations can be drawn."""
        return True

    def group_map(self, env: TaskEnv) -> dict[str, list[str]]:
        """Return the names of the agents of each role."""
        return env.group_map

    def observation_spec(self, env: TaskEnv) -> Composite:
        """Spec of the observations of one world, by role."""
        return _leaves(env, "observation")

    def action_spec(self, env: TaskEnv) -> Composite:
        """Spec of the actions of one world, by role."""
        return env.full_action_spec_unbatched

    def action_mask_spec(self, env: TaskEnv) -> Composite | None:
        """Spec of the action masks of one world, by role; None for an env without masks."""
        return _leaves(env, "action_mask")

    def state_spec(self, env: TaskEnv) -> Composite | None:
        """Spec of the state of one world; None without ``state=True``."""
        return Composite(state=env.full_observation_spec_unbatched["state"]) if self.config["state"] else None

    def info_spec(self, env: TaskEnv) -> None:
        """Return None: there are no further values to log."""

    @staticmethod
    def env_name() -> str:
        """Return the name of this package, which BenchMARL's results hold."""
        return "gpu_vecenv"

    @staticmethod
    def render_callback(experiment: Any, env: TaskEnv, data: TensorDictBase) -> np.ndarray:
        """Return a picture of the first world, uint8 (height, width, 3)."""
        return env.vector_env.picture(1)

    def _make(self, num_worlds: int, device: str, seed: int | None = None, **chosen: Any) -> TaskEnv:
        options = {name: value for name, value in self.config.items() if name != "max_steps"}
        env = TaskEnv(self.env_id, num_worlds, device=device, **options, **chosen)
        if seed is not None:
            env.set_seed(seed)
        return env


class TaskEnv(TorchRLEnv):
    """``TorchRLEnv`` in the form that BenchMARL's algorithms read.

    A discrete action is one index, int64 ``[W, A]``: that of several entries counts their choices in the order of nested loops,
    the last entry fastest. With more than ``MOST_JOINED`` choices, an action is float32 ``[W, A, k]`` instead: a number between 0
    and n for an entry of n choices stands for the choice below it, or if that is forbidden for the nearest one that is allowed.

    If a role has masks, ``(role, "action_mask")``, bool ``[W, A, choices]``, stands in all roles with
    discrete actions; flags of entries without effect are left out. ``(role, "done")`` and ``(role, "terminated")``, bool
    ``[W, A, 1]``, are also True for agents that left the game. With ``state=True``, ``"state"`` is float32 ``[W, features of all
    agents]``.
    """

    def __init__(self, env_id: str, num_worlds: int = 1, *, state: bool = False, **options: Any) -> None:
        self._has_state = state
        super().__init__(env_id, num_worlds, grouped=True, **options)

    def _make_specs(self) -> None:
        super()._make_specs()
        actions, observations = self.full_action_spec.clone(), self.full_observation_spec.clone()
        self._choices = {role: group.choices for role, group in self._groups.items() if _is_joined(group)}
        self._masked = any(self._groups[role].masked for role in self._choices)
        self._numbered = {
            role: torch.tensor(group.choices, device=self.device)
            for role, group in self._groups.items()
            if not (group.continuous or _is_joined(group))
        }
        self._allowed: dict[str, Tensor] = {}  # masks of the present observations, of roles in self._numbered
        for role, lead in self._leads.items():
            # Not in the done_spec, because TorchRL would then reset agents. BenchMARL's losses read them here.
            for name in ("done", "terminated"):
                observations[role, name] = self._flags(*lead, 1)
            if role in self._choices:
                count = math.prod(self._choices[role])
                actions[role, "action"] = Categorical(count, shape=lead, device=self.device)
                if self._masked:
                    observations[role, "action_mask"] = self._flags(*lead, count)
            elif role in self._numbered:
                high = self._numbered[role].float().expand(*lead, -1)
                actions[role, "action"] = Bounded(torch.zeros_like(high), high, device=self.device)
                if self._groups[role].masked:
                    del observations[role, "action_mask"]
        if self._has_state:
            features = sum(observations[role, "observation"].shape[1:].numel() for role in self._leads)
            observations["state"] = Unbounded((*self.batch_size, features), device=self.device)
        self.action_spec, self.observation_spec = actions, observations

    def _flags(self, *shape: int) -> TensorSpec:
        return Categorical(2, shape=shape, dtype=torch.bool, device=self.device)

    def _entries(self, role: str, action: Tensor) -> Tensor:
        if role in self._numbered:
            return self._nearest(role, action)
        if not isinstance(self._groups[role].action, MultiDiscrete):
            return action
        entries = []
        for count in reversed(self._choices[role]):
            entries.append(action % count)
            action = action // count
        return torch.stack(entries[::-1], dim=-1)

    def _nearest(self, role: str, actions: Tensor) -> Tensor:
        """Return the choices that numbers stand for, int32 [W, A, k]."""
        choices = self._numbered[role]
        below = torch.minimum(actions.nan_to_num().floor().clamp(min=0).int(), choices.int() - 1)
        mask = self._allowed.get(role)
        if mask is None:
            return below
        parts = mask.split(self._groups[role].choices, dim=-1)
        for entry in self._groups[role].masked:
            allowed = parts[entry]
            distance = (torch.arange(allowed.shape[-1], device=self.device) - below[..., entry : entry + 1]).abs()
            below[..., entry] = torch.where(allowed, distance, allowed.shape[-1]).argmin(-1).int()
        return below

    def _tensordict(self, obs: Any, info: Mapping[str, Any], reward: Tensor | None = None) -> TensorDict:
        tensordict = super()._tensordict(obs, info, reward)
        for role in self._leads:
            left = ~tensordict[role, "mask"].unsqueeze(-1)
            for name in ("done", "terminated"):
                tensordict[role, name] = tensordict[name].unsqueeze(-2) | left
            if self._masked and role in self._choices:
                tensordict[role, "action_mask"] = self._mask_of_indices(role, tensordict.get((role, "action_mask"), None))
            elif role in self._numbered and self._groups[role].masked:
                self._allowed[role] = tensordict.pop((role, "action_mask"))
        if self._has_state:
            tensordict["state"] = torch.cat([tensordict[role, "observation"].flatten(1) for role in self._leads], dim=-1)
        return tensordict

    def _mask_of_indices(self, role: str, mask: Tensor | None) -> Tensor:
        """Return masks of indices, [W, A, choices], for masks of entries side by side or None for no masks."""
        choices = self._choices[role]
        if mask is None:
            return torch.ones(*self._leads[role], math.prod(choices), dtype=torch.bool, device=self.device)
        allowed: Tensor
        allowed, *later_entries = mask.split(choices, dim=-1)
        for other in later_entries:
            allowed = (allowed.unsqueeze(-1) & other.unsqueeze(-2)).flatten(-2)
        return allowed


def _leaves(env: TaskEnv, name: str) -> Composite | None:
    """Return the specs of one world under ``name``, by role; None if no role has it."""
    specs = env.full_observation_spec_unbatched
    roles = [role for role in env.group_map if name in specs[role].keys()]
    return Composite({role: Composite({name: specs[role, name]}, shape=specs[role].shape) for role in roles}) if roles else None
