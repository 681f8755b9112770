"""Options that have no effect beside others are refused by name."""

import contextlib
import dataclasses

import pytest
from torch import nn

from gpu_vecenv.train import (
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PQNConfig,
    TrainConfig,
    Trainer,
    load_checkpoint,
    register_network,
)
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"evaluation_episodes": 5}, "evaluation_episodes: expected evaluation_interval with it, .* got 5"),
        ({"checkpoint_interval": 5}, "checkpoint_interval: expected out with it, .* got 5"),
        ({"keep_checkpoints": 5}, "keep_checkpoints: expected out with it, .* got 5"),
        ({"policies": {"random": PolicyConfig()}}, "policies: expected policies with a network, got 'random', which acts"),
        ({"load_policies": {"random": "a.pt"}}, "load_policies: expected policies with a network, got 'random'"),
        ({"policies": {"catcher": PolicyConfig(ppo={"gamma": 0.5})}}, "policies: .* 'catcher', which is frozen, got ppo.gamma"),
        ({"policies": {"catcher": PolicyConfig("mine")}}, "policies: .* 'catcher', which is frozen, got algorithm"),
    ],
)
def test_options_without_effect_are_refused_by_a_new_run_and_not_by_one_that_has_begun(config, tmp_path, options, expected):
    config = dataclasses.replace(config, frozen=("catcher",))
    with pytest.raises(ConfigError, match=expected):
        Trainer(dataclasses.replace(config, **options), quiet=True)
    trainer = Trainer(config, quiet=True)
    state = load_checkpoint(trainer.save(tmp_path / "a.pt"))
    if "random" not in str(options) and "mine" not in str(options):
        save_checkpoint(tmp_path / "b.pt", {**state, "config": dataclasses.replace(trainer.config, **options).to_json()})
        Trainer.resume(tmp_path / "b.pt", quiet=True).close()
    own = PolicyConfig(ppo={"normalize_observations": False}, network={"hidden_sizes": [4]})
    frozen = Trainer(dataclasses.replace(config, policies={"catcher": own}), quiet=True).policies["catcher"]
    assert frozen.network.actor_layers[0].out_features == 4


def test_networks_of_a_policy_that_acts_at_random_are_refused(config):
    config = dataclasses.replace(config, policy_map={"catcher": "random", "runner": "mine"})
    with pytest.raises(ConfigError, match=r"networks: expected policies out of \['mine'\], got 'random'"):
        Trainer(config, quiet=True, networks={"random": nn.Linear(1, 1)})


CARTPOLE = TrainConfig("WarpCartPole-v1", num_envs=4, device="cpu")


@pytest.mark.parametrize(
    ("network", "own", "expected"),
    [
        (NetworkConfig(log_std=-1.0), {}, "^network.log_std: expected numbers as actions with it, got -1.0 without any"),
        (NetworkConfig((), "relu"), {}, "^network.activation: expected hidden layers with it, got 'relu'"),
        (NetworkConfig((), shared_trunk=True), {}, "^network.shared_trunk: expected hidden layers"),
        (NetworkConfig((), shared_trunk=True, memory="gru"), {}, "^network.shared_trunk: expected hidden layers"),
        (None, {"log_std": -1.0}, r"^policies\['agent'\]: expected numbers as actions with network.log_std, got -1.0"),
        (NetworkConfig(critic="observations"), {}, "^network.critic: expected several agents of a policy in a world with it"),
        (NetworkConfig(critic=("observations",), critic_value="team"), {}, "^network.critic: expected several agents"),
        (None, {"critic": "observations"}, r"^policies\['agent'\]: expected several agents of a policy in a world"),
        (NetworkConfig(()), {"activation": "elu"}, r"^policies\['agent'\]: expected hidden layers with network.activation"),
    ],
)
def test_options_of_parts_that_a_network_lacks_are_refused(network, own, expected):
    config = dataclasses.replace(CARTPOLE, network=network, policies={"agent": PolicyConfig(network=own)})
    with pytest.raises(ConfigError, match=expected):
        Trainer(config, quiet=True)


TAG = {"num_taggers": 1, "num_runners": 2, "episode_length": 6}
VDN = PQNConfig(num_steps=4, num_minibatches=2, mixing="vdn")


@pytest.mark.parametrize(
    ("env_id", "options", "own", "expected"),
    [
        ("WarpCartPole-v1", VDN, {}, "^pqn.mixing: expected several agents of a policy in a world with 'vdn', got one"),
        ("WarpTag-v0", VDN, {"tagger": {"mixing": "vdn"}}, r"^policies\['tagger'\]: expected several agents in a world with pqn"),
        ("WarpTag-v0", VDN, {}, None),  # the runners are a team
        ("WarpTag-v0", VDN, {"runner": {"mixing": "none"}}, "^pqn.mixing: expected several agents"),
        ("WarpTag-v0", PQNConfig(num_steps=4), {}, None),
    ],
)
def test_sums_of_values_of_one_agent_are_refused(env_id, options, own, expected):
    config = TrainConfig(
        env_id, 4, device="cpu", algorithm="pqn", algorithms={"pqn": options}, env_kwargs=TAG if env_id == "WarpTag-v0" else {},
        policies={name: PolicyConfig(algorithms={"pqn": changes}) for name, changes in own.items()},
    )  # fmt: skip
    with contextlib.nullcontext() if expected is None else pytest.raises(ConfigError, match=expected):
        Trainer(config, quiet=True).close()


def test_options_of_parts_that_some_network_has_are_taken(config):
    """Another policy has hidden layers, the env takes numbers, or a registered network reads all options."""
    mixed = dataclasses.replace(
        config, network=NetworkConfig((4,), "relu"), policies={"catcher": PolicyConfig(network={"hidden_sizes": ()})}
    )
    Trainer(mixed, quiet=True).close()
    Trainer(dataclasses.replace(CARTPOLE, env_id="WarpPendulum-v1", network=NetworkConfig(log_std=-1.0)), quiet=True).close()
    register_network("small", lambda spec: Small())
    given = dataclasses.replace(CARTPOLE, network=NetworkConfig(log_std=-1.0), policies={"agent": PolicyConfig(module="small")})
    Trainer(given, quiet=True).close()


class Small(nn.Module):
    """A network of the user for CartPole."""

    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, obs):
        return self.actor(obs), self.critic(obs).squeeze(-1)
