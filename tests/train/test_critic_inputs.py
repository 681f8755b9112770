"""Inputs of a critic: fields of the env's state, once a world, in rollouts, samples, updates and resumed runs."""

import dataclasses
import re
from types import SimpleNamespace

import beat
import pytest
import role_envs  # noqa: F401  (registers Arena-v0)
import torch
from torch import nn

from gpu_vecenv.train import (
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    TrainConfig,
    Trainer,
    evaluate,
    export_policy,
    register_network,
)
from gpu_vecenv.train.config import Storage, resolve
from gpu_vecenv.train.errors import ConfigError, PolicyMapError
from gpu_vecenv.train.fused.eligibility import fused_sizes
from gpu_vecenv.train.runner.memory import _copied, training_needs
from gpu_vecenv.train.runner.run_state import store_demands
from gpu_vecenv.train.storage.rollout import Rollout

OVERSEER = PolicyConfig(module="beat.overseer")
BEAT = TrainConfig(
    "Beat-v0", num_envs=4, total_steps=4 * 6 * 4, device="cpu", network=NetworkConfig((8,)),
    ppo=PPOConfig(num_steps=6, num_minibatches=2, num_epochs=2, bootstrap_at_time_limit=False, learning_rate=1e-2),
    env_kwargs={"max_episode_steps": 9, "show": 1}, policies={"left": OVERSEER},
)  # fmt: skip
FEATURES = 3 + 1
"""Numbers of the fields level and t in a world of three agents."""


def fields_of(env):
    """The critic's input in the present state, float32 (N, 4)."""
    state = env.get_state("level", "t")
    return torch.cat((state["level"], state["t"].unsqueeze(1).float()), dim=1)


def tensors_of(trainer):
    return {f"{name}/{key}": x.clone() for name, own in trainer.policies.items() for key, x in own.state_dict().items()}


def require_same(one, other):
    assert one.keys() == other.keys()
    for name, x in one.items():
        assert torch.equal(x.cpu(), other[name].cpu()), name


def test_samples_have_the_state_of_the_env_once_a_world():
    trainer = Trainer(BEAT, quiet=True)
    env, step, seen = trainer.env, trainer.env.step, []

    def noted(actions):
        seen.append(fields_of(env))
        return step(actions)

    env.step = noted
    for _ in range(3):
        seen.clear()
        trainer.parts.collector.collect()
        samples = trainer.parts.rows["left"].samples()
        expected = torch.stack((*seen, fields_of(env)))
        assert samples.critic.shape == (7, 4, FEATURES) and torch.equal(samples.critic, expected)
        assert samples.obs["own"].shape == (7, 4, 2, 2) and samples.reward.shape == (6, 4, 2)
        assert samples.critic.data_ptr() == trainer.parts.rollout.critic["level", "t"].data_ptr()
    assert trainer.parts.rows["right"].samples().critic is None and trainer.parts.rows["right"].form == "rows"


def test_all_types_of_fields_can_be_read():
    names = ("seed", "present", "score")
    config = dataclasses.replace(BEAT, network=None, policies={}, policy_map={"left": "random", "right": "one"})
    trainer = Trainer(config, quiet=True, networks={"one": beat.OneEyed(names)})
    trainer.train(iterations=1)
    state = trainer.env.get_state()
    for x, name in zip(trainer.parts.rows["one"].samples().critic[-1].split([1, 3, 3], 1), names, strict=True):
        assert torch.equal(x, torch.as_tensor(state[name]).view(4, -1).float())


def test_policies_with_equal_inputs_share_them():
    trainer = Trainer(dataclasses.replace(BEAT, policies={"left": OVERSEER, "right": OVERSEER}), quiet=True)
    assert list(trainer.parts.rollout.critic) == [("level", "t")]
    trainer.train(iterations=1)
    both = [trainer.parts.rows[name].samples() for name in ("left", "right")]
    assert both[0].critic.data_ptr() == both[1].critic.data_ptr() and both[1].reward.shape == (6, 4, 1)


def test_an_update_calls_the_critic_once_a_world():
    trainer = Trainer(BEAT, quiet=True)
    network = trainer.policies["left"].network
    network.seen.clear()
    before = {name: x.clone() for name, x in network.named_parameters()}
    trainer.train(iterations=1)
    # Values of all steps, the first rollout again, and minibatches of worlds.
    assert set(network.seen) == {(7 * 4, FEATURES), (6 * 4, FEATURES), (6 * 4 // 2, FEATURES)}
    assert all(not torch.equal(x, before[name]) for name, x in network.named_parameters())


def test_a_critic_of_the_state_equals_one_that_observes_it():
    """In worlds of one agent whose observations show the level, with the same weights at the start."""
    options = {
        "network": None,
        "policy_map": {"left": "one", "right": "random"},
        "policies": {"one": PolicyConfig(ppo={"normalize_observations": False})},
        "env_kwargs": {**BEAT.env_kwargs, "num_left": 1, "absent": 0.0, "leave": 0.0},
    }  # fmt: skip
    found = []
    for sources in ((), ("level",)):
        network = beat.OneEyed(sources)
        trainer = Trainer(dataclasses.replace(BEAT, **options), quiet=True, networks={"one": network})
        trainer.train()
        found.append({name: x.clone() for name, x in network.named_parameters()})
    for name, x in found[0].items():
        torch.testing.assert_close(found[1][name], x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_resumed_run_continues_bit_by_bit(tmp_path, device):
    configs = {name: dataclasses.replace(BEAT, out=str(tmp_path / name), device=device) for name in ("whole", "half")}
    whole, half = (Trainer(config, quiet=True) for config in configs.values())
    whole.train()
    half.train(iterations=2)
    half.close()
    again = Trainer.resume(tmp_path / "half", quiet=True)
    again.train()
    require_same(tensors_of(again), tensors_of(whole))
    assert evaluate(tmp_path / "half", episodes=4).mean_length > 0


@pytest.mark.gpu
def test_a_captured_run_trains_to_the_same_bits():
    found = []
    for graph in (False, True):
        trainer = Trainer(dataclasses.replace(BEAT, device="cuda:0", kernels="torch", graph=graph), quiet=True)
        trainer.train()
        found.append(tensors_of(trainer))
    assert trainer.executor.reason == ""
    require_same(*found)


def test_a_frozen_policy_and_an_exported_one_have_no_inputs_of_a_critic(tmp_path):
    trainer = Trainer(dataclasses.replace(BEAT, frozen=("left",)), quiet=True)
    trainer.train(iterations=1)
    assert trainer.parts.rollout.critic == {}
    policy = trainer.policies["left"]
    assert fused_sizes(policy, torch.device("cpu")) == "its critic has inputs of its own"
    program = torch.export.load(export_policy(policy, tmp_path / "left.pt2")).module()
    obs = torch.tensor([[3.0, 1.0], [0.5, 0.0]])
    torch.testing.assert_close(program(obs)[1], policy.outputs(obs).log_softmax(-1))


def test_the_memory_of_a_run_counts_the_inputs():
    config = resolve(BEAT)
    trainer = Trainer(BEAT, quiet=True)
    plain = resolve(dataclasses.replace(BEAT, policies={}))
    needs, less = (training_needs(each, trainer.env.layout, torch.device("cpu"))["rollout"] for each in (config, plain))
    assert needs - less == 7 * 4 * FEATURES * 4


def test_the_sources_are_all_fields_of_the_state():
    trainer = Trainer(BEAT, quiet=True)
    state = trainer.env.get_state()
    assert Rollout.allocate(trainer.env, 1, False).sources == {name: x[0].numel() for name, x in state.items()}
    assert trainer.policies["left"].network.worth.in_features == FEATURES


class Joint(nn.Module):
    """Its critic reads all observations of its agents, and a field."""

    def __init__(self, spec, names):
        super().__init__()
        self.critic_sources = names
        self.acts = nn.Linear(sum(spec.parts), spec.num_outputs)
        self.worth = nn.Linear(sum(spec.sources[name] for name in names), 1)

    def actor(self, obs):
        return self.acts(obs)

    def critic(self, obs, inputs):
        return self.worth(inputs).expand(-1, len(obs) // len(inputs)).flatten()


register_network("joint", lambda spec: Joint(spec, ("observations",)))
register_network("joint and t", lambda spec: Joint(spec, ("t", "observations")))


def joint_samples(config, name):
    trainer = Trainer(dataclasses.replace(config, policies={name: PolicyConfig(module="joint")}), quiet=True)
    for _ in range(2):
        trainer.train(iterations=1)
    return trainer, trainer.parts.rows[name].samples()


def test_observations_of_all_agents_are_those_of_the_samples_with_zeros_for_the_dead():
    trainer, samples = joint_samples(BEAT, "left")
    own = samples.obs["own"]
    alive = torch.cat((samples.valid, trainer.parts.collector.alive[None, :, :2] != 0))
    assert not alive.all() and samples.critic.shape == (7, 4, 4)
    assert torch.equal(samples.critic, torch.where(alive.unsqueeze(-1), own, 0.0).flatten(2))
    both = dataclasses.replace(BEAT, policies={"left": PolicyConfig(module="joint and t")})
    trainer = Trainer(both, quiet=True)
    trainer.train()
    samples = trainer.parts.rows["left"].samples()
    assert torch.equal(samples.critic[-1, :, 0], trainer.env.get_state("t")["t"].float()) and samples.critic.shape == (7, 4, 5)
    overseer = Trainer(BEAT, quiet=True).parts.rows["left"]
    assert _copied(trainer.parts.rows["left"]) - _copied(overseer) == samples.critic.nbytes + samples.present.nbytes


def test_observations_of_agents_that_never_leave_are_a_view_of_the_slab():
    config = TrainConfig("WarpCartPole-v1", num_envs=4, total_steps=4 * 6 * 4, device="cpu", ppo=BEAT.ppo)
    trainer, samples = joint_samples(config, "agent")
    assert samples.critic.data_ptr() == trainer.parts.rollout.groups[0].obs.own.data_ptr()
    assert torch.equal(samples.critic, samples.obs["own"].flatten(2))


def test_observations_of_a_shared_part_come_once_a_world():
    config = TrainConfig(
        "Arena-v0", num_envs=6, total_steps=6 * 6 * 4, device="cpu", ppo=BEAT.ppo, env_kwargs={"max_episode_steps": 9}
    )
    trainer, samples = joint_samples(config, "blue")
    own, shared = samples.obs["own"], samples.obs["shared"]
    assert samples.critic.shape == (7, 6, shared.shape[-1] + own[0, 0].numel())
    some = samples.valid.any(-1)
    assert torch.equal(samples.critic[:-1, :, : shared.shape[-1]][some], shared[:-1][some]) and not samples.valid.all()
    expected = torch.where(samples.valid.unsqueeze(-1), own[:-1], 0.0).flatten(2)
    assert torch.equal(samples.critic[:-1, :, shared.shape[-1] :], expected)


# ---- refused by name ------------------------------------------------------------------------------------------------


def test_a_critic_without_final_inputs_names_no_option_of_another_algorithm():
    rows, policies = {"left": None}, {"left": SimpleNamespace(critic_sources=("state",))}
    with pytest.raises(ConfigError, match="time limit; expected an algorithm that reads no final observations$"):
        store_demands(rows, policies, {"left": Storage(final_obs=True)})


def test_a_time_limit_is_not_bootstrapped_by_the_next_episode():
    ppo = dataclasses.replace(BEAT.ppo, bootstrap_at_time_limit=None)
    with pytest.raises(ConfigError, match=r"^policy 'left': its critic reads the env's state, .* bootstrap_at_time_limit=False"):
        Trainer(dataclasses.replace(BEAT, ppo=ppo), quiet=True)


def test_parts_with_different_numbers_of_agents_are_refused():
    config = dataclasses.replace(BEAT, policy_map={"left": "one", "right": "one"}, policies={"one": OVERSEER})
    with pytest.raises(PolicyMapError, match=r"^critic_sources: expected .* equal numbers of agents .* got \[2, 1\]"):
        Trainer(config, quiet=True)


class OnlyForward(nn.Module):
    critic_sources = ("level",)

    def forward(self, obs):
        return obs, obs[:, 0]


class Wide(beat.OneEyed):
    """Returns a value for each world, not for each agent."""

    def critic(self, obs, inputs):
        return inputs[:, 0]


def with_sources(network, sources):
    network.critic_sources = sources
    return network


@pytest.mark.parametrize(("network", "message"), [
    (with_sources(beat.OneEyed(()), ("speed",)), "expected a tuple of fields out of ['score', 'level', 'present', "),
    (with_sources(beat.OneEyed(()), ("level", "level")), "expected a tuple of fields out of"),
    (with_sources(beat.OneEyed(()), ["level"]), "expected a tuple of fields out of"),
    (OnlyForward(), "critic_sources of a network: expected a method actor() of its class, got none"),
    (Wide(("level",)), "critic(): expected float32 (4,), got float32 (2,)"),
], ids=["unknown", "twice", "a list", "no methods", "a value a world"])  # fmt: skip
def test_networks_that_cannot_have_inputs_are_refused(network, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Trainer(dataclasses.replace(BEAT, policies={}), quiet=True, networks={"left": network})
