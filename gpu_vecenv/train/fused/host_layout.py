"""Places of the arrays of ``kernels/learner/host_update.cu``, and its argument struct for a policy."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import HOST_UPDATE
from gpu_vecenv.train.fused.kernels import norm_numbers
from gpu_vecenv.train.fused.tile_plan import Sizes, up_to
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.networks import FeedForward

STEP = 16
"""Columns of matrices are multiples of it."""

_SIZES = ("ROWS", "MOST_TERMS", "SPREADS", "VALUE_LOSS")
ROWS, MOST_TERMS, SPREADS, POLICY_TERMS = (int(HOST_UPDATE.macros[name]) for name in _SIZES)


class Parameter(NamedTuple):
    """A parameter of a policy, and its places; see ``HOST_TENSOR``."""

    weight: Tensor
    outputs: int
    inputs: int
    first: int
    partial_at: int
    forward_at: int
    backward_at: int


class HostLayout:
    """Places of a policy's numbers.

    Attributes:
        parameters: those of the actor, then those of the critic, in the order of their columns in the sums.
        critic_first: number of the first one of the critic.
        partial: numbers of a team of the actor and of the critic.
        packed: numbers of packed weights, with zeros before them.
        room_floats: numbers of the tiles of a team.
    """

    def __init__(self, policy: ActorCritic, sizes: Sizes) -> None:
        """Lay out the numbers of a policy.

        Args:
            policy: the policy.
            sizes: sizes of its networks, see ``host_sizes()``.
        """
        self.policy, self.sizes = policy, sizes
        widths = [sizes.features, *sizes.hidden, sizes.outputs]
        self.most_columns = self.packed = up_to(max(widths), STEP)
        network = cast(FeedForward, policy.network)
        self.parameters: list[Parameter] = []
        actor = self._add_layers(network.actor_layers, 0)
        if sizes.choices is None:
            size, first = policy.log_std.numel(), sizes.weight_columns(sizes.outputs)
            self.parameters.append(Parameter(policy.log_std, 1, size, first, actor + SPREADS, -1, -1))
        self.critic_first = len(self.parameters)
        critic = self._add_layers(network.critic_layers, sizes.actor_columns)
        self.partial = actor + MOST_TERMS, critic + MOST_TERMS
        loss = 2 * sizes.outputs + 3 * sizes.entries
        arrays = [*widths, *(sizes.hidden if sizes.activation == "silu" else ())]  # units, and slopes of SiLU
        self.room_floats = ROWS * (sum(up_to(width, STEP) for width in arrays) + 2 * self.most_columns + loss)

    def _add_layers(self, layers: nn.Sequential, first: int) -> int:
        """Add the parameters of a network whose sums begin at a column, and return the numbers of its weights in a team."""
        at = 0
        for number, layer in enumerate(layer for layer in layers if isinstance(layer, nn.Linear)):
            units, below = layer.out_features, layer.in_features
            rows, columns = up_to(units, STEP), up_to(below, STEP)
            forward, backward = self.packed, self.packed + below * rows if number else -1
            self.packed = forward + below * rows + (units * columns if number else 0)
            self.parameters.append(Parameter(layer.weight, units, below, first, at, forward, backward))
            first, at = first + units * below, at + units * columns
            self.parameters.append(Parameter(layer.bias, 1, units, first, at, -1, self.packed))
            self.packed += rows
            first, at = first + units, at + rows
        return at

    def call(self, teams: int, **members: Any) -> Call:
        """Return the kernels for this policy, with room for some teams; ``members`` are further arguments."""
        sizes, policy = self.sizes, self.policy
        (offset, scale, shift), limit = norm_numbers(policy, sizes.features, torch.device("cpu"))
        places, entries = sizes.choices or (), []
        for number, count in enumerate(places):
            mask_first = sizes.mask_first[number] if sizes.mask_first else -1
            entries.append((count, sum(places[:number]), mask_first))
        call = Call(
            HOST_UPDATE, torch.device("cpu"), norm={"offset": offset, "scale": scale, "shift": shift, "limit": limit},
            num_entries=sizes.entries, features=sizes.features, activation=HOST_UPDATE.macros[sizes.activation.upper()],
            outputs=sizes.outputs, num_tensors=len(self.parameters), num_layers=len(sizes.hidden) + 1,
            critic_first=self.critic_first, actor_partial=self.partial[0], critic_partial=self.partial[1],
            actor_terms=sizes.actor_columns - POLICY_TERMS, critic_terms=sizes.actor_columns + sizes.weight_columns(1),
            two_counts=int(sizes.may_lack_choice), most_columns=self.most_columns, room_floats=self.room_floats,
            packed=torch.zeros(self.packed, dtype=torch.float32, device="cpu"),
            room=torch.zeros(teams * self.room_floats, dtype=torch.float32, device="cpu"), **members,
        )  # fmt: skip
        if entries:
            call.set(entries=torch.tensor(entries, dtype=torch.int32, device="cpu"))
        if policy.box is not None:
            call.set(box={"log_std": policy.log_std, "centre": policy.box.centre, "half_width": policy.box.half_width})
        return call

    def point(self, call: Call, moments: dict[Tensor, dict[str, Tensor]] | None = None) -> None:
        """Point to the weights, and to their moments in Adam."""
        for place, parameter in zip(call.args.tensors, self.parameters, strict=False):
            for name, value in parameter._asdict().items():
                if name != "weight":
                    setattr(place, name, value)
            place.weight = parameter.weight.data_ptr()
            if moments is not None:
                state = moments[parameter.weight]
                place.m, place.v = state["exp_avg"].data_ptr(), state["exp_avg_sq"].data_ptr()
                place.step = state["step"].data_ptr()

    @property
    def size(self) -> int:
        """Numbers of all parameters."""
        return sum(parameter.weight.numel() for parameter in self.parameters)
