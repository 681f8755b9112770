"""The order of an update of SAC, TD3 and DDPG: add a rollout to the replay buffer, then take gradient steps."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.private import gradients, has_functions
from gpu_vecenv.train.algorithms.contract import Algorithm, Setup
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam, gradient_scale
from gpu_vecenv.train.algorithms.noise import Noise
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.algorithms.off_policy.critics import Critics
from gpu_vecenv.train.algorithms.off_policy.dense import Dense
from gpu_vecenv.train.algorithms.off_policy.heads import ScalarHead, make_head
from gpu_vecenv.train.algorithms.off_policy.losses import actor_loss, critic_loss
from gpu_vecenv.train.algorithms.shared_gradient import SharedGradient
from gpu_vecenv.train.config.checks import MAX_INT, require
from gpu_vecenv.train.config.off_policy import OffPolicyConfig
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.actor import ActorPolicy
from gpu_vecenv.train.policies.contract import Acted, Actor, Draw, Inputs, Observation
from gpu_vecenv.train.policies.random import RandomPolicy
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.replay import Batch, Replay
from gpu_vecenv.train.storage.samples import Samples

GRADIENTS, HAS_FUNCTIONS = gradients(), has_functions()
EPS = 1e-8
"""Number added to the root of Adam's second moment, that of torch."""
FIRST_IMPORTANCE = 0.4
"""Default of ``importance_exponent`` with priorities (Schaul et al. 2016, arXiv 1511.05952, table 3, proportional)."""


class RandomStart:
    """Acts as random play until learning begins, and then as another actor."""

    def __init__(self, actor: Actor, random: RandomPolicy, begun: Tensor):
        """Store both; ``begun``, bool (), says on the device which one acts."""
        self.actor, self.random, self.begun = actor, random, begun
        self.on_host = begun.numpy() if begun.device.type == "cpu" else None  # the flag itself
        self.zero = torch.zeros((), dtype=torch.float32, device=begun.device)

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """See ``Policy.act()``; log-probabilities of random play are 0. On the CPU one of both is computed."""
        if self.on_host is not None and self.on_host:
            return self.actor.act(inputs, draw, deterministic)[:2]
        action, log_prob = self.actor.act(inputs, draw, deterministic)[:2]
        return torch.where(self.begun, action, self.random.act(inputs, draw)[0]), torch.where(self.begun, log_prob, self.zero)


class HeldNoise:
    """Acts as another actor whose random numbers stay the same for some steps: those of a step are those of the first of them."""

    def __init__(self, actor: Actor, steps: int):
        """Store the actor, and for how many steps of an episode the counters of its draws stay."""
        self.actor, self.steps = actor, steps
        self._counters: WeakKeyDictionary[Draw, Draw] = WeakKeyDictionary()

    def act(self, inputs: Inputs, draw: Draw, deterministic: bool = False) -> Acted:
        """See ``Policy.act()``."""
        counters = self._counters.get(draw)
        if counters is None:
            counters = self._counters[draw] = replace(draw, t=torch.empty_like(draw.t))
        torch.div(draw.t, self.steps, rounding_mode="floor", out=counters.t)
        return self.actor.act(inputs, counters, deterministic)


class OffPolicy(Algorithm):
    """Replay, critics with target networks, and a policy that learns from the critics."""

    terms: tuple[str, ...]
    """Names of the numbers that gradient steps return."""
    num_normals: int
    """Normal numbers of a gradient step for each number of an action."""
    sums_over_processes = True
    of_worlds = ("replay", "noise", "seen")

    def __init__(self, policy: ActorPolicy, options: OffPolicyConfig, setup: Setup, count: int, inputs: int, outputs: int):
        """Make the buffer, and the critics with their targets.

        Args:
            policy: the policy to train, on the device.
            options: options of the algorithm.
            setup: parts of the run.
            count: number of critics.
            inputs: inputs of a critic.
            outputs: values that a critic returns.

        Raises:
            ConfigError: an update draws more random numbers than 32 bits count, or processes cannot have equal parts.
        """
        self.policy, self.options, self.schedule_steps, device = policy, options, setup.schedule_steps, setup.device
        self.processes = setup.processes
        size, batch_size = (of_process(name, getattr(options, name), setup) for name in ("replay_size", "batch_size"))
        self.replay = Replay(
            setup.rows, size, batch_size, options.gamma, setup.seed_of_process, device, options.n_steps,
            options.priority_exponent,
        )  # fmt: skip
        self.replay.processes = self.processes
        self.num_rows = batch_size * math.prod(setup.rows.shape[1:])
        drawn = max(1, self.num_normals) * self.num_rows
        expected = f"at most {MAX_INT // drawn:,} with {self.num_rows:,} rows in a batch"
        require(options.gradient_steps <= MAX_INT // drawn, "gradient_steps", expected, options.gradient_steps)
        self.noise = Noise(setup.seed_of_process, drawn * options.gradient_steps, device)
        self.head = make_head(options, device)
        self.by_kernels = isinstance(self.head, ScalarHead)
        shape = (count, inputs, outputs * self.head.outputs, setup.network, setup.seed, device)
        self.dense = {policy.network: Dense.of(policy.network)}
        self.critics, self.targets = Critics(*shape), Critics(*shape).requires_grad_(False)
        self.adams = {
            "actor": self.adam(policy.parameters(), options.actor_learning_rate),
            "critics": self.adam(self.critics.parameters(), options.critic_learning_rate),
        }
        self.shared = {} if self.processes is None else {
            name: SharedGradient(adam.parameters, self.processes) for name, adam in self.adams.items()
        }  # fmt: skip
        self.random = RandomPolicy(setup.rows.group).to(device)
        self.seen = torch.zeros((), dtype=torch.int64, device=device)
        self.begun, self.gate = torch.zeros(2, dtype=torch.bool, device=device).unbind()
        self.gate_on_host = self.gate.numpy() if device.type == "cpu" else None  # the flag itself
        self.taken: list[Tensor] = []
        # Numbers of operations, which would take a kernel each to make them.
        self.one, self.nan = (torch.full((), x, dtype=torch.float32, device=device) for x in (1.0, math.nan))
        self.metric_names = (*self.terms, "replay_filled", "update_to_data", "updates", "skipped")

    @staticmethod
    def adam(parameters: Iterable[nn.Parameter], rate: float) -> MaskedAdam:
        """Return an optimiser that does not clip gradients."""
        adam = MaskedAdam(parameters, math.inf, EPS)
        adam.rate.fill_(rate)
        return adam

    def actor(self) -> Actor | None:
        """Return what acts in rollouts: random play until the first update."""
        actor = RandomStart(self.explorer(), self.random, self.begun)
        return actor if self.options.noise_steps == 1 else HeldNoise(actor, self.options.noise_steps)

    def explorer(self) -> Actor:
        """Return what acts in rollouts from the first update on."""
        return self.policy

    def scalars_at(self, steps: int) -> Sequence[float]:
        """Return the exponent of importance weights, if the buffer has priorities."""
        if self.options.priority_exponent is None:
            return ()
        first = FIRST_IMPORTANCE if self.options.importance_exponent is None else self.options.importance_exponent
        return (first + (1.0 - first) * min(1.0, steps / self.schedule_steps),)

    def update(self, samples: Samples, scalars: tuple[Tensor, ...]) -> Tensor:
        """See ``Algorithm.update()``."""
        with torch.no_grad():
            self.replay.add(samples)
            new, filled = self._count(samples)
            noise = self._normals()
        self.taken, metrics = [], []
        if self._skips_steps():
            self.replay.skip(self.options.gradient_steps)
        else:
            metrics = [self._sampled_step(step, noise[step], scalars) for step in range(self.options.gradient_steps)]
        with torch.no_grad():
            return self._metrics(metrics, new, filled)

    def _skips_steps(self) -> bool:
        """Return True if the host knows that learning has not begun. With priorities, steps before it set those of batches."""
        return self.gate_on_host is not None and self.options.priority_exponent is None and not self.gate_on_host

    def _count(self, samples: Samples) -> tuple[Tensor, Tensor]:
        """Return the new transitions and those of the buffer, int64 () each, and decide whether steps are wanted."""
        new, filled = self._total(samples.valid.sum()), self._total(self.replay.filled)
        self.seen += new
        torch.logical_and(self.seen >= self.options.learning_starts, filled > 0, out=self.gate)
        self.begun |= self.gate
        return new, filled

    def _metrics(self, metrics: Sequence[dict[str, Tensor]], new: Tensor, filled: Tensor) -> Tensor:
        """Return the numbers of ``metric_names`` for those of all gradient steps."""
        steps = torch.stack(self.taken).sum() if self.taken else torch.zeros_like(filled)
        rows = self.num_rows * (1 if self.processes is None else self.processes.count)
        update_to_data = torch.where(new > 0, self.options.gradient_steps * rows / new, self.nan)
        terms = torch.stack([*self._means(metrics), update_to_data])
        learned = torch.where(self.gate, terms, self.nan)  # NaN stands for no value
        counts = torch.stack((filled, steps, self.gate * len(self.taken) - steps)).float()
        return torch.cat((learned[:-1], counts[:1], learned[-1:], counts[1:]))

    def _means(self, metrics: Sequence[dict[str, Tensor]]) -> list[Tensor]:
        """Return the mean of each term over the gradient steps that have it; terms of the same steps by one operation."""
        if len(metrics) < 2:
            return [metrics[0][name] if metrics else self.nan for name in self.terms]
        steps_of = {name: tuple(i for i, each in enumerate(metrics) if name in each) for name in self.terms}
        means: dict[str, Tensor] = {}
        for steps in dict.fromkeys(steps_of.values()):
            names = [name for name in self.terms if steps_of[name] == steps]
            together = torch.stack([metrics[i][name] for name in names for i in steps]).view(len(names), -1)
            means |= dict(zip(names, together.mean(1).unbind(), strict=True))
        return [means[name] for name in self.terms]

    def _sampled_step(self, step: int, noise: Tensor, scalars: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Sample a batch, take a gradient step, and set the priorities of the batch."""
        with torch.no_grad():
            batch = self.replay.sample(*scalars)
            rows = self._rows_of(batch)
        metrics, error = self.gradient_step(step, rows, noise)
        if self.options.priority_exponent is not None and error is not None:
            valid = batch.valid.flatten(1) if batch.valid.dim() > 1 else batch.valid.unsqueeze(1)
            errors = torch.where(valid, error.detach().view(valid.shape), 0.0)
            self.replay.set_priorities(batch, errors.sum(1) / valid.sum(1).clamp(min=1))
        return metrics

    def _rows_of(self, batch: Batch) -> Minibatch:
        """Return a batch as rows."""
        return Minibatch.of(self.policy, batch, self.processes)

    def outputs(self, features: Observation, network: nn.Sequential | None = None) -> Tensor:
        """Return the outputs of the policy's network, or of another one of its shape, as rows, float32 (R, outputs)."""
        network = self.policy.network if network is None else network
        dense = self.dense.get(network)
        if dense is not None and isinstance(features, Tensor) and Dense.takes(features) and not any(map(HAS_FUNCTIONS, network)):
            return dense(features)[0]
        return self.policy.outputs(features, network).flatten(0, -2)

    def _total(self, number: Tensor) -> Tensor:
        """Return the sum over processes of a number."""
        return number if self.processes is None else self.processes.sum(number.clone())

    def _mean_of_all(self, mean: Tensor, weight: Tensor) -> Tensor:
        """Return the mean over the rows of all processes, float32 ().

        Args:
            mean: float32 (), that of the rows of this process; NaN without weights.
            weight: float32 (R,), weights of these rows.
        """
        if self.processes is None:
            return mean
        of_process = weight.sum()
        total = torch.where(of_process > 0, mean * of_process, 0.0)
        total, weights = self.processes.sum(torch.stack((total, of_process))).unbind()
        return total / weights

    @abstractmethod
    def gradient_step(self, step: int, batch: Minibatch, noise: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        """Take a step of each optimiser by ``learn()``, and move the target networks.

        Args:
            step: number of the step in its update.
            batch: transitions.
            noise: float32 (num_normals, R, k), standard normal.

        Returns:
            Numbers of ``terms``, each float32 (), and the error of each row, float32 (R,), for its priority; without
            priorities it may be None.
        """

    def learn(self, name: str, loss: Tensor) -> Tensor:
        """Take a step of an optimiser along the gradient of a loss, if steps are wanted and the gradient is finite.

        Args:
            name: name of the optimiser.
            loss: the loss; of several processes the part of this one.

        Returns:
            The loss of all processes, without a gradient.
        """
        scale = gradient_scale(loss.device)
        scaled = loss if scale == 1.0 else loss * scale
        return self.learn_along(name, loss.detach(), [scaled], [self.one.to(loss.dtype)])

    def learn_along(self, name: str, loss: Tensor, outputs: Sequence[Tensor], slopes: Sequence[Tensor]) -> Tensor:
        """Do what ``learn()`` does for derivatives of the loss by outputs of networks, times ``gradient_scale()``."""
        return self.take_step(name, loss, GRADIENTS(outputs, self.adams[name].parameters, slopes))

    def take_step(self, name: str, loss: Tensor, gradients: Sequence[Tensor]) -> Tensor:
        """Do what ``learn()`` does for derivatives of the loss by the parameters, times ``gradient_scale()``."""
        adam = self.adams[name]
        for parameter, gradient in zip(adam.parameters, gradients, strict=True):
            parameter.grad = gradient
        if name in self.shared:
            loss = self.shared[name].add_up(loss.view(1)).view(())
        self.taken.append(adam.step(self.gate)[1])
        adam.zero_grad()
        return loss

    def learn_critics(
        self, inputs: Tensor, target: Tensor, weight: Tensor, factor: float
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Take a step of the critics.

        Args:
            inputs: float32 (R, inputs), observations and actions.
            target: see ``Head.target()``.
            weight: float32 (R,), weight of each row.
            factor: factor of the loss.

        Returns:
            Loss and mean value, and the error of each row, float32 (R,), if priorities need it.
        """
        outputs = self.critics(inputs)
        if self.by_kernels:
            of_critics = critic_loss(outputs, target, weight, factor, gradient_scale(target.device))
            loss = self.learn_along("critics", of_critics.loss, [outputs], [of_critics.slopes])
        else:
            loss = self.learn("critics", factor * (self.head.loss(outputs, target) @ weight).sum())
        with torch.no_grad():
            value = of_critics.mean if self.by_kernels else (self.head.mean(outputs) @ weight).mean() / weight.sum()
            error = None if self.options.priority_exponent is None else self.head.error(outputs, target)
            return {"critic_loss": loss, "q": self._mean_of_all(value, weight)}, error

    def learn_actor(
        self, inputs: Tensor, share: Tensor, alpha: Tensor | None = None, log_prob: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Take a step of the policy towards larger values of its actions: with a temperature of the smallest, else of the first.

        Args:
            inputs: float32 (R, inputs), observations and actions of the policy, for the critics.
            share: float32 (R,), weight of each row.
            alpha: float32 (), temperature.
            log_prob: float32 (R,), log-densities of the actions.

        Returns:
            Loss and mean entropy, each float32 (); 0 without log-densities.
        """
        outputs = self.critics.climbed(inputs, 1 if log_prob is None else None)
        if self.by_kernels:
            of_actor = actor_loss(outputs, share, gradient_scale(share.device), alpha, log_prob)
            if log_prob is None or of_actor.log_prob_slopes is None:
                return self.learn_along("actor", of_actor.loss, [outputs], [of_actor.slopes]), of_actor.mean
            slopes = [of_actor.slopes, of_actor.log_prob_slopes]
            return self.learn_along("actor", of_actor.loss, [outputs, log_prob], slopes), self._total(of_actor.mean)
        values = self.head.mean(outputs)
        if alpha is None or log_prob is None:
            return self.learn("actor", -torch.dot(values[0], share)), torch.zeros_like(self.one)
        loss = self.learn("actor", torch.dot(alpha * log_prob - values.amin(0), share))
        return loss, self._total(-torch.dot(log_prob.detach(), share))

    def _normals(self) -> Sequence[Tensor] | Tensor:
        """Return the normal numbers of an update, float32 (num_normals, R, k) of each gradient step."""
        if self.num_normals == 0:
            return self.noise.count.new_zeros(self.options.gradient_steps, 0)
        normals = self.noise.normal(self.policy.group.num_entries)
        return normals.view(self.options.gradient_steps, self.num_normals, self.num_rows, -1)

    def modules(self) -> dict[str, nn.Module]:
        """Return the networks beside the policy, by name."""
        return {"critics": self.critics, "targets": self.targets}

    def tensors(self) -> dict[str, Tensor]:
        """Return further numbers that an update changes, by name."""
        return {"seen": self.seen, "begun": self.begun}

    def state_dict(self) -> dict[str, Any]:
        """Return networks, optimisers and the buffer, without copies."""
        return {
            "replay": self.replay.state_dict(with_transitions=self.options.save_replay),
            "noise": self.noise.state_dict(),
            "adams": {name: adam.state_dict() for name, adam in self.adams.items()},
            **{name: module.state_dict() for name, module in self.modules().items()},
            **self.tensors(),
        }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """See ``Algorithm.load_state_dict()``."""
        expected = self.state_dict()
        adams = state.get("adams") if isinstance(state, dict) else None
        for name, adam in self.adams.items():
            if not isinstance(adams, dict) or adams.get(name) != {}:  # empty before the first update
                expected["adams"][name] = adam.like()
        require_same_form(state, {**expected, "replay": {**expected["replay"]}}, where)
        self.replay.load_state_dict(state["replay"], f"{where}/replay")
        self.noise.load_state_dict(state["noise"], f"{where}/noise")
        for name, adam in self.adams.items():
            adam.load_state_dict(state["adams"][name], f"{where}/adams/{name}")
        for name, module in self.modules().items():
            module.load_state_dict(state[name])
        for name, tensor in self.tensors().items():
            tensor.copy_(state[name])
        if not self.options.save_replay:
            self.seen.zero_()


def of_process(name: str, total: int, setup: Setup) -> int:
    """Return the part of one process in an option that is a total over all processes.

    Raises:
        ConfigError: the processes cannot have equal parts.
    """
    count = setup.num_processes
    if total % count:
        raise ConfigError(f"{name}: expected a multiple of {count}, the number of processes, got {total:,}")
    return total // count
