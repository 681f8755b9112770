"""RAdam whose steps the device can leave out."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.private import multiples, subtract
from gpu_vecenv.train.algorithms.adam_step import AdamStep
from gpu_vecenv.train.algorithms.masked_adam import BETAS, Group, MaskedAdam

MULTIPLES, SUBTRACT = multiples(), subtract()

LEAST_LENGTH = 5.0
"""Length of the moving average up to which a step does not divide by the second moment. The paper has 4, and the authors' code,
torch and optax 5: just above 4 the factor is nearly 0."""

MAX_STEPS = 1 << 15
"""Steps after which the factors of both kinds of steps do not change in float32."""


class MaskedRAdam(MaskedAdam):
    """Rectified Adam (Liu et al. 2020, arXiv 1908.03265, algorithm 2) with clipped gradients; see ``MaskedAdam``.

    After t steps a moving average of squares has the length ``rho_t = rho - 2 t b^t / (1 - b^t)`` with ``rho = 2 / (1 - b) - 1``
    and the decay b. The step of Adam is multiplied by ``sqrt((rho_t - 4)(rho_t - 2) rho / ((rho - 4)(rho - 2) rho_t))``. While
    the length is at most ``LEAST_LENGTH``, in the first five steps, the step is the learning rate times the first moment, which
    corrects its bias. Both factors are a table by t on the device, as the number of steps that were taken is there.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], max_grad_norm: float, eps: float = 1e-8):
        """Set up the optimiser; see ``MaskedAdam``."""
        super().__init__(parameters, max_grad_norm, eps)
        self.factors = torch.tensor([_factors(t) for t in range(MAX_STEPS + 1)], dtype=torch.float32, device=self.rate.device)
        self.learning_rate = torch.zeros_like(self.rate)

    @torch.no_grad()
    def step(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step of the size ``learning_rate``, see ``MaskedAdam.step()``."""
        norm, taken = super().step(mask)
        if self.by_kernels:
            return norm, taken
        of_momentum = self.momentum * taken
        for group in self._groups:
            SUBTRACT(group.parameters, MULTIPLES(group.m, of_momentum))
        return norm, taken

    def kernels_of(self, group: Group) -> AdamStep:
        """See ``MaskedAdam.kernels_of()``."""
        return AdamStep(*group, self.learning_rate, self.max_grad_norm, self.eps, self.factors)

    def count_step(self, taken: Tensor) -> None:
        """See ``MaskedAdam.count_step()``."""
        super().count_step(taken)
        factors = self.factors.index_select(0, self._steps[:1].long().clamp_(max=MAX_STEPS)).view(2) * self.learning_rate
        self.rate.copy_(factors[0])
        self.momentum = factors[1]


def _factors(t: int) -> tuple[float, float]:
    """Return the factors of Adam's step and of the first moment in step t."""
    beta1, beta2 = BETAS
    if t == 0:
        return 0.0, 0.0
    longest = 2.0 / (1.0 - beta2) - 1.0
    length = longest - 2.0 * t * beta2**t / (1.0 - beta2**t)
    if length <= LEAST_LENGTH:
        return 0.0, 1.0 / (1.0 - beta1**t)
    part = (length - 4.0) * (length - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * length)
    return math.sqrt(part), 0.0
