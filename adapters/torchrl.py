"""TorchRL: any env of this package as a batched ``EnvBase`` with its roles as groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete, Space
from torch import Tensor

from gpu_vecenv.adapters.checks import made_by_id, without_wrappers
from gpu_vecenv.errors import ArrayTypeError, DeviceError, MissingExtraError, ParameterError, ShapeError
from gpu_vecenv.spec.validation import require_one_of
from gpu_vecenv.vector.env.pickling import Copied
from gpu_vecenv.vector.inputs.options import refuse_keywords
from gpu_vecenv.vector.inputs.seeding import check_one_seed
from gpu_vecenv.vector.outputs.join_shared import full_mask, joined_space, whole_obs
from gpu_vecenv.vector.outputs.tree import nest

try:
    from tensordict import TensorDict, TensorDictBase
    from torchrl.data import Bounded, Categorical, Composite, MultiCategorical, MultiOneHot, OneHot, TensorSpec, Unbounded
    from torchrl.envs import EnvBase
except ImportError as error:
    raise MissingExtraError('this adapter needs TorchRL: pip install "gpu-vecenv[torchrl]"') from error


class TorchRLEnv(Copied, EnvBase):
    """An ``EnvBase`` with ``batch_size=[num_worlds]`` whose tensors stay on the env's device.

    With several agents in a world each role is a group: ``(role, "observation")`` float32 ``[W, A, F]``, ``(role, "action")``,
    ``(role, "reward")`` float32 ``[W, A, 1]`` and ``(role, "mask")`` bool ``[W, A]``, True while an agent is in the game. Actions
    of agents that left are ignored. With one agent the keys have no role, unless the role has spaces of its own:
    ``"observation"`` ``[W, F]``, ``"action"``, ``"reward"`` ``[W, 1]``. Episodes end for a whole world, so ``done``,
    ``terminated`` and ``truncated``, bool ``[W, 1]``, have no role in both cases.

    Roles with spaces of their own have specs of their own. A part of observations that a role shares is in front of each agent's
    own part. Where actions have masks, ``"action_mask"``, bool ``[W(, A), choices of all entries]``, stands beside the
    observation, in the form that ``ActionMask`` takes; it is True for all choices of entries without a mask.
    Flags of entries without effect (``action_effects``) are left out, as TorchRL's distributions know masks alone.

    A ``Discrete`` action is int64 ``[W(, A)]``, a ``MultiDiscrete`` one int64 ``[W(, A), k]``, a ``Box`` one float32. With
    ``categorical_actions=False`` the first two are one-hot, bool, with the choices of all entries along the last axis.
    ``set_seed`` takes effect at the next reset of all worlds.

    Args:
        env_id: an id of this package, or one registered with an env of your own.
        num_worlds: number of worlds, W.
        categorical_actions: True for indices as discrete actions, False for one-hot vectors.
        grouped: True for keys with a role also if a world has one agent.
        options: further keywords of ``gymnasium.make_vec``: ``device`` and the env's own.

    Attributes:
        vector_env: the wrapped env, in the worlds view.
        group_map: role to the names of its agents, such as ``tagger_0``; empty where keys have no role.
        agent_names: names of all agents.

    Raises:
        ParameterError: the id makes an env of another kind or with wrappers, or an option is one that this class sets, such as
            ``array``.
        MissingExtraError: on import, when TorchRL is not installed.
    """

    def __init__(
        self, env_id: str, num_worlds: int = 1, *, categorical_actions: bool = True, grouped: bool = False, **options: Any
    ) -> None:
        # Autoreset is disabled, because TorchRL resets worlds itself: a transform may end an episode earlier than the env, and
        # "next" must hold the last observation of an episode. The view is by worlds, because TorchRL's reset mask has one flag
        # for each world. copy=True, because rollouts keep references.
        fixed = {"view": "worlds", "array": "torch", "autoreset_mode": "disabled", "copy": True}
        for name, value in (("categorical_actions", categorical_actions), ("grouped", grouped)):
            require_one_of(name, value, (True, False))
        if "num_envs" in options:
            raise ParameterError("TorchRLEnv takes num_worlds, the number of worlds, and no num_envs.")
        outermost = made_by_id(env_id, "TorchRLEnv", fixed, {"num_worlds": num_worlds, **options})
        env = without_wrappers(outermost, env_id, "TorchRLEnv", "transforms of TorchRL")
        super().__init__(device=env.device, batch_size=[env.num_worlds])
        self.vector_env = env
        self.is_closed = False
        self._spec_by_role = by_role = env.layout.by_role
        counts = env.role_counts if env.num_agents > 1 or by_role or grouped else {}
        self.group_map = {role: [f"{role}_{i}" for i in range(count)] for role, count in counts.items()}
        self._lone = bool(counts) and env.num_agents == 1 and not by_role  # the env's arrays have no axis of agents
        self.agent_names = [name for names in self.group_map.values() for name in names]
        self._leads = {role: torch.Size((env.num_worlds, count)) for role, count in counts.items()}
        groups = env.layout.groups
        self._groups = {group.role: group for group in groups} if by_role else dict.fromkeys(counts or [""], groups[0])
        actions = {group.role: _action_spec(group.action, categorical_actions, self.device) for group in groups}
        self._actions = {role: actions[group.role] for role, group in self._groups.items()}
        self._make_specs()
        self._seed: int | None = None
        self._alive = torch.ones(env.num_worlds, env.num_agents, dtype=torch.bool, device=self.device)
        self._ended: dict[str, Tensor] = {}

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the wrapped env; a second call changes nothing."""
        super().close(raise_if_closed=raise_if_closed)
        self.vector_env.close()

    def to(self, device: torch.device | str) -> TorchRLEnv:
        """Return the env itself, which stays on its device.

        Raises:
            DeviceError: ``device`` is another than the env's.
        """
        if torch.device(device) not in (self.device, torch.device(self.device.type)):
            raise DeviceError(f"this env is on {self.device} and cannot move; make another with device={str(device)!r}.")
        return self

    def render(self) -> np.ndarray:
        """Return a frame for each world, uint8 (num_worlds, height, width, 3), for ``PixelRenderTransform``.

        Raises:
            ParameterError: the env was made without ``render_mode="rgb_array"``.
        """
        frames = self.vector_env.render()
        if frames is None:
            raise ParameterError('render() needs an env made with render_mode="rgb_array".')
        return np.stack(frames)

    def __repr__(self) -> str:
        """Id, batch size, device."""
        return f"TorchRLEnv({self.vector_env.env_spec.name}, batch_size={list(self.batch_size)}, device={self.device})"

    def _set_seed(self, seed: int | None) -> None:
        """Keep the seed of the next reset of all worlds.

        Raises:
            ParameterError: not an integer in [0, 2^64).
        """
        self._seed = None if seed is None else check_one_seed(seed)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        """Reset all worlds, or those of the mask ``_reset``.

        Raises:
            UnknownParameterError: a keyword, which this env does not have; ``set_seed`` sets the seed.
            ArrayTypeError, ShapeError: a mask that is not bool, or has not one flag for each world.
        """
        refuse_keywords("reset() of TorchRLEnv", kwargs)
        mask = None if tensordict is None else tensordict.get("_reset", None)
        if mask is None:
            obs, info = self.vector_env.reset(seed=self._seed)
            self._seed = None
            started = torch.ones(self.batch_size, dtype=torch.bool, device=self.device)
            self._ended = {name: torch.zeros_like(started) for name in ("terminated", "truncated")}
            self._alive = torch.ones_like(self._alive)
        else:
            if mask.dtype is not torch.bool:
                raise ArrayTypeError(f"_reset must be bool, got {mask.dtype}.")
            if mask.numel() != self.batch_size.numel():
                raise ShapeError(f"_reset must have the shape {(*self.batch_size, 1)}, got {tuple(mask.shape)}.")
            started = mask.reshape(self.batch_size)
            # The copy of a byte of each world adds no host sync: TorchRL calls this after it has read on the host that a world
            # is done.
            host = started.cpu().numpy()
            obs, info = self.vector_env.reset(options={"reset_mask": host}) if host.any() else self._observe()
            self._ended = {name: flag & ~started for name, flag in self._ended.items()}
            self._alive = self._alive | started.unsqueeze(1)
        return self._tensordict(obs, info)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        obs, reward, terminated, truncated, info = self.vector_env.step(self._joint_action(tensordict))
        self._ended = {"terminated": terminated, "truncated": truncated}
        self._alive = info.get("agent_alive", self._alive)
        return self._tensordict(obs, info, info.get("agent_reward", reward))

    def _observe(self) -> tuple[Any, dict[str, Any]]:
        """Return observations and masks of the present state, as a reset does."""
        obs, worlds = self.vector_env.observe(), self.vector_env.worlds
        _, masks = worlds.outputs.results.returned_by_reset
        return obs, nest(masks, worlds.observe()) if masks else {}

    def _make_specs(self) -> None:
        worlds, device = self.batch_size, self.device

        def observation(role: str, lead: torch.Size) -> dict[str, TensorSpec]:
            group = self._groups[role]
            space = joined_space(group)
            # The expanded bounds are views; Bounded.expand() would hold two copies as large as the observations.
            bounds = (torch.as_tensor(bound, device=device).expand(*lead, *bound.shape) for bound in (space.low, space.high))
            flags = {"mask": lead} if self._leads else {}
            if group.masked:
                flags["action_mask"] = torch.Size((*lead, sum(group.choices)))
            specs = {name: Categorical(2, shape=shape, dtype=torch.bool, device=device) for name, shape in flags.items()}
            return {"observation": Bounded(*bounds, device=device), **specs}

        def action(role: str, lead: torch.Size) -> dict[str, TensorSpec]:
            spec = self._actions[role]
            return {"action": spec.expand(*lead, *spec.shape)}

        def composite(specs: Callable[[str, torch.Size], dict[str, TensorSpec]]) -> Composite:
            groups = {role: Composite(specs(role, lead), shape=lead, device=device) for role, lead in self._leads.items()}
            return Composite(groups or specs("", worlds), shape=worlds, device=device)

        self.observation_spec = composite(observation)
        self.action_spec = composite(action)
        self.reward_spec = composite(lambda role, lead: {"reward": Unbounded((*lead, 1), device=device)})
        flag = Categorical(2, shape=(*worlds, 1), dtype=torch.bool, device=device)
        flags = {name: flag.clone() for name in ("done", "terminated", "truncated")}
        self.done_spec = Composite(flags, shape=worlds, device=device)

    def _joint_action(self, tensordict: TensorDictBase) -> Tensor | dict[str, Tensor]:
        """Return the actions of all agents, [W, A(, k)] or, with one agent, [W(, k)]; by role for spaces by role."""
        keys = {role: (role, "action") if self._leads else "action" for role in self._actions}
        by_role = {role: self._entries(role, tensordict.get(key, None)) for role, key in keys.items()}
        if self._spec_by_role:
            return by_role
        if self._lone or not self._leads:
            (action,) = by_role.values()
            return action.squeeze(1) if self._lone else action
        return torch.cat(list(by_role.values()), dim=1)

    def _entries(self, role: str, action: Tensor) -> Tensor:
        """Return a role's actions in the form of the env.

        Raises:
            ParameterError: there are none.
        """
        if action is None:
            raise ParameterError(f"a step needs the entry {(role, 'action') if self._leads else 'action'!r}, got none.")
        spec = self._actions[role]
        # safe=False, because the check would make the host wait.
        return spec.to_categorical(action, safe=False) if isinstance(spec, OneHot) else action

    def _tensordict(self, obs: Any, info: Mapping[str, Any], reward: Tensor | None = None) -> TensorDict:
        """Return the outputs of a reset or, with ``reward``, of a step."""
        content: dict[str, Any] = {name: flag.unsqueeze(-1) for name, flag in self._ended.items()}
        content["done"] = content["terminated"] | content["truncated"]
        outputs = {"observation": obs, **{name: info[name] for name in ("action_mask",) if name in info}}
        if self._lone:
            outputs = {name: value.unsqueeze(1) for name, value in outputs.items()}
        if reward is not None:
            # With one agent, the env's rewards are (W,) also if arrays are by role.
            outputs["reward"] = (reward.reshape(self._alive.shape) if self._leads else reward).unsqueeze(-1)
        if self._leads:
            outputs["mask"] = self._alive
        by_role: dict[str, dict[str, Tensor]] = {role: {} for role in self._groups}
        for name, value in outputs.items():
            for role, part in self._split(value).items():
                by_role[role][name] = self._joined(role, name, part)
        if not self._leads:
            content.update(by_role[""])
        for role, lead in self._leads.items():
            content[role] = TensorDict(by_role[role], batch_size=lead, device=self.device)
        return TensorDict(content, batch_size=self.batch_size, device=self.device)

    def _split(self, value: Any) -> Mapping[str, Any]:
        """Return an array of all agents, or arrays by role, by role."""
        if isinstance(value, Mapping):
            return value
        counts = list(self.vector_env.role_counts.values())
        return dict(zip(self._leads, value.split(counts, dim=1), strict=True)) if self._leads else {"": value}

    def _joined(self, role: str, name: str, value: Any) -> Tensor:
        """Return observations with their shared part, masks with all choices, and other values unchanged."""
        group = self._groups[role]
        joined: Tensor = value
        if name == "observation" and group.shared is not None:
            joined = whole_obs(value)
        elif name == "action_mask":
            joined = full_mask(group, value)
        return joined


def _action_spec(space: Space, categorical: bool, device: torch.device) -> TensorSpec:
    """Return the spec of one agent's action."""
    if isinstance(space, Discrete):
        return Categorical(int(space.n), device=device) if categorical else OneHot(int(space.n), device=device)
    if isinstance(space, MultiDiscrete):
        choices = [int(n) for n in space.nvec]
        return MultiCategorical(choices, device=device) if categorical else MultiOneHot(choices, device=device)
    if isinstance(space, Box):
        return Bounded(torch.as_tensor(space.low), torch.as_tensor(space.high), device=device)
    raise ParameterError(f"TorchRLEnv has no action spec for a {type(space).__name__}.")
