"""Bytes that SAC, TD3 and DDPG take on their device beside policies and rollouts."""

from __future__ import annotations

import math

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.off_policy.critics import Critics
from gpu_vecenv.train.config.off_policy import OffPolicyConfig
from gpu_vecenv.train.config.sac import SACConfig
from gpu_vecenv.train.config.td3 import DDPGConfig, TD3Config
from gpu_vecenv.train.policies.actor import ActorPolicy
from gpu_vecenv.train.storage.replay import replay_bytes
from gpu_vecenv.train.storage.sizes import bytes_of

NETWORKS = 4
"""Arrays as large as the critics: the critics, their targets, and two moments of Adam."""
IN_FLIGHT = 3
"""Arrays as large as the outputs of all layers in a step: outputs, results of activations, and gradients."""


def sac_memory(policy: ActorPolicy, options: SACConfig, setup: Setup) -> tuple[int, int]:
    """Return the bytes that last, and the most bytes that an update takes at a time."""
    group = policy.group
    if group.continuous:
        return _memory(policy, options, setup, (2, policy.num_features + group.num_entries, options.num_atoms), 2)
    return _memory(policy, options, setup, (2, policy.num_features, sum(group.choices)), 0)


def td3_memory(policy: ActorPolicy, options: TD3Config | DDPGConfig, setup: Setup) -> tuple[int, int]:
    """Return the bytes that last, and the most bytes that an update takes at a time."""
    inputs = policy.num_features + policy.group.num_entries
    lasting, update = _memory(policy, options, setup, (options.num_critics, inputs, options.num_atoms), 1)
    return lasting + bytes_of(policy.network.state_dict()), update  # the target policy


def _memory(
    policy: ActorPolicy, options: OffPolicyConfig, setup: Setup, shape: tuple[int, int, int], normals: int
) -> tuple[int, int]:
    """Return both numbers for critics of a shape: their number, inputs and outputs."""
    weights, units = Critics.weights_and_units(*shape, setup.network)
    moments = 2 * sum(x.nbytes for x in policy.parameters())
    replay = replay_bytes(setup.rows, options.replay_size, options.n_steps, options.priority_exponent)
    rows = num_rows(options, setup)
    actor = sum(x.shape[0] for x in policy.network.parameters() if x.dim() > 1)
    # A batch with both observations, these again as rows and with actions, and the units of critics and policy.
    floats = 6 * policy.num_features + 8 * policy.group.num_entries + IN_FLIGHT * (units + actor)
    atoms = shape[2] ** 2 if options.num_atoms > 1 else 0
    noise = normals * options.gradient_steps * policy.group.num_entries
    return 4 * NETWORKS * weights + moments + replay, 4 * rows * (floats + 2 * atoms + noise) + 4 * 2 * weights


def num_rows(options: OffPolicyConfig, setup: Setup) -> int:
    """Return the rows of a batch."""
    return options.batch_size * math.prod(setup.rows.shape[1:])
