"""Gradients of PPO's loss in float64, by torch's autograd over the policy's own module, and cases to compare with."""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig, PPOConfig
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.fused.guard import kernel_gradient as kernel_gradient_of
from gpu_vecenv.train.fused.update_ends import SCALED_TO
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs, Policy
from gpu_vecenv.train.storage.samples import Samples

STEPS = 4
SCALARS = DeviceScalars(*torch.tensor([3e-4, 0.01, 0.2]))


def slow(names: Iterable[str], *few: str) -> list[Any]:
    """Names of cases, with a mark for ``few`` of them: each compiles a program of its own, which takes most of its time."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in few else name for name in names]


@dataclass
class Case:
    """A policy, rows of a rollout, and one minibatch of them."""

    policy: Policy
    samples: Samples
    value: torch.Tensor
    advantage: torch.Tensor
    target: torch.Tensor
    index: torch.Tensor
    used: torch.Tensor


def scales(numbers, valid, config, policy, choice=None):
    """Return powers of two that give the derivatives by the outputs of actor and critic a size of about 2^SCALED_TO.

    ``numbers`` are float32 (4, S): log-probability, value, advantage, normalised if it is over a rollout, and target. ``choice``,
    bool (S,), says which rows the actor learns from, by default those of ``valid``.
    """
    _, value, advantage, target = numbers
    derivatives = torch.stack((advantage, config.value_coef * (target - value)))
    rows = torch.stack((valid if choice is None else choice, valid))
    sizes = (torch.where(rows, derivatives.square(), 0.0).sum(1) / rows.sum(1).clamp(min=1)).sqrt()
    if config.normalize_advantages == "minibatch":
        sizes[0] = 1.0
    sizes[0] += SCALARS.entropy_coef
    log_std = getattr(policy, "log_std", None)
    if log_std is not None:
        sizes[0] *= torch.exp(-log_std.min())
    return torch.exp2((SCALED_TO - sizes.log2()).floor().clamp(-40.0, 40.0))


def case(
    action, features=4, hidden=(64, 64), activation="tanh", rows=300, masked=(), seed=0, normalize=True, filling=7, policy=None,
    forced=0.0,
):
    """Return a case with rows of any number; the last ``filling`` of the minibatch fill it up and are NaN.

    ``policy`` is one that exists, by default a new one. Log-probabilities of the rollout differ from the policy's, so that some
    ratios are clipped; so do values. In a share ``forced`` of the rows, masks allow one choice of each entry, or none.
    """
    generator = torch.Generator().manual_seed(seed)

    def numbers(*sizes):
        return torch.randn(*sizes, generator=generator)

    if policy is None:
        policy = new_policy(action, features, NetworkConfig(hidden, activation=activation), masked, seed, normalize, numbers)
    samples = -(-rows // STEPS)
    obs = 3.0 * numbers(STEPS + 1, samples, features) + 1.0
    if normalize:
        policy.observe(obs, torch.ones(STEPS + 1, samples, dtype=torch.bool))
    mask = None
    if masked:
        sizes = [policy.choices[entry] for entry in masked]
        parts = [torch.rand(STEPS + 1, samples, size, generator=generator) < 0.5 for size in sizes]
        one = torch.rand(STEPS + 1, samples, generator=generator) < forced
        for part in parts:
            allowed = torch.randint(part.shape[-1] + 1, (int(one.sum()), 1), generator=generator)
            part[one] = torch.arange(part.shape[-1]) == allowed
        mask = torch.cat(parts, dim=-1)  # some entries allow no choice
    inputs = Inputs(obs[:-1].flatten(0, 1), None if mask is None else mask[:-1].flatten(0, 1))
    with torch.no_grad():
        outputs = policy.outputs(inputs.obs)
        if policy.box is not None:
            chosen = policy.box.to_env(outputs + policy.log_std.exp() * numbers(*outputs.shape))
        else:
            distribution = policy.distribution(outputs, inputs.mask)
            noise = -torch.log(-torch.log(torch.rand(outputs.shape, generator=generator)))
            chosen = type(distribution)(outputs + noise, *_choice_arguments(policy, inputs)).mode().int()
        evaluated = policy.evaluate(inputs, chosen)
    shape = (STEPS, samples)
    log_prob = (evaluated.log_prob + 0.15 * numbers(evaluated.log_prob.shape[0])).view(shape)
    value = (evaluated.value + 0.2 * numbers(evaluated.value.shape[0])).view(shape)
    free = None
    if len(masked) == policy.group.num_entries:
        free = torch.stack([part[:-1].sum(-1) > 1 for part in parts]).any(0)
    rollout = Samples(
        obs=obs, action=chosen.view(*shape, *chosen.shape[1:]), log_prob=log_prob, reward=torch.zeros(shape),
        valid=torch.ones(shape, dtype=torch.bool), episode_end=torch.zeros(shape, dtype=torch.bool),
        ended=torch.zeros(shape, dtype=torch.bool), timed_out=torch.zeros(shape, dtype=torch.bool), mask=mask,
        choice=free,
    )  # fmt: skip
    index = torch.randperm(STEPS * samples, generator=generator)[:rows]
    used = torch.arange(rows) < rows - filling
    for bad in index[~used]:
        obs[bad // samples, bad % samples] = np.nan
        rollout.log_prob.view(-1)[bad] = np.nan
        rollout.valid.view(-1)[bad] = False
        if free is not None:
            free.view(-1)[bad] = False
    return Case(policy, rollout, value, numbers(*shape), value + numbers(*shape), index, used)


def new_policy(action, features, network, masked, seed, normalize, numbers):
    """Return a policy with outputs that are not nearly 0, as those of new policies are, and with biases."""
    group = Group("", "", 1, spaces.Box(-np.inf, np.inf, (features,), np.float32), action, masked)
    policy = make_policy("agent", group, seed, network, normalize)
    with torch.no_grad():
        policy.network.actor_layers[-1].weight.mul_(50.0)
        for layer in (*policy.network.actor_layers, *policy.network.critic_layers):
            if isinstance(layer, torch.nn.Linear):
                layer.bias.copy_(0.1 * numbers(*layer.bias.shape))
        if policy.box is not None:
            policy.log_std.copy_(0.3 * numbers(*policy.log_std.shape))
    return policy


def _choice_arguments(policy, inputs):
    return (inputs.mask,) if policy.discrete else (policy.choices, inputs.mask, policy.masked)


def saturate(policy, factor):
    """Multiply the weights of the critic's hidden layers, so that most units are saturated."""
    with torch.no_grad():
        for layer in policy.network.critic_layers[:-1]:
            if isinstance(layer, torch.nn.Linear):
                layer.weight.mul_(factor)


def gradient_and_terms(kernels, one: Case):
    """Return gradients by name and the terms of the loss by kernels, means over the rows that count."""
    gradient = kernel_gradient_of(kernels, one.index, one.used)
    sizes, sums, rows = kernels.sizes, kernels.sums, int(one.used.sum())
    choices = rows if one.samples.choice is None else int(one.samples.choice.flatten()[one.index[one.used]].sum())
    assert sums[sizes.actor_columns - 1] == choices and (not sizes.may_lack_choice or sums[-1] == rows)
    terms = sums[sizes.actor_columns - 5 : sizes.actor_columns - 1] / choices
    value_loss = sums[-2 if sizes.may_lack_choice else -1].view(1) / rows
    return gradient, torch.cat((terms[:1], value_loss, terms[1:]))


def layers_of(gradient):
    """Group gradients by layer: weight and bias together."""
    layers = {}
    for name, value in gradient.items():
        layers.setdefault(name.rpartition(".")[0] or name, []).append(value)
    return layers


def exact_gradient(one: Case, config: PPOConfig, scalars: DeviceScalars = SCALARS):
    """Return gradients by name and the terms of the loss, float64, for a loss that is written out here."""
    policy, chosen = copy.deepcopy(one.policy).double(), one.index[one.used]
    old, value, advantage, target = (
        x.flatten()[chosen].double() for x in (one.samples.log_prob, one.value, one.advantage, one.target)
    )
    at = one.samples.place(chosen)
    inputs, action = one.samples.chosen(at), one.samples.action[at]
    choice = torch.ones_like(chosen, dtype=torch.bool) if one.samples.choice is None else one.samples.choice[at]
    if config.normalize_advantages == "minibatch":
        free = advantage[choice]
        advantage = (advantage - free.mean()) / (free.var(correction=0).sqrt() + 1e-8)
    action = action.double() if action.dtype == torch.float32 else action
    evaluated = policy.evaluate(Inputs(inputs.obs.double(), inputs.mask), action)
    ratio, clip = (evaluated.log_prob - old).exp(), float(scalars.clip_coef)
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    error = (evaluated.value - target).square()
    if config.clip_value:
        near = torch.clamp(evaluated.value, value - clip, value + clip)
        error = torch.maximum(error, (near - target).square())
    kl = ratio - 1 - ratio.log()
    terms = [-surrogate, 0.5 * error, evaluated.entropy, kl, ((ratio - 1).abs() > clip).double()]
    terms = torch.stack([term.mean() if number == 1 else term[choice].mean() for number, term in enumerate(terms)])
    (terms[0] + config.value_coef * terms[1] - float(scalars.entropy_coef) * terms[2]).backward()
    return {name: parameter.grad for name, parameter in policy.named_parameters()}, terms.detach()


def keep_from_bounds(one: Case, scalars: DeviceScalars = SCALARS) -> None:
    """Give a ratio of 1 to samples whose ratio is so near a bound of the clip that rounding decides if they have a gradient."""
    policy, chosen = copy.deepcopy(one.policy).double(), one.index[one.used]
    at = one.samples.place(chosen)
    inputs, action = one.samples.chosen(at), one.samples.action[at]
    with torch.no_grad():
        action = action.double() if action.dtype == torch.float32 else action
        log_prob = policy.evaluate(Inputs(inputs.obs.double(), inputs.mask), action).log_prob
    ratio = (log_prob - one.samples.log_prob[at].double()).exp()
    near = ((ratio - 1).abs() - float(scalars.clip_coef)).abs() < 3e-3
    one.samples.log_prob[at] = torch.where(near, log_prob.float(), one.samples.log_prob[at])


def relative_error(found, exact):
    """Norm of the error of several tensors, over the norm of the exact ones."""
    errors, sizes = (
        torch.cat([x.double().flatten() for x in xs]) for xs in ([f - e for f, e in zip(found, exact, strict=True)], exact)
    )
    return float(errors.norm() / sizes.norm())


TAG = spaces.MultiDiscrete([21, 21])
BOX = spaces.Box(np.array([-2.0, 0.0, -1.0], np.float32), np.array([2.0, 4.0, 1.0], np.float32))

# Seeds whose values are not at a bound of the clipped value loss, where rounding decides which branch counts.
CASES = {
    "discrete": {"action": spaces.Discrete(2)},
    "multi-discrete, 71 features": {"action": TAG, "features": 71},
    "masked": {"action": spaces.MultiDiscrete([5, 3, 4]), "features": 9, "masked": (0, 2)},
    "staged features, masked": {"action": spaces.MultiDiscrete([40, 2]), "features": 64, "masked": (0,), "hidden": (32, 48)},
    "staged features of odd size": {"action": spaces.Discrete(11), "features": 37, "masked": (0,), "forced": 0.3},
    "few choices": {"action": spaces.MultiDiscrete([5, 3, 4]), "features": 9, "masked": (0, 1, 2), "forced": 0.8},
    "one masked choice": {"action": spaces.Discrete(6), "masked": (0,), "activation": "relu"},
    "numbers": {"action": BOX, "features": 3},
    "relu, one layer": {"action": spaces.Discrete(3), "hidden": (128,), "activation": "relu"},
    "elu, three layers": {"action": BOX, "hidden": (64, 48, 33), "activation": "elu", "features": 17},
    "one row more than a tile": {"action": spaces.Discrete(2), "rows": 129, "filling": 0},
    "one row": {"action": spaces.Discrete(2), "rows": 1, "filling": 0},
    "raw observations": {"action": spaces.Discrete(2), "normalize": False},
    "split": {"action": TAG, "features": 75, "hidden": (256, 256), "seed": 1},
    "split, masked, elu, odd sizes": {
        "action": spaces.MultiDiscrete([5, 3, 4]), "features": 9, "masked": (0, 1, 2), "forced": 0.5, "hidden": (200, 48, 33),
        "activation": "elu", "seed": 2,
    },
    "wide": {"action": TAG, "features": 735},
    "wide, one layer, masked, elu": {
        "action": spaces.MultiDiscrete([5, 3, 4]), "features": 1030, "masked": (0, 1, 2), "forced": 0.5, "hidden": (200,),
        "activation": "elu",
    },
    "wide, numbers": {"action": BOX, "features": 71, "hidden": (136,)},
    "wide, three layers": {"action": TAG, "features": 300, "hidden": (256, 48, 33)},
    "wide, raw observations": {"action": spaces.Discrete(6), "features": 300, "hidden": (200, 48), "normalize": False},
}  # fmt: skip
