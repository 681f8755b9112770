"""Bytes that PQN takes on its device beside policies and rollouts."""

from __future__ import annotations

import math

from torch import nn

from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.masked_radam import MAX_STEPS
from gpu_vecenv.train.algorithms.pqn.pqn import MAX_CHUNK_ROWS
from gpu_vecenv.train.algorithms.pqn.teams import Teams
from gpu_vecenv.train.config import PQNConfig
from gpu_vecenv.train.policies.q_policy import QPolicy


def pqn_memory(policy: QPolicy, options: PQNConfig, setup: Setup) -> tuple[int, int]:
    """Return bytes of the optimiser, and the most bytes that an update takes at a time beside its samples."""
    weights = sum(x.nbytes for x in policy.parameters() if x.requires_grad)
    kept = 2 * weights + 8 * (MAX_STEPS + 1)  # moments, and the table of factors
    rows, steps, teams = setup.rows, options.num_steps, Teams(setup.rows, options.mixing)
    transitions, units = steps * teams.count * teams.width, steps * teams.count
    # Floats of advantage, target and value, values and rewards twice, final values, and 12 flags; order and place of each unit.
    numbers = (4 * 8 + 12) * transitions + (8 + 1 + 8) * units
    features = sum(math.prod(part.shape) for part in (policy.group.observation, policy.group.shared) if part is not None)
    outputs = sum(policy.choices) if isinstance(policy.network, nn.Linear) else _outputs(policy.network)
    minibatch = -(-units // options.num_minibatches) * teams.width
    chunk = min(transitions + rows.num_samples, max(MAX_CHUNK_ROWS, transitions // steps))
    # A minibatch has observations, also normalised, the outputs of layers for the backward pass, and their gradients.
    learning = 4 * minibatch * (3 * features + outputs + 2 * _largest(policy.network)) + weights
    valuing = 4 * chunk * (features + 2 * _largest(policy.network))
    return kept, numbers + max(learning, valuing)


def _widths(network: nn.Module) -> list[int]:
    """Return the features that each layer of a network returns for a row, as its weights tell; 0 layers for none that tell."""
    return [layer.weight.shape[0] for layer in network.modules() if isinstance(layer, (nn.Linear, nn.LayerNorm))]


def _outputs(network: nn.Module) -> int:
    """Return the floats of a row that the backward pass reads: what each layer returns, and each nonlinearity after it."""
    return 2 * sum(_widths(network))


def _largest(network: nn.Module) -> int:
    """Return the features of the widest layer."""
    return max(_widths(network), default=0)
