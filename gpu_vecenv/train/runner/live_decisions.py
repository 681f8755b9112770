"""The decisions of one agent in a rollout: the distributions of its actions, by the weights that its policy had then."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from gpu_vecenv.train.policies.actor import ActorPolicy
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Observation, Policy, apply, wide
from gpu_vecenv.train.policies.export import Program, program_of
from gpu_vecenv.train.runner.live_copies import HostCopy, copy_to_host
from gpu_vecenv.train.storage.policy_rows import AgentSpan, PolicyRows


class Programs:
    """Copies of a run's policies on the host, which compute distributions in the thread of a page's server.

    Args:
        policies: policies of the run by name; those without a network have no copy.
    """

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self._lock = threading.Lock()
        self._programs: dict[str, Program] = {}
        for name, policy in policies.items():
            if isinstance(policy, ActorCritic | ActorPolicy):
                program = program_of(policy)
                program.policy.group = replace(policy.group, masked=policy.group.limited, effects=())  # as masks of samples are
                self._programs[name] = program

    def __contains__(self, name: str) -> bool:
        return name in self._programs

    @torch.no_grad()
    def distributions(self, followed: Followed, weights: HostCopy, inputs: HostCopy) -> tuple[str, Tensor]:
        """Return the distribution of an agent's action in each step of a rollout.

        Args:
            followed: the agent; its policy is one of these.
            weights: see ``Followed.before()``.
            inputs: see ``Followed.after()``.

        Returns:
            Kind and numbers, float32 (T, n): ``probabilities`` or ``values`` of the choices of all entries, side by side;
            ``normal``, the means of all numbers and then their deviations; or ``number``, the likeliest numbers.
        """
        with self._lock:  # pages ask in several threads
            program = self._programs[followed.policy]
            program.policy.load_state_dict(weights.tensors())
            results = _run(program, inputs.tensors(), followed.agents)
        outputs = dict(zip(program.output_names, results, strict=False))  # the last name may be that of a new state

        def of_agent(name: str) -> Tensor:
            return outputs[name] if outputs[name].dim() == 2 else outputs[name][:, followed.row]

        if "logits" in outputs:
            return "probabilities", _probabilities(of_agent("logits"), program.policy.group.choices)
        if "q_values" in outputs:
            return "values", of_agent("q_values")
        if "std" in outputs:
            return "normal", torch.cat((of_agent("mean"), of_agent("std")), dim=1)
        return "number", of_agent("action")


def _probabilities(logits: Tensor, choices: Sequence[int]) -> Tensor:
    """Return probabilities. An entry without an allowed choice, whose logarithms are all 0, takes choice 0."""
    parts = []
    for logs in logits.split(list(choices), dim=1):
        first = torch.zeros_like(logs)
        first[:, 0] = 1.0
        parts.append(torch.where((logs == 0.0).all(1, keepdim=True), first, logs.exp()))
    return torch.cat(parts, dim=1)


def _run(program: Program, inputs: dict[str, Tensor], agents: Tensor) -> tuple[Tensor, ...]:
    """Return the outputs of a program in each step, without the states of a policy that has one."""
    mask = inputs.get("mask")
    by_world: dict[str, Tensor] = {name: inputs[name] for name in ("shared", "own") if name in inputs}
    observed: Observation = by_world if by_world else inputs["obs"]
    if "state" not in inputs:
        steps = len(inputs["own"] if by_world else inputs["obs"])
        return program.results(observed, mask, agents.expand(steps, *agents.shape[1:]), None)
    state, ends, outputs = inputs["state"], inputs["ends"], []
    for t in range(len(ends)):
        now = slice(t, t + 1)
        *of_step, after = program.results(apply(observed, lambda x: x[now]), None if mask is None else mask[now], agents, state)  # noqa: B023
        outputs.append(of_step)
        state = torch.where(wide(ends[now], after), 0.0, after)
    return tuple(torch.cat(parts) for parts in zip(*outputs, strict=True))


class Followed:
    """The agent that a page follows: its policy, and its places in a rollout.

    Attributes:
        policy: name of the policy.
        row: the agent's place among the rows of a sample that is a world; 0 if it is a row.
        agents: int32 (1,) or (1, a) on the host, numbers of the agents in a sample.
    """

    def __init__(self, rows: Mapping[str, PolicyRows], policies: Mapping[str, Policy], world: int, agent: int) -> None:
        """Find the agent.

        Args:
            rows: rows of each policy.
            policies: policies by name.
            world: number of its world.
            agent: its number in the world.
        """
        places = [(name, span) for name, each in rows.items() for span in each.spans]
        self.policy, self._span = next((name, span) for name, span in places if agent in _agents(span))
        self._rows, self._world, self._weights = rows[self.policy], world, policies[self.policy].state_dict()
        members, place = _agents(self._span), agent - _agents(self._span).start
        self._in_span = slice(None) if self._rows.form == "worlds" else slice(place, place + 1)
        self.row = place if self._rows.form == "worlds" else 0
        agents = torch.tensor([*members][self._in_span], dtype=torch.int32, device="cpu")
        self.agents = agents if self._rows.form == "rows" else agents.unsqueeze(0)

    def before(self) -> HostCopy:
        """Queue copies of the policy's weights and statistics."""
        return copy_to_host(self._weights)

    def after(self) -> HostCopy:
        """Queue copies of the policy's inputs in a rollout, of the sample that the agent is in, with the axis T in place of B.

        They have the names of an exported policy's inputs. A policy with a state has it before step 0, and ``ends``, bool (T,) or
        (T, a), True where it begins anew after the step.
        """
        rows, span, slabs, rollout = self._rows, self._span, self._span.slabs, self._rows.rollout
        inputs = {"obs" if rows.form == "rows" else "own": self._sample(slabs.obs.own, span.group_rows)}
        if slabs.obs.shared is not None:
            shared = slabs.obs.shared[: rollout.num_steps, self._world].flatten(1)
            inputs = {"shared": shared, "own": inputs["own"].flatten(2)}
        if slabs.mask is not None:
            inputs["mask"] = self._sample(slabs.mask, span.group_rows)
        if rows.states is not None:
            states = rows.states.first.split([len(worlds) for worlds in rows.worlds])[rows.spans.index(span)]
            of_world = states[self._world] if rows.form == "worlds" else states.unflatten(0, (span.num_worlds, -1))[self._world]
            inputs["state"] = of_world.unsqueeze(0) if rows.form == "worlds" else of_world[self._in_span]
            ends = self._sample(rollout.terminated, span.rows) | self._sample(rollout.truncated, span.rows)
            if rollout.alive_next is not None:
                alive = torch.cat((rollout.alive_start.unsqueeze(0), rollout.alive_next))[:, self._world]
                alive = self._formed(alive[:, _agents(span).start : _agents(span).stop])
                ends = ends | ~(alive[:-1] & alive[1:])
            inputs["ends"] = ends
        return copy_to_host(inputs)

    def _sample(self, array: Tensor, rows: slice) -> Tensor:
        """Return the part of an array of T or more steps and of all rows that belongs to the sample."""
        return self._formed(self._span.by_world(array, 1, rows)[: self._rows.rollout.num_steps, self._world])

    def _formed(self, of_world: Tensor) -> Tensor:
        """Return an array (T, a, ...) of the agents of one world in the form of the sample."""
        part = of_world[:, self._in_span]
        return part.squeeze(1) if self._rows.form == "rows" else part


def _agents(span: AgentSpan) -> range:
    """Return the numbers of a span's agents in a world."""
    first = span.first_agent + span.members.lo
    return range(first, first + span.agents)
