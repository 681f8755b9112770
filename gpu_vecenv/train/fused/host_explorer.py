"""Actions of SAC, TD3 and DDPG in rollouts on the CPU, by one kernel of ``kernels/learner/host_off_policy.cu``."""

from __future__ import annotations

import math

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
        self._call = Call(
            HOST_OFF_POLICY, device, features=layout.features, entries=layout.entries, num_layers=layout.num_layers,
            activation=HOST_OFF_POLICY.macros[network.activation.upper()], low=LOG_STD[0], high=LOG_STD[1],
            packed=self.arrays["packed"], room_floats=layout.room_floats,
            squashes=int(deviation is None), log_deviation=0.0 if deviation is None else math.log(deviation), centre=box.centre,
            half_width=box.half_width, lowest=policy.low, highest=policy.high,
        )  # fmt: skip
        for place, numbers in zip(self._call.args.tensors, layout.places, strict=False):
            for name, value in numbers._asdict().items():
                setattr(place, name, value)
        self._layout, self._count = layout, 0

    @staticmethod
    def layout_of(policy: ActorPolicy, network: NetworkConfig) -> Layout:
        """Return the places of the policy's numbers alone."""
        return Layout(policy, network, 0, False)

    @torch.no_grad()
    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``."""
        policy, call = self.policy, self._call
        if are_watched(policy):
            return self.actor.act(inputs, draw, deterministic)[:2]
        rows, shape = Observed.of(policy, inputs._replace(agent=draw.agent)).rows, draw.world.shape
        teams = num_teams(len(rows))
        if len(rows) != self._count:
            self._count, floats = len(rows), self._layout.num_floats_of_actions(len(rows))["room"]
            self.arrays["room"] = torch.empty(floats, dtype=torch.float32, device=rows.device)
            call.set(rows=len(rows), blocks=teams, room=self.arrays["room"])
        if draw.out is not None:
            action, log_prob, _ = draw.out
        else:
            action, log_prob = (rows.new_empty(x) for x in ((*shape, self._layout.entries), shape))
        counters = {name: getattr(draw, name) for name in COUNTERS.arrays}
        call.set(before=rows.contiguous(), draw=counters, drawn=action, log_prob=log_prob, likeliest=int(deterministic))
        for place, parameter in zip(call.args.tensors, policy.network.parameters(), strict=False):
            place.weight = parameter.data_ptr()
        call.launch("gv_pack", 2 * self._layout.num_layers, self._layout.work)
        call.launch("gv_act", teams, len(rows) * self._layout.columns)
        return action, log_prob
