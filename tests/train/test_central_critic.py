"""The built-in critic that reads the world once: its values, sizes, statistics, runs and refusals.

Updates are compared in float64 by ``test_reference_ppo.py`` and, with a memory, by ``test_reference_recurrent.py``.
"""

import dataclasses
import re

import gymnasium
import meet  # noqa: F401  (registers Meet-v0)
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Arena-v0 and Pairs-v0)
import torch
from dispatched import HostReads, operations
from gymnasium.spaces import Box
from policy_cases import ACTIONS, AGENTS, OWN, SHARED, draws, group
from test_states import require_same, tensors_of
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from gpu_vecenv.spec.roles import Group
from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PolicyMapError,
    PPOConfig,
    TrainConfig,
    Trainer,
    evaluate,
    export_policy,
    load_checkpoint,
)
from gpu_vecenv.train.algorithms.schedules import DeviceScalars
from gpu_vecenv.train.fused.ppo import why_not_fused
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Inputs, apply
from gpu_vecenv.train.policies.networks import NetworkSpec, WorldSpec
from gpu_vecenv.train.policies.registry import register_network
from gpu_vecenv.train.runner.run_state import setup_of
from tests.marks import slow_but

WORLDS = 5
ARENA = TrainConfig(
    "Arena-v0", num_envs=6, total_steps=6 * 8 * 4, device="cpu", env_kwargs={"max_episode_steps": 9},
    ppo=PPOConfig(num_steps=8, num_minibatches=2, num_epochs=2, bootstrap_at_time_limit=True),
    network=NetworkConfig((8,), critic="observations"),
)  # fmt: skip
"""Agents leave and are absent, actions have masks, and the observations of blue agents have a shared part."""


def arena(critic, value="agent", **network):
    ppo = ARENA.ppo if critic in ("observations", "shared") else dataclasses.replace(ARENA.ppo, bootstrap_at_time_limit=False)
    return dataclasses.replace(ARENA, ppo=ppo, network=NetworkConfig((8,), critic=critic, critic_value=value, **network))


# ---- values ---------------------------------------------------------------------------------------------------------


def central(shared, sources, value, hidden=(8, 7), agents=AGENTS, own=OWN, normalize=False, memory=None):
    """Return a policy whose critic reads the world, and its inputs in some worlds."""
    each = group(ACTIONS[1], shared)
    if not shared:
        each = dataclasses.replace(each, observation=Box(-np.inf, np.inf, (own,), np.float32))
    world = WorldSpec(agents, agents, {"level": agents, "t": 1, "observations": agents * own + SHARED * shared, "shared": SHARED})
    network = NetworkConfig(hidden, critic=sources, critic_value=value, memory=memory, memory_size=6 if memory else 64)
    policy = make_policy("agent", each, 0, network, normalize, world=world, learns=True)
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape):
        return torch.randn(*shape, generator=generator)

    obs = {"own": numbers(WORLDS, agents, own), **({"shared": numbers(WORLDS, SHARED)} if shared else {})}
    return policy, Inputs(obs, critic=numbers(WORLDS, sum(world.sources[name] for name in sources)))


def copied(inputs, parts):
    """Return the arrays side by side for each agent, those of worlds copied."""
    agents = inputs.obs["own"].shape[1]
    return torch.cat([x if x.dim() == 3 else x.unsqueeze(1).expand(-1, agents, -1) for x in parts], dim=-1)


@pytest.mark.parametrize("hidden", [(), (8, 7)], ids=str)
@pytest.mark.parametrize(("shared", "sources", "value", "reads"), [
    (False, ("observations",), "agent", ("critic", "own")),
    (False, ("level", "t"), "agent", ("critic", "own")),
    (False, ("t", "observations"), "team", ("critic",)),
    (True, ("observations",), "agent", ("critic", "own")),
    (True, ("level",), "agent", ("critic", "shared", "own")),
    (True, ("t", "shared"), "agent", ("critic", "own")),
    (True, ("shared",), "team", ("critic",)),
])  # fmt: skip
def test_values_are_those_of_plain_layers_on_inputs_copied_for_each_agent(shared, sources, value, reads, hidden):
    policy, inputs = central(shared, sources, value, hidden)
    x = copied(inputs, [{**inputs.obs, "critic": inputs.critic}[name] for name in reads]).double()
    for layer in policy.network.critic_layers:
        x = x @ layer.weight.double().T + layer.bias.double() if hasattr(layer, "weight") else torch.tanh(x)
    wanted, found = x[..., 0], policy.value(inputs)
    assert found.shape == (WORLDS, AGENTS) and (value == "team") == bool((found == found[:, :1]).all())
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-6)
    evaluated = policy.evaluate(inputs, torch.zeros(WORLDS, AGENTS, 2, dtype=torch.int32))
    assert torch.equal(evaluated.value, found)
    weight = torch.linspace(1, 2, AGENTS)
    (gradient,) = torch.autograd.grad((found * weight).sum(), policy.network.critic_layers[0].weight)
    (expected,) = torch.autograd.grad((wanted * weight).sum(), policy.network.critic_layers[0].weight)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


def test_the_actor_is_that_of_a_run_without_such_a_critic():
    own, world = (Trainer(each, quiet=True).policies["blue"] for each in (arena("own"), ARENA))
    require_same(own.network.actor_layers.state_dict(), world.network.actor_layers.state_dict())
    obs = {"shared": torch.randn(4, 1), "own": torch.randn(4, 2, 2)}
    assert torch.equal(own.outputs(obs), world.outputs(obs))


class _Largest(TorchDispatchMode):
    """Notes the most numbers of a tensor that an operation returns."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not func.is_view:
            self.most = max(self.most, result.numel())
        return result


@pytest.mark.parametrize("value", ["agent", "team"])
def test_nothing_is_copied_for_each_of_105_agents_with_71_features(value):
    """Products of the inputs are made once a world, forwards and backwards."""
    agents, features, hidden = 105, 71, 16
    inputs_once = agents * features
    policy, inputs = central(False, ("observations",), value, (hidden,), agents, features, normalize=True)
    inputs = inputs._replace(present=torch.ones(WORLDS, agents, dtype=torch.bool))
    with _Largest() as seen, FlopCounterMode(display=False) as flops:
        policy.value(inputs).sum().backward()
    # Each product is computed forwards, and for the gradient of the weights; that of the last layer for its input, too.
    rows = WORLDS * (agents if value == "agent" else 1)
    products = 2 * WORLDS * inputs_once * hidden + (2 * rows * features * hidden if value == "agent" else 0) + 3 * rows * hidden
    assert flops.get_total_flops() == 2 * products
    assert seen.most == max(inputs_once * hidden + features * hidden * (value == "agent"), WORLDS * inputs_once)
    assert seen.most < WORLDS * agents * inputs_once / 10


def test_a_memory_is_read_beside_what_the_critic_reads():
    policy, inputs = central(False, ("observations",), "agent", memory="gru")
    inputs = inputs._replace(state=torch.randn(WORLDS, AGENTS, 6))
    cell = torch.nn.GRUCell(OWN, 6)
    cell.load_state_dict(policy.network.memory.state_dict())
    units = cell(inputs.obs["own"].flatten(0, 1), inputs.state.flatten(0, 1)).view(WORLDS, AGENTS, 6)
    x = copied(inputs, [inputs.critic, units])
    for layer in policy.network.critic_layers:
        x = torch.nn.functional.linear(x, layer.weight, layer.bias) if hasattr(layer, "weight") else layer(x)
    torch.testing.assert_close(policy.value(inputs), x[..., 0], rtol=1e-5, atol=1e-5)


# ---- statistics -----------------------------------------------------------------------------------------------------


def test_fields_are_normalised_by_statistics_of_all_rollouts():
    trainer = Trainer(arena(("place", "t"), "team"), quiet=True)
    policy, seen = trainer.policies["red"], []
    for _ in range(3):
        trainer.train(iterations=1)
        samples = trainer.parts.rows["red"].samples()
        seen.append(samples.critic[:-1][samples.valid.any(-1)].clone())
        assert not samples.valid.any(-1).all()  # some worlds have no agent that counts
    every = torch.cat(seen).double().numpy()
    (norm,) = policy.critic_norm.fields
    np.testing.assert_allclose(norm.mean, every.mean(0), rtol=1e-6)
    np.testing.assert_allclose(norm.var, every.var(0), rtol=1e-6)
    read = policy.critic_norm.forward(samples.critic, samples.present, policy.obs_norm)
    expected = np.clip((samples.critic.numpy() - every.mean(0)) / every.std(0), -10, 10)
    np.testing.assert_allclose(read, expected, rtol=1e-4, atol=1e-5)
    assert {"critic_norm.fields.0.mean", "critic_norm.fields.0.var", "critic_norm.fields.0.count"} <= {*policy.state_dict()}


@pytest.mark.parametrize("role", ["red", "blue"])
def test_observations_of_agents_out_of_the_game_are_zeros_after_normalisation(role):
    """And they are in no statistics: the others are normalised as the actor reads them."""
    trainer = Trainer(ARENA, quiet=True)
    trainer.train()
    policy, samples = trainer.policies[role], trainer.parts.rows[role].samples()
    read = policy.critic_norm.forward(samples.critic, samples.present, policy.obs_norm)
    normal, present = policy.normalized(samples.obs), samples.present
    own = torch.where(present.unsqueeze(-1), normal["own"], 0.0).flatten(2)
    if role == "blue":
        shared = torch.where(present.any(-1, keepdim=True), normal["shared"], 0.0)
        own = torch.cat((shared, own), dim=-1)
    assert torch.equal(read, own) and not present.all() and present[:-1].equal(samples.valid)
    assert not policy.critic_norm.fields and float(policy.obs_norm.parts["own"].mean.abs().min()) > 0


def test_inputs_stay_as_they_are_without_normalisation():
    ppo = dataclasses.replace(ARENA.ppo, normalize_observations=False)
    trainer = Trainer(dataclasses.replace(ARENA, ppo=ppo), quiet=True)
    assert trainer.policies["red"].critic_norm is None and trainer.policies["red"].obs_norm is None
    trainer.train(iterations=1)


def test_a_picture_stays_as_it_is_beside_fields_that_are_normalised():
    picture = Group("", "", 2, Box(0, 255, (2, 3), np.uint8), ACTIONS[0], ())
    world = WorldSpec(2, 2, {"t": 1, "observations": 12})
    network = NetworkConfig((8,), critic=("t", "observations"), agent_ids=True)
    policy = make_policy("agent", picture, 0, network, world=world, learns=True)
    critic, obs = torch.randn(3, 1, 13), {"own": torch.randn(3, 1, 2, 2, 3)}
    policy.observe(obs, torch.ones(3, 1, 2, dtype=torch.bool), critic)
    read = policy.critic_norm.forward(critic, None, policy.obs_norm)
    assert torch.equal(read[..., 1:], critic[..., 1:]) and abs(float(read[..., 0].mean())) < 1e-5
    inputs = Inputs({"own": obs["own"][:, 0]}, critic=critic[:, 0], agent=torch.tensor([[0, 1]] * 3))
    assert policy.value(inputs).shape == (3, 2)


# ---- runs -----------------------------------------------------------------------------------------------------------


def test_values_after_a_time_limit_are_those_of_final_observations():
    """The critic reads all agents of the world, with zeros for those that left in the last step."""
    trainer = Trainer(ARENA, quiet=True)
    trainer.train()
    limits = 0
    for role, features in (("red", 3), ("blue", 2)):
        samples, rows = trainer.parts.rows[role].samples(), trainer.parts.rows[role]
        alive = samples.valid & rows.gather(trainer.parts.rollout.agent_alive)
        assert torch.equal(samples.final_present, alive)
        inputs, final = samples.steps(samples.final_obs, slice(0, 8)), samples.final_obs
        assert torch.equal(inputs.critic, samples.final_critic.flatten(0, 1))
        assert torch.equal(inputs.present, alive.flatten(0, 1))
        own = torch.where(alive.unsqueeze(-1), final["own"], 0.0).flatten(2)
        assert own.shape[2] == features * alive.shape[2]
        assert torch.equal(samples.final_critic[samples.ended.any(-1)][:, -own.shape[2] :], own[samples.ended.any(-1)])
        limits += int(samples.timed_out.sum())
        assert not torch.equal(samples.final_critic, samples.critic[1:])
    assert limits > 0


RUNS = {
    "observations": (ARENA, ("red", "blue")),
    "a value of a team": (arena("observations", "team"), ("red", "blue")),
    "fields": (arena(("place", "present", "t")), ("red", "blue")),
    "numbers of agents": (arena("observations", agent_ids=True), ("red", "blue")),
    "a memory": (arena("observations", memory="gru", memory_size=5), ("red", "blue")),
    "two roles": (
        dataclasses.replace(ARENA, env_id="Pairs-v0", env_kwargs={"max_episode_steps": 9, "num_left": 2},
                            policy_map={"left": "one", "right": "one"}), ("one",),
    ),
    "ranges": (
        dataclasses.replace(arena("observations"), policy_map={"red[0:2]": "two", "red[2:3]": "one", "blue": "random"}),
        ("two", "one"),
    ),
}  # fmt: skip
"""Options, and policies whose critics read the world."""

QUICK = ("observations", "numbers of agents", "a memory")


@pytest.mark.parametrize("name", slow_but(QUICK, RUNS))
def test_a_resumed_run_continues_bit_by_bit(tmp_path, name):
    config, policies = RUNS[name]
    configs = [dataclasses.replace(config, out=str(tmp_path / part)) for part in ("whole", "half")]
    whole, half = (Trainer(each, quiet=True) for each in configs)
    before = {policy: whole.policies[policy].network.critic_layers[0].weight.clone() for policy in policies}
    metrics = whole.train()
    half.train(iterations=2)
    half.close()
    again = Trainer.resume(tmp_path / "half", quiet=True)
    again.train()
    require_same(tensors_of(again), tensors_of(whole))
    for policy in policies:
        assert metrics[f"skipped/{policy}"] == 0 and not torch.equal(
            before[policy], whole.policies[policy].network.critic_layers[0].weight
        )
    means = evaluate(tmp_path / "half", episodes=4)  # an evaluation needs no critic
    assert np.isfinite([*means.mean_return.values()]).all()


def test_two_roles_of_a_policy_read_the_agents_of_both():
    config, _ = RUNS["two roles"]
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    rows = trainer.parts.rows["one"]
    samples = rows.samples()
    assert samples.critic.shape == (9, 12, 2 * (3 + 2 * 2)) and torch.equal(samples.critic[:, :6], samples.critic[:, 6:])
    left, right = samples.critic[:, :6].split(7, dim=2)
    for part, own in ((left, samples.obs["own"][:, :6]), (right, samples.obs["own"][:, 6:])):
        assert torch.equal(part[..., 3:], own.flatten(2)) and torch.equal(part[..., :3], samples.obs["shared"][:, :6])
    policy = trainer.policies["one"]
    read = policy.critic_norm.forward(samples.critic, None, policy.obs_norm)
    normal = policy.normalized(samples.obs)
    assert torch.equal(read[:, :6, 10:], normal["own"][:, 6:].flatten(2))


@pytest.mark.parametrize("config", [ARENA, arena(("place", "t"), "team")], ids=["observations", "fields"])
def test_an_update_reads_nothing_on_the_host_and_has_as_many_operations_for_any_data(config):
    trainer = Trainer(config, quiet=True)
    for name, algorithm in trainer.parts.algorithms.items():
        counts = []
        for _ in range(2):
            trainer.parts.collector.collect()
            with HostReads():
                samples = trainer.parts.rows[name].samples()
                scalars = DeviceScalars(*torch.tensor((1e-3, 0.01, 0.2)))
                trainer.policies[name].observe(apply(samples.obs, lambda x: x[:-1]), samples.valid, samples.critic[:-1])
                algorithm.begin(samples)
                algorithm.update(samples, scalars)
            counts.append(operations(lambda: algorithm.update(samples, scalars)))  # noqa: B023  (called at once)
        assert counts[0] == counts[1]


@pytest.mark.parametrize("network", [
    {"critic": "observations"}, {"critic": "observations", "critic_value": "team"},
    {"critic": ("loc_x",), "memory": "gru", "memory_size": 4},
], ids=str)  # fmt: skip
def test_a_run_is_evaluated_with_other_numbers_of_agents(network, tmp_path):
    """Actions do not depend on the critic, so they are those of a policy without one."""
    env_kwargs = {"num_taggers": 2, "num_runners": 3, "episode_length": 6}
    config = TrainConfig(
        "WarpTag-v0", num_envs=4, total_steps=32, device="cpu", env_kwargs=env_kwargs, network=NetworkConfig((8,), **network),
        ppo=PPOConfig(num_steps=4, num_minibatches=2, bootstrap_at_time_limit=False), out=str(tmp_path / "run"),
    )  # fmt: skip
    Trainer(config, quiet=True).train()
    state = load_checkpoint(tmp_path / "run")
    own = dataclasses.replace(config, network=dataclasses.replace(config.network, critic="own", critic_value="agent"), out=None)
    plain = Trainer(own, quiet=True)
    for name, policy in plain.policies.items():
        before = policy.state_dict()
        policy.load_state_dict(before | {key: x for key, x in state["policies"][name].items() if "critic" not in key})
    for agents in ({}, {"num_taggers": 1, "num_runners": 5}):
        options = {"episodes": 5, "device": "cpu", "env_kwargs": env_kwargs | agents}
        found = evaluate(tmp_path / "run", **options)
        assert found == evaluate(plain.save(tmp_path / "plain.pt"), **options)
    with pytest.raises(CheckpointError, match=r"network.actor_layers|network.memory"):
        evaluate(tmp_path / "run", episodes=1, device="cpu", env_kwargs=env_kwargs | {"num_other_agents_observed": 1})


@pytest.mark.gpu
@pytest.mark.parametrize("name", RUNS)
def test_a_captured_run_trains_to_the_same_bits(name):
    found = []
    for graph in (False, True):
        config = dataclasses.replace(RUNS[name][0], device="cuda:0", kernels="torch", graph=graph)
        trainer = Trainer(config, quiet=True)
        trainer.train()
        found.append(tensors_of(trainer))
    assert trainer.executor.reason == ""
    require_same(*found)


def test_fused_kernels_leave_such_a_critic_to_torch_and_an_export_has_none(tmp_path):
    trainer = Trainer(ARENA, quiet=True)
    policy = trainer.policies["red"]
    parts = (trainer.parts.rows["red"], trainer.env.env_spec, torch.device("cpu"))
    setup = dataclasses.replace(setup_of(trainer.config, "red", *parts), fused=True)
    assert why_not_fused(policy, setup) == "its critic has inputs of its own"
    export_policy(policy, tmp_path / "red.pt2")
    inputs = trainer.parts.rows["red"].inputs(trainer.parts.rows["red"].spans[0], 0)
    action, log_prob = policy.act(inputs, draws(6, shared=True))[:2]
    assert action.shape == (6, 3, 2) and bool(log_prob.isfinite().all())


# ---- the game of a team -----------------------------------------------------------------------------------------------


def test_a_team_is_paid_for_meeting():
    env = gymnasium.make_vec("Meet-v0", num_envs=7, device="cpu", array="numpy", num_walkers=2, num_cells=3).unwrapped
    obs, _ = env.reset(seed=1)
    cell, paid = env.get_state("cell")["cell"].copy(), 0
    env.action_space.seed(0)
    for _ in range(20):
        ahead = (np.roll(cell, -1, axis=1) - cell) % 3
        np.testing.assert_array_equal(obs, np.eye(3)[ahead])
        actions = env.action_space.sample()
        obs, _, _, _, info = env.step(actions)
        cell = (cell + actions.reshape(7, 2) - 1) % 3
        reward = info["agent_reward"]
        np.testing.assert_array_equal(reward, np.repeat(cell[:, :1] == cell[:, 1:], 2, axis=1))
        paid += reward.sum()
    assert 0 < paid < 2 * 7 * 20


@pytest.mark.slow
@pytest.mark.parametrize("critic", [{"critic": "observations"}, {"critic": ("cell",), "critic_value": "team"}], ids=str)
def test_a_team_learns_to_meet(critic):
    """Random play meets in 1 of 2,401 steps; 25 steps are an episode. Here the time limit ends the game."""
    ppo = PPOConfig(num_steps=32, num_minibatches=4, num_epochs=4, learning_rate=2e-3, bootstrap_at_time_limit=False)
    config = TrainConfig(
        "Meet-v0", num_envs=64, total_steps=64 * 32 * 64, seed=1, device="cpu", ppo=ppo,
        env_kwargs={"num_walkers": 5, "num_cells": 7, "max_episode_steps": 25},
        network=NetworkConfig((32, 32), agent_ids=True, **critic),
    )  # fmt: skip
    assert Trainer(config, quiet=True).train()["return/walker"] > 12


# ---- refused by name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"critic_value": "team"}, "critic_value: expected 'agent' with critic='own'"),
    ({"critic": "shared"}, "critic_value: expected 'team' with critic='shared'"),
    ({"critic": "observations", "shared_trunk": True}, "shared_trunk: expected False with a critic"),
    ({"critic": "place"}, "critic: expected 'own', 'observations', 'shared' or a tuple of different fields"),
    ({"critic": ()}, "critic: expected 'own'"),
    ({"critic": ("t", "t")}, "critic: expected 'own'"),
    ({"critic": ("t", 3)}, "critic: expected 'own'"),
    ({"critic": "observations", "critic_value": "world"}, "critic_value: expected 'agent' or 'team', got 'world'"),
], ids=str)  # fmt: skip
def test_options_without_an_effect_are_refused(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        NetworkConfig(**options)


@pytest.mark.parametrize(("network", "message"), [
    ({"critic": ("place", "speed")}, "policy 'red': critic: expected inputs out of ['place', 'present', "),
    ({"critic": "shared", "critic_value": "team"}, "policy 'red': critic: expected inputs out of"),
], ids=str)  # fmt: skip
def test_inputs_that_an_env_does_not_have_are_refused(network, message):
    ppo = dataclasses.replace(ARENA.ppo, bootstrap_at_time_limit=False)
    with pytest.raises(ConfigError, match=re.escape(message)):
        Trainer(dataclasses.replace(ARENA, ppo=ppo, network=NetworkConfig((8,), **network)), quiet=True)


def test_fields_after_a_time_limit_are_refused():
    with pytest.raises(ConfigError, match=r"^policy 'red': its critic reads the env's state, .* bootstrap_at_time_limit=False"):
        Trainer(dataclasses.replace(arena(("place",)), ppo=ARENA.ppo), quiet=True)


def test_a_critic_of_another_network_is_refused():
    register_network("central.other", lambda spec: torch.nn.Identity())
    config = dataclasses.replace(ARENA, policies={"red": PolicyConfig(module="central.other")})
    with pytest.raises(ConfigError, match="policy 'red': critic is for the built-in network; .* got 'observations'"):
        Trainer(config, quiet=True)


def test_roles_with_different_numbers_of_agents_are_refused():
    config = dataclasses.replace(RUNS["two roles"][0], env_kwargs={"max_episode_steps": 9, "num_left": 3})
    with pytest.raises(PolicyMapError, match=r"^critic_sources: expected .* equal numbers of agents"):
        Trainer(config, quiet=True)


def test_sources_of_an_env_that_has_no_shared_part_do_not_name_it():
    red, blue = (Trainer(ARENA, quiet=True).parts.rows[role].sources for role in ("red", "blue"))
    assert "shared" not in red and red["observations"] == 9 and blue["shared"] == 1 and blue["observations"] == 5
    assert NetworkSpec.of(group(ACTIONS[0])).sources == {}
