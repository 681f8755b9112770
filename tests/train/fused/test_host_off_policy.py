"""Gradient steps and actions of SAC, TD3 and DDPG by kernels of the CPU equal those of torch, and do not depend on threads.

``test_off_policy_updates.py`` compares the same kernels with the papers, for small networks and batches.
"""

import contextlib
import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from policy_cases import draws
from test_off_policy_runs import RUNS, TAG, pendulum
from test_off_policy_updates import KINDS, Batches, random_batch, random_group

from gpu_vecenv.backend.programs import CpuProgram
from gpu_vecenv.backend.trainer_programs import HOST_OFF_POLICY
from gpu_vecenv.train import NetworkConfig, SACConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.off_policy import learner
from gpu_vecenv.train.algorithms.off_policy.batch import Minibatch
from gpu_vecenv.train.fused.host_explorer import HostExplorer
from gpu_vecenv.train.fused.host_rows import HostRows
from gpu_vecenv.train.fused.off_policy import HostSAC, HostTD3
from gpu_vecenv.train.policies.actor import make_soft_policy
from gpu_vecenv.train.policies.contract import Inputs, apply
from gpu_vecenv.train.policies.networks import WorldSpec

CPU = torch.device("cpu")
CASES = {
    "relu": ((48, 33), "relu", 300),
    "tanh": ((20,), "tanh", 530),
    "elu": ((33, 17, 24), "elu", 64),
    "silu": ((40, 16), "silu", 257),
}
"""Hidden sizes, activation and batch; tiles have 256 rows."""


def algorithm_of(kind, case, fused, monkeypatch, replays=None, **options):
    """Return an algorithm whose replay buffer has random batches, two for each algorithm of the same case."""
    (hidden, activation, size), seed = CASES[case], len(case)
    rng = np.random.default_rng(seed)
    group = random_group(kind, rng, agents=2 if case == "tanh" else 0)
    size = size // 2 if case == "tanh" else size
    config, make_policy, make, _ = KINDS[kind]
    settings = {"gradient_steps": 2, "batch_size": size, "learning_starts": 1, "tau": 0.3, "priority_exponent": 0.6, **options}
    network = NetworkConfig(hidden, activation)
    replay = Batches([random_batch(group, rng, size, 2 if case == "tanh" else 0, 0.9) for _ in range(2)])
    monkeypatch.setattr(learner, "Replay", lambda *args: replay)
    policy = make_policy("p", group, seed, network, config(**settings), None, True, WorldSpec())
    rows = SimpleNamespace(group=group, shape=(5, 2) if case == "tanh" else (5,))
    algorithm = make(policy, config(**settings), Setup(rows, network, None, CPU, seed, 100, fused, False))
    with torch.no_grad():
        algorithm.targets.flat *= 1.1
    return algorithm


def numbers_of(algorithm):
    """Return all weights, moments and numbers of steps."""
    modules = {"policy": algorithm.policy, **algorithm.modules()}
    weights = {f"{name}/{key}": x for name, module in modules.items() for key, x in module.state_dict().items()}
    moments = {
        f"{name}/{i}/{key}": x for name, adam in algorithm.adams.items()
        for i, state in adam.state_dict().items() for key, x in state.items()
    }  # fmt: skip
    return {**weights, **moments, **algorithm.tensors()}


def updated(algorithm):
    """Update once, and return the metrics."""
    samples = SimpleNamespace(valid=torch.ones(1, 5, dtype=torch.bool))
    metrics = algorithm.update(samples, (torch.tensor(0.5),))
    return dict(zip(algorithm.metric_names, metrics.tolist(), strict=True))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["sac", "td3", "ddpg"])
def test_an_update_equals_that_of_torch(kind, case, monkeypatch):
    """Small steps: where a gradient is nearly 0, its sign may differ, and Adam's first steps have full size."""
    rates = {"actor_learning_rate": 1e-5, "critic_learning_rate": 1e-5}
    both = [algorithm_of(kind, case, fused, monkeypatch, **rates) for fused in (False, True)]
    assert isinstance(both[1], HostSAC | HostTD3) and not isinstance(both[0], HostSAC | HostTD3)
    want, found = (updated(algorithm) for algorithm in both)
    assert found == pytest.approx(want, rel=1e-4, abs=1e-5, nan_ok=True)
    assert want["updates"] == {"sac": 6, "td3": 3, "ddpg": 4}[kind]
    for name, x in numbers_of(both[0]).items():
        close = {"rtol": 1e-4, "atol": 2e-5, "msg": lambda text, name=name: f"{name}: {text}"}
        torch.testing.assert_close(numbers_of(both[1])[name], x, **close)
    for x, y in zip(both[1].replay.errors, both[0].replay.errors, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_bits_do_not_depend_on_threads(kind, monkeypatch):
    results = []
    for threads in (1, 2, 3):
        algorithm = algorithm_of(kind, "tanh", True, monkeypatch)
        algorithm.steps.call._launches = CpuProgram(dataclasses.replace(HOST_OFF_POLICY, small=0), threads)
        updated(algorithm)
        results.append(numbers_of(algorithm))
    for other in results[1:]:
        assert all(torch.equal(x, other[name]) for name, x in results[0].items())


@pytest.mark.parametrize("kind", ["sac", "ddpg"])
def test_a_step_whose_gradient_is_not_finite_is_left_out(kind, monkeypatch):
    algorithm = algorithm_of(kind, "relu", True, monkeypatch)
    algorithm.replay.batches[0].reward[3] = math.inf
    before = algorithm.critics.flat.clone()
    metrics = updated(algorithm)
    assert metrics["skipped"] == 1 and not torch.equal(algorithm.critics.flat, before)
    assert bool(torch.isfinite(algorithm.critics.flat).all())
    steps = [float(state["step"]) for state in algorithm.adams["critics"].prepared()]
    assert steps == [1.0] * len(steps)


def test_moments_of_units_that_are_off_decay_to_zero(monkeypatch):
    """Below the normal numbers they would stop at a few units in the last place, and a step would take several times as long."""
    algorithm = algorithm_of("ddpg", "relu", True, monkeypatch)
    with torch.no_grad():
        algorithm.critics.layers[1][0, 0, 5] = -1e6  # the bias of a rectifier
    moments = algorithm.adams["critics"].prepared()[0]
    for name, start in (("exp_avg", 2e-38), ("exp_avg_sq", 1.176e-38)):
        moments[name][0, :, 5] = start
    for _ in range(4):
        algorithm.replay.exponents.clear()
        updated(algorithm)
    assert not moments["exp_avg"][0, :, 5].any() and not moments["exp_avg_sq"][0, :, 5].any()
    assert moments["exp_avg"][0, :, 6].all()


@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_functions_that_are_attached_to_a_layer_take_part(kind, monkeypatch):
    """The update is then that of torch, with the same moments, before and after."""
    both = [algorithm_of(kind, "relu", fused, monkeypatch) for fused in (False, True)]
    for algorithm in both:
        algorithm.policy.network[0].register_forward_hook(lambda layer, inputs, output: output * 0.5)
    want, found = (updated(algorithm) for algorithm in both)
    assert found == pytest.approx(want, rel=1e-6)
    for name, x in numbers_of(both[0]).items():
        torch.testing.assert_close(numbers_of(both[1])[name], x)
    explorer, inputs = both[1].explorer(), Inputs(torch.randn(3, both[1].policy.num_features))
    assert torch.equal(explorer.act(inputs, draws(3))[0], explorer.actor.act(inputs, draws(3))[0])


@pytest.mark.parametrize("rows", [1, 300])
@pytest.mark.parametrize("case", ["relu", "elu", "silu"])
@pytest.mark.parametrize("kind", ["sac", "td3"])
def test_actions_in_rollouts_are_those_of_torch(kind, case, rows, monkeypatch):
    algorithm = algorithm_of(kind, case, True, monkeypatch)
    explorer, draw = algorithm.explorer(), draws(rows)
    assert isinstance(explorer, HostExplorer)
    inputs = Inputs(torch.randn(rows, algorithm.policy.num_features, generator=torch.Generator().manual_seed(1)))
    out = torch.empty(rows, algorithm.policy.group.num_entries), torch.empty(rows), torch.empty(rows)
    for deterministic in (False, True):
        for counters in (draw, dataclasses.replace(draw, out=out)):
            acted = explorer.act(inputs, counters, deterministic)
            for x, y in zip(acted, explorer.actor.act(inputs, draw, deterministic), strict=True):
                torch.testing.assert_close(x, y.detach(), rtol=1e-5, atol=1e-5)
        assert acted[0] is out[0] and acted[1] is out[1]
    with torch.no_grad():
        algorithm.policy.network[-1].bias += 0.5  # a change of weights counts at once
        inputs.obs.mul_(0.5)  # and one of observations
    torch.testing.assert_close(explorer.act(inputs, draw)[0], explorer.actor.act(inputs, draw)[0].detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("agents", [0, 2])
def test_rows_of_a_batch_have_the_bits_of_torch(agents, normalize):
    """A buffer writes its next batch to the same arrays."""
    rng = np.random.default_rng(agents)
    group = random_group("sac", rng, agents)
    config = SACConfig(normalize_observations=normalize)
    policy = make_soft_policy("p", group, 0, NetworkConfig((4,)), config, None, True, WorldSpec())
    batch, other = (random_batch(group, rng, 9, agents, 0.9) for _ in range(2))
    rows = HostRows(policy, batch)
    for _ in range(2):
        for found, want in zip(leaves(rows.now()), leaves(Minibatch.of(policy, batch)), strict=True):
            assert torch.equal(found, want)
        for x, y in zip(leaves(batch), leaves(other), strict=True):
            x.copy_(y)
        policy.observe(apply(batch.inputs.obs, lambda x: x.unsqueeze(0)), batch.valid.unsqueeze(0))


def leaves(tree):
    """Return all arrays of nested tuples and dicts."""
    if tree is None or isinstance(tree, torch.Tensor):
        return [] if tree is None else [tree]
    return [x for part in (tree.values() if isinstance(tree, dict) else tree) for x in leaves(part)]


# ---- runs -----------------------------------------------------------------------------------------------------------------

LONG = {"num_steps": 50, "learning_starts": 300, "replay_size": 1000}
GAMES = {
    "limits": pendulum("sac", n_steps=3, normalize_observations=True, priority_exponent=0.6, **LONG),
    "delay": pendulum("td3", n_steps=2, **LONG),
    "leaving": TrainConfig(
        "WarpTag-v0", 4, 4 * 4 * 5, device="cpu", network=NetworkConfig((8,)), algorithm="sac", env_kwargs=TAG,
        algorithms={"sac": SACConfig(num_steps=4, replay_size=400, learning_starts=24, batch_size=8, gradient_steps=2)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GAMES)
def test_a_run_begins_as_one_by_torch(name):
    """Time limits, ends and agents that have left come from the replay buffer. Later, roundings grow from rollout to rollout."""
    runs = []
    for kernels in ("torch", "auto"):
        config = dataclasses.replace(GAMES[name], kernels=kernels)
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            metrics = trainer.train(2 if name != "leaving" else 3)
            runs.append((metrics, {key: [x.clone() for x in policy.parameters()] for key, policy in trainer.policies.items()}))
    (want, weights), (found, others) = runs
    names = [key for key in want if key.startswith(("critic_loss", "q/", "actor_loss", "entropy", "temperature", "updates"))]
    assert names and {key: found[key] for key in names} == pytest.approx({key: want[key] for key in names}, rel=1e-3, abs=1e-4)
    for key, parameters in weights.items():
        for x, y in zip(parameters, others[key], strict=True):
            torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"algorithms": {"td3": RUNS["td3"].algorithms["td3"]}, "algorithm": "td3"}, "its critics have atoms"),
        ({"network": NetworkConfig((8,), layer_norm=True)}, "its hidden layers are normalised"),
        ({"network": NetworkConfig((4,) * 8)}, "it has 8 hidden layers, not at most 7"),
        ({"env_id": "WarpCartPole-v1"}, "its algorithm has none"),
    ],
)  # fmt: skip
def test_the_reason_of_a_policy_without_kernels(changes, reason):
    with contextlib.closing(Trainer(dataclasses.replace(pendulum("sac"), **changes), quiet=True)) as trainer:
        assert trainer.parts.not_fused == {"agent": reason}
        assert not isinstance(trainer.parts.algorithms["agent"], HostSAC | HostTD3)
        trainer.train(2)


def test_a_run_may_want_torch_alone():
    with contextlib.closing(Trainer(dataclasses.replace(pendulum("ddpg"), kernels="torch"), quiet=True)) as trainer:
        assert trainer.parts.not_fused == {} and not isinstance(trainer.parts.algorithms["agent"], HostTD3)
        assert trainer.parts.algorithms["agent"].not_fused == "the run does not want them"
