"""Parallelised Q-networks (Gallici et al. 2024, arXiv 2407.04811) of one policy, and PQN-VDN of one team."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from gpu_vecenv.backend.private import run_backward
from gpu_vecenv.train.algorithms.contract import Algorithm, Setup
from gpu_vecenv.train.algorithms.masked_adam import gradient_scale
from gpu_vecenv.train.algorithms.masked_radam import MaskedRAdam
from gpu_vecenv.train.algorithms.pqn.kernels import MinibatchLoss
from gpu_vecenv.train.algorithms.pqn.teams import Teams
from gpu_vecenv.train.algorithms.schedules import linear
from gpu_vecenv.train.algorithms.shards import choose_by_shard, shuffle_by_shard
from gpu_vecenv.train.algorithms.shared_gradient import SharedGradient
from gpu_vecenv.train.algorithms.shuffle import Transitions
from gpu_vecenv.train.config import PQNConfig, bootstraps
from gpu_vecenv.train.config.algorithms import require_minibatches
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Draw, Inputs, Observation, apply, wide
from gpu_vecenv.train.policies.q_policy import QPolicy
from gpu_vecenv.train.returns.gae import gae
from gpu_vecenv.train.returns.masks import TransitionMasks
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.samples import Samples

RUN_BACKWARD = run_backward()

MAX_CHUNK_ROWS = 1 << 18
"""Most rows in one call of the policy outside minibatches; bounds temporary memory."""


@dataclasses.dataclass(frozen=True, eq=False)
class Targets:
    """Facts about the T * U units of a rollout that minibatches take; see ``Teams`` for W and K."""

    target: Tensor
    """float32 (T * U, K), lambda return of each team."""
    learned: Tensor
    """bool (T * U, K), teams that are learned from."""
    valid: Tensor
    """bool (T * U, W), rows that count in their team."""
    places: list[Transitions]
    """Units with a team that is learned from, by shard."""


class PQN(Algorithm):
    """Epsilon-greedy rollouts, lambda returns, then epochs of minibatches that move values of actions towards them."""

    metric_names = ("loss", "q_value", "grad_norm", "learning_rate", "epsilon", "valid_fraction", "updates", "skipped")
    sums_over_processes = takes_shards = True

    def __init__(self, policy: QPolicy, config: PQNConfig, setup: Setup) -> None:
        """Set up the optimiser; see ``register_algorithm()``.

        Raises:
            ConfigError: a rollout has fewer worlds and steps than minibatches.
        """
        self.policy, self.config = policy, config
        self.teams, self.num_steps = Teams(setup.rows, config.mixing), config.num_steps
        require_minibatches(config.num_steps, config.num_minibatches, self.teams.count, policy.name)
        self.bootstraps = bootstraps(config.bootstrap_at_time_limit, setup.spec)
        self.radam = MaskedRAdam(policy.parameters(), config.max_grad_norm)
        self.shuffles = torch.tensor(setup.seed, dtype=torch.int64, device=setup.device)
        self.schedule_steps = setup.schedule_steps
        self.steps_of_rollout = config.num_steps * setup.rows.spans[0].num_worlds * setup.num_processes
        self.processes, self.shards = setup.processes, self.teams.shards_of(setup)
        self.shared = None if self.processes is None else SharedGradient(self.radam.parameters, self.processes)
        self.by_kernels = self.processes is None and MinibatchLoss.takes(self.teams)
        self.first = policy.first.int()
        self.epsilon = torch.full((), self._epsilon_at(0), dtype=torch.float32, device=setup.device)

    # ---- acting ------------------------------------------------------------------------------------------------------

    def actor(self) -> PQN:
        """Return this object, which explores. Evaluations act by the policy, which is greedy."""
        return self

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``; ``deterministic`` takes the greedy action."""
        return self.policy.explore(inputs, draw, None if deterministic else self.epsilon)

    def scalars_at(self, steps: int) -> Sequence[float]:
        """Return the learning rate, and epsilon of the rollout after the update."""
        end_rate = 0.0 if self.config.learning_rate_schedule == "linear" else None
        rate = linear(self.config.learning_rate, end_rate, steps / self.schedule_steps)
        return rate, self._epsilon_at(steps + self.steps_of_rollout)

    def _epsilon_at(self, steps: int) -> float:
        config, length = self.config, self.config.exploration_fraction * self.schedule_steps
        return linear(config.epsilon_start, config.epsilon_final, steps / length) if length else config.epsilon_final

    # ---- learning ----------------------------------------------------------------------------------------------------

    def update(self, samples: Samples, scalars: tuple[Tensor, ...]) -> Tensor:
        """See ``Algorithm.update()``."""
        rate, epsilon = scalars
        self.radam.learning_rate.copy_(rate)
        metrics = self._learn(samples, self._targets(samples))
        self.epsilon.copy_(epsilon)
        return metrics

    @torch.no_grad()
    def _targets(self, samples: Samples) -> Targets:
        """Return the lambda return of each team, by the weights that acted.

        It is that of Daley and Amato 2019 (arXiv 1810.09967), as in the paper. With V(s) = max_a Q(s, a) it is
        ``R_t = r_t + gamma (lambda R_{t+1} + (1 - lambda) V(s_{t+1}))``, and ``R_T = V(s_T)`` after the last step. So
        ``A_t = R_t - V(s_t)`` obeys ``A_t = r_t + gamma V(s_{t+1}) - V(s_t) + gamma lambda A_{t+1}``, the recurrence of
        generalised advantage estimation, which ends with an episode.
        """
        config, teams = self.config, self.teams
        valid, ends, timed_out = (teams.united(x) for x in (samples.valid, samples.episode_end, samples.timed_out))
        goes_on = valid & ~ends
        value = teams.united(self._values(samples, samples.obs, self.num_steps + 1))
        # V of a team is the sum over its agents in the game.
        value = teams.total(torch.where(torch.cat((valid, goes_on[-1:])), value, 0.0))
        reward = teams.total(torch.where(valid, teams.united(samples.reward), 0.0))
        reward = reward if config.reward_scale == 1.0 else reward * config.reward_scale
        learned, final_value = teams.any(valid), None
        if self.bootstraps:
            final = self._values(samples, cast(Observation, samples.final_obs), self.num_steps)
            final_value = teams.total(torch.where(timed_out, teams.united(final), 0.0))
        masks = TransitionMasks(learned, ~teams.any(goes_on), teams.any(timed_out), teams.any(teams.united(samples.ended)))
        target = gae(reward, value, final_value, masks, config.gamma, config.q_lambda).target
        places = choose_by_shard(learned.any(-1), samples.all_valid, self.shards)
        return Targets(target.flatten(0, 1), learned.flatten(0, 1), valid.flatten(0, 1), places)

    def _values(self, samples: Samples, obs: Observation, num_steps: int) -> Tensor:
        """Return max_a Q(s, a) of observations of some steps, float32 (num_steps, B[, a])."""
        size = max(1, MAX_CHUNK_ROWS // samples.reward[0].numel())
        chunks = [slice(t, min(t + size, num_steps)) for t in range(0, num_steps, size)]
        values = [self.policy.value(samples.steps(obs, steps, with_mask=True)) for steps in chunks]
        return torch.cat(values).view(num_steps, *samples.reward.shape[1:])

    def _learn(self, samples: Samples, targets: Targets) -> Tensor:
        """Learn from all minibatches of all epochs; return the metrics."""
        config, by_kernels = self.config, self._kernels(samples, targets)
        # Loss, value and norm of the gradient in the steps that were taken, and the number of these.
        sums = torch.zeros(4, dtype=torch.float32, device=targets.target.device) if by_kernels is None else by_kernels.sums
        one, nothing, planned_steps = torch.ones_like(sums[:1]), torch.zeros_like(sums), torch.zeros_like(sums[0])
        for epoch in range(config.num_epochs):
            index, used = shuffle_by_shard(targets.places, config.num_minibatches, self.shuffles, epoch + 1, self.shards)
            here = used.any(1)  # minibatches with a unit of this process
            planned = here if self.processes is None else self.processes.any(here)
            planned_steps += planned.sum()
            if by_kernels is not None:
                self._learn_by_kernels(by_kernels, samples, index, used, planned)
                continue
            for chosen, use, mask, any_here in zip(index, used, planned, here, strict=True):
                self.radam.zero_grad()
                terms = self._backward(samples, targets, chosen, use)
                if self.shared is not None:
                    terms = self.shared.add_up(terms, any_here)
                norm, taken = self.radam.step(mask)
                sums += torch.where(taken, torch.cat((terms, norm.view(1), one)), nothing)
        self.shuffles += config.num_epochs
        taken_steps = sums[-1]
        learned = targets.learned.sum() / targets.learned.numel()
        if self.processes is not None:
            learned = self.processes.sum(learned) / self.processes.count
        of_update = (self.radam.learning_rate, self.epsilon, learned, taken_steps, planned_steps - taken_steps)
        return torch.cat((sums[:-1] / taken_steps, torch.stack(of_update)))

    def _kernels(self, samples: Samples, targets: Targets) -> MinibatchLoss | None:
        """Return the losses by kernels, or None if processes share minibatches or units have many rows."""
        if not self.by_kernels:
            return None
        of_rollout = {"target": targets.target, "learned": targets.learned, "valid": targets.valid.contiguous()}
        scale = gradient_scale(targets.target.device)
        return MinibatchLoss(self.teams, samples.action, self.first, of_rollout, scale)

    def _learn_by_kernels(
        self, losses: MinibatchLoss, samples: Samples, index: Tensor, used: Tensor, planned: Tensor
    ) -> None:
        """Learn from the minibatches of an epoch, whose units, (M, b), are single samples; see ``_backward()``."""
        totals, obs = losses.totals(index, used).unsqueeze(1), samples.obs
        flat = obs[:-1].flatten(0, 1) if isinstance(obs, Tensor) and samples.agent is None else None
        for chosen, use, total, mask in zip(index, used, totals, planned, strict=True):
            self.radam.zero_grad()
            if flat is None:
                inputs = samples.chosen(self.teams.place(chosen))
                values = self.policy.outputs(inputs.obs, inputs.agent)
            else:
                values = self.policy.outputs(flat.index_select(0, chosen), None)
            self._require_gradient(values)
            RUN_BACKWARD((values,), (losses.slopes(values, index=chosen, used=use, total=total),))
            losses.add(*self.radam.step(mask))

    def _require_gradient(self, values: Tensor) -> None:
        if not values.requires_grad:
            raise ConfigError(f"network of policy {self.policy.name!r}: expected outputs with gradients, got none")

    def _backward(self, samples: Samples, targets: Targets, chosen: Tensor, used: Tensor) -> Tensor:
        """Add the gradients of a minibatch's loss, times ``gradient_scale()``, to those of the policy's weights.

        The loss is the mean of ``1/2 (Q - R)^2`` over teams, where Q is the value of the action, or the sum of the values of the
        team's actions (Sunehag et al. 2018, arXiv 1706.05296, equation 1).

        Args:
            samples: the policy's samples.
            targets: facts about all units.
            chosen: int64 (b,), units of the minibatch.
            used: bool (b,), False for units that fill the minibatch up.

        Raises:
            ConfigError: values have no gradient.

        Returns:
            The loss and the mean of Q, float32 (2,), 0 where no team counts; the part of this process in them.
        """
        teams, policy = self.teams, self.policy
        at, valid = teams.place(chosen), targets.valid[chosen]
        inputs, action = samples.chosen(at), samples.action[at]
        if teams.samples.shape[1] > 1 and not samples.all_valid:  # a team that counts may have samples without an agent that does
            inputs = _cleaned(inputs, valid.view(len(at[0]), *samples.reward.shape[2:]))
        value = policy.evaluate(inputs, action).value
        self._require_gradient(value)
        with torch.no_grad():
            q = teams.total(torch.where(valid, value.view(valid.shape), 0.0))
            counts = targets.learned[chosen] & used.unsqueeze(1)
            total = counts.sum() if self.processes is None else self.processes.sum(counts.sum())
            share = counts / total.clamp(min=1)
            error = torch.where(counts, q - targets.target[chosen], 0.0)
            gradient = torch.where(valid, error * share * gradient_scale(q.device), 0.0)
            terms = torch.stack((0.5 * error.square(), torch.where(counts, q, 0.0)))
            terms = (terms * share).flatten(1).sum(1)
        RUN_BACKWARD((value,), (gradient.view_as(value),))
        return terms

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the optimiser's moments, the number of shuffles, and epsilon of the next rollout."""
        return {"radam": self.radam.state_dict(), "shuffles": self.shuffles.clone(), "epsilon": self.epsilon.clone()}

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """See ``Algorithm.load_state_dict()``."""
        expected = self.state_dict()
        if isinstance(state, dict) and state.get("radam") != {}:  # empty before the first update
            expected["radam"] = self.radam.like()
        require_same_form(state, expected, where)
        self.radam.load_state_dict(state["radam"], f"{where}/radam")
        self.shuffles.copy_(state["shuffles"])
        self.epsilon.copy_(state["epsilon"])


def _cleaned(inputs: Inputs, valid: Tensor) -> Inputs:
    """Return inputs of samples, (b,) or (b, a) as ``valid``, with zeros as observations of those without a row that counts.

    They may hold anything, and gradients of NaN would be NaN for all weights.
    """
    of_sample = valid if valid.dim() == 1 else valid.any(-1)
    return inputs._replace(obs=apply(inputs.obs, lambda x: torch.where(wide(of_sample, x), x, 0.0)))


def make_pqn(policy: QPolicy, options: PQNConfig, setup: Setup) -> PQN:
    """Return the algorithm of a policy; see ``register_algorithm()``."""
    return PQN(policy, options, setup)
