"""Makes the PPO of a policy, with kernels of its own where they fit."""

from __future__ import annotations

import dataclasses
import functools

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.ppo.backend import TorchBackend
from gpu_vecenv.train.algorithms.ppo.sequences import RecurrentBackend
from gpu_vecenv.train.config import PPOConfig, bootstraps
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.eligibility import fused_sizes, host_sizes
from gpu_vecenv.train.fused.host_update import HostBackend
from gpu_vecenv.train.fused.recurrent_update import FusedRecurrentBackend
from gpu_vecenv.train.fused.update import FusedBackend
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.storage.policy_rows import PolicyRows


def why_not_fused(policy: Policy, setup: Setup) -> str:
    """Return why a policy has no fused kernels; empty if it has them."""
    if not setup.fused:
        return "the run does not want them"
    sizes = host_sizes(policy) if setup.device.type == "cpu" else fused_sizes(policy, setup.device)
    return sizes if isinstance(sizes, str) else ""


def require_sequences(policy: Policy, options: PPOConfig, rows: PolicyRows) -> None:
    """Check the options of sequences.

    Raises:
        ConfigError: the policy has no state and an option of sequences, or a state and fewer sequences than minibatches.
    """
    length = options.sequence_length
    if policy.state_shape is None:
        if length is not None:
            expected = f"expected None for the policy {policy.name!r}, which has no state and learns from single transitions"
            raise ConfigError(f"sequence_length: {expected}, got {length}; a memory gives it one, NetworkConfig(memory='gru')")
        return
    sequences = options.num_steps // (length or options.num_steps) * rows.num_samples
    if options.num_minibatches > sequences:
        where = f"{sequences:,} sequences of {length or options.num_steps:,} steps in a rollout"
        expected = f"expected at most the {where} for the policy {policy.name!r}, which has a state"
        raise ConfigError(f"num_minibatches: {expected}, got {options.num_minibatches:,}")


def make_ppo(policy: Policy, options: PPOConfig, setup: Setup) -> PPO:
    """Return the algorithm of a policy; see ``register_algorithm()``.

    Raises:
        ConfigError: see ``require_sequences()``.
    """
    require_sequences(policy, options, setup.rows)
    options = dataclasses.replace(options, bootstrap_at_time_limit=bootstraps(options.bootstrap_at_time_limit, setup.spec))
    reason = why_not_fused(policy, setup)
    by_torch, fused = (TorchBackend, FusedBackend) if policy.state_shape is None else (RecurrentBackend, FusedRecurrentBackend)
    fused = HostBackend if setup.device.type == "cpu" else fused
    backend = by_torch if reason else functools.partial(fused, shares_gpu=setup.shares_gpu)
    ppo = PPO(policy, options, setup.rows.shape, setup.seed, setup.device, backend, setup.schedule_steps, setup.part)
    ppo.not_fused = reason
    return ppo
