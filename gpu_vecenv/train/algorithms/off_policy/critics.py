"""Critics of off-policy algorithms, computed as one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from gpu_vecenv.train.algorithms.off_policy.dense import Dense
from gpu_vecenv.train.config import NetworkConfig

ALIGNED = 32
"""Numbers that each weight is rounded up to, so that kernels read it in whole sectors."""
_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "elu": nn.functional.elu, "silu": nn.functional.silu}


class Critics(nn.Module):
    """n feed-forward networks of equal shape, whose layers are one product each.

    All weights lie in one array, ``flat``, so that target networks follow by one operation.
    """

    def __init__(self, count: int, inputs: int, outputs: int, network: NetworkConfig, seed: int, device: torch.device):
        """Draw the weights on the CPU, so that they do not depend on the device; see ``uniform_layers()``.

        Args:
            count: n.
            inputs: features of an input.
            outputs: outputs of each network.
            network: hidden layers.
            seed: seed of the weights.
            device: device of the weights.
        """
        super().__init__()
        generator = torch.Generator("cpu").manual_seed(seed % 2**63)
        parts, self.activation = [], _ACTIVATIONS[network.activation]
        self.parts_of_layer = 4 if network.layer_norm else 2
        for number, (size_in, size_out) in enumerate(self._layers(inputs, outputs, network)):
            bound = 1 / math.sqrt(size_in)
            for rows in (size_in, 1):
                part = torch.empty(count, rows, size_out, dtype=torch.float32, device="cpu")
                parts.append(part.uniform_(-bound, bound, generator=generator))
            if network.layer_norm and number < len(network.hidden_sizes):
                parts += [torch.full_like(parts[-1], value) for value in (1.0, 0.0)]  # gain and offset
        sizes = [-(-part.numel() // ALIGNED) * ALIGNED for part in parts]
        self.flat = torch.zeros(sum(sizes), dtype=torch.float32, device=device)
        self.layers = nn.ParameterList()
        for part, place in zip(parts, self.flat.split(sizes), strict=True):
            weight = place[: part.numel()].view(part.shape)
            weight.copy_(part)
            self.layers.append(nn.Parameter(weight))
        takes = network.activation == "relu" and not network.layer_norm and device.type == "cpu"
        self.dense = Dense(list(self.layers)) if takes else None

    @staticmethod
    def _layers(inputs: int, outputs: int, network: NetworkConfig) -> Sequence[tuple[int, int]]:
        return tuple(pairwise((inputs, *network.hidden_sizes, outputs)))

    @classmethod
    def weights_and_units(cls, count: int, inputs: int, outputs: int, network: NetworkConfig) -> tuple[int, int]:
        """Return how many weights n networks have, and how many outputs of layers for one input."""
        layers, norms = cls._layers(inputs, outputs, network), 2 * sum(network.hidden_sizes) * network.layer_norm
        return count * (sum((a + 1) * b for a, b in layers) + norms), count * sum(b for _, b in layers)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs for inputs (R, inputs), float32 (n, R, outputs)."""
        if self.dense is not None and Dense.takes(x):
            return self.dense(x)
        return self._outputs(x, list(self.layers))

    def climbed(self, x: Tensor, count: int | None = None) -> Tensor:
        """Return the outputs of the first ``count`` networks, or of all, with derivatives by the inputs alone."""
        if self.dense is not None and Dense.takes(x):
            return self.dense(x, False, count)
        return self._outputs(x, [part.detach()[:count] for part in self.layers])

    def _outputs(self, x: Tensor, weights: list[Tensor]) -> Tensor:
        size = self.parts_of_layer
        x = x.expand(len(weights[0]), -1, -1)
        for i in range(0, len(weights) - 2, size):
            x = torch.baddbmm(weights[i + 1], x, weights[i])
            if size == 4:
                x = torch.addcmul(weights[i + 3], nn.functional.layer_norm(x, x.shape[-1:]), weights[i + 2])
            x = self.activation(x)
        return torch.baddbmm(weights[-1], x, weights[-2]).float()

    @torch.no_grad()
    def follow(self, other: Critics, share: Tensor) -> None:
        """Move the weights towards others by a share of the difference, float32 ()."""
        self.flat.lerp_(other.flat, share)
