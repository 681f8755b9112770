"""Adam whose steps the device can leave out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from gpu_vecenv.train.errors import CheckpointError


class GatedAdam:
    """Adam (Kingma and Ba 2015) with clipped gradients. A step whose gate is closed changes neither weights nor moments.

    The gate is the flag with which torch's fused Adam leaves out steps after an overflow of scaled gradients, and the scale of
    these gradients is what clips them. Learning rate, flag and scale are tensors, so the host reads nothing.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], max_grad_norm: float, eps: float = 1e-5):
        """Set up the optimiser.

        Args:
            parameters: weights to train.
            max_grad_norm: longer gradients are scaled down to this norm.
            eps: number added to the root of the second moment; 1e-5 is the value of the original PPO code.
        """
        self.parameters = list(parameters)
        self.max_grad_norm = max_grad_norm
        device = self.parameters[0].device
        self.rate, self.closed, self.scale = (torch.zeros((), device=device) for _ in range(3))
        self.adam = torch.optim.Adam(self.parameters, lr=self.rate, eps=eps, fused=True, capturable=device.type == "cuda")
        self.adam.found_inf = self.closed  # type: ignore[attr-defined]
        self.adam.grad_scale = self.scale  # type: ignore[attr-defined]  # the fused step divides gradients by it

    def zero_grad(self) -> None:
        """Forget the gradients of the previous step."""
        for parameter in self.parameters:
            parameter.grad = None

    def step(self, open_gate: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step if the gate is open and the gradient is finite.

        Args:
            open_gate: bool ().

        Returns:
            The gradient's norm before it was clipped, float32 (), and bool (): the step was taken.
        """
        norm = nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])
        torch.div(norm, self.max_grad_norm, out=self.scale).clamp_(min=1.0)
        taken = open_gate & (norm < math.inf)  # False for NaN
        torch.logical_not(taken, out=self.closed)
        self.adam.step()
        return norm, taken

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return moments and number of steps by number of the parameter; empty before the first step."""
        state: dict[int, dict[str, Tensor]] = self.adam.state_dict()["state"]
        return state

    def like(self) -> dict[int, dict[str, Tensor]]:
        """Return tensors in the form of a ``state_dict()`` after a step."""
        step = torch.zeros((), device=self.rate.device)
        return {i: {"step": step, "exp_avg": p, "exp_avg_sq": p} for i, p in enumerate(self.parameters)}

    def load_state_dict(self, state: dict[int, dict[str, Any]], where: str) -> None:
        """Restore what ``state_dict()`` returned.

        Raises:
            CheckpointError: a number of steps is negative or not finite.
        """
        steps = [float(moments["step"]) for moments in state.values()]
        if not all(0 <= step < math.inf for step in steps):
            raise CheckpointError(f"{where}: expected steps >= 0, got {steps}")
        self.adam.load_state_dict({**self.adam.state_dict(), "state": state})
        for group in self.adam.param_groups:
            group["lr"] = self.rate
