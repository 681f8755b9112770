"""Updates of SAC, discrete SAC, TD3 and DDPG in float64, from the papers: plain loops, autograd, and Adam by its formula."""

import copy
import math

import numpy as np
import torch

ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "elu": torch.nn.functional.elu, "silu": torch.nn.functional.silu}


def dense(x, weights, activation):
    """A feed-forward network of layers (weight (in, out), bias (out,)), or with gain and offset of layer normalisation."""
    for i, (weight, bias, *norm) in enumerate(weights):
        x = x @ weight + bias
        if norm:
            mean, var = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)
            x = (x - mean) / (var + 1e-5).sqrt() * norm[0] + norm[1]
        if i < len(weights) - 1:
            x = ACTIVATIONS[activation](x)
    return x


class Adam:
    """Kingma and Ba 2015, algorithm 1."""

    def __init__(self, weights, rate):
        self.weights, self.rate, self.t = weights, rate, 0
        self.m, self.v = [torch.zeros_like(x) for x in weights], [torch.zeros_like(x) for x in weights]

    def step(self, loss):
        gradients = torch.autograd.grad(loss, self.weights)
        self.t += 1
        with torch.no_grad():
            for x, g, m, v in zip(self.weights, gradients, self.m, self.v, strict=True):
                m.copy_(0.9 * m + 0.1 * g)
                v.copy_(0.999 * v + 0.001 * g * g)
                x -= self.rate * (m / (1 - 0.9**self.t)) / ((v / (1 - 0.999**self.t)).sqrt() + 1e-8)


def actor_weights(network):
    """Weights of a policy's network by layer, float64."""
    layers = []
    for x in network:
        if isinstance(x, torch.nn.Linear):
            layers.append((x.weight.detach().double().t().contiguous(), x.bias.detach().double().clone()))
        elif isinstance(x, torch.nn.LayerNorm):
            layers[-1] += (x.weight.detach().double().clone(), x.bias.detach().double().clone())
    return layers


def critic_weights(critics):
    """Weights of each critic by layer, float64."""
    parts, size = [x.detach().double() for x in critics.layers], critics.parts_of_layer
    critic, count = [], len(parts[0])
    for i in range(count):
        own = [part[i].clone() if n % size == 0 else part[i, 0].clone() for n, part in enumerate(parts)]
        critic.append([tuple(own[n : n + size]) for n in range(0, len(own), size)])
    return critic


def flat(networks):
    return [x for pair in networks for x in pair]


class Rows:
    """The transitions of a batch that count, one row for each agent, float64."""

    def __init__(self, policy, batch):
        by_world, self.valid = batch.valid.dim() > 1, batch.valid.flatten()
        count = batch.valid.shape[1] if by_world else 1

        def rows(obs):
            obs = policy.normalized(obs)
            if by_world:
                shared = obs["shared"].unsqueeze(1).expand(-1, count, -1)
                obs = torch.cat((shared, obs["own"]), dim=2).flatten(0, 1)
            return obs.flatten(1).double()[self.valid]

        def plain(x):
            return x.reshape(len(self.valid), *x.shape[2:] if by_world else x.shape[1:]).double()[self.valid]

        self.obs, self.next_obs = rows(batch.inputs.obs), rows(batch.next_inputs.obs)
        self.reward, self.discount = plain(batch.reward), plain(batch.discount)
        action = batch.action
        if policy.group.continuous:
            low, high = (torch.tensor(x, dtype=torch.float64) for x in (policy.group.action.low, policy.group.action.high))
            self.action = 2 * (plain(action) - low) / (high - low) - 1
        else:
            self.action = plain(action).view(len(self.reward), -1).long()
        self.weight = batch.weight.repeat_interleave(count).double()[self.valid]
        masks = (batch.inputs.mask, batch.next_inputs.mask)
        self.mask, self.next_mask = (None if x is None else x.reshape(len(self.valid), -1)[self.valid] for x in masks)

    def noise(self, numbers):
        return numbers.double()[self.valid]


class Reference:
    """State of an algorithm in float64, copied from the algorithm before its first update."""

    def __init__(self, algorithm, network):
        policy, self.options = algorithm.policy, algorithm.options
        self.policy, self.activation = policy, network.activation
        self.actor, self.critics = actor_weights(policy.network), critic_weights(algorithm.critics)
        self.target_actor, self.targets = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        for x in (*flat(self.actor), *[y for critic in self.critics for y in flat(critic)]):
            x.requires_grad_(True)
        self.actor_adam = Adam(flat(self.actor), self.options.actor_learning_rate)
        self.critic_adam = Adam([y for critic in self.critics for y in flat(critic)], self.options.critic_learning_rate)

    def values(self, critics, *inputs):
        return [dense(torch.cat(inputs, dim=1), critic, self.activation) for critic in critics]

    def follow(self, target, source):
        with torch.no_grad():
            for x, y in zip(flat(target), flat(source), strict=True):
                x.copy_((1 - self.options.tau) * x + self.options.tau * y)

    def follow_critics(self):
        for target, source in zip(self.targets, self.critics, strict=True):
            self.follow(target, source)

    # ---- critics of one number, and of atoms ----

    def expected(self, output):
        if self.options.num_atoms == 1:
            return output[:, 0]
        z = torch.linspace(self.options.value_min, self.options.value_max, self.options.num_atoms, dtype=torch.float64)
        return torch.softmax(output, dim=1) @ z

    def learn_critics(self, rows, next_action, bonus, factor):
        """One step of the critics towards r + discount (min_i Q_i(s', a') + bonus)."""
        options = self.options
        with torch.no_grad():
            following = self.values(self.targets, rows.next_obs, next_action)
            means = torch.stack([self.expected(x) for x in following])
            if options.num_atoms == 1:
                target = rows.reward + rows.discount * (means.min(0).values + bonus)
            else:
                target = self.projected(following, means, rows, bonus)
        loss = 0.0
        for output in self.values(self.critics, rows.obs, rows.action):
            if options.num_atoms == 1:
                each = (output[:, 0] - target) ** 2
            else:
                each = -(target * torch.log_softmax(output, dim=1)).sum(1)
            loss = loss + factor * (rows.weight * each).mean()
        self.critic_adam.step(loss)
        return loss.item()

    def projected(self, following, means, rows, bonus):
        """Bellemare et al. 2017, algorithm 1, atom by atom."""
        options = self.options
        z = np.linspace(options.value_min, options.value_max, options.num_atoms)
        target = torch.zeros(len(rows.reward), options.num_atoms, dtype=torch.float64)
        for i in range(len(target)):
            p = torch.softmax(following[int(means[:, i].argmin())][i], dim=0)
            extra = bonus if isinstance(bonus, float) else bonus[i]
            for j in range(options.num_atoms):
                moved = float(rows.reward[i] + rows.discount[i] * (z[j] + extra))
                b = (min(max(moved, options.value_min), options.value_max) - options.value_min) / (z[1] - z[0])
                low, high = math.floor(b), math.ceil(b)
                if low == high:
                    target[i, low] += p[j]
                else:
                    target[i, low] += p[j] * (high - b)
                    target[i, high] += p[j] * (b - low)
        return target


class ReferenceSAC(Reference):
    """Haarnoja et al. 2018, arXiv 1812.05905, algorithm 1."""

    def __init__(self, algorithm, network):
        super().__init__(algorithm, network)
        self.log_alpha = torch.tensor(math.log(self.options.temperature), dtype=torch.float64, requires_grad=True)
        rate = self.options.temperature_learning_rate
        self.alpha_adam = None if rate is None else Adam([self.log_alpha], rate)

    def draw(self, obs, noise):
        """A tanh-squashed draw and its log-density by the change of variables, equation 26."""
        mean, log_std = dense(obs, self.actor, self.activation).chunk(2, dim=1)
        normal = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        u = normal.mean + normal.stddev * noise
        action = torch.tanh(u)
        return action, (normal.log_prob(u) - torch.log(1 - action**2)).sum(1)

    def step(self, number, batch, noise):
        rows, alpha = Rows(self.policy, batch), self.log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = self.draw(rows.next_obs, rows.noise(noise[0]))
        loss = self.learn_critics(rows, next_action, -alpha * next_log_prob, 0.5)
        action, log_prob = self.draw(rows.obs, rows.noise(noise[1]))
        values = torch.stack([self.expected(x) for x in self.values(self.critics, rows.obs, action)]).min(0).values
        actor_loss = (alpha * log_prob - values).mean()
        self.actor_adam.step(actor_loss)
        self.move_temperature(log_prob.detach(), self.target(rows))
        self.follow_critics()
        return {
            "critic_loss": loss,
            "actor_loss": actor_loss.item(),
            "entropy": -log_prob.mean().item(),
            "temperature": alpha.item(),
        }

    def target(self, rows):
        given = self.options.target_entropy
        return -float(rows.action.shape[1]) if given is None else given

    def move_temperature(self, log_prob, target):
        if self.alpha_adam is not None:
            self.alpha_adam.step((-self.log_alpha.exp() * (log_prob + target)).mean())  # equation 18


class ReferenceChoices(ReferenceSAC):
    """Christodoulou 2019, arXiv 1910.07207, with a sum of values over independent entries; row by row and entry by entry."""

    def entries(self, logits, mask):
        """Yield first column, allowed choices, and log-probabilities of each entry of one row that has an allowed choice."""
        group, first, place = self.policy.group, 0, 0
        for entry, count in enumerate(group.choices):
            allowed = list(range(count))
            if mask is not None and entry in group.limited:
                allowed = [c for c in range(count) if mask[place + c]]
                place += count
            if allowed:
                yield entry, [first + c for c in allowed], torch.log_softmax(logits[[first + c for c in allowed]], dim=0)
            first += count

    def step(self, number, batch, noise):
        rows, alpha = Rows(self.policy, batch), self.log_alpha.detach().exp()
        count = range(len(rows.reward))
        masks = [None if rows.mask is None else rows.mask[i] for i in count]
        next_masks = [None if rows.next_mask is None else rows.next_mask[i] for i in count]
        with torch.no_grad():
            logits = dense(rows.next_obs, self.actor, self.activation)
            least = torch.stack(self.values(self.targets, rows.next_obs)).min(0).values
            target = rows.reward.clone()
            for i in count:
                for _, columns, log_p in self.entries(logits[i], next_masks[i]):
                    target[i] += rows.discount[i] * (log_p.exp() * (least[i, columns] - alpha * log_p)).sum()
        loss, outputs = 0.0, self.values(self.critics, rows.obs)
        firsts = np.cumsum([0, *self.policy.group.choices])
        for output in outputs:
            for i in count:
                used = [entry for entry, _, _ in self.entries(output[i], masks[i])]
                q = sum((output[i, firsts[entry] + rows.action[i, entry]] for entry in used), torch.zeros(()).double())
                loss = loss + 0.5 * rows.weight[i] * (q - target[i]) ** 2 / len(count)
        self.critic_adam.step(loss)
        with torch.no_grad():
            least = torch.stack(self.values(self.critics, rows.obs)).min(0).values
        logits, actor_loss, entropy, wanted = dense(rows.obs, self.actor, self.activation), 0.0, [], []
        for i in count:
            found = list(self.entries(logits[i], masks[i]))
            for _, columns, log_p in found:
                actor_loss = actor_loss + (log_p.exp() * (alpha * log_p - least[i, columns])).sum() / len(count)
            entropy.append(-sum((log_p.exp() * log_p).sum().item() for _, _, log_p in found))
            wanted.append(sum(0.98 * math.log(len(columns)) for _, columns, _ in found))
        self.actor_adam.step(actor_loss)
        given, entropy = self.options.target_entropy, torch.tensor(entropy).double()
        self.move_temperature(-entropy, torch.tensor(wanted).double() if given is None else given)
        self.follow_critics()
        terms = {"critic_loss": loss.item(), "actor_loss": actor_loss.item(), "entropy": entropy.mean().item()}
        return {**terms, "temperature": alpha.item()}


class ReferenceTD3(Reference):
    """Fujimoto et al. 2018, arXiv 1802.09477, algorithm 1; for DDPG Lillicrap et al. 2016, arXiv 1509.02971, algorithm 1."""

    def step(self, number, batch, noise):
        rows, options, twin = Rows(self.policy, batch), self.options, len(self.critics) == 2
        with torch.no_grad():
            next_action = torch.tanh(dense(rows.next_obs, self.target_actor, self.activation))
            if twin:
                smooth = (options.target_noise * rows.noise(noise[0])).clamp(
                    -options.target_noise_clip, options.target_noise_clip
                )
                next_action = (next_action + smooth).clamp(-1, 1)
        terms = {"critic_loss": self.learn_critics(rows, next_action, 0.0, 1.0)}
        if twin and (number + 1) % options.policy_delay:
            return terms
        action = torch.tanh(dense(rows.obs, self.actor, self.activation))
        loss = -self.expected(self.values(self.critics, rows.obs, action)[0]).mean()
        self.actor_adam.step(loss)
        self.follow_critics()
        self.follow(self.target_actor, self.actor)
        return {**terms, "actor_loss": loss.item()}
