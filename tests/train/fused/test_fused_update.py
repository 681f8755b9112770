"""Whole updates: FusedPPO and HostPPO against PPO, on samples made by hand and in runs."""

import dataclasses
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Pairs-v0)
import torch
from fused_runs import FusedPPO, HostPPO, fused
from gymnasium import spaces
from policy_cases import ACTIONS, group, policy_of
from ppo_cases import PLAIN, case, scalars, weights
from reference import slow

from gpu_vecenv.train import ConfigError, NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.errors import NonFiniteError
from gpu_vecenv.train.fused import eligibility
from gpu_vecenv.train.fused.cost import not_fused_lines
from gpu_vecenv.train.fused.eligibility import _fitted, fused_sizes, host_sizes
from gpu_vecenv.train.fused.tile_plan import Sizes
from gpu_vecenv.train.policies.build import make_policy

EPOCHS = dataclasses.replace(PLAIN, num_epochs=2, num_minibatches=3, learning_rate=3e-3, max_grad_norm=0.5)
CPU = torch.device("cpu")
KINDS = {"fused": FusedPPO, "host": HostPPO}
of_both = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
"""For a test of the kernels of GPUs, and of those of the CPU."""


def update_of(kind, config, updates=1, **given):
    """Return a policy's weights before and after updates, the metrics of the last one, and the algorithm."""
    one = case(**given)
    before, ppo = weights(one.policy), kind(one.policy, config, tuple(one.samples.reward.shape[1:]), 3, CPU)
    for _ in range(updates):
        metrics = ppo.update(one.samples, scalars(config))
    return before, weights(one.policy), dict(zip(ppo.metric_names, metrics.tolist(), strict=True)), ppo


def assert_alike(left, right, share=0.02):
    """Compare changes of weights by their norms, and metrics."""
    before, after, metrics, _ = left
    _, found, found_metrics, _ = right
    assert float((found - after).norm()) <= share * float((after - before).norm())
    for name, value in metrics.items():
        assert math.isclose(found_metrics[name], value, rel_tol=0.02, abs_tol=2e-4), (name, found_metrics, metrics)


CASES = {
    "discrete": ({"action": ACTIONS[0]}, {}),
    "two entries": ({"action": ACTIONS[1]}, {"normalize_advantages": "rollout"}),
    "masked": ({"action": ACTIONS[1], "masked": (1,)}, {"normalize_advantages": "minibatch"}),
    "few choices": ({"action": ACTIONS[1], "masked": (0, 1), "forced": 0.7}, {"normalize_advantages": "minibatch"}),
    "few choices, whole rollout": (
        {"action": ACTIONS[1], "masked": (0, 1), "forced": 0.7}, {"normalize_advantages": "rollout", "num_minibatches": 12},
    ),
    "numbers": ({"action": ACTIONS[2]}, {"entropy_coef": 0.0}),
    "statistics": ({"action": ACTIONS[0], "normalize": True}, {"normalize_rewards": True}),
    "no clip of values": ({"action": ACTIONS[0]}, {"clip_value": False}),
    "adaptive rate": ({"action": ACTIONS[0]}, {"learning_rate_schedule": "adaptive", "target_kl": 0.01}),
    "shared part": ({"action": ACTIONS[0], "shared": True, "normalize": True}, {"normalize_advantages": "rollout"}),
    "shared part, masked": (
        {"action": ACTIONS[1], "shared": True, "masked": (0, 1), "forced": 0.7}, {"normalize_advantages": "minibatch"},
    ),
    "shared part, numbers": ({"action": ACTIONS[2], "shared": True}, {"normalize_rewards": True, "entropy_coef": 0.0}),
    "entropy weight against the advantages": (
        {"action": ACTIONS[0]}, {"entropy_coef": -1.0, "normalize_advantages": "rollout"},
    ),
    "negative weight of the value loss": ({"action": ACTIONS[0]}, {"value_coef": -0.5, "clip_value": False}),
    "large adaptive rate": (
        {"action": ACTIONS[0]}, {"learning_rate_schedule": "adaptive", "target_kl": 1e9, "learning_rate": 2e-2},
    ),
}


COSTLY = ("statistics", "two entries", "few choices", "no clip of values", "large adaptive rate")


@pytest.mark.parametrize("name", slow(CASES, *COSTLY))
def test_updates_are_those_of_ppo(name):
    given, change = CASES[name]
    config = dataclasses.replace(EPOCHS, **change)
    assert_alike(update_of(PPO, config, updates=2, **given), update_of(FusedPPO, config, updates=2, **given))


@pytest.mark.parametrize("name", [name for name, (given, _) in CASES.items() if not given.get("shared")])
def test_updates_on_the_cpu_are_those_of_ppo(name):
    given, change = CASES[name]
    config = dataclasses.replace(EPOCHS, **change)
    assert_alike(update_of(PPO, config, updates=2, **given), update_of(HostPPO, config, updates=2, **given), share=1e-4)


@of_both
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_an_epoch_with_a_large_divergence_is_the_last(factor, kind):
    """The target is next to the mean divergence of the first epoch."""
    first = update_of(PPO, dataclasses.replace(EPOCHS, num_epochs=1), off=0.0)[2]["kl"]
    config = dataclasses.replace(EPOCHS, num_epochs=3, target_kl=factor * first)
    left, right = update_of(PPO, config, off=0.0), update_of(kind, config, off=0.0)
    assert right[2]["updates"] == (3 if factor < 1 else 6)
    assert_alike(left, right)


@of_both
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_left_out(bad, kind):
    """Each of two epochs has one minibatch with that transition."""
    one = case(action=ACTIONS[0])
    t, row = (int(i) for i in one.samples.valid.nonzero()[0])
    one.samples.log_prob[t, row] = -bad
    ppo = kind(one.policy, EPOCHS, tuple(one.samples.reward.shape[1:]), 3, CPU)
    metrics = dict(zip(ppo.metric_names, ppo.update(one.samples, scalars(EPOCHS)).tolist(), strict=True))
    assert metrics["skipped"] == 2 and metrics["updates"] == 4
    assert weights(one.policy).isfinite().all()


@of_both
def test_samples_that_do_not_count_may_hold_anything(kind):
    one, other = case(action=ACTIONS[0]), case(action=ACTIONS[0])
    results = []
    for number, each in enumerate((one, other)):
        if number:
            invalid = ~each.samples.valid
            each.samples.obs[:-1][invalid] = math.nan
            each.samples.log_prob[invalid] = math.nan
            each.samples.action[invalid] = 10**6
        ppo = kind(each.policy, EPOCHS, tuple(each.samples.reward.shape[1:]), 3, CPU)
        results.append((ppo.update(each.samples, scalars(EPOCHS)), weights(each.policy)))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


@of_both
def test_without_a_transition_that_counts_nothing_changes(kind):
    one = case(action=ACTIONS[0])
    one.samples.valid[:] = False
    one.samples.obs[:] = math.nan
    before, ppo = weights(one.policy), kind(one.policy, EPOCHS, tuple(one.samples.reward.shape[1:]), 3, CPU)
    metrics = dict(zip(ppo.metric_names, ppo.update(one.samples, scalars(EPOCHS)).tolist(), strict=True))
    assert torch.equal(before, weights(one.policy))
    assert metrics["updates"] == metrics["skipped"] == 0
    assert math.isnan(metrics["policy_loss"]) and math.isnan(metrics["explained_variance"])


@pytest.mark.parametrize("other", KINDS.values(), ids=KINDS)
def test_a_checkpoint_of_either_is_one_of_the_other(other):
    """Two updates by PPO, by the other one, and by both in turn, end alike."""
    ends = []
    for kinds in ((PPO, PPO), (PPO, other), (other, PPO)):
        one = case(action=ACTIONS[0])
        before, state = weights(one.policy), None
        for kind in kinds:
            ppo = kind(one.policy, EPOCHS, tuple(one.samples.reward.shape[1:]), 3, CPU)
            if state is not None:
                ppo.load_state_dict(state, "state")
            ppo.update(one.samples, scalars(EPOCHS))
            state = ppo.state_dict()
        assert float(state["adam"][0]["step"]) == 12.0
        ends.append(weights(one.policy))
    for end in ends[1:]:
        assert float((end - ends[0]).norm()) <= 0.02 * float((ends[0] - before).norm())


RUNS = {
    "cartpole": ("WarpCartPole-v1", {"max_episode_steps": 24}, 16),
    "tag": ("WarpTag-v0", {"num_taggers": 2, "num_runners": 4, "tagging_distance": 0.1, "episode_length": 24}, 8),
    "pendulum": ("WarpPendulum-v1", {}, 16),
    "pairs": ("Pairs-v0", {}, 16),
    "rice": ("WarpRice-v0", {}, 2),
    "rice, negotiation": ("WarpRice-v0", {"negotiation_on": True}, 2),
    "rice, whole rows": ("WarpRice-v0", {"observe": "whole"}, 2),
    "tag, all agents": ("WarpTag-v0", {"use_full_observation": True, "episode_length": 24}, 2),
}
GPU_ONLY = {name for name in RUNS if name.startswith(("pairs", "rice", "tag, all"))}
"""Runs of which the kernels of the CPU do not take the policies, or would take long to compile."""


def run_config(name):
    """Return a run of two iterations; the tagged runners of Tag leave, and their rows do not count."""
    env_id, env_kwargs, worlds = RUNS[name]
    return TrainConfig(
        env_id, num_envs=worlds, total_steps=worlds * 16, device="cpu", env_kwargs=env_kwargs, network=NetworkConfig((32, 32)),
        ppo=PPOConfig(num_steps=16, num_epochs=2, num_minibatches=2, learning_rate=1e-3, learning_rate_schedule="constant"),
        kernels="torch",
    )  # fmt: skip


def compare_runs(config, other, share):
    changes = []
    for each in (config, other):
        trainer = Trainer(each, quiet=True)
        before = {role: weights(policy) for role, policy in trainer.policies.items()}
        trainer.train()
        changes.append({role: weights(policy) - before[role] for role, policy in trainer.policies.items()})
        assert trainer.parts.not_fused == {}
    for role, change in changes[0].items():
        assert change.norm() > 0
        assert float((changes[1][role] - change).norm()) <= share * float(change.norm())


@pytest.mark.parametrize("name", slow(RUNS, "pendulum", "cartpole", *GPU_ONLY - {"pairs"}))
def test_runs_are_those_of_ppo(name):
    compare_runs(run_config(name), fused(run_config(name)), 0.05)


@pytest.mark.gpu
@pytest.mark.parametrize("name", RUNS)
def test_runs_on_a_gpu_are_those_of_ppo(name):
    config = dataclasses.replace(run_config(name), device="cuda:0")
    compare_runs(config, dataclasses.replace(config, kernels="fused"), 0.05)


@pytest.mark.parametrize("name", [name for name in RUNS if name not in GPU_ONLY])
def test_runs_on_the_cpu_are_those_of_ppo(name):
    compare_runs(run_config(name), dataclasses.replace(run_config(name), kernels="fused"), 1e-3)


@pytest.mark.parametrize("name", slow(["cartpole", "pendulum"], "pendulum"))
def test_actions_of_a_run_have_a_ratio_of_one(name):
    """One minibatch has the divergence before its step. In the first iteration, statistics changed after the actions."""
    env_id, env_kwargs, worlds = RUNS[name]
    config = TrainConfig(
        env_id, num_envs=worlds, total_steps=3 * worlds * 16, device="cpu", env_kwargs=env_kwargs,
        network=NetworkConfig((32, 32)), ppo=PPOConfig(num_steps=16, num_epochs=1, num_minibatches=1, clip_coef=2e-5),
    )  # fmt: skip
    trainer = Trainer(fused(config), quiet=True)
    (role,) = trainer.policies
    with torch.no_grad():  # outputs of a new policy are nearly 0, and so would be their error by torch
        trainer.policies[role].network.actor_layers[-1].weight.mul_(100.0)
    algorithm, seen = trainer.parts.algorithms[role], []
    update = algorithm.update

    def watched(samples, of_update):
        metrics = update(samples, of_update)
        seen.append(dict(zip(algorithm.metric_names, metrics.tolist(), strict=True)))
        return metrics

    algorithm.update = watched
    trainer.train()
    assert len(seen) == 3 and all(abs(metrics["kl"]) < 1e-6 and metrics["clip_fraction"] == 0.0 for metrics in seen)


def test_recorded_rollouts_keep_no_operations_for_gradients():
    """They would hold all iterations in memory."""
    config = TrainConfig("WarpPendulum-v1", 2, 2 * 64, device="cpu", kernels="fused", ppo=PPOConfig(num_steps=4))
    trainer = Trainer(config, quiet=True)
    trainer.train(2)
    (slabs,) = trainer.parts.rollout.groups
    assert not any(x.requires_grad for x in vars(slabs).values() if isinstance(x, torch.Tensor))
    trainer.close()


def test_an_observation_beyond_16_bits_ends_the_run_with_its_place():
    config = TrainConfig(
        "WarpCartPole-v1", num_envs=4, total_steps=4 * 8, device="cpu", network=NetworkConfig((32, 32)),
        ppo=PPOConfig(num_steps=8, normalize_observations=False),
    )  # fmt: skip
    trainer = Trainer(fused(config), quiet=True)
    collect = trainer.parts.collector.collect

    def changed():
        collect()
        trainer.parts.rollout.groups[0].obs.own[3, 2, 1] = -7e4

    trainer.parts.collector.collect = changed
    said = "observation of world 2, agent 0 in step 3 of the rollout is 70000, and fused kernels compute with numbers up to"
    with pytest.raises(NonFiniteError, match=said):
        trainer.train()


PAGE = Path(__file__).parents[3] / "docs" / "training-speed.md"
WIDTHS = range(16, 257, 16)
COLUMNS = Sizes(4, (), "tanh", 2, (2,)), Sizes(71, (), "tanh", 42, (21, 21))
"""CartPole and Tag, without hidden layers."""


def test_the_page_has_the_largest_widths_that_fit(monkeypatch):
    rows = re.findall(r"^\| .* \| (\d+) KiB \| (.*) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 3
    for kibibytes, *columns in rows:
        monkeypatch.setattr(eligibility, "CPU_BYTES", 1024 * int(kibibytes) - eligibility.OTHER_BYTES)
        for sizes, column in zip(COLUMNS, columns, strict=True):
            hidden = [[layers * (width,) for width in WIDTHS] for layers in (1, 2, 3)]
            fitted = [[_fitted(dataclasses.replace(sizes, hidden=one), CPU) for one in each] for each in hidden]
            widest = [max(found.hidden[0] for found in each if isinstance(found, Sizes)) for each in fitted]
            assert widest == [int(width) for width in column.split(", ")]


class Own(torch.nn.Module):
    """A network of the user."""

    def forward(self, obs):
        """Return outputs and value."""
        return obs[:, :4], obs[:, 4]


def bounded(high, normalize):
    """Return a policy whose observations have bounds, but for one feature."""
    low = np.array([-1.0, -np.inf, 0.0], np.float32)
    space = spaces.Box(low, np.array([high, np.inf, 1.0], np.float32))
    return make_policy("agent", dataclasses.replace(group(), observation=space), 0, NetworkConfig((8,)), normalize)


def test_policies_that_do_not_fit_have_a_reason():
    box = spaces.Box(-1.0, 1.0, (200,), np.float32)
    assert "shared part" in host_sizes(policy_of(ACTIONS[0], shared=True))
    for policy, reason in (
        (policy_of(ACTIONS[0], network=NetworkConfig((8, 8), shared_trunk=True)), "share hidden layers"),
        (policy_of(ACTIONS[0], network=NetworkConfig((257, 8))), "hidden sizes are [257, 8]"),
        (policy_of(ACTIONS[0], network=NetworkConfig((8,), "silu")), "its activation is silu, not tanh, relu or elu"),
        (policy_of(ACTIONS[0], network=NetworkConfig((256, 256, 256))), "bytes of shared memory"),
        (policy_of(ACTIONS[0], network=NetworkConfig((8, 8, 8, 8))), "hidden sizes"),
        (policy_of(box), "200 outputs"),
        (policy_of(ACTIONS[0], module=Own()), "not the built-in one"),
        (bounded(1e5, normalize=False), "not normalised and reach 100000, beyond 65,504"),
    ):
        assert reason in fused_sizes(policy, CPU)
    assert all(isinstance(fused_sizes(policy, CPU), Sizes) for policy in (bounded(1e5, True), bounded(6e4, False)))
    with pytest.raises(ConfigError, match="share hidden layers"):
        FusedPPO(policy_of(ACTIONS[0], network=NetworkConfig((8, 8), shared_trunk=True)), EPOCHS, (6, 3), 0, CPU)


def test_lines_about_policies_without_fused_kernels_name_the_cost_of_ppo_alone():
    def lines_of(not_fused, device, precision="float32", kernels="auto"):
        algorithms = {"a": "evolution", "b": "ppo", "c": "sac"}
        return not_fused_lines(
            not_fused, SimpleNamespace(device=device, precision=precision, kernels=kernels, algorithm_of=algorithms.get)
        )

    no_kernels, state = "its algorithm has none", "it has a state"
    assert lines_of({}, "cpu") == []
    assert lines_of({"a": no_kernels}, "cuda:0") == [f"'a' has no fused kernels: {no_kernels}"]
    *lines, cost = lines_of({"a": no_kernels, "b": state}, "cuda:1")
    assert lines == [f"'a' has no fused kernels: {no_kernels}", "'b' has no fused kernels: it has a state"]
    assert "5 to 17 times" in cost and cost.endswith("; --precision tf32 or bfloat16 makes wide layers faster")
    assert lines_of({"b": state}, "cpu")[1].startswith("torch takes 3 to 4 times as long")
    assert lines_of({"c": state}, "cpu") == ["'c' has no fused kernels: it has a state"]
    assert "precision='bfloat16'" in lines_of({}, "cpu", "bfloat16")[0]
    assert lines_of({}, "cpu", "bfloat16", "fused") == lines_of({}, "cpu", "float32") == []
