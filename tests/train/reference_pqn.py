"""One update of PQN and PQN-VDN in double precision, written from the papers by loops over teams and steps.

Gallici et al. 2024 (arXiv 2407.04811), Sunehag et al. 2018 (arXiv 1706.05296), Liu et al. 2020 (arXiv 1908.03265, by torch).
"""

import copy
from itertools import accumulate

import numpy as np
import torch

from gpu_vecenv.train.algorithms.shuffle import choose, shuffle


def rows_of(obs):
    """Observations of rows, (..., R, features), from those of samples; the shared part comes first."""
    if isinstance(obs, torch.Tensor):
        return obs
    own = obs["own"]
    if "shared" in obs:
        own = torch.cat((obs["shared"].unsqueeze(-2).expand(*own.shape[:-1], -1), own), -1)
    return own.flatten(1, 2)


class Rollout:
    """Samples as NumPy arrays by step and row, and Q as a float64 network of a row's observation."""

    def __init__(self, policy, samples, worlds):
        self.network = copy.deepcopy(policy.network).double()
        self.sizes, self.discrete = policy.choices, policy.discrete
        self.limited = policy.masked
        self.obs = rows_of(policy.normalized(samples.obs)).double()
        self.final = None if samples.final_obs is None else rows_of(policy.normalized(samples.final_obs)).double()
        flat = {name: getattr(samples, name).flatten(1, samples.reward.dim() - 1) for name in
                ("reward", "valid", "episode_end", "timed_out", "action")}  # fmt: skip
        self.reward, self.valid, self.ends, self.timed_out = (x.numpy() for x in list(flat.values())[:4])
        self.action = flat["action"].unsqueeze(-1) if self.discrete else flat["action"]
        masks, first = (samples.mask, samples.final_mask), samples.reward.dim() - 1
        self.mask, self.final_mask = (None if x is None else x.flatten(1, first).numpy() for x in masks)
        self.worlds = worlds
        self.steps, self.rows = self.reward.shape

    def q(self, obs):
        """Values of choices of one row."""
        x = obs
        for layer in self.network.layers:
            weight = getattr(layer, "weight", None)
            x = torch.nn.functional.linear(x, weight, layer.bias) if weight is not None and weight.dim() == 2 else layer(x)
        return x

    def allowed(self, t, row, final):
        """Choices of each entry that are allowed; choice 0 if there is none."""
        found, column = [list(range(size)) for size in self.sizes], 0
        for entry in self.limited if self.mask is not None else ():
            mask = (self.final_mask if final else self.mask)[t, row]
            found[entry] = [i for i in range(self.sizes[entry]) if mask[column + i]] or [0]
            column += self.sizes[entry]
        return found

    def best(self, t, row, final=False):
        """max_a Q(s, a) over the allowed actions of a row, before step t or at the final observation of step t."""
        allowed, obs = self.allowed(t, row, final), self.final if final else self.obs
        values, first = self.q(obs[t, row]).detach().numpy(), accumulate(self.sizes, initial=0)
        return sum(max(values[start + i] for i in entry) for start, entry in zip(first, allowed, strict=False))


def targets(rollout, team, config, bootstrap):
    """The lambda return of each step of a team and True where it is learned; a list of rows is a team."""
    one, steps = rollout, rollout.steps
    found, learned = [None] * steps, [False] * steps
    for t in reversed(range(steps)):
        here = [row for row in team if one.valid[t, row]]
        stay = [row for row in here if not one.ends[t, row]]
        if not here:
            continue
        learned[t] = True
        following = 0.0
        if bootstrap:
            following = sum(one.best(t, row, final=True) for row in here if one.timed_out[t, row])
        if stay:
            following = sum(one.best(t + 1, row) for row in stay)
            if t + 1 < steps:
                following = config.q_lambda * found[t + 1] + (1 - config.q_lambda) * following
        found[t] = config.reward_scale * sum(float(one.reward[t, row]) for row in here) + config.gamma * following
    return found, learned


def update(policy, config, samples, worlds, seed, rate, bootstrap):
    """Weights after an update, by name, and the mean loss."""
    one = Rollout(policy, samples, worlds)
    per_sample = samples.reward[0, 0].numel()
    if config.mixing == "vdn":
        units = [[[row for row in range(one.rows) if worlds[row] == world]] for world in sorted({*worlds})]
    else:
        units = [[[sample * per_sample + k] for k in range(per_sample)] for sample in range(one.rows // per_sample)]
    found = [[targets(one, team, config, bootstrap) for team in teams] for teams in units]
    any_learned = [[any(learned[t] for _, learned in of_unit) for of_unit in found] for t in range(one.steps)]
    places = choose(torch.tensor(any_learned).flatten(), bool(np.all(any_learned)))
    optimiser = torch.optim.RAdam(one.network.parameters(), lr=rate, eps=1e-8)
    losses = []
    for epoch in range(config.num_epochs):
        index, used = shuffle(places, config.num_minibatches, torch.tensor(seed), epoch + 1)
        for chosen, use in zip(index.tolist(), used.tolist(), strict=True):
            errors = []
            for place in [place for place, count in zip(chosen, use, strict=True) if count]:
                t, unit = divmod(place, len(units))
                for team, (target, learned) in zip(units[unit], found[unit], strict=True):
                    if learned[t]:
                        errors.append(value_of_actions(one, t, team) - target[t])
            if not errors:
                continue
            loss = 0.5 * torch.stack(errors).square().mean()
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(one.network.parameters(), config.max_grad_norm)
            optimiser.step()
            losses.append(loss.item())
    return dict(one.network.named_parameters()), float(np.mean(losses))


def value_of_actions(one, t, team):
    """Sum of the values of the actions of a team's agents in the game."""
    total = torch.zeros((), dtype=torch.float64)
    for row in team:
        if one.valid[t, row]:
            values = one.q(one.obs[t, row])
            for entry, start in enumerate(list(accumulate(one.sizes, initial=0))[:-1]):
                total = total + values[start + int(one.action[t, row, entry])]
    return total
