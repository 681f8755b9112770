"""The rows of one policy: where they lie in a rollout, and their arrays as the policy's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError, PolicyMapError
from gpu_vecenv.train.policies.contract import OBSERVATIONS, SHARED, Draw, Inputs, Observation, fields_of
from gpu_vecenv.train.policies.counters import counters_of
from gpu_vecenv.train.returns.choices import have_choice, may_lack_choice
from gpu_vecenv.train.returns.masks import MasksCall, TransitionMasks
from gpu_vecenv.train.storage.policy_map import Members
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.row_states import RowStates
from gpu_vecenv.train.storage.samples import Samples
from gpu_vecenv.train.storage.slabs import GroupSlabs, Observations

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

Form = Literal["rows", "worlds", "worlds of one row"]
"""Samples of a policy: rows, or worlds of ``a`` rows, or worlds of one row if the policy's spans differ in ``a``."""


@dataclass(frozen=True, eq=False)  # compared by identity: its slabs are tensors
class AgentSpan:
    """Members of one role. Rows of a role are ordered by world, then by agent."""

    slabs: GroupSlabs
    """Slabs of the group that the role belongs to."""
    rows: slice
    """Rows of the role in the arrays of all agents."""
    first: int
    """First row of the group in the arrays of all agents."""
    num_worlds: int
    """N."""
    first_agent: int
    """Number of the role's first agent in a world."""
    members: Members
    """The agents."""

    @property
    def agents(self) -> int:
        """Agents of this span in a world, a."""
        return self.members.hi - self.members.lo

    @property
    def group_rows(self) -> slice:
        """Rows of the role in the arrays of its group."""
        return slice(self.rows.start - self.first, self.rows.stop - self.first)

    def by_world(self, array: Tensor, axis: int, rows: slice) -> Tensor:
        """Return a view of an array whose axis ``axis`` is rows, with the axes (N, a) in its place."""
        of_role: Tensor = array.narrow(axis, rows.start, rows.stop - rows.start).unflatten(axis, (self.num_worlds, -1))
        return of_role.narrow(axis + 1, self.members.lo, self.agents)


class StepViews:
    """Inputs and targets of an agent span in one step. Views of the slabs are made once, because each costs host time."""

    def __init__(self, rows: PolicyRows, span: AgentSpan, step: int, draw: Draw, entropy: Tensor) -> None:
        self._rows, self._span, self._step = rows, span, step
        self._state = rows.state_of(span)
        self._targets = [span.by_world(slab[step], 0, span.group_rows) for slab in (span.slabs.action, span.slabs.log_prob)]
        self.draw = draw
        if all(target.is_contiguous() for target in self._targets):
            action, log_prob = self._targets
            self.draw = replace(draw, out=(action.view(*entropy.shape, -1), log_prob.view(entropy.shape), entropy))
        inputs = rows.inputs(span, step)
        arrays = [*(inputs.obs.values() if isinstance(inputs.obs, dict) else [inputs.obs]), inputs.mask]
        slabs = (span.slabs.obs.own, span.slabs.obs.shared, span.slabs.mask)
        memory = {slab.untyped_storage().data_ptr() for slab in slabs if slab is not None}
        views = all(array.untyped_storage().data_ptr() in memory for array in arrays if array is not None)
        self._inputs = inputs if views else None

    def inputs(self) -> Inputs:
        """Return what the agents observe before the step."""
        return self._rows.inputs(self._span, self._step) if self._inputs is None else self._inputs

    def store(self, action: Tensor, log_prob: Tensor, state: Tensor | None = None) -> None:
        """Write actions and log-probabilities to the slabs, unless the policy has done so, and the states after the step."""
        if state is not None or self._state is not None:
            if state is None or self._state is None:
                expected = "no state" if self._state is None else "a state"
                raise ConfigError(f"act(): expected {expected} with the action, as state_shape of the policy says")
            self._state.copy_(state)
        for target, values in zip(self._targets, (action, log_prob), strict=True):
            if values.data_ptr() != target.data_ptr():
                target.copy_(values.view(target.shape))


class PolicyRows:
    """Rows of one policy.

    Attributes:
        spans: the members of each role; the rows of a policy are those of its spans, one after the other.
        form: form of the policy's samples.
        group: spaces of the rows, with the number of agents in a sample as ``count``.
        num_agents: agents in a world, of all policies.
        with_ids: True if samples have the numbers of agents, because the policy's network reads them.
        with_final_obs: True if samples have final observations, because the policy's algorithm reads them.
        with_next_masks: True if samples have the masks after the last step in envs with flags of effect, too, and those of final
            observations.
        states: states of the rows; None for a policy without a state.
        critic_sources: what the critic reads, see ``Policy.critic_sources``.
    """

    def __init__(self, spans: Sequence[AgentSpan], group: Group, rollout: Rollout, num_agents: int) -> None:
        self.spans, self.rollout = tuple(spans), rollout
        self.num_agents, self.with_ids, self.with_final_obs, self.with_next_masks = num_agents, False, False, False
        self.states: RowStates | None = None
        self.critic_sources: tuple[str, ...] = ()
        self._views: Samples | None = None
        self._masks: tuple[TransitionMasks, list[MasksCall]] | None = None  # which samples of later rollouts have, too
        form: Form = "rows"
        if group.shared is not None:
            form = "worlds" if len({span.agents for span in spans}) == 1 else "worlds of one row"
        self._take_form(form, group)

    def _take_form(self, form: Form, group: Group) -> None:
        """Number the rows of a step in the form of samples."""
        self.form, num_worlds = form, self.spans[0].num_worlds
        self.group = replace(group, count=self.spans[0].agents if form == "worlds" else 1)
        device = self.rollout.reward.device
        world, agent = [], []
        for span in self.spans:
            first = span.first_agent + span.members.lo
            agent_numbers = torch.arange(first, first + span.agents, dtype=torch.int32, device=device)
            worlds = torch.arange(num_worlds, dtype=torch.int32, device=device).unsqueeze(1)
            world.append(self.formed(worlds.expand(-1, span.agents), 0))
            agent.append(self.formed(agent_numbers.expand(num_worlds, -1), 0))
        self.worlds, self.agents = tuple(world), tuple(agent)
        self._views = self._masks = None

    def keep_states(self, shape: tuple[int, ...] | None) -> None:
        """Keep a state of each row from step to step.

        Args:
            shape: see ``Policy.state_shape``.
        """
        self.states = None if shape is None else RowStates(self, shape)

    def state_of(self, span: AgentSpan) -> Tensor | None:
        """Return the states of an agent span's rows, which change from step to step; None for a policy without a state."""
        return None if self.states is None else self.states.by_span[self.spans.index(span)]

    def read_critic(self, names: tuple[str, ...]) -> None:
        """Give samples the inputs of a critic; they are then worlds.

        Args:
            names: see ``Policy.critic_sources``; without any nothing changes.

        Raises:
            PolicyMapError: the policy's spans have different numbers of agents.
        """
        if not names:
            return
        counts = [span.agents for span in self.spans]
        if len({*counts}) > 1:
            raise PolicyMapError(f"critic_sources: expected a policy with equal numbers of agents of each role, got {counts}")
        self.critic_sources = names
        if fields := fields_of(names):
            self.rollout.add_critic(fields)
        self._take_form("worlds", self.group)
        self.keep_states(None if self.states is None else self.states.shape)

    @property
    def sources(self) -> dict[str, int]:
        """Inputs that a critic of the policy may name, and their features a world; see ``NetworkSpec.sources``."""
        shared = sum(span.slabs.obs.shared[0, 0].numel() for span in self.spans if span.slabs.obs.shared is not None)
        own_features = sum(span.agents * span.slabs.obs.own[0, 0].numel() for span in self.spans)
        return {**self.rollout.sources, OBSERVATIONS: shared + own_features, **({SHARED: shared} if shared else {})}

    @property
    def copied_critic(self) -> int:
        """Bytes of the inputs of the critic that samples copy, at most: all of them if observations are among them."""
        if fields_of(self.critic_sources) == self.critic_sources:
            return 0
        features = sum(self.sources[name] for name in self.critic_sources)
        steps = self.rollout.num_steps * (2 if self.with_final_obs else 1) + 1
        return steps * len(self.rollout.alive_start) * (4 * features + self.present_agents)

    @property
    def present_agents(self) -> int:
        """A of ``Inputs.present``; 0 if samples do not have it."""
        if self.rollout.alive_next is None or OBSERVATIONS not in self.critic_sources:
            return 0
        return sum(span.agents for span in self.spans)

    def _critic_inputs(self) -> tuple[Tensor, Tensor | None]:
        """Return the inputs of the critic once a world, float32 (T + 1, N, C), and who is in the game, see ``Inputs.present``."""
        rollout, fields = self.rollout, fields_of(self.critic_sources)
        if fields == self.critic_sources:
            return rollout.critic[fields], None
        slabs = rollout.critic[fields].split([rollout.sources[name] for name in fields], 2) if fields else ()
        present = None if OBSERVATIONS not in self.critic_sources else self._present()
        parts = dict(zip(fields, slabs, strict=True)) | self._all_observed([span.slabs.obs for span in self.spans], present)
        return self._beside([parts[name] for name in self.critic_sources], 2), present

    def _final_critic_inputs(self, present: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return ``_critic_inputs()`` of final observations, float32 (T, N, C) and bool (T, N, A), valid where episodes ended."""
        final_obs = [span.slabs.final_obs for span in self.spans]
        if present is not None:
            after = [span.by_world(self.rollout.agent_alive, 1, span.rows) for span in self.spans]
            present = present[:-1] & self._beside(after, 2)
        parts = self._all_observed([obs for obs in final_obs if obs is not None], present)
        return self._beside([parts[name] for name in self.critic_sources], 2), present

    def _present(self) -> Tensor | None:
        """Return which agents of the policy are in the game, bool (T + 1, N, A); None if agents never leave."""
        if self.rollout.alive_next is None:
            return None
        alive = torch.cat((self.rollout.alive_start.unsqueeze(0), self.rollout.alive_next))
        return self._beside([alive.narrow(2, span.first_agent + span.members.lo, span.agents) for span in self.spans], 2)

    def _all_observed(self, observed: Sequence[Observations], present: Tensor | None) -> dict[str, Tensor]:
        """Return the sources that consist of observations, each float32 (S, N, features) of S steps.

        Args:
            observed: observations of the spans.
            present: bool (S, N, A), agents of the policy whose observations count; the others are zeros. None: all count.
        """
        observed_parts, shared_parts = [], []
        alive = [None] * len(self.spans) if present is None else present.split([span.agents for span in self.spans], 2)
        for span, obs, counts in zip(self.spans, observed, alive, strict=True):
            own_part = span.by_world(obs.own, 1, span.group_rows).flatten(3)
            own_part = (own_part if counts is None else torch.where(counts.unsqueeze(-1), own_part, 0.0)).flatten(2)
            if obs.shared is not None:
                shared = obs.shared.flatten(2)
                shared_parts.append(shared)
                observed_parts.append(shared if counts is None else torch.where(counts.any(2, keepdim=True), shared, 0.0))
            observed_parts.append(own_part)
        sources = {SHARED: self._beside(shared_parts, 2)} if SHARED in self.critic_sources else {}
        return {**sources, OBSERVATIONS: self._beside(observed_parts, 2)} if OBSERVATIONS in self.critic_sources else sources

    @property
    def roles(self) -> list[str]:
        """Roles of the rows, each once."""
        return list(dict.fromkeys(span.members.role for span in self.spans))

    @property
    def num_samples(self) -> int:
        """B, samples of a step."""
        return sum(len(worlds) for worlds in self.worlds)

    @property
    def shape(self) -> tuple[int, ...]:
        """Axes of a step's samples, (B,) or (B, a)."""
        return (self.num_samples, *self.worlds[0].shape[1:])

    def world_and_agent(self) -> tuple[Tensor, Tensor]:
        """Return the world, and the agent's number in it, of every row of a step, each int32 (B[, a])."""
        return torch.cat(self.worlds), torch.cat(self.agents)

    def gather(self, array: Tensor, axis: int = 1) -> Tensor:
        """Return the policy's samples of an array of all rows: a view for one whole role, else a copy."""
        return self._beside([self.formed(span.by_world(array, axis, span.rows), axis) for span in self.spans], axis)

    def step_views(self, span: AgentSpan, env: GpuVectorEnv) -> list[StepViews]:
        """Return the places that an agent span reads from and writes to in each step. Their counters follow the env's state."""
        number = self.spans.index(span)
        draw = counters_of(env, self.worlds[number], self.agents[number])
        entropy = torch.empty(draw.world.shape, dtype=torch.float32, device=draw.world.device)
        return [StepViews(self, span, step, draw, entropy) for step in range(self.rollout.num_steps)]

    def inputs(self, span: AgentSpan, step: int) -> Inputs:
        """Return what the agents of an agent span observe before a step."""
        slabs = span.slabs
        obs = self._observed(span, slabs.obs.at(step), 0)
        mask = None if slabs.mask is None else self.formed(span.by_world(slabs.mask[step], 0, span.group_rows), 0)
        return Inputs(obs, mask, state=self.state_of(span))

    def samples(self) -> Samples:
        """Return what the policy learns from, after a rollout was collected."""
        masks = self.masks()
        for span in self.spans if self.with_next_masks else ():
            span.slabs.limit(self.rollout.num_steps)
            span.slabs.limit_final()
        if self._views is None:
            samples = self._samples(masks)
            self._views = replace(samples) if self._are_views(samples) else None
            return samples
        return replace(self._views)  # an algorithm may replace arrays of its samples

    def _are_views(self, samples: Samples) -> bool:
        """Return True if all but the masks, which stay, are views of the slabs: samples of later rollouts have the same ones."""
        if samples.mask is not None or samples.critic is not None or len(self.spans) > 1:
            return False
        slabs = self.spans[0].slabs
        arrays = [slabs.obs.own, slabs.obs.shared, slabs.action, slabs.log_prob, self.rollout.reward, self.rollout.env_reward]
        arrays += [] if slabs.final_obs is None else [slabs.final_obs.own, slabs.final_obs.shared]
        arrays += [*self.agents, None if self.states is None else self.states.first]
        memory = {x.untyped_storage().data_ptr() for x in arrays if x is not None}
        of_samples = [samples.action, samples.log_prob, samples.reward, samples.env_reward, samples.agent, samples.state]
        for obs in (samples.obs, samples.final_obs):
            of_samples += obs.values() if isinstance(obs, dict) else [obs]
        return all(x is None or x.untyped_storage().data_ptr() in memory for x in of_samples)

    def _samples(self, masks: TransitionMasks) -> Samples:
        """Return what ``samples()`` does."""
        rollout, spans = self.rollout, self.spans

        def of_policy(slab_of: str) -> Tensor:
            arrays = [span.by_world(getattr(span.slabs, slab_of), 1, span.group_rows) for span in spans]
            return self._beside([self.formed(array, 1) for array in arrays], 1)

        def observed(obs_of_spans: Sequence[Observations | None]) -> Observation | None:
            pairs = [(span, obs) for span, obs in zip(spans, obs_of_spans, strict=True) if obs is not None]
            several = [self._observed(span, obs, 1) for span, obs in pairs]
            if not several:
                return None
            if not isinstance(several[0], dict):
                return self._beside(several, 1)  # type: ignore[arg-type]
            return {name: self._beside([each[name] for each in several], 1) for name in several[0]}  # type: ignore[index]

        obs = observed([span.slabs.obs for span in spans])
        assert obs is not None  # every span has observations
        mask = None if spans[0].slabs.mask is None else of_policy("mask")
        with_final_mask = mask is not None and self.with_final_obs and self.with_next_masks
        choice = None
        if mask is not None and may_lack_choice(self.group):
            choice = have_choice(mask, tuple(self.group.limited_choices), masks.valid)
        critic, present = self._critic_inputs() if self.critic_sources else (None, None)
        of_end = self._final_critic_inputs(present) if self.critic_sources and self.with_final_obs else (None, None)
        once = [None if x is None else self._beside([x] * len(spans), 1) for x in (critic, present, *of_end)]
        return Samples(
            obs=obs,
            action=of_policy("action"),
            log_prob=of_policy("log_prob"),
            reward=self.gather(rollout.reward),
            **masks._asdict(),
            mask=mask,
            final_obs=observed([span.slabs.final_obs for span in spans]) if self.with_final_obs else None,
            final_mask=of_policy("final_mask") if with_final_mask else None,
            env_reward=None if rollout.env_reward is None else self.gather(rollout.env_reward),
            agent=torch.cat(self.agents) if self.with_ids else None,
            all_valid=rollout.alive_next is None,
            choice=choice,
            state=None if self.states is None else self.states.first,
            critic=once[0],
            present=once[1],
            final_critic=once[2],
            final_present=once[3],
        )

    def masks(self) -> TransitionMasks:
        """Return the masks of the policy's transitions, each bool (T, B[, a]), after a rollout was collected.

        Their memory stays, so those of the next rollout overwrite them.
        """
        masks, calls = self._masks = self._masks or self._masks_and_calls()
        for call in calls:
            call.launch()
        return masks

    def _masks_and_calls(self) -> tuple[TransitionMasks, list[MasksCall]]:
        """Return the masks, and what writes those of each span."""
        rollout, first, calls = self.rollout, 0, []
        stacked = torch.empty(4, rollout.num_steps, *self.shape, dtype=torch.bool, device=rollout.reward.device)
        columns = stacked.flatten(2)
        for span in self.spans:
            count = span.num_worlds * span.agents
            calls.append(MasksCall(*self._flags_of(span), out=columns.narrow(2, first, count)))
            first += count
        return TransitionMasks(*stacked.unbind()), calls

    def _flags_of(self, span: AgentSpan) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Return views of the flags of a span: alive at the start, alive, terminated, truncated, alive in the next episode."""
        rollout, agents = self.rollout, span.first_agent + span.members.lo
        arrays = (rollout.agent_alive, rollout.terminated, rollout.truncated)
        alive, terminated, truncated = (span.by_world(array, 1, span.rows) for array in arrays)
        alive_next = None if rollout.alive_next is None else rollout.alive_next.narrow(2, agents, span.agents)
        return rollout.alive_start.narrow(1, agents, span.agents), alive, terminated, truncated, alive_next

    def _observed(self, span: AgentSpan, obs: Observations, axis: int) -> Observation:
        """Return observations of an agent span, whose axis ``axis`` is rows, as samples."""
        own_part = self.formed(span.by_world(obs.own, axis, span.group_rows), axis)
        if obs.shared is None:
            return {"own": own_part} if self.form == "worlds" else own_part
        own_part, shared = own_part.flatten(axis + 2), obs.shared.flatten(axis + 1)
        if self.form == "worlds of one row":
            shared = shared.unsqueeze(-2).expand(*shared.shape[:-1], span.agents, -1).flatten(axis, axis + 1)
        return {"shared": shared, "own": own_part}

    def formed(self, array: Tensor, axis: int) -> Tensor:
        """Return an array with the axes (N, a) at ``axis`` in the form of samples."""
        if self.form == "worlds":
            return array
        rows = array.flatten(axis, axis + 1)
        return rows if self.form == "rows" else rows.unsqueeze(axis + 1)

    @staticmethod
    def _beside(arrays: Sequence[Tensor], axis: int) -> Tensor:
        return arrays[0] if len(arrays) == 1 else torch.cat(list(arrays), dim=axis)


def policy_rows(
    rollout: Rollout, groups: Sequence[Group], role_rows: dict[str, slice], num_worlds: int, assignment: dict[str, list[Members]]
) -> dict[str, PolicyRows]:
    """Return the rows of each policy.

    Args:
        rollout: the slabs.
        groups: the env's groups, in the order of the rollout's.
        role_rows: role to its rows in the arrays of all agents.
        num_worlds: N.
        assignment: policy name to the agents it acts for.

    Raises:
        PolicyMapError: a policy acts for roles with different spaces.
    """
    first_agent, agents = {}, 0
    for role, rows in role_rows.items():
        first_agent[role] = agents
        agents += (rows.stop - rows.start) // num_worlds
    rows_by_policy = {}
    for name, members in assignment.items():
        spans, spaces = [], []
        for member in members:
            first = 0
            for group, slabs in zip(groups, rollout.groups, strict=True):
                rows = role_rows[member.role]
                if first <= rows.start < first + slabs.num_rows:
                    spans.append(AgentSpan(slabs, rows, first, num_worlds, first_agent[member.role], member))
                    spaces.append(group)
                first += slabs.num_rows
        forms = [(group.observation, group.shared, group.action, group.masked, group.effects) for group in spaces]
        if any(form != forms[0] for form in forms):
            raise PolicyMapError(f"policy_map: expected roles with equal spaces for the policy {name!r}, got {spaces}")
        rows_by_policy[name] = PolicyRows(spans, spaces[0], rollout, agents)
    return rows_by_policy
