"""A GRU by kernels: values, gradients and updates, against float64 and against torch."""

import dataclasses

import pytest
import torch
from counters import counters
from fused_runs import fused
from gymnasium import spaces
from policy_cases import ACTIONS, policy_of
from ppo_cases import scalars, weights
from recurrent_cases import BOX, CONFIG, CPU, backend_of, case, exact_gradient, kernel_gradient, moved, new_policy
from reference import relative_error, slow
from test_fused_act import drawn
from test_fused_builds import Lanes
from test_fused_update import assert_alike

from gpu_vecenv.backend import programs
from gpu_vecenv.errors import ShapeError
from gpu_vecenv.train import ConfigError, NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.algorithms.ppo.sequences import RecurrentBackend
from gpu_vecenv.train.fused.eligibility import fused_sizes, require_fused
from gpu_vecenv.train.fused.recurrent_act import FusedRecurrentPolicy
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes
from gpu_vecenv.train.fused.recurrent_update import FusedRecurrentBackend
from gpu_vecenv.train.policies.contract import Inputs

CASES = {
    "discrete": {},
    "whole sequences": {"config": {"sequence_length": None}},
    "one step": {"config": {"sequence_length": 1}},
    "leavers": {"leaves": 0.3},
    "masked, odd sizes": {"action": spaces.MultiDiscrete([5, 3, 4]), "features": 9, "units": 45, "masked": (0, 2)},
    "numbers, many units": {"action": BOX, "features": 3, "units": 128},
    "many features": {"action": spaces.MultiDiscrete([21, 21]), "features": 71, "units": 32},
    "raw observations": {"normalize": False, "ends": 0.0},
    "no clip of values": {"config": {"clip_value": False}},
}
COSTLY = ("many features", "no clip of values", "one step", "numbers, many units")
"""Cases that the tests leave out when they have little time: each compiles kernels of its own."""


def made(name):
    given = dict(CASES[name])
    config = dataclasses.replace(CONFIG, **given.pop("config", {}))
    return case(**given), config


def compare_gradients(name, device):
    """Some sequences of a minibatch; its last places fill it up."""
    one, config = made(name)
    sequences = one.samples.reward.numel() // (config.sequence_length or len(one.samples.reward))
    chosen = torch.randperm(sequences, generator=torch.Generator().manual_seed(1))[: sequences - 3]
    exact = exact_gradient(one, config, chosen)
    found = kernel_gradient(moved(one, device), config, chosen, sequences)
    each = {name: relative_error([found[name]], [x]) for name, x in exact.items()}
    whole = relative_error([found[name] for name in exact], list(exact.values()))
    assert whole <= 1e-3 and max(each.values()) <= 5e-2, (whole, each)


@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_gradients_are_those_of_float64(name):
    compare_gradients(name, "cpu")


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_float64_on_a_gpu(name):
    compare_gradients(name, "cuda:0")


def test_gradients_of_trained_weights_and_long_sequences():
    """Weights twice as large saturate more gates; derivatives come from far behind."""
    config = dataclasses.replace(CONFIG, num_steps=96, sequence_length=None, clip_value=False)
    one = case(steps=96, rows=9, ends=0.02)
    with torch.no_grad():
        for name in ("weight_ih", "weight_hh"):
            getattr(one.policy.network.memory, name).mul_(2.0)
    chosen = torch.arange(9)
    exact, found = exact_gradient(one, config, chosen), kernel_gradient(one, config, chosen, 9)
    assert relative_error([found[name] for name in exact], list(exact.values())) <= 1e-3


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_targets_of_any_scale(scale):
    """Derivatives of actor and critic have scales of their own in 16 bits."""
    config, chosen = dataclasses.replace(CONFIG, clip_value=False), torch.arange(40)
    one = case()
    one.target = scale * one.target
    exact, found = exact_gradient(one, config, chosen), kernel_gradient(one, config, chosen, 42)
    each = {name: relative_error([found[name]], [x]) for name, x in exact.items()}
    assert max(each.values()) <= 2e-3, each


def on_lanes(folder):
    """Return ``programs.launches()`` that runs kernels of a GRU on lanes, and others on the host."""
    host, built = programs.launches, {}

    def launches(program, device):
        if ("GRU_COLUMNS", 0) in program.constants or "GRU_COLUMNS" not in dict(program.constants):
            return host(program, device)
        if program not in built:
            own = folder / str(len(built))
            own.mkdir()
            built[program] = Lanes(program, own)
        return built[program]

    return launches


@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_values_and_states_are_those_of_torch(name):
    """Also of final observations after a time limit, whose states are not forgotten."""
    one, config = made(name)
    by_torch = RecurrentBackend(one.policy, config, None, torch.tensor(3), torch.ones(()))
    value, final = by_torch.values(one.samples, final=True)
    backend = backend_of(one, config)
    found, found_final = backend.values(one.samples, final=True)
    counts = torch.cat((one.samples.valid, torch.ones_like(one.samples.valid[:1])))
    assert one.samples.timed_out.any() or name == "raw observations"
    torch.testing.assert_close(found[counts], value[counts], rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(found_final[one.samples.timed_out], final[one.samples.timed_out], rtol=2e-3, atol=2e-3)
    torch.testing.assert_close(backend.starts, by_torch.starts, rtol=0, atol=1e-3)
    assert backend.values(one.samples, final=False)[1] is None
    old = one.samples.log_prob.clone()
    backend.renew_log_prob(one.samples)
    renewed = one.samples.log_prob.clone()
    one.samples.log_prob.copy_(old)
    by_torch.renew_log_prob(one.samples)
    torch.testing.assert_close(renewed, one.samples.log_prob, rtol=2e-3, atol=5e-3, equal_nan=True)


UPDATES = {
    "discrete": ({}, {}),
    "leavers, minibatch": ({"leaves": 0.3}, {"normalize_advantages": "minibatch"}),
    "whole sequences, numbers": ({"action": BOX, "units": 32}, {"sequence_length": None, "entropy_coef": 0.0}),
    "masked": ({"action": spaces.MultiDiscrete([5, 3]), "units": 37, "masked": (1,)}, {"normalize_advantages": "rollout"}),
}


@pytest.mark.parametrize("name", slow(UPDATES, "masked", "whole sequences, numbers"))
def test_updates_are_those_of_torch(name):
    given, change = UPDATES[name]
    config = dataclasses.replace(CONFIG, num_epochs=2, num_minibatches=3, learning_rate=3e-3, **change)
    runs = []
    for kind in (RecurrentBackend, FusedRecurrentBackend, FusedRecurrentBackend):
        one = case(**given)
        one.samples.obs[:-1][~one.samples.valid] = torch.nan
        before, ppo = weights(one.policy), PPO(one.policy, config, (one.samples.reward.shape[1],), 3, CPU, kind)
        for _ in range(2):
            metrics = ppo.update(one.samples, scalars(config))
        runs.append((before, weights(one.policy), dict(zip(ppo.metric_names, metrics.tolist(), strict=True)), ppo))
    assert_alike(*runs[:2])
    assert torch.equal(runs[1][1], runs[2][1])  # an update repeats bit for bit


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("name", ["discrete", "masked, odd sizes", "numbers, many units"])
def test_actions_are_those_of_the_module_and_of_draws_from_the_outputs(name, deterministic):
    one, _ = made(name)
    policy, rows = one.policy, one.samples.reward.shape[1]
    fused, draw = FusedRecurrentPolicy(policy, require_fused(policy, CPU), CPU), counters(rows, 1)
    mask = None if one.samples.mask is None else one.samples.mask[-1]
    inputs, outputs = Inputs(one.samples.obs[-1], mask, state=one.samples.state), torch.empty(rows, fused.sizes.outputs)
    before = inputs.state.clone()
    for _ in range(2):  # the second call is prepared
        action, log_prob, state = fused.act(inputs, draw, deterministic, outputs)
        wanted, wanted_log_prob = drawn(fused, inputs, draw, outputs, deterministic)
        assert torch.equal(action, wanted) and torch.equal(log_prob, wanted_log_prob)
        assert torch.equal(inputs.state, before)
    with torch.no_grad():
        by_torch = policy.act(inputs, draw, deterministic)
    torch.testing.assert_close(state, by_torch[2], rtol=0, atol=1e-3)
    if policy.box is None:
        assert (action == by_torch[0]).float().mean() > 0.95  # a draw next to a bound may be another choice
    else:
        torch.testing.assert_close(action, by_torch[0], rtol=0, atol=1e-2)
    with pytest.raises(ShapeError, match="state must have the shape"):
        fused.act(inputs._replace(state=state[1:]), draw)
    with pytest.raises(ConfigError, match=r"expected Inputs\.state"):
        fused.act(inputs._replace(state=None), draw)


RUNS = {
    "cartpole": ("WarpCartPole-v1", {"max_episode_steps": 13}, 16, 4),
    "tag": ("WarpTag-v0", {"num_taggers": 2, "num_runners": 4, "tagging_distance": 0.1, "episode_length": 11}, 8, None),
    "pendulum": ("WarpPendulum-v1", {"max_episode_steps": 13}, 16, 8),
}


def run_of(name, iterations=1, **options):
    env_id, env_kwargs, worlds, length = RUNS[name]
    options = {"num_steps": 16, "num_epochs": 2, "num_minibatches": 2, "learning_rate": 1e-3, "sequence_length": length} | options
    return TrainConfig(
        env_id, num_envs=worlds, total_steps=iterations * worlds * 16, device="cpu", env_kwargs=env_kwargs,
        network=NetworkConfig((), memory="gru", memory_size=32),
        ppo=PPOConfig(learning_rate_schedule="constant", bootstrap_at_time_limit=True, **options),
    )  # fmt: skip


@pytest.mark.parametrize("name", slow(RUNS, "pendulum", "cartpole"))
def test_runs_are_those_of_torch(name):
    """The tagged runners of Tag have left, and their rows do not count."""
    changes, config = [], run_of(name)
    for each in (config, fused(config)):
        trainer = Trainer(each, quiet=True)
        before = {role: weights(policy) for role, policy in trainer.policies.items()}
        trainer.train()
        changes.append({role: weights(policy) - before[role] for role, policy in trainer.policies.items()})
    for role, change in changes[0].items():
        assert change.norm() > 0
        assert float((changes[1][role] - change).norm()) <= 0.05 * float(change.norm())


def test_actions_of_a_run_have_a_ratio_of_one():
    """One minibatch has the divergence before its step; in the first iteration, statistics changed after the actions."""
    config = run_of("cartpole", iterations=3, num_epochs=1, num_minibatches=1, clip_coef=2e-5)
    trainer, seen = Trainer(fused(config), quiet=True), []
    with torch.no_grad():  # outputs of a new policy are nearly 0, and so would be their error by torch
        trainer.policies["agent"].network.actor_layers[-1].weight.mul_(100.0)
    assert trainer.parts.collector.fill_rollout is not None
    algorithm = trainer.parts.algorithms["agent"]
    update = algorithm.update
    algorithm.update = lambda *given: seen.append(update(*given)) or seen[-1]
    trainer.train()
    for metrics in seen:
        found = dict(zip(algorithm.metric_names, metrics.tolist(), strict=True))
        assert abs(found["kl"]) < 1e-6 and found["clip_fraction"] == 0.0
    assert len(seen) == 3


def test_a_resumed_run_has_the_same_bits(tmp_path):
    config = fused(run_of("cartpole", iterations=4))
    whole, first = Trainer(config, quiet=True), Trainer(config, quiet=True)
    whole.train()
    first.train(iterations=2)
    second = Trainer.resume(first.save(tmp_path / "half.pt"), quiet=True)
    second.train()
    assert torch.equal(weights(second.policies["agent"]), weights(whole.policies["agent"]))
    states = [trainer.parts.rows["agent"].states.now for trainer in (whole, second)]
    assert torch.equal(*states) and states[0].abs().max() > 0


def test_policies_with_a_memory_that_do_not_fit_have_a_reason():
    def network(hidden=(), memory="gru", size=64, **fields):
        return NetworkConfig(hidden, memory=memory, memory_size=size, **fields)

    masked = {"masked": (0,)}
    for given, options, reason in (
        (network(memory="lstm"), {}, "its memory is no GRU but Lstm"),
        (network((8,)), {}, "its network has hidden layers behind the memory"),
        (network((8,), shared_trunk=True), {}, "its network has hidden layers behind the memory"),
        (network(size=31), {}, "its memory has 31 units, not 32 to 128"),
        (network(size=129), {}, "its memory has 129 units, not 32 to 128"),
        (network(), {"shared": True}, "its observations have a shared part"),
        (network(), masked, "its memory is shared, and masks can leave its actor without a choice"),
    ):
        assert fused_sizes(policy_of(ACTIONS[0], network=given, **options), CPU) == reason
    assert isinstance(fused_sizes(policy_of(ACTIONS[1], network=network(), **masked), CPU), RecurrentSizes)
    assert "bytes of shared memory" in str(fused_sizes(new_policy(ACTIONS[0], 71, 128), CPU))


LANES = {
    "discrete": {"units": 40, "rows": 18},
    "two chunks of a group, numbers": {"units": 80, "rows": 5, "action": BOX, "leaves": 0.2},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LANES)
def test_lanes_compute_the_values_and_the_gradient_of_the_host(name, tmp_path, monkeypatch):
    """Lanes emulate the instructions of a warp."""
    config = dataclasses.replace(CONFIG, sequence_length=6)
    chosen = torch.arange(2 * LANES[name]["rows"] - 1)
    results = []
    for number in range(2):
        if number:
            monkeypatch.setattr(programs, "launches", on_lanes(tmp_path))
        one = case(**LANES[name])
        backend = backend_of(one, config)
        values = backend.values(one.samples, final=True)
        results.append((kernel_gradient(one, config, chosen, len(chosen) + 1), *values, backend.starts))
    (host, *numbers), (lanes, *found) = results
    for ours, wanted in zip(found, numbers, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-4)
    fused, draw = FusedRecurrentPolicy(one.policy, require_fused(one.policy, CPU), CPU), counters(LANES[name]["rows"], 1)
    inputs, outputs = Inputs(one.samples.obs[-1], state=one.samples.state), torch.empty(LANES[name]["rows"], fused.sizes.outputs)
    action, log_prob, state = fused.act(inputs, draw, outputs=outputs)
    wanted = drawn(fused, inputs, draw, outputs)
    assert torch.equal(action, wanted[0]) and torch.equal(log_prob, wanted[1])
    torch.testing.assert_close(state, one.policy.act(inputs, draw)[2], rtol=0, atol=1e-3)
    for parameter, gradient in host.items():
        assert float((lanes[parameter] - gradient).norm()) <= 1e-3 * float(gradient.norm()), parameter
