"""Whole iterations of PPO with a memory in float64, for comparison. They share no code with the trainer.

Every step of every agent is computed one after the other. Cells are written from Cho et al. 2014 (arXiv 1406.1078), with the
reset gate after the product as torch documents it, and from Hochreiter & Schmidhuber 1997 with the forget gate of Gers et al.
2000; the loss from Schulman et al. 2017 (arXiv 1707.06347). torch differentiates it.
"""

import math

import numpy as np
import torch
from reference_ppo import Adam, ReferencePPO, have_choice, linear, means, standardized


def sigma(x):
    return 1 / (1 + torch.exp(-x))


def gru(weights, x, state):
    """Return the state after a step; gates are in the order r, z, n."""
    w, u, b, c = weights
    size = state.shape[-1]
    (ir, iz, new), (hr, hz, old) = (torch.split(y, size, dim=-1) for y in (x @ w.T + b, state @ u.T + c))
    r, z = sigma(ir + hr), sigma(iz + hz)
    return (1 - z) * torch.tanh(new + r * old) + z * state


def lstm(weights, x, state):
    """Return the state after a step, (h, c); gates are in the order i, f, g, o."""
    w, u, b, k = weights
    h, c = state[..., 0, :], state[..., 1, :]
    i, f, g, o = torch.split(x @ w.T + b + h @ u.T + k, h.shape[-1], dim=-1)
    c = sigma(f) * c + sigma(i) * torch.tanh(g)
    return torch.stack((sigma(o) * torch.tanh(c), c), dim=-2)


class RecurrentReference(ReferencePPO):
    """PPO of one policy with a memory."""

    def __init__(self, memory, trunk, actor, critic, log_std, bounds, choices, config, sources=(), team=False):
        """Store the state at the start of a run.

        Args:
            memory: the weights of a GRU or an LSTM.
            trunk: layers that actor and critic share, each with tanh after it.
            actor, critic: the layers after these.
            log_std, bounds, choices, config, sources, team: see ``ReferencePPO``.
        """
        super().__init__(actor, critic, log_std, bounds, choices, config, sources, team)
        self.weights = [*memory, *[x for layer in trunk for x in layer], *self.weights]
        self.sizes = 2 * len(trunk), 2 * len(actor), 2 * len(critic)
        self.adam = Adam(self.weights, config.max_grad_norm)
        size = memory[1].shape[1]
        self.cell, self.shape = (gru, (size,)) if len(memory[1]) == 3 * size else (lstm, (2, size))
        self.state = None

    def iterate(self, t, orders, progress):
        """See ``ReferencePPO.iterate()``; minibatches are bool (T / L, N * a), the sequences of each row."""
        rows = t.before[0].size
        start = torch.zeros(rows, *self.shape, dtype=torch.float64) if self.state is None else self.state
        acting = self._flat(self._inputs(t.own, t.shared) if self.own.samples else self._raw(t))
        with torch.no_grad():  # with the weights and statistics that acted
            after = self._run(self._tensors(), acting[:-1], start, self._ends(t))[1]
        self.start, self.state = start, torch.where(_like(self._ends(t)[-1], after[-1]), 0.0, after[-1])
        return super().iterate(t, orders, progress)

    def _raw(self, t):
        """Return observations without statistics."""
        if t.shared is None:
            return t.own
        return np.concatenate((np.broadcast_to(t.shared[..., None, :], (*t.own.shape[:-1], t.shared.shape[-1])), t.own), axis=-1)

    def _flat(self, x):
        """Return observations (T, N, a, F) as rows (T, N * a, F), without numbers that are not finite."""
        return torch.tensor(np.nan_to_num(x.reshape(len(x), -1, x.shape[-1])))

    def _ends(self, t):
        """Return where the state is zeros after a step: the episode ended, or the agent is not in the game on both sides."""
        ended = (t.terminated | t.truncated)[:, :, None]
        return torch.tensor((ended | ~(t.before & t.after)).reshape(len(t.before), -1))

    def _tensors(self):
        return [torch.tensor(x, requires_grad=True) for x in self.weights]

    def _seen(self, own, shared, present, state):
        """Return what the critic reads of the world beside the units, (T, N * a, features); no features without sources."""
        if self.sources:
            return self._flat(self._of_world(own, shared, present, state))
        return torch.zeros(len(own), own[0, ..., 0].size, 0, dtype=torch.float64)

    def _run(self, w, x, state, ends, seen=None):
        """Return outputs, states after each step and values of steps in turn.

        Args:
            w: the weights.
            x: (L, n, F).
            state: (n, ...).
            ends: bool (L, n).
            seen: ``_seen()`` of the steps; None if nobody reads the values.
        """
        outputs, states, values = [], [], []
        for step, (now, end) in enumerate(zip(x, ends, strict=True)):
            state = self.cell(w[:4], now, state)
            states.append(state)
            acts, worth = self._layers(w, state, None if seen is None else seen[step])
            outputs.append(acts)
            values.append(worth)
            state = torch.where(_like(end, state), torch.zeros_like(state), state)
        return torch.stack(outputs), torch.stack(states), None if seen is None else torch.stack(values)

    def _layers(self, w, state, seen):
        """Return outputs, and values of states and of what the critic has seen; None for ``seen`` returns no values."""
        trunk, actor, critic = self.sizes
        x, rest = state if self.cell is gru else state[..., 0, :], w[4:]
        for number in range(0, trunk, 2):
            x = torch.tanh(x @ rest[number].T + rest[number + 1])
        found = []
        for first, count in ((trunk, actor), (trunk + actor, critic))[: 1 if seen is None else 2]:
            y = x if not found else seen if self.team else torch.cat((seen, x), -1)
            for number in range(first, first + count, 2):
                y = y @ rest[number].T + rest[number + 1]
                if number < first + count - 2:
                    y = torch.tanh(y)
            found.append(y)
        return found[0], None if seen is None else found[1][..., 0]

    def _score(self, w, outputs, action, mask):
        """Return log-probabilities and entropies (...) of actions (..., entries)."""
        if self.bounds is not None:
            log_std, (low, high) = w[-1], (torch.tensor(x.astype(np.float64)) for x in self.bounds)
            off = (2 * action - low - high) / (high - low) - outputs
            log_prob = -0.5 * (off / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
            entropy = (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum().expand(outputs.shape[:-1])
            return log_prob.sum(-1), entropy
        log_prob, entropy, first = 0.0, 0.0, 0
        for entry, size in enumerate(self.choices):
            z = outputs[..., first : first + size]
            allowed = torch.ones_like(z, dtype=torch.bool) if mask is None else mask[..., first : first + size]
            allowed = allowed | ~allowed.any(-1, keepdim=True) & (torch.arange(size) == 0)  # no effect: the choice is 0
            p = torch.where(allowed, torch.exp(z - z.max(-1, keepdim=True).values), 0.0)
            p = p / p.sum(-1, keepdim=True)
            log_p = torch.log(torch.where(allowed, p, 1.0))
            log_prob = log_prob + torch.gather(log_p, -1, action[..., entry : entry + 1].long())[..., 0]
            entropy = entropy - (p * log_p).sum(-1)
            first += size
        return log_prob, entropy

    def _learn(self, t, orders, progress):
        """Take the steps of an update, and return the metrics."""
        config, shape = self.config, t.before.shape
        steps, length = len(t.before), config.sequence_length or len(t.before)
        x, ends, before = self._flat(self._inputs(t.own, t.shared)), self._ends(t), torch.tensor(t.before.reshape(steps, -1))
        action = torch.tensor(t.action.astype(np.float64).reshape(steps, before.shape[1], -1))
        action = torch.where(before[..., None], action, 0.0)
        mask = None if t.mask is None else torch.tensor(t.mask.reshape(steps, before.shape[1], -1)) | ~before[..., None]
        w, world = self._tensors(), self._seen(t.own, t.shared, t.present, t.state)
        with torch.no_grad():
            outputs, states, value = self._run(w, x[:-1], self.start, ends, world[:-1])
            log_prob = self._score(w, outputs, action, mask)[0]
            begun = torch.where(_like(ends, states), 0.0, states)
            starts = torch.cat((self.start[None], begun[:-1]))[::length]
            last = self._layers(w, self.cell(w[:4], x[-1], begun[-1]), world[-1])[1]
            final = None
            if config.bootstrap_at_time_limit:
                seen = self._flat(self._inputs(t.final_own, t.final_shared))
                of_end = self._seen(t.final_own, t.final_shared, t.before & t.after, {})
                final = self._layers(w, self.cell(w[:4], seen, states), of_end)[1].numpy().reshape(shape)
        value = torch.cat((value, last[None]))
        advantage, target = self._advantages(t, value.numpy().reshape(-1, *shape[1:]), final)
        explained = 1 - advantage[t.before].var() / target[t.before].var()
        choice = t.before & have_choice(t.mask, self.choices, shape)
        if config.normalize_advantages == "rollout":
            advantage = standardized(advantage, choice)
        rows = [torch.tensor(each.reshape(steps, -1)) for each in (advantage, target, choice)]
        rows = [*rows, before, log_prob, value[:-1], ends, x[:-1], world[:-1], action, mask]
        rate = config.learning_rate * (1 - progress if config.learning_rate_schedule == "linear" else 1)
        terms, free = [], []
        for order in orders:
            for chosen in order:
                pairs = np.argwhere(chosen)
                parts = [
                    None if each is None else torch.stack([each[k * length : (k + 1) * length, row] for k, row in pairs], dim=1)
                    for each in rows
                ]
                start = torch.stack([starts[k, row] for k, row in pairs])
                numbers, gradients = self._gradients(parts, start, progress)
                terms.append([*numbers, self.adam.step(gradients, rate)])
                free.append(bool(parts[2].any()))
            last = means(terms[-len(order) :], free[-len(order) :])
            if config.target_kl is not None and last["kl"] > config.target_kl:
                break
        metrics = means(terms, free)
        return {**metrics, "explained_variance": explained, "learning_rate": rate, "valid_fraction": t.before.mean(),
                "choice_fraction": choice.sum() / t.before.sum(), "updates": len(terms)}  # fmt: skip

    def _gradients(self, parts, start, progress):
        """Return the terms of the loss of some sequences, and its gradients."""
        config, w = self.config, self._tensors()
        advantage, target, choice, valid, old_log_prob, old_value, ends, x, world, action, mask = parts
        clip = linear(config.clip_coef, config.clip_coef_final, progress)
        if config.normalize_advantages == "minibatch":
            advantage = torch.tensor(standardized(advantage.numpy(), choice.numpy()))
        outputs, _, value = self._run(w, x, start, ends, world)
        log_prob, entropy = self._score(w, outputs, action, mask)
        ratio = torch.exp(log_prob - old_log_prob)
        gain = torch.minimum(ratio * advantage, torch.clamp(ratio, 1 - clip, 1 + clip) * advantage)
        error = (value - target) ** 2
        if config.clip_value:
            near = old_value + torch.clamp(value - old_value, -clip, clip)
            error = torch.maximum(error, (near - target) ** 2)

        def mean(x, counts):
            return x[counts].sum() / max(1, int(counts.sum()))

        terms = [
            mean(-gain, choice), 0.5 * mean(error, valid), mean(entropy, choice),
            mean(ratio - 1 - (log_prob - old_log_prob), choice), mean(((ratio - 1).abs() > clip).double(), choice),
        ]  # fmt: skip
        weight = linear(config.entropy_coef, config.entropy_coef_final, progress)
        loss = terms[0] + config.value_coef * terms[1] - weight * terms[2]
        slopes = torch.autograd.grad(loss, w, allow_unused=True)
        return [float(x.detach()) for x in terms], [
            np.zeros(x.shape) if slope is None else slope.numpy() for x, slope in zip(w, slopes, strict=True)
        ]


def _like(flags, x):
    """Give flags the further axes of an array."""
    return flags.reshape(*flags.shape, *[1] * (x.dim() - flags.dim()))
