"""Gradients of all processes of a run, added up in one array whose address stays."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gpu_vecenv.train.processes.group import Processes


class SharedGradient:
    """Adds up the gradients of some parameters over processes, by one sum.

    A loss is a sum over transitions divided by the number of those in all processes, so that gradients of the processes are parts
    of the whole one and not means.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], processes: Processes) -> None:
        """Store the parameters; the array is made at the first sum, before a CUDA graph is recorded."""
        self.parameters, self.processes = parameters, processes
        self._flat = torch.zeros(0, dtype=torch.float32, device="cpu")
        self._parts: tuple[Tensor, ...] = ()
        self._trained: list[int] = []

    def add_up(self, terms: Tensor | None = None, counts: Tensor | None = None) -> Tensor:
        """Replace the gradients by their sums.

        Args:
            terms: float32 (n,), such as those of a loss, which are added up as well; None: none.
            counts: bool (), False if no transition of this process counts, whose gradients may then be NaN; None: True.

        Returns:
            The sums of ``terms``.
        """
        trained = [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        further = [] if terms is None else [terms]
        if trained != self._trained or not self._parts:
            self._allocate(trained, [*gradients, *further])
        torch.cat([x.detach().reshape(-1).to(self._flat.dtype) for x in (*gradients, *further)], out=self._flat)
        if counts is not None:
            self._flat.masked_fill_(~counts, 0.0)
        self.processes.sum(self._flat)
        for i, part in zip(trained, self._parts, strict=False):
            self.parameters[i].grad = part.to(self.parameters[i].dtype)
        return self._parts[-1].clone() if terms is not None else self._flat[:0]

    def _allocate(self, trained: list[int], values: Sequence[Tensor]) -> None:
        dtype = torch.float64 if any(x.dtype == torch.float64 for x in values) else torch.float32
        self._trained = trained
        self._flat = torch.zeros(sum(x.numel() for x in values), dtype=dtype, device=values[0].device)
        parts = self._flat.split([x.numel() for x in values])
        self._parts = tuple(part.view(x.shape) for part, x in zip(parts, values, strict=True))
