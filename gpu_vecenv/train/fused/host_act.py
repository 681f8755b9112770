"""Actions and values of a policy on the CPU, by the kernels that learn there."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from gpu_vecenv.backend.trainer_programs import SLAB
from gpu_vecenv.errors import ArrayTypeError, DeviceError, ShapeError
from gpu_vecenv.train.fused.host_layout import ROWS, HostLayout
from gpu_vecenv.train.fused.kernels import is_addressed_by_rows
from gpu_vecenv.train.policies.contract import Draw, Inputs

MOST_TEAMS = 32
"""Most teams of a launch; each has room for a tile. Results do not depend on it."""


class HostPolicy:
    """Acts and computes values for an ``ActorCritic`` without a state, see ``Policy.act()`` and ``Policy.value()``.

    Kernels read the weights and the statistics of the module where they are, so a change counts at once. The module's parameters
    must stay the same objects.

    Attributes:
        largest: size of the largest observation; see ``Algorithm.largest``.
        alone: no other run uses the device.
    """

    largest = math.inf

    def __init__(self, layout: HostLayout, alone: bool = True) -> None:
        """Prepare the kernels."""
        self.policy, self._layout, self.alone = layout.policy, layout, alone
        self._call = layout.call(MOST_TEAMS)

    @torch.no_grad()
    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        """
        outputs = self.outputs(cast(Tensor, inputs.obs).unsqueeze(0), 0).squeeze(0)
        return self.policy.choose(outputs, inputs.mask, draw, deterministic)

    @torch.no_grad()
    def log_prob(self, inputs: Inputs, action: Tensor) -> Tensor:
        """Return the log-probabilities of the actions of all steps at once, float32 (S, B).

        Args:
            inputs: what the rows observe, each array (S, B, ...).
            action: ``(S, B[, k])``, as ``act()`` returns them.
        """
        outputs = self.outputs(cast(Tensor, inputs.obs), 0).flatten(0, 1)
        mask = None if inputs.mask is None else inputs.mask.flatten(0, 1)
        chosen = self.policy.normalized_actions(action.flatten(0, 1))
        return self.policy.distribution(outputs, mask).log_prob(chosen).view(action.shape[:2])

    def values(self, obs: Tensor, used: Tensor | None = None) -> Tensor:
        """Return the values of all steps at once, float32 (S, B).

        Args:
            obs: float32 (S, B, *shape).
            used: bool (S, B), False for values that nobody reads, which are undefined; None: all are used.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        """
        return self.outputs(obs, 1, used).squeeze(-1)

    def outputs(self, obs: Tensor, network: int, used: Tensor | None = None) -> Tensor:
        """Return the outputs of a network, float32 (S, B, num_outputs); 0 is the actor, 1 the critic. See ``values()``."""
        features, shape = self._layout.sizes.features, tuple(obs.shape[:2])
        if obs.dim() < 3 or math.prod(obs.shape[2:]) != features:
            raise ShapeError(f"kernels of a policy: expected observations of {features} features, got shape {tuple(obs.shape)}.")
        if obs.dtype != torch.float32:
            raise ArrayTypeError(f"kernels of a policy: observations must be torch.float32, got {obs.dtype}.")
        if obs.device.type != "cpu":
            raise DeviceError(f"kernels of a policy: observations must be on the CPU, got {obs.device}.")
        outputs = 1 if network else self._layout.sizes.outputs
        result, rows = torch.empty((*shape, outputs), dtype=torch.float32, device="cpu"), math.prod(shape)
        if not rows:
            return result
        call = self._call
        self._layout.point(call)
        call.launch("gv_pack", len(self._layout.parameters), self._layout.size)
        obs = obs if is_addressed_by_rows(obs) else obs.contiguous()
        call.args.obs = SLAB.form(obs.data_ptr(), obs.stride(0), obs.stride(1))
        mask = (None, 0, 0) if used is None else (used.data_ptr(), used.stride(0), used.stride(1))
        call.args.mask = SLAB.form(*mask)
        call.set(rows=rows, samples_per_step=shape[1], network=network)
        call.args.result = result.data_ptr()
        call.launch("gv_outputs", min(MOST_TEAMS, -(-rows // ROWS)), rows * self._layout.size)
        return result
