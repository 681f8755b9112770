"""Adam whose steps the device can leave out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.private import fused_adam, norms, run_backward
from gpu_vecenv.train.algorithms.adam_step import AdamStep
from gpu_vecenv.train.errors import CheckpointError

RUN_BACKWARD, FUSED_ADAM, NORMS = run_backward(), fused_adam(), norms()
BETAS = (0.9, 0.999)
"""Decay of the first and the second moment in one step."""


def make_context_of_autograd(device: torch.device) -> None:
    """Let the thread in which autograd works for a GPU launch a kernel, which makes its CUDA context.

    A product of matrices makes it as well, but torch warns of it.
    """
    if device.type == "cuda":
        x = torch.zeros(1, dtype=torch.float32, device=device, requires_grad=True)
        RUN_BACKWARD((x * x,), (torch.zeros_like(x),))


def gradient_scale(device: torch.device) -> float:
    """Return the factor of gradients while autocast is on: float16 has no numbers as small as the gradient of one transition."""
    if device.type not in ("cpu", "cuda") or not torch.is_autocast_enabled(device.type):
        return 1.0
    return 1024.0 if torch.get_autocast_dtype(device.type) == torch.float16 else 1.0


class Group(NamedTuple):
    """Parameters of one dtype, which are updated by one operation, and their moments."""

    parameters: list[Tensor]
    m: list[Tensor]
    v: list[Tensor]
    steps: list[Tensor]


class MaskedAdam:
    """Adam (Kingma and Ba 2015) with clipped gradients. A step whose mask is False changes neither weights nor moments.

    The mask is the flag with which torch's fused Adam leaves out steps after an overflow of scaled gradients, and the scale of
    these gradients is what clips them. Learning rate, flag and scale are tensors, so the host reads nothing. The operations of
    ``torch.optim.Adam`` are called directly, because its preparations of a step take four times as long as they do.

    On a GPU ``AdamStep`` has kernels for float32. Those of torch give 65,536 numbers to a multiprocessor, and norm and mask take
    nine more.

    Attributes:
        by_kernels: steps are those of ``AdamStep``.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], max_grad_norm: float, eps: float = 1e-5):
        """Set up the optimiser.

        Args:
            parameters: weights to train.
            max_grad_norm: longer gradients are scaled down to this norm.
            eps: number added to the root of the second moment; 1e-5 is the value of the original PPO code.
        """
        self.parameters = list(parameters)
        self.max_grad_norm, self.eps = max_grad_norm, eps
        device = self.parameters[0].device
        make_context_of_autograd(device)
        self.rate, self.left_out, self.scale = (torch.zeros((), dtype=torch.float32, device=device) for _ in range(3))
        self._state: dict[int, dict[str, Tensor]] = {}
        self._trained: list[int] = []
        self._steps = torch.zeros(0, dtype=torch.float32, device=device)
        self._groups: list[Group] = []
        self.by_kernels = device.type == "cuda" and AdamStep.takes(self.parameters)
        self._kernels: AdamStep | None = None

    def zero_grad(self) -> None:
        """Forget the gradients of the previous step."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Take a step if the mask is True and the gradient is finite. Gradients are those of the loss times ``gradient_scale()``.

        Args:
            mask: bool ().

        Returns:
            The gradient's norm before it was clipped, float32 (), and bool (): the step was taken.
        """
        trained = [i for i, parameter in enumerate(self.parameters) if parameter.grad is not None]
        if trained != self._trained:
            self._prepare(trained)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        if self._kernels is not None:
            norm, taken = self._kernels.decide(gradients, mask, gradient_scale(mask.device))
            self._kernels.take()
            return norm, taken
        norm = torch.linalg.vector_norm(torch.stack(NORMS(gradients)))
        scale = gradient_scale(norm.device)
        norm = norm if scale == 1.0 else norm / scale
        torch.div(norm, self.max_grad_norm, out=self.scale).clamp_(min=1.0)
        if scale != 1.0:
            self.scale *= scale
        taken = mask & (norm < math.inf)  # False for NaN
        torch.logical_not(taken, out=self.left_out)
        self.count_step(taken)
        for group in self._groups:
            gradients = [p.grad for p in group.parameters if p.grad is not None]  # all have one; the condition tells mypy
            FUSED_ADAM(
                group.parameters, gradients, group.m, group.v, [], group.steps, lr=self.rate,
                beta1=BETAS[0], beta2=BETAS[1], weight_decay=0.0, eps=self.eps, amsgrad=False, maximize=False,
                grad_scale=self.scale, found_inf=self.left_out,
            )  # fmt: skip
        return norm, taken

    def count_step(self, taken: Tensor) -> None:
        """Count a step if ``taken``, bool (), is True."""
        self._steps += taken

    def kernels_of(self, group: Group) -> AdamStep:
        """Return the kernels of a step of these parameters."""
        return AdamStep(*group, self.rate, self.max_grad_norm, self.eps)

    def _prepare(self, trained: list[int]) -> None:
        """List the moments of the parameters with these numbers. A parameter without a gradient has none and counts no steps."""
        for i in trained:
            if i not in self._state:
                p = self.parameters[i]
                moments = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                self._state[i] = {"step": torch.zeros((), dtype=torch.float32, device=p.device), **moments}
        # The counts become views of one tensor, which one operation increases.
        self._trained, self._steps = trained, torch.stack([self._state[i]["step"] for i in trained])
        for i, step in zip(trained, self._steps.unbind(), strict=True):
            self._state[i]["step"] = step
        self._groups = []
        for dtype in dict.fromkeys(self.parameters[i].dtype for i in trained):
            of_dtype = [i for i in trained if self.parameters[i].dtype == dtype]
            lists = ([self._state[i][name] for i in of_dtype] for name in ("exp_avg", "exp_avg_sq", "step"))
            self._groups.append(Group([self.parameters[i] for i in of_dtype], *lists))
        if self.by_kernels:
            (group,) = self._groups
            self._kernels = self.kernels_of(group)

    def prepared(self) -> list[dict[str, Tensor]]:
        """Return moments and number of steps of all parameters, for kernels that take the steps themselves."""
        everyone = list(range(len(self.parameters)))
        if self._trained != everyone:
            self._prepare(everyone)
        return [self._state[i] for i in everyone]

    def state_dict(self) -> dict[int, dict[str, Tensor]]:
        """Return moments and number of steps by number of the parameter; empty before the first step."""
        return self._state

    def like(self) -> dict[int, dict[str, Tensor]]:
        """Return tensors in the form of a ``state_dict()`` after a step."""
        step = torch.zeros((), dtype=torch.float32, device=self.rate.device)
        return {i: {"step": step, "exp_avg": p, "exp_avg_sq": p} for i, p in enumerate(self.parameters)}

    def load_state_dict(self, state: dict[int, dict[str, Any]], where: str) -> None:
        """Restore what ``state_dict()`` returned, in the tensors that this optimiser has already.

        Raises:
            CheckpointError: a number of steps is negative or not finite.
        """
        steps = [float(moments["step"]) for moments in state.values()]
        if not all(0 <= step < math.inf for step in steps):
            raise CheckpointError(f"{where}: expected steps >= 0, got {steps}")
        if not state.keys() <= self._state.keys():
            self._prepare(sorted({*self._state, *state}))
        for i, moments in self._state.items():
            for name, x in moments.items():  # in place, because CUDA graphs and kernels hold the addresses
                x.copy_(state[i][name]) if i in state else x.zero_()
