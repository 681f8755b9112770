"""Outputs of critics: the expected return, or a distribution of returns over atoms."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from gpu_vecenv.train.config.off_policy import OffPolicyConfig


class Head(Protocol):
    """Meaning of the outputs of n critics, float32 (n, R, outputs)."""

    outputs: int
    """Outputs of a critic."""

    def mean(self, outputs: Tensor) -> Tensor:
        """Return expected returns, float32 (n, R)."""

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float = 0.0) -> Tensor:
        """Return what critics learn: the return of a reward and of the next value, of which the smallest of n counts.

        Args:
            outputs: those of target critics for the next observation and action.
            reward: float32 (R,).
            discount: float32 (R,), factor of the next value; 0 after the end of an episode.
            bonus: float32 (R,), added to the next value.
        """

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each critic and row, float32 (n, R)."""

    def error(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the error of each row, float32 (R,), at least 0, from which its priority follows."""


class ScalarHead:
    """One output, the expected return; the loss is the squared error."""

    outputs = 1

    def mean(self, outputs: Tensor) -> Tensor:
        """See ``Head.mean()``."""
        return outputs.squeeze(-1)

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float = 0.0) -> Tensor:
        """See ``Head.target()``; float32 (R,)."""
        smallest = self.mean(outputs).amin(0)
        return torch.addcmul(reward, discount, smallest if isinstance(bonus, float) and bonus == 0.0 else smallest + bonus)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """See ``Head.loss()``."""
        return (self.mean(outputs) - target).square()

    def error(self, outputs: Tensor, target: Tensor) -> Tensor:
        """See ``Head.error()``: the absolute error, a mean over critics."""
        return (self.mean(outputs) - target).abs().mean(0)


class CategoricalHead:
    """Logits of atoms, which are returns at equal distances (Bellemare et al. 2017, arXiv 1707.06887).

    The smallest of n next values is that of the critic whose distribution has the smallest mean, as in FastTD3 (Seo et al. 2025,
    arXiv 2505.22642). The loss is the cross-entropy.
    """

    def __init__(self, atoms: int, low: float, high: float, device: torch.device):
        """Place the atoms from ``low`` to ``high``."""
        self.outputs, self.low, self.high = atoms, low, high
        self.distance = (high - low) / (atoms - 1)
        self.support = torch.linspace(low, high, atoms, dtype=torch.float32, device=device)

    def mean(self, outputs: Tensor) -> Tensor:
        """See ``Head.mean()``."""
        return torch.softmax(outputs, dim=-1) @ self.support

    def target(self, outputs: Tensor, reward: Tensor, discount: Tensor, bonus: Tensor | float = 0.0) -> Tensor:
        """See ``Head.target()``; probabilities of the atoms, float32 (R, atoms).

        Each atom moves to its return, and its probability is shared by the two atoms beside in proportion to their nearness.
        A sum over pairs of atoms has the same bits in each run, unlike a scatter on a GPU.
        """
        probability = torch.softmax(outputs, dim=-1)
        least = (probability @ self.support).argmin(0)
        chosen = probability.gather(0, least.view(1, -1, 1).expand(1, -1, self.outputs)).squeeze(0)
        shift = reward + discount * bonus
        moved = torch.addcmul(shift.unsqueeze(-1), discount.unsqueeze(-1), self.support).clamp_(self.low, self.high)
        nearness = (1 - (moved.unsqueeze(-1) - self.support).abs_().div_(self.distance)).clamp_(min=0)
        return torch.bmm(chosen.unsqueeze(1), nearness).squeeze(1)

    def loss(self, outputs: Tensor, target: Tensor) -> Tensor:
        """See ``Head.loss()``."""
        return -(target * torch.log_softmax(outputs, dim=-1)).sum(-1)

    def error(self, outputs: Tensor, target: Tensor) -> Tensor:
        """See ``Head.error()``: the loss, a mean over critics."""
        return self.loss(outputs, target).mean(0)


def make_head(options: OffPolicyConfig, device: torch.device) -> Head:
    """Return the head that options describe."""
    if options.num_atoms == 1 or options.value_min is None or options.value_max is None:
        return ScalarHead()
    return CategoricalHead(options.num_atoms, options.value_min, options.value_max, device)
