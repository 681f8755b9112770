"""Networks of users in a run: which of them are refused, at the start or when they first misbehave, and by which name."""

import dataclasses

import pytest
import torch
from policy_cases import ACTIONS, observations, policy_of
from torch import nn

from gpu_vecenv.train import (
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    TrainConfig,
    Trainer,
    register_algorithm,
    register_network,
)
from gpu_vecenv.train.algorithms.ppo import PPO
from gpu_vecenv.train.fused.ppo import make_ppo
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.networks import FeedForward

CARTPOLE = TrainConfig(
    "WarpCartPole-v1", num_envs=4, total_steps=4 * 8 * 2, device="cpu",
    ppo=PPOConfig(num_steps=8, num_epochs=1, num_minibatches=2),
)  # fmt: skip


class Net(nn.Module):
    """Calls a function of the test on its input, then a linear layer; from call ``late`` on, another one on its results."""

    def __init__(self, before=lambda x: x, after=lambda outputs, value: (outputs, value), late=0):
        super().__init__()
        self.actor_layer, self.critic_layer = nn.Linear(4, 2), nn.Linear(4, 1)
        self.before, self.after, self.late, self.calls = before, after, late, 0

    def forward(self, obs):
        self.calls += 1
        if self.calls > self.late:
            obs = self.before(obs)
        results = self.actor_layer(obs), self.critic_layer(obs).squeeze(-1)
        return self.after(*results) if self.calls > self.late else results


def train(network, **changes):
    trainer = Trainer(dataclasses.replace(CARTPOLE, **changes), quiet=True, networks={"agent": network})
    trainer.train()
    return trainer


def raw():
    return dataclasses.replace(CARTPOLE.ppo, normalize_observations=False)


CHANGED = "network of policy 'agent', called with float32 .*: expected observations to stay as they are, got a change in place"


@pytest.mark.parametrize("ppo", [CARTPOLE.ppo, raw()], ids=["normalised", "raw"])
@pytest.mark.parametrize("late", [0, 1, 5, 9, 11])
def test_a_network_that_changes_observations_in_place_is_refused(ppo, late):
    """In the check, in a step of a rollout, in the values of the first rollout, and in its minibatches: call by call."""
    trained = train(Net(lambda x: x / 255), ppo=ppo)
    assert trained.policies["agent"].network.calls > 11
    with pytest.raises(ConfigError, match=CHANGED):
        train(Net(lambda x: x.div_(255), late=late), ppo=ppo)


def test_a_change_that_torch_does_not_count_is_found_by_the_check():
    with pytest.raises(ConfigError, match=CHANGED):
        train(Net(lambda x: x.data.div_(255)))
    with pytest.raises(ConfigError, match=CHANGED):
        train(Net(lambda x: x.mul_(1.0)))


def test_parts_of_observations_must_stay_as_they_are():
    class Pooled(nn.Module):
        shared_parts, changes = True, False

        def __init__(self):
            super().__init__()
            self.shared, self.own = nn.Linear(2, 4), nn.Linear(4, 4)

        def forward(self, obs):
            if self.changes:
                obs["shared"].add_(1.0)
            hidden = self.shared(obs["shared"]).unsqueeze(1) + self.own(obs["own"])
            return hidden, hidden.sum(-1)

    policy, inputs = policy_of(ACTIONS[0], shared=True, module=Pooled(), name="a"), observations(16, shared=True)
    policy.value(inputs)
    policy.network.changes = True
    with pytest.raises(ConfigError, match=r"network of policy 'a', called with {'shared': float32 \(16, 2\), .* change in place"):
        policy.value(inputs)


def test_policies_can_be_called_in_inference_mode():
    policy = policy_of(ACTIONS[0], normalize=True, module=Halves())
    inputs = observations(5)
    expected = policy.value(inputs)
    with torch.inference_mode():
        assert torch.equal(policy.value(inputs), expected)
        assert torch.equal(policy.value(Inputs(inputs.obs.clone())), expected)


class Halves(nn.Module):
    """Has methods for its two results."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Linear(6, 5)
        self.wrong = False

    def forward(self, obs):
        return self.actor(obs)[:, :4], self.critic(obs)

    def actor(self, obs):
        return self.weight(obs)[:, : 3 if self.wrong else 4]

    def critic(self, obs):
        return self.weight(obs)[:, 4:] if self.wrong else self.weight(obs)[:, 4]


def test_results_of_methods_keep_their_form():
    policy, inputs = policy_of(ACTIONS[0], module=Halves(), name="a"), observations(5)
    policy.network.wrong = True
    with pytest.raises(ConfigError, match=r"float32 \(5, 6\): critic\(\): expected float32 \(5,\), got float32 \(5, 1\)"):
        policy.value(inputs)
    with pytest.raises(ConfigError, match=r"actor\(\): expected float32 \(5, 4\), got float32 \(5, 3\)"):
        policy.outputs(inputs.obs)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (lambda outputs, value: (outputs[:1], value), r"outputs: expected float32 \(4, 2\), got float32 \(1, 2\)"),
        (lambda outputs, value: (outputs, value[:1]), r"value: expected float32 \(4,\), got float32 \(1,\)"),
        (lambda outputs, value: (outputs, value[:, None]), r"value: expected float32 \(4,\), got float32 \(4, 1\)"),
        (lambda outputs, value: (None, value), r"outputs: expected float32 \(4, 2\), got NoneType"),
        (lambda outputs, value: None, r"expected a tuple \(outputs, value\), got NoneType"),
        (lambda outputs, value: 1 / 0, r"expected \(outputs, value\), got ZeroDivisionError: division by zero"),
    ],
)
def test_results_that_change_their_form_later_are_refused(after, said):
    with pytest.raises(ConfigError, match=rf"network of policy 'agent', called with float32 \(4, 4\): {said}"):
        train(Net(after=after, late=4))


def detached(outputs, value):
    return outputs.detach(), value.detach()


class Nothing(nn.Module):
    """Has no weights."""

    def forward(self, obs):
        return obs[:, :2] * 0.0, obs[:, 0]


@pytest.mark.parametrize(
    "network", [Net().requires_grad_(False), Nothing(), Net(after=detached)], ids=["frozen weights", "no weights", "detached"]
)
def test_a_policy_that_learns_needs_a_weight_with_a_gradient(network):
    with pytest.raises(ConfigError, match="'agent': expected results with gradients for some weights, got none"):
        Trainer(CARTPOLE, quiet=True, networks={"agent": network})


def test_a_policy_without_gradients_may_act():
    frozen = dataclasses.replace(CARTPOLE, env_id="TagStandIn-v0", frozen=("catcher",))
    network = Trainer(frozen, quiet=True).policies["catcher"].network.requires_grad_(False)
    trainer = Trainer(frozen, quiet=True, networks={"catcher": network})
    before = [x.clone() for x in trainer.policies["catcher"].parameters()]
    trainer.train()
    assert all(torch.equal(x, y) for x, y in zip(before, trainer.policies["catcher"].parameters(), strict=True))


def test_results_without_gradients_are_refused_when_they_come():
    with pytest.raises(ConfigError, match="network of policy 'agent': expected results with gradients, got none"):
        train(Net(after=detached, late=2))
    half = Net()
    half.actor_layer.requires_grad_(False)
    assert train(half).iteration == 2


class Container(Net):
    """Is falsy, as its length is 0."""

    def __len__(self):
        return 0


def test_a_network_that_is_empty_as_a_container_is_used():
    network = Container()
    assert train(network).policies["agent"].network is network


class Listed(list):
    """Acts as a policy, and is falsy."""

    def __init__(self, policy):
        super().__init__()
        self.act = policy.act


class WithActor(PPO):
    """Has an actor that is falsy."""

    def actor(self):
        return Listed(self.policy)


def with_actor(policy, options, setup):
    return WithActor(policy, options, setup.rows.shape, setup.seed, setup.device)


register_algorithm("with_actor", PPOConfig, with_actor)


def test_an_actor_that_is_empty_as_a_container_acts():
    config = dataclasses.replace(CARTPOLE, ppo=None, algorithm="with_actor")
    assert isinstance(Trainer(config, quiet=True).parts.actors["agent"], Listed)


@pytest.mark.parametrize(
    ("networks", "said"),
    [
        ([Net()], "networks: expected a mapping from policies to networks, got list"),
        ({"agent": None}, "networks: expected a torch.nn.Module for the policy 'agent', got None"),
        ({"agent": Net().to("meta")}, "network of policy 'agent', .*: outputs: expected finite numbers, got numbers on .* meta"),
    ],
)
def test_networks_that_are_none_are_refused(networks, said):
    with pytest.raises(ConfigError, match=said):
        Trainer(CARTPOLE, quiet=True, networks=networks)


def test_a_network_for_random_actions_is_refused():
    config = dataclasses.replace(CARTPOLE, env_id="TagStandIn-v0", policy_map={"catcher": "a", "runner": "random"})
    with pytest.raises(ConfigError, match=r"networks: expected policies out of \['a'\], got 'random'"):
        Trainer(config, quiet=True, networks={"random": Net()})


class Noted(Net):
    """Has a state beside its weights."""

    def __init__(self, extra):
        super().__init__()
        self.extra = extra

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        self.extra = state


def test_an_extra_state_of_a_tensor_is_saved_and_any_other_is_refused(tmp_path):
    for extra, got in ((object(), "object"), ({"a": 1}, "{'a': int}"), (3, "int")):
        with pytest.raises(ConfigError, match=f"'agent': expected tensors in state_dict\\(\\), got {got} as '_extra_state'"):
            train(Noted(extra), out=str(tmp_path / "refused"))
    assert not (tmp_path / "refused").exists()
    train(Noted(torch.tensor([1.5, 2.5])), out=str(tmp_path / "run")).close()
    network = Noted(torch.zeros(2))
    Trainer.resume(tmp_path / "run", quiet=True, networks={"agent": network}).close()
    assert network.extra.tolist() == [1.5, 2.5]


def test_weights_of_a_type_that_cannot_be_searched_are_refused():
    network = Net()
    network.register_buffer("scale", torch.zeros(2).to(torch.float8_e4m3fnuz))
    with pytest.raises(ConfigError, match="network of policy 'agent': expected floats out of .*, got torch.float8_e4m3fnuz"):
        Trainer(CARTPOLE, quiet=True, networks={"agent": network})


# ---- options of networks --------------------------------------------------------------------------------------------


def test_a_registered_network_reads_the_options_and_the_number_of_agents():
    seen = {}

    def build(spec):
        seen[spec.agents] = spec.config
        return FeedForward(spec, spec.config, torch.Generator())

    register_network("seeing", build)
    policies = {
        "tagger": PolicyConfig(module="seeing", network={"hidden_sizes": (9,)}), "runner": PolicyConfig(module="seeing"),
    }  # fmt: skip
    config = TrainConfig(
        "WarpTag-v0", num_envs=2, device="cpu", env_kwargs={"num_taggers": 2, "num_runners": 5},
        network=NetworkConfig((5,), "relu"), policies=policies,
    )  # fmt: skip
    trainer = Trainer(config, quiet=True)
    assert seen == {2: NetworkConfig((9,), "relu"), 5: NetworkConfig((5,), "relu")}
    sizes = [trainer.policies[name].network.actor_layers[0].out_features for name in ("tagger", "runner")]
    assert sizes == [9, 5]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"network": NetworkConfig((7,))}, r"^network.hidden_sizes: expected none, as each policy has a module .* got \(7,\)"),
        ({"network": NetworkConfig(activation="relu")}, "^network.activation: expected none"),
        ({"network": NetworkConfig(shared_trunk=True)}, "^network.shared_trunk: expected none"),
        ({"network": NetworkConfig(memory="gru")}, "^network.memory: expected none"),
        ({"policies": {"agent": PolicyConfig(network={"hidden_sizes": (7,)})}}, r"^policies\['agent'\]: .* no network.hidden_"),
    ],
)
def test_shapes_that_no_network_reads_are_refused(changes, said, tmp_path):
    config = dataclasses.replace(CARTPOLE, **changes, out=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=said):
        Trainer(config, quiet=True, networks={"agent": Net()})
    assert not (tmp_path / "run").exists()


def test_shapes_that_something_reads_are_taken():
    """The deviation of Box actions, another policy's network, or the further networks of an algorithm."""
    given = TrainConfig("WarpPendulum-v1", num_envs=2, device="cpu", network=NetworkConfig(log_std=-1.0))
    trainer = Trainer(given, quiet=True, networks={"agent": Wide()})
    assert trainer.policies["agent"].log_std.item() == -1.0
    tag = TrainConfig("WarpTag-v0", num_envs=2, device="cpu", network=NetworkConfig((7,)))
    built = Trainer(tag, quiet=True).policies["tagger"].network
    trainer = Trainer(tag, quiet=True, networks={"tagger": built})
    assert trainer.policies["runner"].network.actor_layers[0].out_features == 7
    seen = []

    def make(policy, options, setup):
        seen.append(setup.network)
        return make_ppo(policy, options, setup)

    register_algorithm("further", PPOConfig, make)
    further = dataclasses.replace(CARTPOLE, ppo=None, algorithm="further", network=NetworkConfig((7,)))
    Trainer(further, quiet=True, networks={"agent": Net()})
    assert seen == [NetworkConfig((7,))]


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, obs):
        return self.layer(obs)[:, :1], self.layer(obs)[:, 1]
