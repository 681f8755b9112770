"""Policies with a GRU, sequences to learn from, and their gradients in float64."""

import copy
import dataclasses

import numpy as np
import torch
from gymnasium import spaces
from reference import SCALARS, scales
from reference_recurrent import gru

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import NetworkConfig, PPOConfig
from gpu_vecenv.train.algorithms.masked_adam import MaskedAdam
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.fused.guard import kernel_gradient as gradient_of
from gpu_vecenv.train.fused.recurrent_update import FusedRecurrentBackend
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.storage.samples import Samples

CPU = torch.device("cpu")
NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
CONFIG = PPOConfig(num_epochs=1, num_minibatches=1, num_steps=12, sequence_length=6)
BOX = spaces.Box(np.array([-2.0, 0.0, -1.0], np.float32), np.array([2.0, 4.0, 1.0], np.float32))


@dataclasses.dataclass
class Case:
    """A policy, samples of a rollout, and what an update learns from them."""

    policy: torch.nn.Module
    samples: Samples
    value: torch.Tensor
    advantage: torch.Tensor
    target: torch.Tensor


def new_policy(action, features, units, masked=(), normalize=True, seed=0):
    """Return a policy whose outputs are not nearly 0, as those of new policies are, with biases."""
    generator = torch.Generator().manual_seed(seed)
    group = Group("", "", 1, spaces.Box(-np.inf, np.inf, (features,), np.float32), action, masked)
    network = NetworkConfig(hidden_sizes=(), memory="gru", memory_size=units)
    policy = make_policy("agent", group, seed, network, normalize)
    with torch.no_grad():
        policy.network.actor_layers[-1].weight.mul_(50.0)
        for name, x in policy.named_parameters():
            if "bias" in name or name == "log_std":
                x.add_(0.2 * torch.randn(x.shape, generator=generator))
    return policy


def case(action=None, features=4, units=64, rows=21, steps=12, masked=(), seed=0, normalize=True, ends=0.15, leaves=0.0):
    """Return a case in which a share ``ends`` of the steps is the last one of an episode, and ``leaves`` do not count."""
    action = spaces.Discrete(2) if action is None else action
    generator = torch.Generator().manual_seed(seed)

    def numbers(*sizes):
        return torch.randn(*sizes, generator=generator)

    def chance(share):
        return torch.rand(steps, rows, generator=generator) < share

    policy = new_policy(action, features, units, masked, normalize, seed)
    obs = 2.0 * numbers(steps + 1, rows, features) + 1.0
    if normalize:
        policy.observe(obs, torch.ones(steps + 1, rows, dtype=torch.bool))
    mask = None
    if masked:
        mask = torch.rand(steps + 1, rows, sum(policy.choices[entry] for entry in masked), generator=generator) < 0.6
    valid, ended = ~chance(leaves), chance(ends)
    left = torch.cat((~valid[1:], torch.zeros(1, rows, dtype=torch.bool)))  # after the step, of which the next one counts no more
    samples = Samples(
        obs=obs, action=torch.zeros(steps, rows), log_prob=numbers(steps, rows), reward=numbers(steps, rows), valid=valid,
        episode_end=ended | left, ended=ended, timed_out=ended & ~left & chance(0.5) & valid, mask=mask,
        final_obs=2.0 * numbers(steps, rows, features), state=torch.tanh(numbers(rows, units)),
    )  # fmt: skip
    inputs, state = Inputs(obs[:-1].flatten(0, 1), None if mask is None else mask[:-1].flatten(0, 1)), samples.state
    with torch.no_grad():
        outputs = policy.network.actor(policy.normalized(inputs.obs), state.repeat(steps, 1))[0]
        if policy.box is not None:
            chosen = policy.box.to_env(outputs + policy.log_std.exp() * numbers(*outputs.shape))
        else:
            distribution = policy.distribution(outputs, inputs.mask)
            noise = -torch.log(-torch.log(torch.rand(outputs.shape, generator=generator)))
            arguments = (inputs.mask,) if policy.discrete else (policy.choices, inputs.mask, policy.masked)
            chosen = type(distribution)(outputs + noise, *arguments).mode().int()
        samples.action = chosen.view(steps, rows, *chosen.shape[1:])
        row = torch.arange(rows)
        evaluated = policy.evaluate_sequence(*samples.sequences((torch.zeros_like(row), row), steps), state)[0]
        samples.log_prob = evaluated.log_prob + 0.15 * numbers(steps, rows)
    value = evaluated.value + 0.2 * numbers(steps, rows)
    for x in (obs, samples.log_prob, value):
        x[:steps][~valid] = np.nan
    target = value + numbers(steps, rows)
    return Case(policy, samples, value, numbers(steps, rows), target)


def moved(one, device):
    """Return a copy of a case on a device."""
    found = {field.name: getattr(one.samples, field.name) for field in dataclasses.fields(one.samples)}
    samples = Samples(**{name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in found.items()})
    numbers = (x.to(device) for x in (one.value, one.advantage, one.target))
    return Case(copy.deepcopy(one.policy).to(device), samples, *numbers)


def backend_of(one, config=CONFIG):
    """Return a back end on kernels."""
    device = one.value.device
    adam = MaskedAdam(one.policy.parameters(), config.max_grad_norm)
    return FusedRecurrentBackend(one.policy, config, adam, torch.tensor(3, device=device), torch.ones((), device=device))


def exact_inputs(one):
    """Return the weights of a GRU in float64, and the features that it reads."""
    memory = one.policy.network.memory
    weights = [getattr(memory, name).detach().double().requires_grad_() for name in NAMES]
    raw = one.samples.obs.clone()
    raw[:-1][~one.samples.valid] = 0.0
    return weights, one.policy.normalized(raw).detach().double()


def exact_walk(one):
    """Return the states before and after each step of a rollout, float64 (T + 1, B, H) and (T, B, H)."""
    weights, obs = exact_inputs(one)
    before, after = [one.samples.state.double()], []
    with torch.no_grad():
        for t in range(len(one.samples.reward)):
            after.append(gru(weights, obs[t], before[-1]))
            before.append(torch.where(one.samples.episode_end[t].unsqueeze(-1), 0.0, after[-1]))
    return torch.stack(before), torch.stack(after)


def exact_gradient(one, config, chosen):
    """Return gradients by name, float64, of the sequences ``chosen``, numbers of segment * B + row."""
    steps, rows = one.samples.reward.shape
    length = config.sequence_length or steps
    weights, obs = exact_inputs(one)
    heads = {n: x.detach().double().requires_grad_() for n, x in one.policy.named_parameters() if "memory" not in n}
    segment, row = chosen // rows, chosen % rows
    state = exact_walk(one)[0][segment * length, row]
    log_prob, entropy, value = [], [], []
    at = [(segment * length + t, row) for t in range(length)]
    for place in at:
        state = gru(weights, obs[place], state)
        outputs = state @ heads["network.actor_layers.0.weight"].T + heads["network.actor_layers.0.bias"]
        value.append((state @ heads["network.critic_layers.0.weight"].T + heads["network.critic_layers.0.bias"]).squeeze(-1))
        mask, action = None if one.samples.mask is None else one.samples.mask[place], one.samples.action[place]
        if one.policy.box is None:
            found = one.policy.distribution(outputs, mask)
        else:
            action = one.policy.normalized_actions(action.double())
            action = torch.where(one.samples.valid[place].unsqueeze(-1), action, 0.0)
            found = torch.distributions.Independent(torch.distributions.Normal(outputs, heads["log_std"].exp()), 1)
        log_prob.append(found.log_prob(action))
        entropy.append(found.entropy())
        state = torch.where(one.samples.episode_end[place].unsqueeze(-1), 0.0, state)
    counts = torch.stack([one.samples.valid[place] for place in at])
    numbers = (one.samples.log_prob, one.value, one.advantage, one.target)
    old, before, advantage, target = (torch.stack([x[place] for place in at])[counts].double() for x in numbers)
    log_prob, entropy, value = (torch.stack(x)[counts] for x in (log_prob, entropy, value))
    ratio, clip = (log_prob - old).exp(), float(SCALARS.clip_coef)
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    error = (value - target).square()
    if config.clip_value:
        error = torch.maximum(error, (before + (value - before).clamp(-clip, clip) - target).square())
    loss = -surrogate.mean() + 0.5 * config.value_coef * error.mean() - float(SCALARS.entropy_coef) * entropy.mean()
    loss.backward()
    return {f"network.memory.{n}": x.grad for n, x in zip(NAMES, weights, strict=True)} | {n: x.grad for n, x in heads.items()}


def kernel_gradient(one, config, chosen, places):
    """Return gradients by name by kernels; ``places`` of the minibatch, of which the first are ``chosen``."""
    backend = backend_of(one, config)
    backend.values(one.samples, final=False)
    device = one.value.device
    settings = DeviceScalars(*(x.to(device) for x in SCALARS))
    kernels = backend._prepared(one.samples, settings)
    columns = torch.stack((one.samples.log_prob, one.value, one.advantage, one.target)).flatten(1)
    numbers = columns.t().contiguous()
    kernels.args.numbers = numbers.data_ptr()
    kernels.scales.copy_(scales(columns, one.samples.valid.flatten(), config, one.policy))
    index = torch.zeros(places, dtype=torch.int64, device=device)
    index[: len(chosen)] = chosen.to(device)
    found = gradient_of(kernels, index, torch.arange(places, device=device) < len(chosen))
    return {name: x.cpu() for name, x in found.items()}
