"""The policy around a network: normalised observations, action distributions, and actions in the env's units."""

from __future__ import annotations

from typing import Any, cast

import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.agent_ids import AgentIds
from gpu_vecenv.train.policies.box_scale import BoxScale
from gpu_vecenv.train.policies.check import results_of
from gpu_vecenv.train.policies.contract import Acted, Draw, Evaluated, Inputs, Observation, Policy, apply
from gpu_vecenv.train.policies.distributions import Categorical, DiagonalGaussian, Distribution, MultiCategorical
from gpu_vecenv.train.policies.draw import draw_choices, draw_normal
from gpu_vecenv.train.policies.memory import Recurrent
from gpu_vecenv.train.policies.networks import (
    FeedForward,
    NetworkSpec,
    QNetwork,
    WorldSpec,
    critic_sources_of,
    has_method,
    network_input,
    state_shape_of,
)
from gpu_vecenv.train.policies.observations import CriticNorm, ObservationNorm, is_vector


class ActorCritic(Policy):
    """Chooses Discrete, flat MultiDiscrete and flat Box actions with a network, see ``NetworkSpec``.

    Box actions: the network's outputs are means in normalised units, in which finite bounds are -1 and 1. The deviation is
    ``exp(log_std)`` in these units, the same for every observation. ``act()`` returns actions in the env's units, and the env
    clips them to its bounds. Log-probabilities and entropies are those of the action in normalised units, before it is clipped.
    In the env's units they would differ by a constant, the sum of the logarithms of the half widths.
    """

    def __init__(
        self,
        network: nn.Module,
        group: Group,
        normalize_observations: bool = True,
        log_std: float = 0.0,
        name: str = "",
        num_ids: int = 0,
        world: WorldSpec = WorldSpec(),  # noqa: B008  (it cannot be changed)
    ):
        """Store the network.

        Args:
            network: its inputs and outputs are those of ``NetworkSpec.of(with_id_features(group, num_ids))``.
            group: agents with the spaces of this policy.
            normalize_observations: shift and scale observations that are vectors, and what the critic reads once a world, by
                running statistics; images stay as they are.
            log_std: natural logarithm of the deviation of Box actions at the start, in normalised units.
            name: name of the policy, for messages.
            num_ids: agents in a world, if the network reads which one a row is; 0 if it does not.
            world: what the critic may read of a world.

        Raises:
            ConfigError: the action space is of another kind, or the network declares a state or sources that it cannot have.
        """
        super().__init__()
        require_actions(group.action)
        self.network, self.name = network, name
        self.checks_results = type(network) not in (FeedForward, Recurrent, QNetwork)
        self.state_shape, self.critic_sources = state_shape_of(network), critic_sources_of(network, world.sources)
        self.num_outputs = NetworkSpec.of(group).num_outputs
        # A submodule may be named actor too, but only a method of the class takes observations.
        self.has_actor, self.has_critic, self.has_sequence = (has_method(network, x) for x in ("actor", "critic", "sequence"))
        self.group = group
        self.discrete = isinstance(group.action, spaces.Discrete)
        self.choices, self.masked = tuple(group.choices), group.limited
        self.box: BoxScale | None = None
        if isinstance(group.action, spaces.Box):
            self.box = BoxScale(group.action)
            self.log_std = nn.Parameter(torch.full(group.action.shape, log_std, dtype=torch.float32, device="cpu"))
        self.obs_norm = ObservationNorm(group) if normalize_observations and is_vector(group.observation) else None
        self.critic_norm: CriticNorm | None = None
        if normalize_observations and self.critic_sources:
            self.critic_norm = CriticNorm(world.sources, self.critic_sources, group, world.policy_agents)
        self.ids = AgentIds(num_ids) if num_ids else None

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:
        """Return the distribution of actions; of a Box in normalised units.

        Args:
            outputs: outputs of the network, float32 (B, num_outputs) or (B, a, num_outputs).
            mask: see ``Inputs``. Box actions have none.
        """
        if self.box is not None:
            return DiagonalGaussian(outputs, self.log_std)
        return Categorical(outputs, mask) if self.discrete else MultiCategorical(outputs, self.choices, mask, self.masked)

    def outputs(self, obs: Observation, agent: Tensor | None = None) -> Tensor:
        """Return the outputs of a network without a state, float32 (B, num_outputs) or (B, a, num_outputs); see ``Inputs``."""
        outputs: Tensor = self._results(obs, agent, "actor") if self.has_actor else self._results(obs, agent)[0]
        return _as_observed(outputs.float(), obs, 2)

    def outputs_and_state(self, inputs: Inputs, agent: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the outputs of a network with a state, see ``outputs()``, and the state after the step."""
        results = self._results(inputs.obs, agent, "actor" if self.has_actor else None, inputs)
        return _as_observed(results[0].float(), inputs.obs, 2), self._new_state(results, inputs)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> Acted:
        """See ``Policy.act()``; a Box action is in the env's units, and may be outside its bounds."""
        if self.state_shape is None:
            return self.choose(self.outputs(inputs.obs, draw.agent), inputs.mask, draw, deterministic)
        outputs, state = self.outputs_and_state(inputs, draw.agent)
        return (*self.choose(outputs, inputs.mask, draw, deterministic), state)

    def choose(self, outputs: Tensor, mask: Tensor | None, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """Choose an action for every row, see ``Policy.act()``, by outputs of the network or of one like it."""
        if self.box is not None:
            action, log_prob = draw_normal(outputs, self.log_std, draw, deterministic, draw.out)[:2]
            return self.box.to_env_(action), log_prob
        action, log_prob = draw_choices(outputs, self.choices, draw, mask, self.masked, deterministic, draw.out)[:2]
        return action.squeeze(-1) if self.discrete else action, log_prob

    def evaluate(self, inputs: Inputs, action: Tensor) -> Evaluated:
        """See ``Policy.evaluate()``; a Box action is in the env's units."""
        return self._evaluated(inputs, action)[0]

    def evaluate_with_state(self, inputs: Inputs, action: Tensor) -> tuple[Evaluated, Tensor]:
        """See ``Policy.evaluate_with_state()``."""
        if self.state_shape is None:
            return super().evaluate_with_state(inputs, action)
        evaluated, results = self._evaluated(inputs, action)
        return evaluated, self._new_state(results, inputs)

    def _evaluated(self, inputs: Inputs, action: Tensor) -> tuple[Evaluated, tuple[Tensor, ...]]:
        """Return the evaluation of actions, and the results of the network: outputs, value and, if it has one, its state."""
        if self.critic_sources:
            acted, value = (self._results(inputs.obs, inputs.agent, part, inputs) for part in ("actor", "critic"))
            results = (acted, value) if self.state_shape is None else (acted[0], value, acted[1])
        else:
            results = self._results(inputs.obs, inputs.agent, None, inputs)
        outputs, value = _as_observed(results[0].float(), inputs.obs, 2), _as_observed(results[1].float(), inputs.obs, 1)
        return self._scored(outputs, value, inputs.mask, action), results

    def _scored(self, outputs: Tensor, value: Tensor, mask: Tensor | None, action: Tensor) -> Evaluated:
        """Return the evaluation of actions by outputs and values of the network."""
        distribution = self.distribution(outputs, mask)
        action = self.normalized_actions(action)
        return Evaluated(distribution.log_prob(action), distribution.entropy(), value)

    def evaluate_sequence(
        self, inputs: Inputs, action: Tensor, episode_end: Tensor, state: Tensor
    ) -> tuple[Evaluated, Tensor]:
        """See ``Policy.evaluate_sequence()``; a network with ``sequence()`` is called once for all steps."""
        if self.state_shape is None or not self.has_sequence:
            return super().evaluate_sequence(inputs, action, episode_end, state)
        length, shape = len(action), episode_end.shape
        agent = None if inputs.agent is None else inputs.agent.flatten(0, 1)
        rows = apply(self._read(apply(inputs.obs, lambda x: x.flatten(0, 1)), agent), lambda x: x.unflatten(0, (length, -1)))
        begun, ends = state, episode_end
        if isinstance(rows, Tensor) and isinstance(inputs.obs, dict):
            begun, ends = state.flatten(0, 1), episode_end.flatten(1)
        arguments = (rows, *((self._critic_inputs(inputs),) if self.critic_sources else ()), begun, ends)
        results = results_of(self.network, arguments, self.num_outputs, self.name, "sequence", self.state_shape)
        outputs, value, states = (x.float().reshape(*shape, *x.shape[ends.dim() :]) for x in results)
        return self._scored(outputs, value, inputs.mask, action), states

    def value(self, inputs: Inputs) -> Tensor:
        """See ``Policy.value()``."""
        part = "critic" if self.has_critic else None
        results = self._results(inputs.obs, inputs.agent, part, inputs)
        value: Tensor = results if part else results[1]
        return _as_observed(value.float(), inputs.obs, 1)

    def normalized(self, obs: Observation) -> Observation:
        """See ``Policy.normalized()``."""
        return obs if self.obs_norm is None else self.obs_norm.forward(obs)

    def env_actions(self, action: Tensor) -> Tensor:
        """See ``Policy.env_actions()``."""
        return action if self.box is None else self.box.to_env(action)

    def normalized_actions(self, action: Tensor) -> Tensor:
        """See ``Policy.normalized_actions()``."""
        return action if self.box is None else self.box.to_normalized(action)

    def observe(self, obs: Observation, valid: Tensor, critic: Tensor | None = None) -> None:
        """See ``Policy.observe()``."""
        if self.obs_norm is not None:
            self.obs_norm.update(obs, valid)
        if self.critic_norm is not None:
            self.critic_norm.update(cast(Tensor, critic), valid)

    def critic_state(self) -> dict[str, Tensor]:
        """See ``Policy.critic_state()``; empty for a network of the user, whose parts are not known."""
        central = self.critic_sources and not self.checks_results
        parts = ("critic_norm.", "network.critic_layers.") if central else ()
        return {name: x for name, x in self.state_dict().items() if name.startswith(parts)}

    def _critic_inputs(self, inputs: Inputs) -> Tensor:
        """Return what the critic reads once a world as the network takes it, normalised if the policy does so."""
        critic = cast(Tensor, inputs.critic)
        return critic if self.critic_norm is None else self.critic_norm.forward(critic, inputs.present, self.obs_norm)

    def _new_state(self, results: tuple[Tensor, ...], inputs: Inputs) -> Tensor:
        """Return the state after a step, the last result of a network, in the form of ``Inputs.state``."""
        return results[-1].float().reshape(cast(Tensor, inputs.state).shape)

    def _read(self, obs: Observation, agent: Tensor | None) -> Observation:
        """Return observations that are not normalised in the form that the network takes."""
        read = self.normalized(obs)
        if self.ids is not None:
            read = self.ids.forward(read, cast(Tensor, agent))
        return network_input(self.network, read)

    def _results(self, obs: Observation, agent: Tensor | None, part: str | None = None, inputs: Inputs | None = None) -> Any:
        """Return what the network, or its method ``part``, returns for observations that are not normalised.

        ``inputs`` has what else a network with a state or with inputs of its critic takes.
        """
        network, rows = self.network, self._read(obs, agent)
        arguments: tuple[Any, ...] = (rows,)
        if self.critic_sources and part == "critic":
            arguments += (self._critic_inputs(cast(Inputs, inputs)),)
        if self.state_shape is not None:
            state = None if inputs is None else inputs.state
            if state is None:
                expected = f"expected Inputs.state of {self.state_shape} a row"
                raise ConfigError(f"policy {self.name!r} has a state: {expected}, got None")
            arguments += (state.flatten(0, 1) if isinstance(rows, Tensor) and isinstance(obs, dict) else state,)
        if self.checks_results:
            return results_of(network, arguments, self.num_outputs, self.name, part, self.state_shape)
        return network(*arguments) if part is None else getattr(network, part)(*arguments)


def require_actions(space: spaces.Space) -> None:
    """Raise ConfigError unless policies support the action space."""
    flat = isinstance(space, spaces.Box) and len(space.shape) == 1
    if not (isinstance(space, spaces.Discrete) or flat or isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1):
        raise ConfigError(f"action space: expected Discrete, flat MultiDiscrete or flat Box, got {space}")


def _as_observed(result: Tensor, obs: Observation, axes: int) -> Tensor:
    """Give the result of a network the axes (B, a) if it has rows (B * a) and observations are by world.

    Args:
        result: (B, ...), (B, a, ...) or (B * a, ...).
        obs: observations of the policy.
        axes: axes of the result if it has rows.
    """
    if not isinstance(obs, Tensor) and result.dim() == axes:
        result = result.reshape(*obs["own"].shape[:2], *result.shape[1:])
    return result
