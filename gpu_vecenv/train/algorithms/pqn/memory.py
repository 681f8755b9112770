"""Bytes that PQN takes on its device beside policies and rollouts."""

from __future__ import annotations

import math

from torch import nn

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.masked_radam import MAX_STEPS
from gpu_vecenv.train.algorithms.pqn.pqn import MAX_CHUNK_ROWS
from gpu_vecenv.train.algorithms.pqn.teams import Teams
from gpu_vecenv.train.config import PQNConfig
from gpu_vecenv.train.policies.layer_norm import MOST_SUMS
from gpu_vecenv.train.policies.q_policy import QPolicy


def pqn_memory(policy: QPolicy, options: PQNConfig, setup: Setup) -> tuple[int, int]:
    """Return bytes of the optimiser, and the most bytes that an update takes at a time beside its samples.

    Networks are counted by their linear layers, which are all that the built-in one has beside norms and nonlinearities.
    """
    weights = sum(x.nbytes for x in policy.parameters() if x.requires_grad)
    lasting = 2 * weights + 8 * (MAX_STEPS + 1)  # moments, and the table of factors
    rows, steps, teams = setup.rows, options.num_steps, Teams(setup.rows, options.mixing)
    transitions, units = steps * teams.count * teams.width, steps * teams.count
    # Floats of advantage, target and value, values and rewards twice, final values, and 12 flags; order and place of each unit.
    transition_bytes = (4 * 8 + 12) * transitions + (8 + 1 + 8) * units
    features = sum(math.prod(part.shape) for part in (policy.group.observation, policy.group.shared) if part is not None)
    widths = [layer.out_features for layer in policy.network.modules() if isinstance(layer, nn.Linear)]
    normed = any(isinstance(layer, nn.LayerNorm) for layer in policy.network.modules())
    # A minibatch has observations, normalised and cleaned, and what layers keep for the backward pass: their nonlinear outputs,
    # and the inputs of layer norms. Two gradients of the widest layer are alive at a time.
    per_row = 3 * features + (2 if normed else 1) * sum(widths) + 2 * max(widths, default=0)
    minibatch = -(-units // options.num_minibatches) * teams.width
    chunk = min(transitions + rows.num_samples, max(MAX_CHUNK_ROWS, transitions // steps))
    learning, valuing = 4 * minibatch * per_row + weights, 4 * chunk * (features + 2 * max(widths, default=0))
    if normed and setup.device.type == "cuda":  # moments of rows, and sums for weight and bias of tiles of a norm
        learning += 4 * 2 * (minibatch * len(widths) + min(minibatch, MOST_SUMS) * max(widths))
    return lasting, transition_bytes + max(learning, valuing)
