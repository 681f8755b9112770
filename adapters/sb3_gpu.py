"""Stable-Baselines3's PPO with rollouts that stay on the env's device."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from gymnasium.vector import VectorEnv
from torch import Tensor
from torch.distributions import Distribution

from gpu_vecenv.adapters.sb3 import DeviceStep, Sb3VecEnv
from gpu_vecenv.errors import DeviceError, MissingExtraError, ParameterError
from gpu_vecenv.spec.validation import abbreviated

try:
    from stable_baselines3 import PPO
    from stable_baselines3.common.buffers import BaseBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.type_aliases import RolloutBufferSamples
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise MissingExtraError('this adapter needs Stable-Baselines3: pip install "gpu-vecenv[sb3]"') from error


class GpuRolloutBuffer(BaseBuffer):
    """A rollout of T = ``buffer_size`` steps of n = ``n_envs`` rows, as tensors (T, n, ...) on the device.

    It replaces SB3's ``RolloutBuffer``, with the same estimates and the same kind of minibatches, shuffled by torch.

    Args:
        buffer_size: T.
        observation_space: observation space of one row.
        action_space: action space of one row.
        device: device of the tensors.
        gae_lambda: decay of the trace.
        gamma: discount per step.
        n_envs: n.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: Space,
        action_space: Space,
        device: torch.device | str = "auto",
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.gae_lambda, self.gamma = gae_lambda, gamma
        self.obs = self._zeros(*self.obs_shape)
        self.action = self._zeros(self.action_dim, dtype=torch.float32 if isinstance(action_space, Box) else torch.int64)
        self.value, self.log_prob, self.reward, self.advantage = (self._zeros() for _ in range(4))
        self.done, self.timed_out = self._zeros(dtype=torch.bool), self._zeros(dtype=torch.bool)
        self.final_obs = self._zeros(*self.obs_shape)
        self.episode_return, self.episode_length = self._zeros(), self._zeros(dtype=torch.int32)

    def add_decision(self, obs: Tensor, action: Tensor, value: Tensor, log_prob: Tensor) -> None:
        """Store the data before a step: obs (n, F), action (n,) or (n, k), value (n, 1), log_prob (n,)."""
        self.obs[self.pos] = obs
        self.action[self.pos] = action.reshape(self.n_envs, self.action_dim)
        self.value[self.pos] = value.flatten()
        self.log_prob[self.pos] = log_prob

    def add_outcome(self, step: DeviceStep) -> None:
        """Store the outputs of the step, and advance to the next slot."""
        self.reward[self.pos] = step.reward
        self.done[self.pos] = step.terminated | step.truncated
        self.timed_out[self.pos] = step.truncated & ~step.terminated
        self.final_obs[self.pos] = step.final_obs
        self.episode_return[self.pos] = step.episode_return
        self.episode_length[self.pos] = step.episode_length
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def compute_returns_and_advantage(self, last_values: Tensor, predict_values: Callable[[Tensor], Tensor]) -> None:
        """Generalised advantage estimation (Schulman et al. 2015, arXiv 1506.02438), as SB3 computes it.

        The reward of a step at a time limit is increased by the discounted value of the final observation.

        Args:
            last_values: float32 (n,) or (n, 1), values of the observations after the last step.
            predict_values: function from observations (m, F) to values, float32 (m, 1).
        """
        self.reward[self.timed_out] += self.gamma * predict_values(self.final_obs[self.timed_out]).flatten()
        next_value, trace = last_values.flatten(), torch.zeros_like(self.reward[0])
        for t in reversed(range(self.buffer_size)):
            going = 1.0 - self.done[t].float()
            delta = self.reward[t] + self.gamma * next_value * going - self.value[t]
            trace = delta + self.gamma * self.gae_lambda * going * trace
            self.advantage[t] = trace
            next_value = self.value[t]

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """Yield minibatches of all transitions in random order; a single one if ``batch_size`` is None."""
        order = torch.randperm(self.buffer_size * self.n_envs, device=self.device)
        for batch in order.split(len(order) if batch_size is None else batch_size):
            yield self._get_samples(batch)

    @property
    def values(self) -> np.ndarray:
        """Host copy of the values, float32 (T, n), which PPO reads to log the explained variance."""
        return self.value.cpu().numpy()

    @property
    def returns(self) -> np.ndarray:
        """Host copy of the returns, advantage plus value, float32 (T, n), which PPO reads for the same purpose."""
        return (self.advantage + self.value).cpu().numpy()

    def last_episodes(self, count: int) -> list[dict[str, Any]]:
        """Return the last ``count`` episodes that ended in the rollout, in order: return ``r`` and length ``l``."""
        ended = self.done.nonzero()[-count:].unbind(1)
        returns, lengths = self.episode_return[ended].tolist(), self.episode_length[ended].tolist()
        return [{"r": r, "l": steps} for r, steps in zip(returns, lengths, strict=True)]

    def _get_samples(self, batch_inds: Any, env: Any = None) -> RolloutBufferSamples:
        slabs = (self.obs, self.action, self.value, self.log_prob, self.advantage)
        obs, action, value, log_prob, advantage = (slab.flatten(0, 1)[batch_inds] for slab in slabs)
        return RolloutBufferSamples(obs, action.float(), value, log_prob, advantage, advantage + value)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros((self.buffer_size, self.n_envs, *shape), dtype=dtype, device=self.device)


def _env_and_device(env: Any, device: torch.device | str) -> tuple[Any, torch.device | str]:
    """Return the env as a ``VecEnv``, and the device; ``"auto"`` means the env's device."""
    if isinstance(env, VectorEnv):
        env = Sb3VecEnv(env)
    return env, env.device if isinstance(env, Sb3VecEnv) and device == "auto" else device


class GpuPPO(PPO):
    """SB3's ``PPO`` without a copy to the host in its rollouts.

    Arguments, ``train()``, ``predict()``, saving and logs are SB3's. Policy and rollout are on the env's device; the host
    reads the statistics of episodes once a rollout. ``locals`` of callbacks hold tensors on the device: ``obs_tensor,
    actions, values, log_probs, new_obs, rewards, dones``; there are no ``infos``.

    Args:
        policy: policy argument of ``PPO``.
        env: an ``Sb3VecEnv``, or an env that it accepts; None to load a model for ``predict()``.
        device: device of the policy; ``"auto"`` means the env's.
        kwargs: further arguments of ``PPO``.

    Raises:
        ParameterError: the env is of another kind or wrapped, or the rollout buffer is of another kind. Their data would be on
            the host.
        DeviceError: policy and env are on different devices; raised by ``learn()``.
    """

    def __init__(self, policy: Any, env: Any, *, device: torch.device | str = "auto", **kwargs: Any) -> None:
        env, device = _env_and_device(env, device)
        buffer_class = kwargs.setdefault("rollout_buffer_class", GpuRolloutBuffer)
        if not isinstance(buffer_class, type) or not issubclass(buffer_class, GpuRolloutBuffer):
            got = getattr(buffer_class, "__name__", abbreviated(buffer_class))
            raise ParameterError(f"rollout_buffer_class must be a GpuRolloutBuffer, got {got}.")
        super().__init__(policy, env, device=device, **kwargs)

    @classmethod
    def load(cls, path: Any, env: Any = None, device: torch.device | str = "auto", *args: Any, **kwargs: Any) -> GpuPPO:
        """Load a model as ``PPO.load()`` does; ``"auto"`` means the device of ``env``.

        Without ``env``, ``"auto"`` means the current GPU, as in SB3. The optimiser's step counts would stay on it, and Adam
        raises an error for step counts on another device. So give ``device`` if ``set_env()`` sets the env later.
        """
        return super().load(path, *_env_and_device(env, device), *args, **kwargs)

    def collect_rollouts(self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        """Fill the buffer, as ``PPO`` does; return False if a callback stops the training."""
        env = self._wrap_env(env)
        if env.device != self.policy.device:
            raise DeviceError(f"the env is on {env.device} and the policy on {self.policy.device}; use one device for both.")
        to_env_actions = self._action_conversion()
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        if self.use_sde:
            self.policy.reset_noise(env.num_envs)
        callback.on_rollout_start()
        for n_steps in range(n_rollout_steps):
            obs_tensor = env.last_obs
            with torch.no_grad(), _unchecked_distributions():
                if self.use_sde and self.sde_sample_freq > 0 and n_steps % self.sde_sample_freq == 0:
                    self.policy.reset_noise(env.num_envs)
                actions, values, log_probs = self.policy(obs_tensor)
            rollout_buffer.add_decision(obs_tensor, actions, values, log_probs)  # before the step, which may overwrite obs_tensor
            step = env.step_on_device(to_env_actions(actions))
            new_obs, rewards, dones = step.obs, step.reward, step.terminated | step.truncated
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            rollout_buffer.add_outcome(step)
        with torch.no_grad():
            rollout_buffer.compute_returns_and_advantage(self.policy.predict_values(new_obs), self.policy.predict_values)
        if self.ep_info_buffer is not None:
            self.ep_info_buffer.extend(rollout_buffer.last_episodes(self._stats_window_size))
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    @staticmethod
    def _wrap_env(env: Any, verbose: int = 0, monitor_wrapper: bool = True) -> Sb3VecEnv:
        if isinstance(env, VectorEnv):
            return Sb3VecEnv(env)
        if not isinstance(env, Sb3VecEnv):
            raise ParameterError(f"GpuPPO needs a bare Sb3VecEnv, because wrappers work on the host; got {type(env).__name__}.")
        return env

    def _maybe_recommend_cpu(self, mlp_class_name: str = "ActorCriticPolicy") -> None:
        """Do nothing: SB3's advice to use the CPU for small networks is for envs on the CPU."""

    def _action_conversion(self) -> Callable[[Tensor], Tensor]:
        """Return the function from the policy's actions to the env's: SB3's clipping or, for squashed actions, its scaling."""
        space = self.action_space
        if not isinstance(space, Box):
            return lambda actions: actions
        low, high = (torch.as_tensor(bound, device=self.device) for bound in (space.low, space.high))
        if self.policy.squash_output:
            return lambda actions: low + 0.5 * (actions + 1.0) * (high - low)
        return lambda actions: actions.clamp(low, high)


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """Turn off the argument checks of torch's distributions, each of which waits for the device."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
