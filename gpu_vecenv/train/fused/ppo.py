"""Makes the PPO of a policy, with kernels of its own where they fit."""

from __future__ import annotations

import dataclasses
import functools

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.ppo_backend import TorchBackend
from gpu_vecenv.train.config import PPOConfig, bootstraps
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.eligibility import fused_sizes
from gpu_vecenv.train.fused.update import FusedBackend
from gpu_vecenv.train.policies.contract import Policy


def why_not_fused(policy: Policy, setup: Setup) -> str:
    """Return why a policy has no fused kernels; empty if it has them."""
    if not setup.fused:
        return "the run does not want them"
    if setup.rows.form != "rows":
        return f"its samples are {setup.rows.form}"
    sizes = fused_sizes(policy, setup.device)
    return sizes if isinstance(sizes, str) else ""


def make_ppo(policy: Policy, options: PPOConfig, setup: Setup) -> PPO:
    """Return the algorithm of a policy; see ``register_algorithm()``.

    Raises:
        ConfigError: the policy has a state. Minibatches of transitions would take them as independent of earlier steps.
    """
    if policy.state_shape is not None:
        raise ConfigError(
            f"policy {policy.name!r}: PPO learns from single transitions; expected a policy without a state, or an algorithm "
            f"that learns from sequences, got a state of {policy.state_shape}"
        )
    options = dataclasses.replace(options, bootstrap_at_time_limit=bootstraps(options.bootstrap_at_time_limit, setup.spec))
    reason = why_not_fused(policy, setup)
    backend = TorchBackend if reason else functools.partial(FusedBackend, shares_gpu=setup.shares_gpu)
    ppo = PPO(policy, options, setup.rows.shape, setup.seed, setup.device, backend, setup.schedule_steps)
    ppo.not_fused = reason
    return ppo
