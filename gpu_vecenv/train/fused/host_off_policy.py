"""Gradient steps of SAC, TD3 and DDPG on the CPU by kernels of their own, ``kernels/learner/host_off_policy.cu``, in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.private import has_functions
from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import HOST_OFF_POLICY
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.algorithms.off_policy.critics import Critics
from gpu_vecenv.train.algorithms.off_policy.learner import EPS
from gpu_vecenv.train.algorithms.sac.sac import SAC
from gpu_vecenv.train.algorithms.td3 import TD3
from gpu_vecenv.train.config import NetworkConfig
from gpu_vecenv.train.fused.host_off_policy_layout import Layout, num_blocks
from gpu_vecenv.train.policies.actor import LOG_STD, ActorPolicy

HAS_FUNCTIONS = has_functions()
CRITICS, ACTOR, TEMPERATURE = range(3)
"""Numbers of the optimisers among ``groups``."""

FORMS, LEARN, ADD_UP, DECIDE, TAKE, FOLLOW = (
    int(HOST_OFF_POLICY.macros[name]) for name in ("FORMS", "LEARN", "ADD_UP", "DECIDE", "TAKE", "FOLLOW")
)
OF_CRITICS = 5
"""Phases after which the critics have learned."""


def are_watched(policy: ActorPolicy) -> bool:
    """Return True if a user has attached a function to a layer of a policy, as a hook, which kernels would not call."""
    return any(map(HAS_FUNCTIONS, policy.network))


class Written(NamedTuple):
    """Results of a gradient step, in arrays that stay."""

    results: Tensor
    """float32 (5,), ``terms`` one after the other."""
    terms: dict[str, Tensor]
    error: Tensor | None
    """float32 (R,), for priorities."""
    taken: list[Tensor]
    """bool () of each optimiser, its step was taken."""
    addresses: list[int]
    """Address of each flag in ``taken``."""


class HostSteps:
    """The kernels of the gradient steps of an algorithm, whose parameters and moments must stay the same objects."""

    def __init__(self, algorithm: SAC | TD3, layout: Layout, network: NetworkConfig) -> None:
        """Allocate the arrays.

        Args:
            algorithm: fits the kernels.
            layout: places of its numbers.
            network: hidden layers.
        """
        options, rows, device = algorithm.options, algorithm.num_rows, algorithm.gate.device
        self.layout = layout
        counts = layout.num_floats(rows).items()
        self.arrays = {name: torch.zeros(n, dtype=torch.float32, device=device) for name, n in counts}
        self.call = Call(
            HOST_OFF_POLICY, device, rows=rows, features=layout.features, entries=layout.entries, blocks=num_blocks(rows),
            num_layers=layout.num_layers, activation=HOST_OFF_POLICY.macros[network.activation.upper()], gate=algorithm.gate,
            critics=layout.num_critics, first_critic=layout.first_critic, next_policy=layout.first_critic - 1,
            most_columns=layout.most_columns, room_floats=layout.room_floats, partial_floats=layout.partial_floats,
            terms_at=layout.terms_at, low=LOG_STD[0], high=LOG_STD[1], tau=options.tau, eps=EPS, **self.arrays,
        )  # fmt: skip
        self.algorithm, self.adams = algorithm, [algorithm.adams["critics"], algorithm.adams["actor"]]
        if isinstance(algorithm, SAC):
            self.call.set(factor=0.5, target_entropy=algorithm.target_entropy, log_temperature=algorithm.temperature.log)
            self.adams += [algorithm.adams["temperature"]] if algorithm.options.temperature_learning_rate is not None else []
        else:
            self.call.set(factor=1.0, target_noise=algorithm.options.target_noise, noise_clip=algorithm.options.target_noise_clip)
        self._phases: list[tuple[int, int, int]] = []
        self._batch: Minibatch | None = None
        self._written: dict[tuple[int, bool], Written] = {}
        self._forms_stay = False

    def _point(self) -> None:
        """Point to weights and moments, and to what the optimisers have; they have moments from the first step on."""
        algorithm = self.algorithm
        networks: list[nn.Module] = [algorithm.policy.network]
        networks += [] if isinstance(algorithm, SAC) else [algorithm.target_network]
        networks += [algorithm.critics, algorithm.targets]
        layout, args = self.layout, self.call.args
        states: dict[Tensor, dict[str, Tensor]] = {}
        for adam in self.adams:
            states |= dict(zip(adam.parameters, adam.prepared(), strict=True))
        parameters = [*_parameters(networks), *([(algorithm.temperature.log, None)] if isinstance(algorithm, SAC) else [])]
        for place, numbers, (x, i) in zip(args.tensors, layout.places, parameters, strict=False):
            for name, value in numbers._asdict().items():
                setattr(place, name, value)
            state = states.get(x, {})
            for name, array in (("weight", x), ("m", state.get("exp_avg")), ("v", state.get("exp_avg_sq"))):
                if array is not None:
                    setattr(place, name, (array if i is None else array[i]).data_ptr())
        for group, (first, count) in zip(args.groups, layout.groups, strict=True):
            group.first, group.count = first, count
        for group, adam in zip(args.groups, self.adams, strict=False):
            group.rate, group.steps = adam.rate.data_ptr(), adam.prepared()[0]["step"].data_ptr()  # a part of one array
            group.parameters = len(adam.parameters)
        self._phases = self._plan()
        for place, (phase, group, teams) in zip(args.phases, self._phases, strict=False):
            place.phase, place.group, place.teams = phase, group, teams

    def take(self, step: int, batch: Minibatch, noise: Tensor, with_actor: bool) -> tuple[dict[str, Tensor], Tensor | None]:
        """Take the steps of the critics, and with the actor those of policy, temperature and target networks.

        Args:
            step: number of the step in its update.
            batch: transitions.
            noise: float32 (num_normals, R, k), standard normal.
            with_actor: the policy learns.

        Returns:
            See ``OffPolicy.gradient_step()``. The next update writes to the same arrays.
        """
        if not self._phases:
            self._point()
        if batch is not self._batch:
            self.call.set(
                before=batch.before.rows, after=batch.after.rows, action=batch.action, reward=batch.reward,
                discount=batch.discount, share=batch.share, weighted=batch.weighted,
            )  # fmt: skip
            self._batch = batch
        written = self._written.get((step, with_actor))
        if written is None:
            written = self._written[step, with_actor] = self._allocate(with_actor)
        self.call.set(noise=noise, results=written.results, error=written.error)
        for group, address in zip(self.call.args.groups, written.addresses, strict=False):
            group.taken = address
        # Between the steps of an update no other code changes a weight, and GV_TAKE writes the forms of the critics.
        self._run(int(step > 0 and self._forms_stay), len(self._phases) if with_actor else OF_CRITICS)
        self._forms_stay = not with_actor
        self.algorithm.taken += written.taken
        return written.terms, written.error

    def _allocate(self, with_actor: bool) -> Written:
        """Return what a gradient step writes."""
        algorithm, device, count = self.algorithm, self.call.device, len(self.adams) if with_actor else 1
        results = torch.empty(5, dtype=torch.float32, device=device)
        taken = list(torch.empty(count, dtype=torch.bool, device=device).unbind())
        with_error = algorithm.options.priority_exponent is not None
        error = torch.empty(algorithm.num_rows, dtype=torch.float32, device=device) if with_error else None
        names = algorithm.terms if with_actor else algorithm.terms[:2]
        terms = dict(zip(names, results.unbind(), strict=False))
        return Written(results, terms, error, taken, [flag.data_ptr() for flag in taken])

    def _plan(self) -> list[tuple[int, int, int]]:
        """Return phase, optimiser and teams of all phases of a step, those of the critics first."""
        layout, blocks = self.layout, self.call.args.blocks
        phases = [(FORMS, CRITICS, len(layout.places) - 1)]
        for number in range(len(self.adams)):
            tensors = layout.groups[number][1]
            phases += [] if number == TEMPERATURE else [(LEARN, number, blocks), (ADD_UP, number, tensors + 1)]
            phases += [(DECIDE, number, 1), (TAKE, number, tensors)]
        return [*phases, (FOLLOW, CRITICS, layout.num_following)]

    def _run(self, first: int, end: int) -> None:
        """Compute some phases. A batch of one tile leaves threads little to share, so all phases are one launch."""
        args = self.call.args
        if args.blocks == 1:
            args.first_phase, args.end_phase = first, end
            self.call.launch("gv_gradient_step", 1)
            return
        work = {LEARN: args.rows * self.layout.columns, DECIDE: 0}
        for args.phase, args.group, teams in self._phases[first:end]:
            self.call.launch("gv_phase", teams, work.get(args.phase, self.layout.work))


def _parameters(networks: Sequence[nn.Module]) -> Iterator[tuple[Tensor, int | None]]:
    """Yield the parameters of each network, those of critics one critic after the other, with its number in the parameter."""
    for network in networks:
        parameters = list(network.parameters())
        for number in range(len(parameters[0])) if isinstance(network, Critics) else (None,):
            yield from ((x, number) for x in parameters)
