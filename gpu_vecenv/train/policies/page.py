"""Policies in the form of pages: sizes, small arrays and weights for ``gpu_vecenv/web/policy.js``."""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor import ActorPolicy, Deterministic, SoftChoices, SquashedGaussian
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.box_scale import BoxScale
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.policies.memory import Recurrent
from gpu_vecenv.train.policies.networks import FeedForward, QNetwork
from gpu_vecenv.train.policies.observations import ObservationNorm
from gpu_vecenv.train.policies.q_policy import QPolicy
from gpu_vecenv.train.policies.random import RandomPolicy
from gpu_vecenv.train.returns.normalize import RunningNorm
from gpu_vecenv.web.plan import filled
from gpu_vecenv.web.policy_program import ACTIVATIONS, HEADS

Json = dict[str, Any]


class PagePolicy(NamedTuple):
    """A policy in the form of pages."""

    numbers: dict[str, float]
    """Members of the argument struct of ``policy.cu`` that are numbers."""
    arrays: Json
    """Its small arrays as those of a plan, see ``make_plan()``."""
    weights: np.ndarray
    """Its weights, float32 (n,), in the order of ``policy.cu``."""


def page_policy(policy: Policy, group: Any, name: str) -> PagePolicy:
    """Return a policy in the form of pages. Its draws and its normalisation are those of ``Policy.act()``.

    Args:
        policy: a policy with a built-in feed-forward network, or the one that acts at random.
        group: agents with the spaces of the policy.
        name: its name, for errors.

    Raises:
        ConfigError: a policy of another kind.
    """
    entries, choices = group.num_entries, list(group.choices)
    layers = _layers(policy, name)
    sizes = _sizes(layers)
    head = _head(policy, group)
    columns = sizes[-1] if sizes else (0 if group.continuous else sum(choices))
    features = group.num_shared + group.num_features
    offset, scale, shift, clip = _normalisation(policy, features)
    ids = getattr(policy, "ids", None)
    masked_from = dict(zip(group.masked, accumulate(group.masked_choices, initial=0), strict=False))
    arrays: dict[str, Any] = {
        "offset": offset, "scale": scale, "shift": shift, "sizes": np.array(sizes or [columns], np.int32),
        "first": np.array([*accumulate(choices, initial=0)][:-1] if choices else [0] * entries, np.int32),
        "choices": np.array(choices or [0] * entries, np.int32),
        "mask_first": np.array([masked_from.get(entry, -1) for entry in range(entries)], np.int32),
        **_numbers_of_box(policy, group),
    }  # fmt: skip
    numbers = {
        "features": features, "num_ids": 0 if ids is None else ids.ids.numel(), "layers": max(0, len(sizes) - 1),
        "widest": max([(size + 3) // 4 * 4 for size in sizes] + [columns, 4]), "columns": columns, "entries": entries,
        "mask_columns": group.num_choices, "activation": ACTIVATIONS.index(_activation(layers)),
        "layer_norm": int(any(isinstance(layer, nn.LayerNorm) for layer in layers)), "head": HEADS.index(head), "clip": clip,
    }  # fmt: skip
    return PagePolicy(numbers, {key: filled(values) for key, values in arrays.items()}, _weights(layers))


def _layers(policy: Policy, name: str) -> list[nn.Module]:
    """Return the layers from observations to outputs; none for random actions.

    Raises:
        ConfigError: the policy is none of those that a page can have.
    """
    if isinstance(policy, RandomPolicy):
        return []
    network = getattr(policy, "network", None)
    if isinstance(policy, ActorPolicy) and isinstance(network, nn.Sequential):
        return [*network]
    if isinstance(policy, ActorCritic):
        if type(network) is FeedForward:
            return [*network.trunk, *network.actor_layers]
        if type(network) is QNetwork:
            return [*network.layers]
    expected = f"page: expected for policy {name!r} a built-in feed-forward network, or random actions"
    if isinstance(network, Recurrent):
        raise ConfigError(f"{expected}, got a network with a memory, which pages do not have")
    if network is None:
        raise ConfigError(f"{expected}, got a function or a scripted policy, whose Python a page cannot run")
    raise ConfigError(f"{expected}, got the network {type(network).__name__}")


def _linear(layers: list[nn.Module]) -> list[nn.Linear]:
    return [layer for layer in layers if isinstance(layer, nn.Linear)]


def _sizes(layers: list[nn.Module]) -> list[int]:
    linear = _linear(layers)
    return [linear[0].in_features, *(layer.out_features for layer in linear)] if linear else []


def _activation(layers: list[nn.Module]) -> str:
    kinds = {nn.Tanh: "tanh", nn.ReLU: "relu", nn.ELU: "elu", nn.SiLU: "silu"}
    return next((kinds[type(layer)] for layer in layers if type(layer) in kinds), "none")


def _head(policy: Policy, group: Any) -> str:
    """Return the name of what the outputs are, one of ``HEADS``."""
    if isinstance(policy, RandomPolicy):
        return "uniform" if group.continuous else "choices"
    if isinstance(policy, QPolicy):
        return "greedy"
    if isinstance(policy, SquashedGaussian):
        return "squashed"
    if isinstance(policy, Deterministic):
        return "tangent"
    return "normal" if group.continuous and not isinstance(policy, SoftChoices) else "choices"


def _normalisation(policy: Policy, features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return offset, scale and shift of each feature, float32 (F,), and the bound of the results; 0 without normalisation."""
    norm = getattr(policy, "obs_norm", None)
    if not isinstance(norm, ObservationNorm):
        zeros, ones = np.zeros(features, np.float32), np.ones(features, np.float32)
        return zeros, ones, zeros, 0.0
    parts = [part for part in norm.parts.values() if isinstance(part, RunningNorm)]  # that of the shared part comes first
    offset, scale, shift = (
        np.concatenate([_array(getattr(part, name)).reshape(-1) for part in parts]) for name in ("offset", "scale", "shift")
    )
    return offset, scale, shift, float(parts[0].clip)


def _numbers_of_box(policy: Policy, group: Any) -> dict[str, np.ndarray]:
    """Return what a head of numbers reads, float32 (entries,) each."""
    entries = group.num_entries
    zeros, ones = np.zeros(entries, np.float32), np.ones(entries, np.float32)
    if not isinstance(group.action, Box):
        return {"log_std": zeros, "centre": zeros, "half": ones, "low": zeros, "high": zeros}
    drawn = group.random_action if isinstance(policy, RandomPolicy) and group.random_action is not None else group.action
    scale = BoxScale(group.action)
    log_std = _array(policy.log_std) if isinstance(policy, ActorCritic) else zeros
    return {
        "log_std": log_std, "centre": _array(scale.centre), "half": _array(scale.half_width),
        "low": drawn.low.reshape(-1).astype(np.float32), "high": drawn.high.reshape(-1).astype(np.float32),
    }  # fmt: skip


def _weights(layers: list[nn.Module]) -> np.ndarray:
    """Return the weights in the order of ``policy.cu``; rows of outputs are padded to a multiple of four."""
    parts: list[np.ndarray] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            rows = [layer.bias, *layer.weight.T]
        elif isinstance(layer, nn.LayerNorm):
            rows = [layer.weight, layer.bias]
        else:
            continue
        size = len(rows[0])
        padded = np.zeros((len(rows), (size + 3) // 4 * 4), np.float32)
        padded[:, :size] = [_array(row) for row in rows]
        parts.append(padded.reshape(-1))
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _array(tensor: Tensor) -> np.ndarray:
    values: np.ndarray = tensor.detach().to("cpu", torch.float32).numpy()
    return values
