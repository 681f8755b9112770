"""Whole iterations of PPO with a memory, against PPO in float64 that steps the worlds and the cells of the run itself."""

import dataclasses

import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0 and Pairs-v0)
import torch
from reference_recurrent import RecurrentReference
from replay import Replay
from test_reference_ppo import Episodes, actions_of, assert_equal, events, numbers

from gpu_vecenv.train import NetworkConfig, PolicyConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.shuffle import choose, shuffle
from tests.devices import DEVICES
from tests.marks import slow_but

ITERATIONS = 3

ERRORS = {"cpu": 1e-5, "cuda": 1e-4}
"""Largest error of the change of the weights, by its norm, as a share of that change; products of a GPU have another order."""

PPO = PPOConfig(
    num_steps=16, num_epochs=2, num_minibatches=2, learning_rate=6e-3, entropy_coef=0.02, bootstrap_at_time_limit=True
)  # fmt: skip
TAG = {"num_taggers": 2, "num_runners": 4, "tagging_distance": 0.2, "episode_length": 12}
ROLES = {"max_episode_steps": 9}
CASES = {
    "whole": ("WarpCartPole-v1", 8, {"max_episode_steps": 11}, {"normalize_advantages": "minibatch"}, ((8,), "gru", 5)),
    "no bootstrap": ("WarpCartPole-v1", 6, {"max_episode_steps": 11}, {"bootstrap_at_time_limit": False}, ((), "lstm", 6)),
    "one step": ("WarpCartPole-v1", 8, {"max_episode_steps": 5}, {"sequence_length": 1}, ((7,), "gru", 3)),
    "largest divergence": ("WarpCartPole-v1", 8, {"max_episode_steps": 11}, {"target_kl": 1e-6, "sequence_length": 8},
                           ((8,), "lstm", 5)),
    "numbers": ("WarpPendulum-v1", 5, {"max_episode_steps": 13}, {"sequence_length": 4, "clip_coef_final": 0.05}, ((), "gru", 9)),
    "deaths": ("WarpTag-v0", 3, TAG, {"num_steps": 18, "sequence_length": 6}, ((8, 8), "lstm", 4)),
    "deaths, whole": ("WarpTag-v0", 3, TAG, {"num_steps": 14, "normalize_rewards": False}, ((8,), "gru", 4)),
    "absent agents, masks, shared part": ("Arena-v0", 6, ROLES, {"sequence_length": 8}, ((8,), "gru", 5)),
    "absent agents, whole": ("Arena-v0", 5, ROLES, {"num_steps": 13, "normalize_observations": False}, ((6,), "lstm", 4)),
    "few choices": ("Arena-v0", 6, {**ROLES, "shut": 1}, {"sequence_length": 2, "num_minibatches": 8}, ((6,), "lstm", 4)),
    "shared parts": ("Pairs-v0", 4, ROLES, {"num_steps": 12, "sequence_length": 4}, ((6,), "gru", 5)),
}  # fmt: skip
"""Env, worlds, parameters of the env, settings of PPO, and hidden sizes, memory and its units."""

CRITICS = {
    "units beside all observations": ("absent agents, masks, shared part", ("observations",), "agent"),
    "all observations alone, whole": ("deaths, whole", ("observations",), "team"),
    "units beside fields": ("absent agents, masks, shared part", ("place", "t"), "agent"),
    "shared part alone": ("absent agents, whole", ("shared",), "team"),
}
"""Critics that read the world: a case, sources and ``critic_value``."""

EVENTS = {
    "WarpCartPole-v1": {"time limits"},
    "WarpPendulum-v1": {"time limits"},
    "WarpTag-v0": {"time limits", "agents leave", "agents are out of the game"},
    "Arena-v0": {"time limits", "terminal states", "agents leave", "agents are out of the game", "no choice"},
    "Pairs-v0": {"time limits"},
}
"""Events that a run of an env must have, so that its cases test them."""


def run_of(name, device, sources=(), value="agent"):
    """Return a trainer of a case, whose critics may read the world, and the reference of each policy."""
    env_id, worlds, env_kwargs, settings, (hidden, memory, size) = CASES[name]
    ppo = dataclasses.replace(PPO, **settings)
    if {*sources} - {"observations", "shared"}:  # the state after an autoreset is that of the next episode
        ppo = dataclasses.replace(ppo, bootstrap_at_time_limit=False)
    config = TrainConfig(
        env_id, num_envs=worlds, total_steps=2 * ITERATIONS * worlds * ppo.num_steps, device=device, env_kwargs=env_kwargs,
        network=NetworkConfig(hidden, shared_trunk=len(hidden) == 2, memory=memory, memory_size=size), ppo=ppo, kernels="torch",
    )  # fmt: skip
    roles, critic = Trainer(config, quiet=True).policies, {"critic": sources, "critic_value": value} if sources else {}
    own = {
        role: PolicyConfig(network=critic if sources != ("shared",) or policy.group.shared is not None else {})
        for role, policy in roles.items()
    }
    trainer = Trainer(dataclasses.replace(config, policies=own), quiet=True)
    references = {}
    for role, policy in trainer.policies.items():
        network = policy.network
        with torch.no_grad():  # outputs of a new policy are nearly 0
            network.actor_layers[-1].weight.mul_(30.0)
        parts = (network.trunk, network.actor_layers, network.critic_layers)
        layers = [[(numbers(x.weight), numbers(x.bias)) for x in part if hasattr(x, "weight")] for part in parts]
        cell = [numbers(getattr(network.memory, each)) for each in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        space, log_std, bounds = policy.group.action, None, None
        if policy.group.continuous:
            log_std, bounds = numbers(policy.log_std), (space.low, space.high)
        options = trainer.parts.algorithms[role].config
        reads = (policy.critic_sources, bool(policy.critic_sources) and value == "team")
        references[role] = RecurrentReference(cell, *layers, log_std, bounds, policy.group.choices, options, *reads)
    return trainer, references


def weights(policy):
    """Return the weights in the order of ``RecurrentReference.weights``, in one array."""
    named = dict(policy.named_parameters())
    names = [name for part in ("memory", "trunk", "actor", "critic", "log_std") for name in named if part in name]
    return np.concatenate([numbers(named[name]).ravel() for name in names])


def orders_of(before, shuffles, config, by_world):
    """Return the minibatches of each epoch that the trainer shuffles, each bool (T / L, N * a).

    Args:
        before: bool (T, N, a), the transitions that count.
        shuffles: state of the shuffles before the update.
        config: settings of PPO.
        by_world: a sequence is one of a world with all its agents.
    """
    steps, worlds, agents = before.shape
    segments = before.reshape(-1, config.sequence_length or steps, worlds, agents).any(1)
    counts = segments.any(-1) if by_world else segments.reshape(len(segments), -1)
    found, places = [], choose(torch.tensor(counts.ravel(), device=shuffles.device))
    for epoch in range(config.num_epochs):
        index, used = (x.cpu().numpy() for x in shuffle(places, config.num_minibatches, shuffles, epoch + 1))
        order = np.zeros((config.num_minibatches, counts.size), bool)
        for minibatch, at, use in zip(order, index, used, strict=True):
            minibatch[at[use]] = True
        assert (order.sum(0) == counts.ravel()).all() and np.ptp(order.sum(1)) <= 1  # each that counts once
        order = order.reshape(-1, *counts.shape)
        found.append([each.repeat(agents, axis=1) if by_world else each for each in order])
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", slow_but(list(CASES)[::3], CASES))
def test_iterations_with_a_memory_are_those_of_the_reference(name, device):
    """The reference learns from its own replay, and goes on from its own weights and states."""
    require_those_of_the_reference(name, device, *run_of(name, device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("critic", CRITICS)
def test_iterations_with_a_memory_and_a_critic_of_the_world_are_those_of_the_reference(critic, device):
    name, sources, value = CRITICS[critic]
    trainer, references = run_of(name, device, sources, value)
    assert any(policy.critic_sources == sources for policy in trainer.policies.values())
    fields = tuple(source for source in sources if source not in ("observations", "shared"))
    require_those_of_the_reference(name, device, trainer, references, fields)


def require_those_of_the_reference(name, device, trainer, references, fields=()):
    start = {role: weights(policy) for role, policy in trainer.policies.items()}
    replay, episodes, seen = Replay(trainer.config, fields), {role: Episodes() for role in references}, set()
    for iteration in range(ITERATIONS):
        shuffles = {role: own.shuffles.clone() for role, own in trainer.parts.algorithms.items()}
        metrics = trainer.train(iterations=1)
        for role, t in replay.rollout(actions_of(trainer)).items():
            reference = references[role]
            orders = orders_of(t.before, shuffles[role], reference.config, t.shared is not None or bool(reference.sources))
            want = reference.iterate(t, orders, iteration / (2 * ITERATIONS))
            seen |= events(t, want, reference.config)
            want["return"], want["episode_length"] = episodes[role].means(t)
            found, expected = weights(trainer.policies[role]), np.concatenate([x.ravel() for x in reference.weights])
            bound = ERRORS[torch.device(device).type] * np.linalg.norm(expected - start[role])
            assert np.linalg.norm(found - expected) <= bound
            assert_equal({name: metrics[f"{name}/{role}"] for name in want}, want, False)
    assert EVENTS[trainer.config.env_id] <= seen
    assert ("updates end early" in seen) == ("target_kl" in CASES[name][3])
