"""Actions of a GRU by kernels, with the arithmetic of the kernels that learn: ``kernels/learner/act.cu``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.source import Program
from gpu_vecenv.errors import ShapeError
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.fused.act import MAX_ROWS, ActCall, FusedActor
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes, recurrent_act_program
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Draw, Inputs
from gpu_vecenv.train.policies.memory import Recurrent
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.row_states import RowStates

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


class FusedRecurrentPolicy(FusedActor):
    """Acts for an ``ActorCritic`` with a GRU. Its values are those of ``FusedRecurrentBackend``."""

    sizes: RecurrentSizes

    def __init__(self, policy: ActorCritic, sizes: RecurrentSizes, device: torch.device, alone: bool = True) -> None:
        """Find the arrays of the policy; see ``FusedActor``."""
        super().__init__(policy, sizes.acting, device, alone)
        self.most_teams = MAX_ROWS  # a team has one tile

    def _weights(self) -> list[list[Tensor]]:
        return [[x for layer in gru_layers(self.policy) for x in layer]]

    def program(self) -> Program:
        """See ``FusedActor.program()``."""
        return recurrent_act_program(self.sizes)

    def whole_rollout(self, env: GpuVectorEnv, rollout: Rollout, states: RowStates) -> Callable[[], None] | None:
        """See ``Actor``."""
        from gpu_vecenv.train.fused.rollout import whole_rollout  # which imports act.py

        return whole_rollout(env, rollout, self, states)

    def act(
        self, inputs: Inputs, draw: Draw, deterministic: bool = False, outputs: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See ``FusedPolicy.act()`` and ``Policy.act()``; also returns the state after the step, float32 (rows, H).

        Raises:
            ConfigError: there is no state.
            ShapeError, ArrayTypeError, DeviceError: a tensor does not fit.
        """
        if inputs.state is None:
            raise ConfigError("fused policy: expected Inputs.state of a policy with a GRU, got None")
        call, mask = self.prepared(draw, deterministic, _RecurrentAct), inputs.mask if self.mask_columns else None
        state = call.place_state(inputs.state)
        return *call.act(cast(Tensor, inputs.obs), mask, outputs), state


class _RecurrentAct(ActCall):
    """A launch that acts; a team has one tile."""

    kernel = "gv_gru_act"

    def place_state(self, state: Tensor) -> Tensor:
        """Store the place of the state before the step, and return an array for that after it."""
        expected = (*self.rows, self.fused.sizes.hidden[0])
        if tuple(state.shape) != expected:
            raise ShapeError(f"fused policy: state must have the shape {expected}, got {tuple(state.shape)}.")
        after = torch.empty_like(state, memory_format=torch.contiguous_format)
        self.set(state=state.contiguous(), new_state=after)
        return after


def gru_layers(policy: ActorCritic) -> list[tuple[Tensor, Tensor]]:
    """Return weights and biases: of the features, of the state, and of the heads of actor and critic."""
    network = cast(Recurrent, policy.network)
    memory, heads = network.memory, [cast(nn.Linear, layers[-1]) for layers in (network.actor_layers, network.critic_layers)]
    of_memory = [(memory.weight_ih, memory.bias_ih), (memory.weight_hh, memory.bias_hh)]
    return [*of_memory, *((head.weight, head.bias) for head in heads)]
