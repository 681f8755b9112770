"""One update of SAC, discrete SAC, TD3 and DDPG equals a float64 version from the papers, over random shapes."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from ranks import in_processes
from reference_off_policy import (
    Adam,
    ReferenceChoices,
    ReferenceSAC,
    ReferenceTD3,
    Rows,
    actor_weights,
    critic_weights,
    dense,
    flat,
)

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import DDPGConfig, NetworkConfig, Noise, SACConfig, TD3Config
from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.off_policy import learner
from gpu_vecenv.train.algorithms.off_policy.heads import ScalarHead
from gpu_vecenv.train.fused.off_policy import make_sac, make_td3
from gpu_vecenv.train.policies.actor import make_deterministic_policy, make_soft_policy
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.networks import WorldSpec
from gpu_vecenv.train.storage.replay import Batch

KINDS = {
    "sac": (SACConfig, make_soft_policy, make_sac, ReferenceSAC),
    "choices": (SACConfig, make_soft_policy, make_sac, ReferenceChoices),
    "td3": (TD3Config, make_deterministic_policy, make_td3, ReferenceTD3),
    "ddpg": (DDPGConfig, make_deterministic_policy, make_td3, ReferenceTD3),
}


class Batches:
    """Stands for the replay buffer: returns batches that are given, and keeps the priorities that are set."""

    def __init__(self, batches):
        self.batches, self.filled, self.errors = list(batches), torch.tensor(9), []
        self.exponents = []

    def add(self, samples):
        pass

    def sample(self, importance_exponent=None):
        self.exponents.append(importance_exponent)
        return self.batches[len(self.exponents) - 1]

    def set_priorities(self, batch, error):
        self.errors.append(error)


def random_group(kind, rng, agents):
    if kind == "choices":
        sizes = rng.integers(1, 5, rng.integers(1, 4)).tolist()
        action = Discrete(int(rng.integers(2, 5))) if rng.random() < 0.4 else MultiDiscrete(sizes)
        entries = 1 if isinstance(action, Discrete) else len(sizes)
        masked = tuple(i for i in range(entries) if rng.random() < 0.6)
    else:
        low = rng.uniform(-3, 1, rng.integers(1, 4)).astype(np.float32)
        action, masked = Box(low, low + rng.uniform(0.1, 4, low.shape).astype(np.float32), dtype=np.float32), ()
    shared = Box(-9, 9, (int(rng.integers(1, 4)),), np.float32) if agents else None
    return Group("", "", agents or 1, Box(-9, 9, (int(rng.integers(1, 5)),), np.float32), action, masked, shared)


def random_batch(group, rng, size, agents, gamma):
    """Transitions with agents out of the game, ends, and next values of several steps; numbers that do not count are 0."""
    shape = (size, agents) if agents else (size,)
    valid = torch.from_numpy(rng.random(shape) < 0.8)
    valid[0] = True
    discount = torch.from_numpy(np.where(rng.random(shape) < 0.3, 0.0, gamma ** rng.integers(1, 4, shape))).float() * valid

    def normal(*axes):
        return torch.from_numpy(rng.normal(size=axes)).float()

    def inputs(counts):
        mask = None
        if group.masked:
            mask = torch.from_numpy(rng.random((*shape, group.num_choices)) < 0.6) | ~counts.unsqueeze(-1)
            mask[0] = True
        own = normal(*shape, *group.observation.shape) * counts.unsqueeze(-1)
        return Inputs({"shared": normal(size, *group.shared.shape), "own": own} if agents else own, mask)

    before = inputs(valid)
    if group.continuous:
        low, high = group.action.low, group.action.high
        action = torch.from_numpy(rng.uniform(low, high, (*shape, len(low)))).float()
    else:
        parts = () if before.mask is None else before.mask.split(group.masked_choices, dim=-1)
        masks = dict(zip(group.masked, parts, strict=True))
        scores = [torch.from_numpy(rng.random((*shape, n))) * masks.get(i, torch.tensor(1)) for i, n in enumerate(group.choices)]
        action = torch.stack([x.argmax(-1) for x in scores], dim=-1).int()  # an allowed choice, or 0 if there is none
        action = action.squeeze(-1) if isinstance(group.action, Discrete) else action
    weight = torch.from_numpy(rng.uniform(0.2, 1, size)).float()
    place = torch.arange(size)
    return Batch(before, action, normal(*shape) * valid, inputs(discount != 0), discount, valid, weight, place)


def random_case(kind, seed, monkeypatch, processes=None, size=None, fused=False):
    """Return an algorithm with random batches, its noise, and its reference; of several processes with its part of each batch.
    With ``fused`` it has kernels of its own on the CPU.
    """
    rng = np.random.default_rng(seed)
    agents, some, steps = (int(rng.integers(2, 4)) if rng.random() < 0.5 else 0), int(rng.integers(2, 7)), 4
    size = size or some
    group = random_group(kind, rng, agents)
    options = {"gradient_steps": steps, "batch_size": size, "learning_starts": 1, "tau": 0.3, "gamma": 0.9}
    options |= {"actor_learning_rate": 1e-3, "critic_learning_rate": 2e-3}
    config, make_policy, make, reference = KINDS[kind]
    if config is SACConfig:
        options |= {"temperature": float(rng.uniform(0.1, 1)), "temperature_learning_rate": 1e-2}
        options |= [{}, {"target_entropy": 0.3}, {"temperature_learning_rate": None}][seed % 3]
    if kind == "td3":
        options |= {"target_noise": 0.4, "policy_delay": int(rng.choice([1, 2, 4]))}
    if kind != "choices" and rng.random() < 0.4 and not fused:
        options |= {"num_atoms": int(rng.integers(2, 9)), "value_min": -3.0, "value_max": 2.0}
    if rng.random() < 0.4:
        options |= {"priority_exponent": 0.6}
    options = config(**options)
    network = NetworkConfig((7, 5), str(rng.choice(["tanh", "relu", "elu", "silu"])), layer_norm=seed % 3 == 1 and not fused)
    batches = [random_batch(group, rng, size, agents, options.gamma) for _ in range(steps)]
    replay = Batches(batches if processes is None else [part_of(batch, processes) for batch in batches])
    monkeypatch.setattr(learner, "Replay", lambda *args: replay)
    rows = SimpleNamespace(group=group, shape=(5, agents) if agents else (5,))
    policy = make_policy("p", group, seed, network, options, None, True, WorldSpec())
    setup = Setup(rows, network, None, torch.device("cpu"), seed, 100, fused, False, processes)
    algorithm = make(policy, options, setup)
    assert (algorithm.not_fused == "") == fused
    with torch.no_grad():  # moderate numbers in place of nearly constant outputs
        target = algorithm.target_network.parameters() if hasattr(algorithm, "target_network") else ()
        for x in (*policy.parameters(), *target, algorithm.critics.flat, algorithm.targets.flat):
            x *= 1.5
    return algorithm, replay, reference(algorithm, network), steps


def part_of(batch, processes):
    """Return an equal part of a batch for each process."""
    size = len(batch.weight) // processes.count
    own = slice(processes.rank * size, (processes.rank + 1) * size)

    def cut(x):
        if isinstance(x, dict):
            return {name: each[own] for name, each in x.items()}
        return Inputs(*map(cut, x)) if isinstance(x, Inputs) else None if x is None else x[own]

    return Batch(*map(cut, batch))


def updated(kind, processes, monkeypatch, by_kernels):
    """Return weights and metrics after an update with given batches and noise, of which each process has a part."""
    results = {}
    for seed in range(4):
        algorithm, _, _, steps = random_case(kind, seed, monkeypatch, processes, size=8)
        if by_kernels:
            take_kernels(algorithm)
        rank, count = (0, 1) if processes is None else (processes.rank, processes.count)
        k, rows = algorithm.policy.group.num_entries, algorithm.num_rows * count
        noise = Noise(seed, max(1, algorithm.num_normals) * rows * steps, "cpu").normal(k)
        noise = noise.view(steps, max(1, algorithm.num_normals), count, algorithm.num_rows, k)[:, :, rank]
        monkeypatch.setattr(algorithm, "_normals", lambda noise=noise: noise)
        scalars = () if algorithm.options.priority_exponent is None else (torch.tensor(0.5),)
        metrics = algorithm.update(SimpleNamespace(valid=torch.ones(1, 40 // count, dtype=torch.bool)), scalars)
        metrics = dict(zip(algorithm.metric_names, metrics.tolist(), strict=True))
        modules = {"policy": algorithm.policy, **algorithm.modules()}
        weights = {f"{name}/{key}": x.clone() for name, module in modules.items() for key, x in module.state_dict().items()}
        results[seed] = weights | {name: x.clone() for name, x in algorithm.tensors().items()}, metrics
    return results


@pytest.mark.slow
def test_an_update_in_four_processes_equals_one(monkeypatch, tmp_path):
    cases = [*((kind, False) for kind in KINDS), *((kind, True) for kind in ("sac", "td3", "ddpg"))]  # the latter by kernels

    def all_cases(processes):
        results = {}
        for kind, by_kernels in cases:
            with monkeypatch.context() as patch:
                results[kind, by_kernels] = updated(kind, processes, patch, by_kernels)
        return results

    of_one = all_cases(None)
    for of_rank in in_processes(4, all_cases, tmp_path):
        for case, results in of_one.items():
            for seed, (weights, metrics) in results.items():
                for name, x in weights.items():
                    torch.testing.assert_close(of_rank[case][seed][0][name], x, rtol=1e-5, atol=1e-6, msg=f"{case} {seed} {name}")
                for name, number in metrics.items():
                    if name != "replay_filled":  # each stand-in holds as many
                        assert of_rank[case][seed][1][name] == pytest.approx(number, rel=1e-5, abs=1e-5), (case, seed, name)


def normals(algorithm, seed, steps):
    """Return the numbers that the algorithm draws."""
    count, rows, k = algorithm.num_normals, algorithm.num_rows, algorithm.policy.group.num_entries
    return Noise(seed, max(1, count) * rows * steps, "cpu").normal(k).view(steps, max(1, count), rows, k)


def assert_near(found, want, what):
    np.testing.assert_allclose(found.detach().double(), want.detach(), rtol=1e-5, atol=1e-5, err_msg=what)


def take_kernels(algorithm):
    """Make an algorithm on the CPU call the kernels that one on a GPU calls in place of operations of torch."""
    algorithm.by_kernels = isinstance(algorithm.head, ScalarHead)
    for adam in algorithm.adams.values():
        adam.by_kernels = True


@pytest.mark.parametrize("kind, seed, kernels", [
    *((kind, seed, False) for kind in KINDS for seed in range(8)),
    *((kind, seed, True) for kind in ("sac", "td3", "ddpg") for seed in range(4)),
    *((kind, seed, "host") for kind in ("sac", "td3", "ddpg") for seed in range(12)),
])  # fmt: skip
def test_an_update_equals_the_papers(kind, seed, kernels, monkeypatch):
    """By operations of torch, by the kernels that a GPU has, too, and by those of the host alone."""
    algorithm, replay, reference, steps = random_case(kind, seed, monkeypatch, fused=kernels == "host")
    if kernels is True:
        take_kernels(algorithm)
    else:
        algorithm.by_kernels = False
    noise = normals(algorithm, seed, steps)
    scalars = () if algorithm.options.priority_exponent is None else (torch.tensor(0.5),)
    samples = SimpleNamespace(valid=torch.ones(1, 5, dtype=torch.bool))
    metrics = dict(zip(algorithm.metric_names, algorithm.update(samples, scalars).tolist(), strict=True))
    found = [reference.step(i, batch, noise[i]) for i, batch in enumerate(replay.batches)]
    for i, (pair, want) in enumerate(zip(actor_weights(algorithm.policy.network), reference.actor, strict=True)):
        for x, y in zip(pair, want, strict=True):
            assert_near(x, y, f"actor {i}")
    for name, wanted in (("critics", reference.critics), ("targets", reference.targets)):
        for i, (mine, want) in enumerate(zip(critic_weights(getattr(algorithm, name)), wanted, strict=True)):
            for x, y in zip(flat(mine), flat(want), strict=True):
                assert_near(x, y, f"{name} {i}")
    if kind in ("td3", "ddpg"):
        for x, y in zip(flat(actor_weights(algorithm.target_network)), flat(reference.target_actor), strict=True):
            assert_near(x, y, "target actor")
    else:
        assert_near(algorithm.temperature.log, reference.log_alpha, "temperature")
    for name in {key for each in found for key in each}:
        assert metrics[name] == pytest.approx(np.mean([each[name] for each in found if name in each]), rel=1e-5, abs=1e-5), name
    rows = sum(replay.batches[0].valid.shape[1:]) or 1
    assert metrics["update_to_data"] == pytest.approx(steps * algorithm.options.batch_size * rows / 5)
    assert metrics["skipped"] == 0 and metrics["updates"] == len(algorithm.taken)


def test_functions_that_are_attached_to_a_layer_take_part_in_updates(monkeypatch):
    found = (random_case("td3", seed, monkeypatch)[0] for seed in range(100))
    algorithm = next(each for each in found if each.dense[each.policy.network] is not None)
    features = torch.randn(3, algorithm.policy.num_features)
    before = algorithm.outputs(features)
    algorithm.policy.network[0].register_forward_hook(lambda layer, inputs, output: torch.zeros_like(output))
    assert not torch.equal(algorithm.outputs(features), before)
    torch.testing.assert_close(algorithm.outputs(features), algorithm.policy.outputs(features))


@pytest.mark.parametrize("by_world", [False, True])
def test_priorities_are_the_errors_of_rows_and_their_mean_over_agents(by_world, monkeypatch):
    """The error of a row follows from its loss alone: a mean over two critics, each of loss error^2."""
    found = (random_case("td3", seed, monkeypatch) for seed in range(100))
    wanted = (case for case in found if case[0].options.priority_exponent and case[0].options.num_atoms == 1)
    partly = (case for case in wanted if not by_world or not case[1].batches[0].valid.all())  # some agents are out of the game
    algorithm, replay, reference, _ = next(case for case in partly if (case[1].batches[0].valid.dim() > 1) == by_world)
    batch, seed = replay.batches[0], algorithm.noise.seed
    noise = normals(algorithm, seed, 4)[0]
    critics, want = reference.critics, torch.zeros(batch.valid.shape, dtype=torch.float64)
    reference.options = dataclasses.replace(reference.options, gradient_steps=4, policy_delay=4)  # the policy stays
    for place in batch.valid.nonzero().tolist():
        one = torch.zeros_like(batch.valid)
        one[tuple(place)] = True
        errors = []
        for critic in critics:
            reference.critics = [[tuple(x.detach().clone().requires_grad_() for x in layer) for layer in critic]]
            reference.critic_adam = Adam(flat(reference.critics[0]), 0.0)
            rows, smooth = Rows(reference.policy, batch._replace(valid=one, weight=torch.ones_like(batch.weight))), noise[0]
            clip = reference.options.target_noise_clip
            action = torch.tanh(dense(rows.next_obs, reference.target_actor, reference.activation))
            action = (action + (reference.options.target_noise * smooth.double()[one.flatten()]).clamp(-clip, clip)).clamp(-1, 1)
            errors.append(math.sqrt(reference.learn_critics(rows, action, 0.0, 1.0)))
        want[tuple(place)] = np.mean(errors)
    algorithm.update(SimpleNamespace(valid=torch.ones(1, 5, dtype=torch.bool)), (torch.tensor(0.5),))
    want = want.sum(1) / batch.valid.sum(1).clamp(min=1) if by_world else want
    np.testing.assert_allclose(replay.errors[0].double(), want, rtol=1e-4, atol=1e-5)
    assert replay.exponents == [0.5] * 4


def test_a_policy_gradient_that_is_not_finite_is_left_out_and_counted(monkeypatch):
    algorithm, replay, _, steps = random_case("sac", 2, monkeypatch)
    replay.batches[1].reward[0] = math.inf
    start = algorithm.critics.flat.clone()
    metrics = dict(zip(algorithm.metric_names, algorithm.update(SimpleNamespace(valid=torch.ones(1, 5).bool()), ()), strict=True))
    assert metrics["skipped"] == 1 and metrics["updates"] == len(algorithm.taken) - 1
    assert algorithm.critics.flat.isfinite().all() and not torch.equal(algorithm.critics.flat, start)


@pytest.mark.parametrize("kind", ["td3", "sac", "choices"])
def test_nothing_is_learned_before_learning_starts(kind, monkeypatch):
    """Targets differ from critics, as in a run that was resumed without its replay buffer. A GPU computes all steps."""
    monkeypatch.setattr(learner.OffPolicy, "_skips_steps", lambda self: False)
    algorithm, replay, _, _ = random_case(kind, 1, monkeypatch)
    algorithm.targets.flat.mul_(1.5)
    algorithm.options = dataclasses.replace(algorithm.options, learning_starts=10)

    def numbers():
        networks = [algorithm.policy, *algorithm.modules().values()]
        return [x.clone() for network in networks for x in network.parameters()]

    start = numbers()
    for seen in (5, 10, 15):
        replay.exponents.clear()
        metrics = algorithm.update(
            SimpleNamespace(valid=torch.ones(1, 5).bool()),
            () if algorithm.options.priority_exponent is None else (torch.ones(()),),
        )
        metrics = dict(zip(algorithm.metric_names, metrics.tolist(), strict=True))
        learned = any(not torch.equal(x, y) for x, y in zip(numbers(), start, strict=True))
        assert learned == (seen >= 10) == bool(algorithm.begun) == (metrics["updates"] > 0)
        assert math.isnan(metrics["q"]) == math.isnan(metrics["update_to_data"]) == (not learned) and metrics["skipped"] == 0
