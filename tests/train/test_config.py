"""Options of a run: they survive JSON, and invalid ones raise errors."""

from pathlib import Path

import pytest

from gpu_vecenv.cli.key_value import parse_settings
from gpu_vecenv.train import ConfigError, NetworkConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.config.options import ResolvedConfig, from_options
from gpu_vecenv.train.config.presets import PRESETS, resolve


def test_options_survive_json():
    config = TrainConfig(
        "WarpTag-v0", num_envs=3, total_steps=10, env_kwargs={"num_taggers": 2, "grid_length": 4.5},
        policy_map={"tagger": "a", "runner": "random"}, frozen=("a",), load_policies={"a": "x.pt"},
        ppo=PPOConfig(target_kl=0.1), network=NetworkConfig((5, 6), "relu"),
    )  # fmt: skip
    assert TrainConfig.from_json(config.to_json()) == config
    assert TrainConfig.from_json(TrainConfig("A-v0").to_json()) == TrainConfig("A-v0")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PPOConfig(num_minibatches=0), "num_minibatches: expected an integer from 1 to 2147483647, got 0"),
        (lambda: PPOConfig(gamma=1.5), r"gamma: expected a number in \[0, 1\], got 1.5"),
        (lambda: PPOConfig(clip_coef=0.0), "clip_coef: expected a number > 0, got 0.0"),
        (lambda: PPOConfig(learning_rate_schedule="cosine"), "'constant' or 'linear', got 'cosine'"),
        (lambda: NetworkConfig((0,)), r"hidden_sizes: expected a tuple of integers from 1 to 65536, .* got \(0,\)"),
        (lambda: NetworkConfig(64), r"hidden_sizes: expected a tuple of integers from 1 to 65536, .* got 64"),
        (lambda: PPOConfig(gamma="abc"), r"gamma: expected a number in \[0, 1\], got 'abc'"),
        (lambda: PPOConfig(learning_rate="abc"), "learning_rate: expected a number > 0, got 'abc'"),
        (lambda: PPOConfig(value_coef=None), "value_coef: expected a number, got None"),
        (lambda: PPOConfig(target_kl="abc"), "target_kl: expected a number or None, got 'abc'"),
        (lambda: PPOConfig(clip_value="yes"), "clip_value: expected True or False, got 'yes'"),
        (
            lambda: PPOConfig(bootstrap_at_time_limit=1),
            "bootstrap_at_time_limit: expected True, False or None, got 1",
        ),
        (lambda: NetworkConfig((4,), "gelu"), "activation: expected 'tanh', 'relu' or 'elu', got 'gelu'"),
        (lambda: TrainConfig("A", num_envs=0), "num_envs: expected an integer from 1 to 2147483647, got 0"),
        (lambda: PPOConfig(num_steps=True), "num_steps: expected an integer from 1 to 65536, got True"),
        (lambda: PPOConfig(learning_rate=float("nan")), "learning_rate: expected a number > 0, got nan"),
        (lambda: PPOConfig(value_coef=float("inf")), "value_coef: expected a number, got inf"),
        (lambda: PPOConfig(entropy_coef=10**400), "entropy_coef: expected a number, got 1000"),
        (lambda: NetworkConfig((True,)), "hidden_sizes: expected a tuple of integers"),
        (lambda: TrainConfig("A", num_envs=True), "num_envs: expected an integer from 1 to 2147483647, got True"),
        (lambda: TrainConfig("A", num_envs=10**12), "num_envs: expected an integer from 1 to 2147483647, got 1000000000000"),
        (lambda: TrainConfig(5), "env_id: expected a registered id, such as .* got 5"),
        (lambda: TrainConfig("a:b:c"), "env_id: expected a registered id, such as .* got 'a:b:c'"),
        (lambda: TrainConfig("A", seed=-1), r"seed: expected an integer from 0 to 2\*\*64 - 1, got -1"),
        (lambda: TrainConfig("A", frozen="abc"), "frozen: expected a tuple of policy names, got 'abc'"),
        (lambda: TrainConfig("A", out=Path("x")), "out: expected a folder's path as a str, or None, got "),
        (lambda: TrainConfig("A", policy_map={"a": 1}), "policy_map: expected a dict of role and policy names, or None"),
        (lambda: TrainConfig("A", env_kwargs={1: 1}), "env_kwargs: expected a dict with str keys, got {1: 1}"),
        (lambda: TrainConfig("A", ppo={}), "ppo: expected a PPOConfig, or None, got {}"),
        (lambda: TrainConfig("A", env_kwargs={"x": object()}).to_json(), r"env_kwargs\['x'\]: expected numbers, text, lists"),
        (
            lambda: from_options(PPOConfig, {"gama": 1}),
            "PPOConfig option: expected one of num_steps, .* got 'gama'",
        ),
    ],
)
def test_invalid_options_raise_errors_that_say_what_was_expected(make, text):
    with pytest.raises(ConfigError, match=text):
        make()


def test_fields_not_given_come_from_the_preset():
    preset = PRESETS["WarpTag-v0"]
    assert resolve(TrainConfig("WarpTag-v0", num_envs=7)) == ResolvedConfig(
        "WarpTag-v0", 7, preset.total_steps, ppo=preset.ppo, network=preset.network
    )
    assert resolve(TrainConfig("gpu_vecenv:WarpTag-v0")).ppo == preset.ppo
    assert resolve(TrainConfig("Unknown-v3")).ppo == PPOConfig()


def test_key_value_words_are_parsed():
    words = ["a=5", "b=1e-3", "c=True", "d=(64,64)", "e=tanh", "f=x=y"]
    want = {"a": 5, "b": 1e-3, "c": True, "d": (64, 64), "e": "tanh", "f": "x=y"}
    assert parse_settings(words, "--env") == want
    with pytest.raises(ConfigError, match="--env: expected KEY=VALUE, got 'a'"):
        parse_settings(["a"], "--env")
