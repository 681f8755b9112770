"""Checks of policies: sizes of the networks that the fused update takes, and reasons why it does not take others."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import nn

from gpu_vecenv.backend.trainer_programs import MOST_HOST_ENTRIES, MOST_HOST_LAYERS
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.arguments import MAX_LAYERS
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes
from gpu_vecenv.train.fused.tile_plan import ACTIVATIONS, LARGEST_HALF, Sizes
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.policies.memory import Gru, Recurrent
from gpu_vecenv.train.policies.networks import FeedForward

MAX_HIDDEN, MAX_OUTPUTS, MAX_ENTRIES = 256, 128, 16
"""Units of a hidden layer, outputs and entries of an action."""

MAX_WHOLE = 128
"""Units of a hidden layer of a network that is not split."""

MAX_LAST, HEAD_COLUMNS = 128, (64, MAX_OUTPUTS)
"""Units of the last hidden layer below many heads, and outputs of a chunk of heads: the least number with room for each entry."""

MEMORY_UNITS = (32, 128)
"""Least and most units of a memory."""

FIRST_CAPABILITY = (8, 0)
"""GPUs before Ampere have no product of 16 x 16 and 16 x 8 numbers of 16 bits."""

OTHER_BYTES = 1024
"""Bytes of a block's shared memory that are kept free for static arrays of the kernels."""

CPU_BYTES = 227 * 1024 - OTHER_BYTES
"""The CPU has no limit of its own; with that of Hopper it takes the same policies."""

SHARED_PART = "its observations have a shared part"
"""Reason why kernels do not take a policy."""

_MODULES = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.ELU: "elu", nn.SiLU: "silu"}


def fused_sizes(policy: Policy, device: torch.device) -> Sizes | str:
    """Return the sizes of a policy's networks, or the reason why the fused update does not take the policy."""
    sizes = _built_in(policy)
    if isinstance(sizes, str):
        return sizes
    built_in = cast(ActorCritic, policy)
    spaces = [space for space in (built_in.group.observation, built_in.group.shared) if space is not None]
    if built_in.obs_norm is None and (largest := max(map(_largest_bound, spaces))) > LARGEST_HALF:
        return f"its observations are not normalised and reach {largest:g}, beyond {LARGEST_HALF:,.0f}, the largest of 16 bits"
    if len(sizes.hidden) > MAX_LAYERS - 1 or not isinstance(sizes, RecurrentSizes) and max(sizes.hidden) > MAX_HIDDEN:
        return f"its hidden sizes are {list(sizes.hidden)}, not one to three of at most {MAX_HIDDEN}"
    if sizes.activation not in ACTIVATIONS:
        return f"its activation is {sizes.activation}, not {', '.join(ACTIVATIONS[:-1])} or {ACTIVATIONS[-1]}"
    if sizes.outputs > MAX_OUTPUTS or sizes.entries > MAX_ENTRIES:
        sizes = _with_chunks(sizes)
    if isinstance(sizes, str):
        return sizes
    if isinstance(sizes, RecurrentSizes) and sizes.may_lack_choice:
        return "its memory is shared, and masks can leave its actor without a choice"
    return _fitted(sizes, device)


def _with_chunks(sizes: Sizes) -> Sizes | str:
    """Return the sizes of an actor with many heads, whose last layer is computed in chunks, or the reason why it does not fit."""
    if isinstance(sizes, RecurrentSizes) or sizes.choices is None:
        have = f"{sizes.entries} entries and {sizes.outputs} outputs"
        return f"its actions have {have}, not at most {MAX_ENTRIES} and {MAX_OUTPUTS}"
    if max(sizes.choices) > MAX_OUTPUTS:
        return f"an entry of its actions has {max(sizes.choices)} choices, not at most {MAX_OUTPUTS}"
    if len(sizes.hidden) < 2 or sizes.hidden[-1] > MAX_LAST:
        expected = f"two or three with a last one of at most {MAX_LAST}, as its {sizes.outputs} outputs need"
        return f"its hidden sizes are {list(sizes.hidden)}, not {expected}"
    return replace(sizes, head_columns=next(columns for columns in HEAD_COLUMNS if columns >= max(sizes.choices)))


def host_sizes(policy: Policy) -> Sizes | str:
    """Return the sizes of a policy's networks, or the reason why the update on the CPU does not take the policy."""
    if policy.state_shape is not None:
        return "a memory has fused kernels on CUDA alone"
    sizes = _built_in(policy)
    if isinstance(sizes, str):
        return sizes
    if sizes.shared:
        return SHARED_PART
    if len(sizes.hidden) >= MOST_HOST_LAYERS:
        return f"it has {len(sizes.hidden)} hidden layers, not one to {MOST_HOST_LAYERS - 1}"
    if sizes.entries > MOST_HOST_ENTRIES:
        return f"its actions have {sizes.entries} entries, not at most {MOST_HOST_ENTRIES}"
    return sizes


def _built_in(policy: Policy) -> Sizes | str:
    """Return the sizes of a policy with a built-in network and rows of its own, or the reason why it is another one."""
    if policy.critic_sources:
        return "its critic has inputs of its own"
    if policy.state_shape is not None and type(policy.network) is not Recurrent:
        return "it has a state"
    if type(policy) is not ActorCritic or type(policy.network) not in (FeedForward, Recurrent):
        return "its network is not the built-in one"
    if policy.ids is not None:
        return "its network reads the numbers of agents"
    if any(p.dtype != torch.float32 or not p.requires_grad or not p.is_contiguous() for p in policy.parameters()):
        return "its weights are not all float32 and trained"
    sizes = _recurrent(policy) if isinstance(policy.network, Recurrent) else _feed_forward(policy)
    if isinstance(sizes, str) or sizes.choices is None:
        return sizes
    covered = policy.masked or ()
    before = itertools.accumulate((sizes.choices[entry] for entry in covered), initial=0)
    first = dict(zip(covered, before, strict=False))
    return replace(sizes, mask_first=tuple(first.get(entry, -1) for entry in range(len(sizes.choices))))


def _feed_forward(policy: ActorCritic) -> Sizes | str:
    """Return the sizes of a network without a memory, or the reason why it does not fit."""
    network = cast(FeedForward, policy.network)
    if any(isinstance(layer, nn.Linear) for layer in network.trunk):
        return "its actor and critic share hidden layers"
    if any(isinstance(layer, nn.LayerNorm) for layer in network.actor_layers):
        return "its hidden layers are normalised"
    linear = [layer for layer in network.actor_layers if isinstance(layer, nn.Linear)]
    activations = [layer for layer in network.actor_layers if not isinstance(layer, nn.Linear)]
    hidden = tuple(layer.out_features for layer in linear[:-1])
    if not hidden:
        return "it has no hidden layer"
    if any(isinstance(layer, nn.ELU) and layer.alpha != 1.0 for layer in activations):
        return "its ELU has an alpha that is not 1"
    shared = 0 if policy.group.shared is None else math.prod(policy.group.shared.shape)
    kind, outputs = _MODULES[type(activations[0])], linear[-1].out_features
    return Sizes(linear[0].in_features, hidden, kind, outputs, _choices(policy), shared=shared)


def _recurrent(policy: ActorCritic) -> RecurrentSizes | str:
    """Return the sizes of a GRU and its heads, or the reason why they do not fit."""
    network = cast(Recurrent, policy.network)
    memory, (least, most) = network.memory, MEMORY_UNITS
    if policy.group.shared is not None:
        return SHARED_PART
    if type(memory) is not Gru:
        return f"its memory is no GRU but {type(memory).__name__}"
    layers = [*network.trunk, *network.actor_layers, *network.critic_layers]
    if len([layer for layer in layers if isinstance(layer, nn.Linear)]) > 2:
        return "its network has hidden layers behind the memory"
    if not least <= memory.size <= most:
        return f"its memory has {memory.size} units, not {least} to {most}"
    features, outputs = memory.weight_ih.shape[1], cast(nn.Linear, network.actor_layers[-1]).out_features
    return RecurrentSizes(features, (memory.size,), "tanh", outputs, _choices(policy))


def _choices(policy: ActorCritic) -> tuple[int, ...] | None:
    return None if policy.box is not None else policy.choices


def _largest_bound(space: Box) -> float:
    """Return the size of the largest bound. An infinite one says nothing: an observation that is too large ends the run."""
    bounds = np.abs(np.stack((space.low, space.high)).astype(np.float64))
    return float(bounds[np.isfinite(bounds)].max(initial=0.0))


def _fitted(sizes: Sizes, device: torch.device) -> Sizes | str:
    """Choose the rows of a tile by the memory of a block, and split networks that do not fit as a whole. Wide ones fit last."""
    most = CPU_BYTES
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device) < FIRST_CAPABILITY:
            return f"the GPU has a compute capability below {'.'.join(map(str, FIRST_CAPABILITY))}"
        properties: Any = torch.cuda.get_device_properties(device)
        most = properties.shared_memory_per_block_optin - OTHER_BYTES
    choices: list[Sizes] = [sizes] if isinstance(sizes, RecurrentSizes) else []
    if not choices and not sizes.shared:
        whole = max(sizes.hidden) <= MAX_WHOLE and not sizes.head_columns
        choices = [_with_staged_features(replace(sizes, rows=rows), most) for rows in (128, 64)] if whole else []
        choices += [replace(sizes, split=True, rows=rows) for rows in _split_rows(sizes)] if len(sizes.hidden) > 1 else []
    if not isinstance(sizes, RecurrentSizes):
        choices += [_with_stages(replace(sizes, split=True, wide=True, rows=rows), most) for rows in _split_rows(sizes)]
    needed = 0
    for choice in choices:
        needed = choice.update_memory.shared_bytes
        if needed <= most:
            return choice
    return f"its layers need {needed:,} bytes of shared memory, and a block has {most:,} for them"


def _with_staged_features(sizes: Sizes, most: int) -> Sizes:
    """Return the sizes with room for many features of the next rows, if as many blocks of a multiprocessor have memory for it."""
    more = replace(sizes, staged=not sizes.holds_features)
    memory = more.update_memory
    return more if memory.shared_bytes <= most and memory.resident == sizes.update_memory.resident else sizes


def _with_stages(sizes: Sizes, most: int) -> Sizes:
    """Return the sizes of a wide network with more stages, if two blocks of a multiprocessor have memory for them."""
    more = replace(sizes, stages=3)
    return more if 2 * more.update_memory.shared_bytes <= most else sizes


def _split_rows(sizes: Sizes) -> tuple[int, ...]:
    """Return the rows of a tile of a split network to choose from."""
    return (128, 64) if sizes.head_columns else (128,)


def require_host(policy: Policy, device: torch.device) -> Sizes:
    """Return the sizes of a policy's networks on the CPU; see ``require_fused()``."""
    return _required(host_sizes(policy))


def require_fused(policy: Policy, device: torch.device) -> Sizes:
    """Return the sizes of a policy's networks.

    Raises:
        ConfigError: the fused update does not take the policy; the message says why.
    """
    return _required(fused_sizes(policy, device))


def _required(sizes: Sizes | str) -> Sizes:
    if isinstance(sizes, str):
        raise ConfigError(f"fused update: expected a policy that fits its kernels, but {sizes}")
    return sizes
