"""Whole iterations of eager and fused PPO, against PPO in float64 that steps the worlds of the run itself."""

import dataclasses
import math

import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0 and Pairs-v0)
import torch
from fused_runs import fused
from reference_ppo import ReferencePPO
from replay import Replay

from gpu_vecenv.train import NetworkConfig, PolicyConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.shuffle import choose, shuffle
from gpu_vecenv.train.fused.update import FusedBackend
from tests.devices import DEVICES

ITERATIONS = 3
"""Iterations of each run, which are half of its schedules."""

ERRORS = {"ppo": 1e-4, "fused": 2e-2, "world cpu": 1e-5, "world cuda": 1e-4}
"""Largest error of the change of the weights, by its norm, as a share of that change."""

PPO = PPOConfig(
    num_steps=16, num_epochs=3, num_minibatches=2, learning_rate=6e-3, entropy_coef=0.02, bootstrap_at_time_limit=True
)  # fmt: skip
TAG = {"num_taggers": 2, "num_runners": 4, "tagging_distance": 0.2, "episode_length": 12}
PLAIN = {"normalize_rewards": False, "normalize_observations": False, "normalize_advantages": "none", "clip_value": False}
CASES = {
    "time limits": ("WarpCartPole-v1", 8, {"max_episode_steps": 11}, {"normalize_advantages": "minibatch"}, {}),
    "no bootstrap": ("WarpCartPole-v1", 8, {"max_episode_steps": 11}, {"bootstrap_at_time_limit": False}, {}),
    "one step": ("WarpCartPole-v1", 32, {"max_episode_steps": 2}, {"num_steps": 1}, {}),
    "largest divergence": ("WarpCartPole-v1", 8, {"max_episode_steps": 11}, {"target_kl": 0.005}, {}),
    "numbers": ("WarpPendulum-v1", 8, {"max_episode_steps": 13}, {"clip_coef_final": 0.05, "entropy_coef_final": 0.5}, {}),
    "deaths": ("WarpTag-v0", 4, TAG, {}, {"runner": {"bootstrap_at_time_limit": False, "gamma": 0.9}}),
    "deaths, plain": ("WarpTag-v0", 4, TAG, {**PLAIN, "learning_rate_schedule": "constant"}, {}),
    "absent agents, masks, shared part": ("Arena-v0", 6, {"max_episode_steps": 9}, {}, {}),
    "few choices": ("Arena-v0", 6, {"max_episode_steps": 9, "shut": 1}, {}, {}),
    "few choices, small minibatches": (
        "Arena-v0", 6, {"max_episode_steps": 9, "shut": 1},
        {"normalize_advantages": "minibatch", "num_minibatches": 24, "num_epochs": 2, "learning_rate": 2e-3,
         "target_kl": 0.0039}, {},  # above the divergence if steps without a choice counted
    ),
    "shared parts": ("Pairs-v0", 6, {"max_episode_steps": 9}, {"normalize_advantages": "minibatch"}, {}),
}
"""Env, worlds, parameters of the env, settings of PPO, and settings of some policies."""

CRITICS = {
    "own row beside all observations": ("deaths", ("observations",), "agent"),
    "all observations alone": ("absent agents, masks, shared part", ("observations",), "team"),
    "own row beside all observations and a shared part": ("few choices", ("observations",), "agent"),
    "shared part alone": ("absent agents, masks, shared part", ("shared",), "team"),
    "own row beside fields": ("absent agents, masks, shared part", ("place", "t"), "agent"),
    "fields around observations": ("deaths", ("loc_x", "observations", "t", "alive"), "team"),
    "not normalised": ("deaths, plain", ("observations",), "agent"),
}
"""Critics that read the world: a case, sources and ``critic_value``."""

FUSED = [name for name in CASES if name != "shared parts"]
"""Fused kernels take no observations with a shared part."""
QUICK = ("time limits", "numbers", "deaths", "absent agents, masks, shared part", "shared parts")
"""Cases of each kind: truncation, a Gaussian head, deaths with several choices, masks, parts that agents share."""
REFERENCE_CASES = [
    pytest.param(name, algorithm, marks=() if name in QUICK else pytest.mark.slow)
    for algorithm, names in (("ppo", CASES), ("fused", FUSED))
    for name in names
]
"""All cases; those outside ``QUICK`` are slow."""

EVENTS = {
    "WarpCartPole-v1": {"time limits", "clipped ratios"},
    "WarpPendulum-v1": {"time limits", "clipped ratios"},
    "WarpTag-v0": {"time limits", "clipped ratios", "agents leave", "agents are out of the game"},
    "Arena-v0": {"time limits", "terminal states", "clipped ratios", "agents leave", "agents are out of the game", "no choice"},
    "Pairs-v0": {"time limits", "clipped ratios"},
}
"""Events that a run of an env must have, so that its cases test them."""


def numbers(x):
    return x.detach().double().cpu().numpy().copy()


def run_of(name, algorithm, device, sources=(), value="agent"):
    """Return a trainer of a case, whose critics may read the world, and the reference of each policy."""
    env_id, worlds, env_kwargs, settings, of_policies = CASES[name]
    ppo = dataclasses.replace(PPO, **settings)
    if {*sources} - {"observations", "shared"}:  # the state after an autoreset is that of the next episode
        ppo = dataclasses.replace(ppo, bootstrap_at_time_limit=False)
    config = TrainConfig(
        env_id, num_envs=worlds, total_steps=2 * ITERATIONS * worlds * ppo.num_steps, device=device, env_kwargs=env_kwargs,
        network=NetworkConfig((32, 32)), ppo=ppo, kernels="torch",
    )  # fmt: skip
    policies = Trainer(config, quiet=True).policies
    config = dataclasses.replace(config, policies={role: PolicyConfig(ppo=of_policies.get(role, {})) for role in policies})
    if algorithm == "fused":
        fit = [role for role, policy in policies.items() if policy.group.shared is None]
        config = fused(config, None if len(fit) == len(policies) else fit)
    if sources:
        readers = [role for role, policy in policies.items() if sources != ("shared",) or policy.group.shared is not None]
        network = {"critic": sources, "critic_value": value}
        own = {role: dataclasses.replace(each, network=network) for role, each in config.policies.items() if role in readers}
        config = dataclasses.replace(config, policies={**config.policies, **own})
    trainer = Trainer(config, quiet=True)
    references = {}
    for role, policy in trainer.policies.items():
        with torch.no_grad():  # outputs of a new policy are nearly 0
            policy.network.actor_layers[-1].weight.mul_(30.0)
        parts = (policy.network.actor_layers, policy.network.critic_layers)
        layers = [[(numbers(x.weight), numbers(x.bias)) for x in part if hasattr(x, "weight")] for part in parts]
        space, log_std, bounds = policy.group.action, None, None
        if policy.group.continuous:
            log_std, bounds = numbers(policy.log_std), (space.low, space.high)
        options = trainer.parts.algorithms[role].config
        reads = (policy.critic_sources, value == "team") if policy.critic_sources else ()
        references[role] = ReferencePPO(*layers, log_std, bounds, policy.group.choices, options, *reads)
    return trainer, references


def weights(policy):
    """Return the weights in the order of ``ReferencePPO.weights``, in one array."""
    named = dict(policy.named_parameters())
    names = [name for part in ("actor", "critic", "log_std") for name in named if part in name]
    return np.concatenate([numbers(named[name]).ravel() for name in names])


def orders_of(before, shuffles, config, by_world):
    """Return the minibatches of each epoch that the trainer shuffles, each bool (T, N, a).

    Args:
        before: bool (T, N, a), the transitions that count.
        shuffles: state of the shuffles before the update.
        config: settings of PPO.
        by_world: a minibatch has worlds with all their agents.
    """
    counts = before.any(-1) if by_world else before
    found, transitions = [], choose(torch.tensor(counts.ravel(), device=shuffles.device))
    for epoch in range(config.num_epochs):
        index, used = (x.cpu().numpy() for x in shuffle(transitions, config.num_minibatches, shuffles, epoch + 1))
        order = np.zeros((config.num_minibatches, counts.size), bool)
        for minibatch, at, use in zip(order, index, used, strict=True):
            minibatch[at[use]] = True
        assert (order.sum(0) == counts.ravel()).all() and np.ptp(order.sum(1)) <= 1  # each that counts once
        order = order.reshape(-1, *counts.shape)
        found.append([(each[..., None] if by_world else each) & before for each in order])
    return found


class Episodes:
    """Returns and lengths of the episodes of a role's agents, by a loop."""

    def __init__(self):
        self.totals = 0.0

    def means(self, t):
        """Return the mean return and length of episodes that ended in a rollout, for each agent that took part in one."""
        found = []
        for reward, before, ended in zip(t.reward, t.before, t.terminated | t.truncated, strict=True):
            self.totals = self.totals + np.stack((np.where(before, reward, 0.0), np.ones_like(reward), before))
            found += list(self.totals[:2, ended[:, None] & (self.totals[2] > 0)].T)
            self.totals[:, ended] = 0.0
        return np.mean(found, axis=0) if found else np.full(2, math.nan)


def events(t, metrics, config):
    """Return what happens in a rollout."""
    happens = {
        "time limits": t.truncated, "terminal states": t.terminated, "clipped ratios": metrics["clip_fraction"],
        "agents leave": t.before & ~t.after, "agents are out of the game": ~t.before,
        "updates end early": metrics["updates"] < config.num_epochs * config.num_minibatches,
        "no choice": t.mask is not None and t.mask.sum(-1) == 3,  # the three choices of an entry without a mask
    }  # fmt: skip
    return {name for name, values in happens.items() if np.any(values)}


def actions_of(trainer):
    """Return the actions that each role took in the last rollout, (T, N, a, entries)."""
    found = {}
    for role, rows in trainer.parts.rows.items():
        shape = (-1, trainer.env.num_worlds, trainer.env.role_counts[role], trainer.policies[role].group.num_entries)
        found[role] = rows.samples().action.cpu().numpy().reshape(shape)
    return found


def assert_equal(found, want, loose):
    """Compare metrics. ``loose`` allows rounding that puts a few ratios to the other side of their bound."""
    bounds = {"rel": 0.02, "abs": 5e-3} if loose else {"rel": 1e-4, "abs": 1e-5}
    assert found == {name: pytest.approx(x, nan_ok=True, **bounds) for name, x in want.items()}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("name", "algorithm"), REFERENCE_CASES)
def test_iterations_are_those_of_the_reference(name, algorithm, device):
    """The reference learns from its own replay, and goes on from its own weights."""
    require_those_of_the_reference(name, *run_of(name, algorithm, device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("critic", CRITICS)
def test_iterations_with_a_critic_of_the_world_are_those_of_the_reference(critic, device):
    name, sources, value = CRITICS[critic]
    fields = tuple(source for source in sources if source not in ("observations", "shared"))
    trainer, references = run_of(name, "ppo", device, sources, value)
    assert any(policy.critic_sources == sources for policy in trainer.policies.values())
    require_those_of_the_reference(name, trainer, references, fields)


def require_those_of_the_reference(name, trainer, references, fields=()):
    start = {role: weights(policy) for role, policy in trainer.policies.items()}
    replay, episodes, seen = Replay(trainer.config, fields), {role: Episodes() for role in references}, set()
    few = True
    for iteration in range(ITERATIONS):
        shuffles = {role: own.shuffles.clone() for role, own in trainer.parts.algorithms.items()}
        metrics = trainer.train(iterations=1)
        for role, t in replay.rollout(actions_of(trainer)).items():
            reference = references[role]
            orders = orders_of(t.before, shuffles[role], reference.config, t.shared is not None or bool(reference.sources))
            want = reference.iterate(t, orders, iteration / (2 * ITERATIONS))
            seen |= events(t, want, reference.config)
            few = few and want["choice_fraction"] < 0.4
            want["return"], want["episode_length"] = episodes[role].means(t)
            change = weights(trainer.policies[role]) - start[role]
            expected = np.concatenate([x.ravel() for x in reference.weights]) - start[role]
            used = "fused" if isinstance(trainer.parts.algorithms[role].backend, FusedBackend) else "ppo"
            used = f"world {trainer.parts.algorithms[role].factor.device.type}" if reference.sources else used
            assert np.linalg.norm(change - expected) <= ERRORS[used] * np.linalg.norm(expected)
            assert_equal({name: metrics[f"{name}/{role}"] for name in want}, want, used == "fused")
    assert EVENTS[trainer.config.env_id] <= seen and few == ("few choices" in name)
    assert ("updates end early" in seen) == (CASES[name][3].get("target_kl") is not None)
