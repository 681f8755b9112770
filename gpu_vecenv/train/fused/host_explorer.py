"""Actions of SAC, TD3 and DDPG in rollouts on the CPU, by one kernel of ``kernels/learner/host_off_policy.cu``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import COUNTERS, HOST_OFF_POLICY
from gpu_vecenv.train.algorithms.off_policy.batch import Observed
from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.fused.host_off_policy import are_watched
from gpu_vecenv.train.fused.host_off_policy_layout import Layout, num_teams
from gpu_vecenv.train.policies.actor import LOG_STD, ActorPolicy, Deterministic, SquashedGaussian
from gpu_vecenv.train.policies.contract import Actor, Draw, Inputs


@dataclass
class _Acts:
    """A call that draws with some counters."""

    call: Call
    inputs: Inputs | None = None
    """Inputs that the call reads in place; None if it reads a copy of them."""


class HostExplorer:
    """Acts in rollouts as another actor does, which has the network of a policy."""

    def __init__(self, actor: Actor, policy: SquashedGaussian | Deterministic, network: NetworkConfig, deviation: float | None):
        """Prepare the kernel.

        Args:
            actor: acts while a user has attached functions to layers, as hooks.
            policy: the policy.
            network: hidden layers.
            deviation: deviation of the normal noise of actions whose bounds are -1 and 1; None for a ``SquashedGaussian``.
        """
        self.actor, self.policy, layout = actor, policy, self.layout_of(policy, network)
        device, box = policy.low.device, policy.box
        self.arrays = {"packed": torch.zeros(layout.packed, dtype=torch.float32, device=device)}
        self._members: dict[str, Any] = dict(
            features=layout.features, entries=layout.entries, num_layers=layout.num_layers,
            activation=HOST_OFF_POLICY.macros[network.activation.upper()], low=LOG_STD[0], high=LOG_STD[1],
            room_floats=layout.room_floats,
            squashes=int(deviation is None), log_deviation=0.0 if deviation is None else math.log(deviation), centre=box.centre,
            half_width=box.half_width, lowest=policy.low, highest=policy.high,
        )  # fmt: skip
        self._layout, self._parameters = layout, list(policy.network.parameters())
        self._acts: WeakKeyDictionary[Draw, _Acts] = WeakKeyDictionary()

    @staticmethod
    def layout_of(policy: ActorPolicy, network: NetworkConfig) -> Layout:
        """Return the places of the policy's numbers alone."""
        return Layout(policy, network, 0, False)

    @torch.no_grad()
    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``."""
        policy = self.policy
        if are_watched(policy):
            return self.actor.act(inputs, draw, deterministic)[:2]
        acts = self._acts.get(draw)
        if acts is None:
            acts = self._acts[draw] = _Acts(self._call_of(draw))
        call = acts.call
        if acts.inputs is not inputs:
            rows = Observed.of(policy, inputs._replace(agent=draw.agent)).rows.contiguous()
            call.set(before=rows)
            stay = isinstance(inputs.obs, Tensor) and inputs.obs.data_ptr() == rows.data_ptr()
            acts.inputs = inputs if stay else None
        if draw.out is None:
            shape = draw.world.shape
            action, log_prob = (draw.world.new_empty(x, dtype=torch.float32) for x in ((*shape, self._layout.entries), shape))
            call.set(drawn=action, log_prob=log_prob)
        else:
            action, log_prob, _ = draw.out
        call.args.likeliest = int(deterministic)
        for place, parameter in zip(call.args.tensors, self._parameters, strict=False):
            place.weight = parameter.data_ptr()
        call.launch("gv_pack", 2 * self._layout.num_layers, self._layout.work)
        call.launch("gv_act", call.args.blocks, call.args.rows * self._layout.columns)
        return action, log_prob

    def _call_of(self, draw: Draw) -> Call:
        """Return the call that draws with some counters."""
        rows = draw.world.numel()
        floats = self._layout.num_floats_of_actions(rows)["room"]
        if "room" not in self.arrays or len(self.arrays["room"]) != floats:
            self.arrays["room"] = torch.empty(floats, dtype=torch.float32, device=draw.world.device)
        call = Call(
            HOST_OFF_POLICY, draw.world.device, **self._members, rows=rows, blocks=num_teams(rows), **self.arrays,
            draw={name: getattr(draw, name) for name in COUNTERS.arrays},
        )  # fmt: skip
        if draw.out is not None:
            call.set(drawn=draw.out[0], log_prob=draw.out[1])
        for place, numbers in zip(call.args.tensors, self._layout.places, strict=False):
            for name, value in numbers._asdict().items():
                setattr(place, name, value)
        return call
