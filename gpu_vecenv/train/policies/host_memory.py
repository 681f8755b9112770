"""Sequences of a GRU or an LSTM on the CPU, by ``kernels/policy/host_memory.cu``.

By torch each step has about ten small operations, and more for the derivatives, each of which takes longer to start than to
compute. The kernels go through all steps in one call.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import HOST_MEMORY
from gpu_vecenv.train.policies.contract import wide

ROWS, UNITS = int(HOST_MEMORY.macros["ROWS"]), int(HOST_MEMORY.macros["UNITS"])
"""Rows of a team, and the number of which units are a multiple."""


LEAST_STEPS = 3
"""Steps from which on kernels compute a sequence. Policies of a GPU are checked on the CPU with two steps, so that a machine
without a compiler can build them from a checkout."""


def are_by_kernels(read: Tensor, *others: Tensor) -> bool:
    """Return True if kernels take what the steps of a memory read, its state and its weights: float32 on the CPU."""
    fit = all(x.device.type == "cpu" and x.dtype is torch.float32 for x in (read, *others))
    return fit and len(read) >= LEAST_STEPS


def remember(read: Tensor, state: Tensor, episode_end: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the states after each of L steps, float32 (L, B[, a], *state_shape). They can be differentiated once.

    Args:
        read: float32 (L, B[, a], G H), what each step reads.
        state: float32 (B[, a], *state_shape), the state before the first step.
        episode_end: bool (L, B[, a]), the state after the step is forgotten.
        weight: float32 (G H, H), of the recurrent products.
        bias: float32 (G H,), of the recurrent products.
    """
    steps, units = len(read), weight.shape[1]
    ends = wide(episode_end, read[..., 0]).expand(read.shape[:-1]).reshape(steps, -1)
    of_steps, begin = read.reshape(*ends.shape, -1, units), state.reshape(ends.shape[1], -1, units)
    gates, biases = weight.view(-1, units, units), bias.view(-1, units)
    more = -units % UNITS
    if more:  # units that read zeros and stay 0, of which the others see nothing
        of_steps, begin, gates, biases = (pad(x, (0, more)) for x in (of_steps, begin, pad(gates, (0, 0, 0, more)), biases))
    states: Tensor = _Steps.apply(of_steps, begin, ends, gates, biases, torch.is_grad_enabled())
    return (states[..., :units] if more else states).reshape(steps, *state.shape)


class _Steps(torch.autograd.Function):
    """The states of a memory, and their derivatives."""

    @staticmethod
    def forward(
        ctx: Any, read: Tensor, state: Tensor, ends: Tensor, weight: Tensor, bias: Tensor, differentiable: bool
    ) -> Tensor:
        """Return float32 (L, R, S, H).

        Args:
            ctx: what the derivatives need.
            read: float32 (L, R, G, H).
            state: float32 (R, S, H).
            ends: bool (L, R).
            weight: float32 (G, H, H).
            bias: float32 (G, H).
            differentiable: keep what the derivatives need.
        """
        steps, rows, _, units = read.shape
        kept_steps = steps if differentiable else 1
        before, kept = read.new_empty(kept_steps, *state.shape), read.new_empty(kept_steps, rows, 4, units)
        states, by_outputs, ends = read.new_empty(steps, *state.shape), weight.reshape(-1, units), ends.contiguous()
        call = _call(states, before, kept, ends, by_outputs)
        call.set(
            read=read.contiguous(), state=state.contiguous(), by_inputs=by_outputs.t().contiguous(), bias=bias.contiguous()
        )  # fmt: skip
        call.launch("gv_remember", -(-rows // ROWS), read.numel())
        if differentiable:
            ctx.save_for_backward(states, before, kept, ends, by_outputs)
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, of_states: Tensor) -> tuple[Tensor | None, ...]:
        """Return the derivatives by what was read, the state, the weights and the biases."""
        states, before, _, _, by_outputs = ctx.saved_tensors
        (steps, rows, parts, units), columns = states.shape, len(by_outputs)
        of_read, of_state = states.new_empty(steps, rows, columns), torch.empty_like(states[0])
        of_products = torch.empty_like(of_read) if parts == 1 else None
        call = _call(*ctx.saved_tensors)
        call.set(of_states=of_states.contiguous(), of_read=of_read, of_products=of_products, of_state=of_state)
        call.launch("gv_remember_back", -(-rows // ROWS), of_read.numel())
        products = (of_read if of_products is None else of_products).flatten(0, 1)
        of_weight = products.t() @ before[:, :, 0].reshape(-1, units)
        gates = -1, units
        return of_read.unflatten(-1, gates), of_state, None, of_weight.view(*gates, units), products.sum(0).view(gates), None


def _call(states: Tensor, before: Tensor, kept: Tensor, ends: Tensor, by_outputs: Tensor) -> Call:
    """Return the kernels with the arrays that both of them have. It is not kept, because it holds a result of autograd."""
    (steps, rows, parts, units), gates = states.shape, len(by_outputs) // states.shape[-1]
    return Call(
        HOST_MEMORY, states.device, steps=steps, rows=rows, units=units, gates=gates, parts=parts, kept_steps=len(before),
        states=states, before=before, kept=kept, episode_end=ends, by_outputs=by_outputs,
    )  # fmt: skip
