"""Options that have no effect beside others are refused by name."""

import dataclasses

import pytest
from torch import nn

from gpu_vecenv.train import ConfigError, PolicyConfig, Trainer, load_checkpoint
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
