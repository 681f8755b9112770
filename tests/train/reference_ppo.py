"""Whole iterations of PPO in NumPy float64, for comparison. They share no code with the trainer.

Written from Schulman et al. 2017 (arXiv 1707.06347, algorithm 1), with the advantages of Schulman et al. 2016 (arXiv 1506.02438)
and the optimiser of Kingma & Ba 2015 (arXiv 1412.6980, algorithm 1). A critic of the world is that of Yu et al. 2022 (arXiv
2103.01955, algorithm 1 and section 5): its inputs are copied for each agent, and agents that left are zeros in them. Terms of the
loss and their gradients are those of ``numpy_ppo``. Running statistics are those of all samples, which are kept.
"""

from dataclasses import dataclass

import numpy as np
import numpy_ppo

CLIP, SMALLEST = 10.0, 1e-4
"""Bound of normalised numbers, and the smallest deviation that they are divided by."""

BETAS, EPSILON = (0.9, 0.999), 1e-5
"""Settings of Adam."""

TERMS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "grad_norm")
"""Numbers of each step of the optimiser, whose means are metrics."""

OF_VALUES = ("value_loss", "grad_norm")
"""Metrics whose means are over all steps; the others are over the steps with a choice."""


@dataclass
class Transitions:
    """T steps of the agents of one policy, a agents in each of N worlds."""

    own: np.ndarray
    """Observations of agents, (T + 1, N, a, F)."""
    shared: np.ndarray | None
    """Shared part of the observations, (T + 1, N, S)."""
    mask: np.ndarray | None
    """bool (T, N, a, all choices), False for forbidden choices; None allows all."""
    action: np.ndarray
    """(T, N, a, entries of an action), in the env's units."""
    reward: np.ndarray
    """(T, N, a)."""
    before: np.ndarray
    """bool (T, N, a), in the game before the step."""
    after: np.ndarray
    """bool (T, N, a), in the game after the step, before the next episode begins."""
    terminated: np.ndarray
    """bool (T, N)."""
    truncated: np.ndarray
    """bool (T, N)."""
    final_own: np.ndarray
    """Last observations of episodes, (T, N, a, F); of other steps any finite numbers."""
    final_shared: np.ndarray | None
    """The same of the shared part, (T, N, S)."""
    present: np.ndarray
    """bool (T + 1, N, a), in the game in each observation."""
    state: dict[str, np.ndarray]
    """Fields of the env's state that the critic reads, by name, (T + 1, N, numbers)."""


class Statistics:
    """Mean and deviation of each feature over all samples so far."""

    def __init__(self):
        self.samples = []

    def add(self, samples):
        """Add samples (n, features)."""
        self.samples.append(samples)

    def normalized(self, x):
        """Return numbers (..., features), shifted, scaled and clipped."""
        every = np.concatenate(self.samples)
        return np.clip((x - every.mean(0)) / self.deviation(), -CLIP, CLIP)

    def deviation(self):
        return np.maximum(np.concatenate(self.samples).std(0), SMALLEST)


class Adam:
    """Adam for a list of arrays, which it changes in place, with gradients of bounded norm."""

    def __init__(self, arrays, max_norm):
        self.arrays, self.max_norm, self.steps = arrays, max_norm, 0
        self.first, self.second = ([np.zeros_like(x) for x in arrays] for _ in range(2))

    def step(self, gradients, rate):
        """Take a step, and return the norm of the gradient."""
        norm = np.sqrt(sum((g**2).sum() for g in gradients))
        self.steps += 1
        for x, g, m, v in zip(self.arrays, gradients, self.first, self.second, strict=True):
            g = g / max(1.0, norm / self.max_norm)
            m += (1 - BETAS[0]) * (g - m)
            v += (1 - BETAS[1]) * (g**2 - v)
            mean, square = m / (1 - BETAS[0] ** self.steps), v / (1 - BETAS[1] ** self.steps)
            x -= rate * mean / (np.sqrt(square) + EPSILON)
        return norm


class ReferencePPO:
    """PPO of one policy."""

    def __init__(self, actor, critic, log_std, bounds, choices, config, sources=(), team=False):
        """Store the state at the start of a run.

        Args:
            actor, critic: layers, lists of (weight, bias), which are changed.
            log_std: logarithms of the deviations of numbers; None for choices.
            bounds: lowest and highest numbers of an action; None for choices.
            choices: number of choices of each entry of an action.
            config: a PPOConfig.
            sources: what the critic reads of the world; empty for what its agent observes.
            team: the critic reads nothing else.
        """
        self.sources, self.team, self.fields = sources, team, Statistics()
        self.actor, self.critic, self.log_std = actor, critic, log_std
        self.bounds, self.choices, self.config = bounds, choices, config
        self.weights = [x for layer in (*actor, *critic) for x in layer] + ([] if log_std is None else [log_std])
        self.adam = Adam(self.weights, config.max_grad_norm)
        self.own, self.shared, self.returns = Statistics(), Statistics(), Statistics()
        self.running = 0.0

    def iterate(self, t, orders, progress):
        """Learn from a rollout.

        Args:
            t: the transitions.
            orders: for each epoch its minibatches, each bool (T, N, a).
            progress: share of the run that is done, on which the schedules depend.

        Returns:
            Metrics by name.
        """
        first = not self.own.samples
        if first:
            self._observe(t)
        metrics = self._learn(t, orders, progress)
        if not first:
            self._observe(t)
        return metrics

    def _observe(self, t):
        """Add the observations to the statistics: a shared part once a world, others once an agent."""
        if self.config.normalize_observations:
            self.own.add(t.own[:-1][t.before])
            if t.shared is not None:
                self.shared.add(t.shared[:-1][t.before.any(-1)])
            if t.state:
                self.fields.add(np.concatenate(list(t.state.values()), -1)[:-1][t.before.any(-1)])

    def _inputs(self, own, shared):
        """Return the inputs of the networks, (..., N, a, features)."""
        if self.config.normalize_observations:
            own, shared = self.own.normalized(own), None if shared is None else self.shared.normalized(shared)
        if shared is None:
            return own
        return np.concatenate((np.broadcast_to(shared[..., None, :], (*own.shape[:-1], shared.shape[-1])), own), axis=-1)

    def _of_world(self, own, shared, present, state):
        """Return what the critic reads of the world, copied for each agent, (..., N, a, features)."""
        worlds, agents = own.shape[:-2], own.shape[-2]
        state = {name: state[name] for name in self.sources if name in state}
        if self.config.normalize_observations:
            own, shared = self.own.normalized(own), None if shared is None else self.shared.normalized(shared)
            if state:
                sizes = np.cumsum([x.shape[-1] for x in state.values()])[:-1]
                every = self.fields.normalized(np.concatenate(list(state.values()), -1))
                state = dict(zip(state, np.split(every, sizes, -1), strict=True))
        every = np.where(present[..., None], own, 0).reshape(*worlds, -1)
        if shared is not None:
            every = np.concatenate((np.where(present.any(-1, keepdims=True), shared, 0), every), -1)
        once = np.concatenate([{**state, "observations": every, "shared": shared}[name] for name in self.sources], -1)
        return np.broadcast_to(once[..., None, :], (*worlds, agents, once.shape[-1]))

    def _critic_inputs(self, own, shared, present, state):
        """Return the inputs of the critic, (..., N, a, features)."""
        if not self.sources:
            return self._inputs(own, shared)
        of_world = self._of_world(own, shared, present, state)
        if self.team:
            return of_world
        with_shared = {"observations", "shared"} & {*self.sources}
        return np.concatenate((of_world, self._inputs(own, None if with_shared else shared)), -1)

    def _values(self, *observed):
        return numpy_ppo.forward(self.critic, self._critic_inputs(*observed))[1][..., 0]

    def _head(self, action, mask):
        """Return the function of the actor's outputs for some transitions, see ``numpy_ppo.loss_and_gradients()``."""
        if self.bounds is None:
            return lambda logits: numpy_ppo.choices(logits, action.astype(int), self.choices, mask)
        low, high = self.bounds
        return lambda mean: numpy_ppo.gaussian(mean, (2 * action - low - high) / (high - low), self.log_std)

    def _scaled(self, t):
        """Return rewards divided by the deviation of the discounted returns of all rollouts (arXiv 2005.12729), clipped."""
        if not self.config.normalize_rewards:
            return t.reward
        for reward, before, after, ended in zip(t.reward, t.before, t.after, t.terminated | t.truncated, strict=True):
            self.running = np.where(before, reward + self.config.gamma * self.running, 0.0)
            self.returns.add(self.running[before])
            self.running = np.where(ended[:, None] | ~after, 0.0, self.running)
        return np.clip(t.reward / self.returns.deviation(), -CLIP, CLIP)

    def _advantages(self, t, value, final):
        """Return advantages and value targets, each (T, N, a); ``final`` has the values of final observations, if they count."""
        reward, found = self._scaled(t), np.zeros((2, *t.reward.shape))
        for world, agent in np.ndindex(t.reward.shape[1:]):
            at = np.s_[:, world, agent]
            row = [reward[at], value[at], None if final is None else final[at], t.before[at], t.after[at]]
            row += [t.terminated[:, world], t.truncated[:, world]]
            estimates = numpy_ppo.advantages(*row, self.config.gamma, self.config.gae_lambda)
            found[:, :, world, agent] = estimates
        return found

    def _learn(self, t, orders, progress):
        """Take the steps of an update, and return the metrics."""
        config, inputs = self.config, self._inputs(t.own, t.shared)
        value, final = self._values(t.own, t.shared, t.present, t.state), None
        if config.bootstrap_at_time_limit:
            final = self._values(t.final_own, t.final_shared, t.before & t.after, {})
        critic_inputs = self._critic_inputs(t.own, t.shared, t.present, t.state)
        advantage, target = self._advantages(t, value, final)
        explained = 1 - advantage[t.before].var() / target[t.before].var()
        choice = t.before & have_choice(t.mask, self.choices, t.before.shape)
        if config.normalize_advantages == "rollout":
            advantage = standardized(advantage, choice)
        rows = {"obs": inputs[:-1], "critic_obs": critic_inputs[:-1], "value": value[:-1], "advantage": advantage}
        rows |= {"target": target, "choice": choice}
        rows["log_prob"] = np.zeros(t.before.shape)
        outputs, mask = numpy_ppo.forward(self.actor, inputs[:-1][t.before])[1], None if t.mask is None else t.mask[t.before]
        rows["log_prob"][t.before] = self._head(t.action[t.before], mask)(outputs)[0]
        rate = config.learning_rate * (1 - progress if config.learning_rate_schedule == "linear" else 1)
        weights = [config.value_coef, linear(config.entropy_coef, config.entropy_coef_final, progress)]
        clip, terms, free = linear(config.clip_coef, config.clip_coef_final, progress), [], []
        for order in orders:
            for chosen in order:
                batch = {name: x[chosen] for name, x in rows.items()}
                if config.normalize_advantages == "minibatch":
                    batch["advantage"] = standardized(advantage, chosen & choice)[chosen]
                head = self._head(t.action[chosen], None if t.mask is None else t.mask[chosen])
                numbers, layers, by_log_std = numpy_ppo.loss_and_gradients(
                    self.actor, self.critic, batch, head, clip, *weights, config.clip_value
                )
                gradients = [x for layer in layers for x in layer] + ([] if self.log_std is None else [by_log_std])
                terms.append([*numbers, self.adam.step(gradients, rate)])
                free.append(batch["choice"].any())
            last = means(terms[-len(order) :], free[-len(order) :])
            if config.target_kl is not None and last["kl"] > config.target_kl:
                break
        metrics = means(terms, free)
        return {**metrics, "explained_variance": explained, "learning_rate": rate, "valid_fraction": t.before.mean(),
                "choice_fraction": choice.sum() / t.before.sum(), "updates": len(terms)}  # fmt: skip


def have_choice(mask, choices, shape):
    """Return where an agent has two choices of one entry at least, bool (T, N, a)."""
    if mask is None:
        return np.ones(shape, bool)
    entries = np.split(mask, np.cumsum(choices)[:-1], axis=-1)
    return np.any([entry.sum(-1) > 1 for entry in entries], axis=0)


def means(terms, free):
    """Return means of steps by name; ``free`` says which had a choice, and the others count for values and gradients alone."""
    terms, free = np.array(terms), np.array(free)
    return {
        name: column.mean() if name in OF_VALUES else column[free].mean() if free.any() else np.nan
        for name, column in zip(TERMS, terms.T, strict=True)
    }


def linear(start, end, progress):
    """Return a setting that moves from its start to its end; it stays if the end is None."""
    return start if end is None else start + (end - start) * progress


def standardized(x, chosen):
    """Return numbers shifted and scaled to mean 0 and deviation 1 over those that are chosen."""
    return (x - x[chosen].mean()) / (x[chosen].std() + 1e-8) if chosen.any() else x
