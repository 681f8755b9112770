"""Options of a run: they survive JSON, and invalid ones raise errors."""

import contextlib
import dataclasses
import json
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.cli.key_value import parse_settings
from gpu_vecenv.registration import IDS
from gpu_vecenv.train import ConfigError, NetworkConfig, PolicyConfig, PPOConfig, SACConfig, TrainConfig, Trainer
from gpu_vecenv.train.config import PRESETS, AutoSizes, ResolvedConfig, bootstraps, from_options, resolve


def test_options_survive_json():
    config = TrainConfig(
        "WarpTag-v0", num_envs=3, total_steps=10, env_kwargs={"num_taggers": 2, "grid_length": 4.5},
        policy_map={"tagger": "a", "runner": "random"}, frozen=("a",), load_policies={"a": "x.pt"},
        ppo=PPOConfig(target_kl=0.1), network=NetworkConfig((5, 6), "relu"),
    )  # fmt: skip
    assert TrainConfig.from_json(config.to_json()) == config
    assert TrainConfig.from_json(TrainConfig("A-v0").to_json()) == TrainConfig("A-v0")


OTHER = {
    "num_envs": 3, "total_steps": 10, "seed": 2**64 - 1, "device": "cpu", "out": "a b/\u00e9: #", "checkpoint_interval": 9,
    "env_kwargs": {"a": 2, "b": [1.5, [True, None]], "c": "1e3", "d": {"e": 1e-300}}, "policy_map": {"tagger[0:2]": "on"},
    "frozen": ("on",), "load_policies": {"on": "x.pt"}, "threads": 2, "schedule_steps": 2**63 - 1, "stagger_starts": True,
    "evaluation_interval": 4, "evaluation_episodes": 5, "stop_at": 1e16, "patience": 6, "best_of": "runner",
    "keep_checkpoints": 7, "wandb": "yes",
    "network": NetworkConfig((5, 6), "relu", False, -0.5, True, "lstm", 7, ("a", "b"), "team", True),
    "kernels": "torch", "graph": False, "precision": "tf32", "shards": 3, "reward": "team",
    "algorithm": "mine", "algorithms": {"mine": {"rate": 0.5, "normalize_observations": True}},
    "policies": {"on": PolicyConfig("mine", {"gamma": 0.1}, {"hidden_sizes": [2]}, "cnn", {"mine": {"rate": 0.1}})},
    "ppo": PPOConfig(
        1, 2, 3, 5e-324, "adaptive", 0.1, 0.2, 0.3, 0.0, False, 1.1, 1.2, 1.3, 1.4, 1.5, "minibatch", False, False, True,
        sequence_length=1,
    ),
}  # fmt: skip
"""Values other than the defaults, of all options but the env."""


def test_every_option_survives_json_and_yaml(tmp_path):
    config, plain = TrainConfig("Warp-v0", **OTHER), TrainConfig("Warp-v0")
    for name in [f.name for f in dataclasses.fields(TrainConfig)][1:]:
        # test_auto_sizes.py stores auto_sizes, which a number of worlds refuses.
        assert name == "auto_sizes" or getattr(config, name) != getattr(plain, name)
    for part, usual in ((config.ppo, PPOConfig()), (config.network, NetworkConfig())):
        # entropy_coef_final refuses entropy_schedule, which test_schedules.py stores, and a critic of fields a shared trunk.
        others = ("entropy_schedule", "shared_trunk")
        assert all(value != vars(usual)[name] for name, value in vars(part).items() if name not in others)
    for each in (config, plain, resolve(config), resolve(plain)):
        path = each.save(tmp_path)
        assert vars(TrainConfig.from_yaml(path)) == vars(TrainConfig.from_json(each.to_json())) == vars(each)
    assert path.name == "config.yaml"


FORMER = {"auto": ("auto", None), "eager": ("torch", False), "graph": ("torch", True), "fused": ("fused", True)}


@pytest.mark.parametrize("former", FORMER)
def test_a_former_executor_is_refused_by_the_names_of_what_took_its_place(tmp_path, former):
    (tmp_path / "config.yaml").write_text(f"env_id: A-v0\nexecutor: {former}\n")
    calls = [
        lambda: TrainConfig("A-v0", executor=former),
        lambda: dataclasses.replace(TrainConfig("A-v0"), executor=former),
        lambda: TrainConfig.from_options({"env_id": "A-v0", "executor": former}),
        lambda: TrainConfig.from_yaml(tmp_path / "config.yaml"),
    ]
    kernels, graph = FORMER[former]
    stands = f"kernels='{kernels}'" + (f", graph={graph}" if graph is not None else "")
    text = rf"executor: expected kernels \(.*\) and graph \(.*\({stands} stands for '{former}'\)"
    for call in calls:
        with pytest.raises(ConfigError, match=text):
            call()


@pytest.mark.parametrize("former", FORMER)
def test_options_of_a_run_from_before_kernels_and_graph_mean_what_they_meant(tmp_path, former):
    options = {**TrainConfig("A-v0", num_envs=3).to_options(), "executor": former}
    del options["kernels"], options["graph"]
    (tmp_path / "config.yaml").write_text(json.dumps(options))  # JSON is YAML
    for config in (TrainConfig.from_json(json.dumps(options)), TrainConfig.of_run(tmp_path)):
        assert (config.num_envs, config.kernels, config.graph) == (3, *FORMER[former])


def test_numpy_values_are_stored_as_plain_ones():
    pair = (np.int64(3), [np.bool_(True)])
    given = {"a": np.float32(0.5), "b": np.arange(4).reshape(2, 2), "c": pair, "d": {"e": np.array("x")}}
    config = TrainConfig("A", num_envs=np.int32(3), env_kwargs=given, ppo=PPOConfig(gamma=np.float64(0.5)))
    assert config.env_kwargs == {"a": 0.5, "b": [[0, 1], [2, 3]], "c": [3, [True]], "d": {"e": "x"}}
    assert [type(x) for x in (config.num_envs, config.ppo.gamma, config.env_kwargs["a"])] == [int, float, float]
    assert TrainConfig.from_json(config.to_json()) == config


def test_real_numbers_beyond_an_int64_are_floats_for_torch():
    real = ("learning_rate", "clip_coef", "max_grad_norm", "value_coef", "entropy_coef", "target_kl", "clip_coef_final")
    config = PPOConfig(**dict.fromkeys(real, 10**30), gamma=1)
    for name in real:
        assert type(getattr(config, name)) is float and torch.tensor(1.0).div(getattr(config, name)) == torch.tensor(1e-30)
    assert type(config.gamma) is int and type(TrainConfig("A", seed=2**64 - 1).seed) is int


def test_options_do_not_change_with_the_dicts_they_came_from():
    given = {"a": [1]}
    config = TrainConfig("A", env_kwargs=given)
    given["a"].append(2)
    assert config.env_kwargs == {"a": [1]}


def test_a_policy_has_the_settings_of_the_run_and_its_own():
    own = PolicyConfig(ppo={"gamma": 0.5, "learning_rate_schedule": "adaptive"}, network={"hidden_sizes": [3]})
    ppo = PPOConfig(learning_rate=0.1, target_kl=0.01)
    config = resolve(TrainConfig("A", policies={"a": own}, ppo=ppo, network=NetworkConfig(activation="elu")))
    assert config.options_of("a") == PPOConfig(learning_rate=0.1, target_kl=0.01, gamma=0.5, learning_rate_schedule="adaptive")
    assert config.network_of("a") == NetworkConfig((3,), "elu")
    assert (config.options_of("b"), config.network_of("b"), config.settings_of("b")) == (ppo, config.network, PolicyConfig())
    with pytest.raises(ConfigError, match=r"policies\['a'\]: learning_rate_schedule: expected a target_kl with 'adaptive'"):
        resolve(TrainConfig("A", policies={"a": own}))


@pytest.mark.parametrize(("rows", "minibatches", "good"), [(5, 100, True), (5, 101, False), (0, 1, False)])
def test_minibatches_need_a_transition_each(rows, minibatches, good):
    ppo = PPOConfig(num_steps=20, num_minibatches=minibatches)
    with (
        contextlib.nullcontext()
        if good
        else pytest.raises(
            ConfigError, match=rf"num_minibatches: expected at most {20 * rows} for the policy 'a', .* got {minibatches}"
        )
    ):
        ppo.require_samples(rows, "a")


def test_samples_of_a_rollout_are_numbered_by_32_bits(monkeypatch):
    """The limit counts places that fill minibatches up. A run of that size is refused before its rollout is allocated."""
    ppo = PPOConfig(num_steps=65_535, num_minibatches=1)
    ppo.require_samples(32_768, "a")
    for config, rows in ((ppo, 32_769), (dataclasses.replace(ppo, num_minibatches=65_537), 32_768)):
        with pytest.raises(ConfigError, match="num_steps: expected at most 2,147,483,647 samples for the policy 'a', .* 2,14"):
            config.require_samples(rows, "a")
    monkeypatch.setattr("gpu_vecenv.train.runner.trainer.TorchMemory.free_bytes", lambda self: None)  # not known
    with pytest.raises(ConfigError, match="for the policy 'agent', which has 32,768 rows and 65,536 steps"):
        Trainer(TrainConfig("WarpCartPole-v1", num_envs=32_768, ppo=PPOConfig(num_steps=65_536), device="cpu"), quiet=True)


def test_the_spec_says_if_time_limits_are_bootstrapped():
    ids = ("WarpTag-v0", "WarpGridTag-v0", "WarpCartPole-v1", "WarpPendulum-v1")
    specs = [gymnasium.make_vec(name, num_envs=1, device="cpu").unwrapped.env_spec for name in ids]
    assert [bootstraps(None, spec) for spec in specs] == [False, False, True, True]
    for given in (True, False):
        assert {bootstraps(given, spec) for spec in specs} == {given}


def test_every_id_has_a_preset():
    assert set(PRESETS) == set(IDS)
    for name, preset in PRESETS.items():
        preset.ppo.require_samples(preset.num_envs, name)
        for own in preset.algorithms.values():
            own.options.require_samples(own.num_envs, name)


def test_a_run_staggers_starts_as_its_preset_unless_it_says_otherwise():
    for name, usual in (("WarpCovid-v0", True), ("WarpTag-v0", False)):
        assert resolve(TrainConfig(name)).stagger_starts is usual
        assert all(resolve(TrainConfig(name, stagger_starts=given)).stagger_starts is given for given in (True, False))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("seed: 1", "run.yaml: options: expected a mapping with an env_id"),
        ("[1]", r"run.yaml: expected options by name, got \[1\]"),
        ("env_id: [", "run.yaml: expected YAML, got "),
        ("[" * 5000, "run.yaml: expected YAML, got "),
        ("env_id: A\nenv_id: B", "run.yaml: line 2, column 1: expected each name once, got 'env_id' twice"),
        ("env_id: !!python/object/apply:os.getcwd []", "run.yaml: line 1, .* got a sequence with the tag python/object"),
        ("env_id: \xff", "run.yaml: expected YAML, got "),
        ("env_id: A\nsed: 1", "TrainConfig option: expected one of .* got 'sed'. Did you mean 'seed'?"),
        ("env_id: A\n1: 1", "TrainConfig option: expected one of .* got 1"),
        ("env_id: A\nppo: {gama: 1}", "PPOConfig option: expected one of .* got 'gama'. Did you mean 'gamma'?"),
        ("env_id: A\nppo: 5", "ppo: expected a PPOConfig, or None, got 5"),
        ("env_id: A\npolicies: {a: {modules: x}}", r"policies\['a'\]: PolicyConfig option: .* Did you mean 'module'?"),
        ("env_id: A\npolicies: {a: 5}", "policies: expected a dict of policy names and PolicyConfigs"),
        ("env_id: A\nenv_kwargs: {day: 2020-01-01}", "a date needs quotes, got '2020-01-01' with the tag timestamp"),
        ("env_id: A\nppo: {normalize_advantages: true}", r"'none' \('rollout' stands for the former True\), got True"),
    ],
)
def test_invalid_files_raise_errors_that_say_what_was_expected(tmp_path, content, text):
    (tmp_path / "run.yaml").write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=text):
        TrainConfig.from_yaml(tmp_path / "run.yaml")


@pytest.mark.parametrize("number", ["1e-3", "1E+3", "-2e5", "+1.5e3", "1.e2", "3", "0.5", ".5", "1_000"])
def test_numbers_in_files_are_numbers(tmp_path, number):
    (tmp_path / "run.yaml").write_text(f"env_id: A\nenv_kwargs: {{x: {number}, y: 'is {number}', z: x{number}}}")
    assert TrainConfig.from_yaml(tmp_path / "run.yaml").env_kwargs == {"x": float(number), "y": f"is {number}", "z": f"x{number}"}


@pytest.mark.parametrize(
    ("written", "steps"),
    [
        ("1e5", 100_000),
        ("'1e5'", 100_000),
        ("100_000", 100_000),
        ("2.5e6", 2_500_000),
        ("9007199254740993", 2**53 + 1),
        ("'9007199254740993.0'", 2**53 + 1),
    ],
)
def test_counts_may_have_exponents_in_files_and_in_python(tmp_path, written, steps):
    """The command line reads words by the same function, see ``test_words.py``."""
    (tmp_path / "run.yaml").write_text(f"env_id: A\ntotal_steps: {written}")
    of_file = TrainConfig.from_yaml(tmp_path / "run.yaml")
    policy = PolicyConfig(ppo={"num_epochs": "1e1"})
    of_python = TrainConfig("A", total_steps=written.strip("'"), num_envs=np.float32(64), policies={"a": policy})
    assert of_file.total_steps == of_python.total_steps == steps
    assert (of_python.num_envs, of_python.policies["a"].ppo, SACConfig(replay_size=1e6).replay_size) == (
        64, {"num_epochs": 10}, 1_000_000
    )  # fmt: skip
    for value in (of_file.total_steps, of_python.total_steps, of_python.num_envs, of_python.policies["a"].ppo["num_epochs"]):
        assert type(value) is int


def test_points_of_a_schedule_may_have_exponents():
    assert PPOConfig(entropy_schedule=((1e6, 0.1), ("2e6", 0))).entropy_schedule == ((1_000_000, 0.1), (2_000_000, 0.0))


@pytest.mark.parametrize(
    "value", [2.5, "2.5", "2.99999999999999999", "٣", "x", float("nan"), float("inf"), "inf", True, "", "9" * 5000]
)
def test_numbers_that_are_not_whole_are_refused_by_name(value):
    with pytest.raises(ConfigError, match="^total_steps: expected an integer from 1 to 9223372036854775807, or None, got "):
        TrainConfig("A", total_steps=value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: PPOConfig(num_minibatches=0), "num_minibatches: expected an integer from 1 to 2147483647, got 0"),
        (lambda: PPOConfig(gamma=1.5), r"gamma: expected a number in \[0, 1\], got 1.5"),
        (lambda: PPOConfig(clip_coef=0.0), "clip_coef: expected a number > 0, got 0.0"),
        (lambda: PPOConfig(learning_rate_schedule="cosine"), "'constant', 'linear' or 'adaptive', got 'cosine'"),
        (lambda: NetworkConfig((0,)), r"hidden_sizes: expected a tuple of integers from 1 to 65536, .* got \(0,\)"),
        (lambda: NetworkConfig(64), r"hidden_sizes: expected a tuple of integers from 1 to 65536, .* got 64"),
        (lambda: PPOConfig(gamma="abc"), r"gamma: expected a number in \[0, 1\], got 'abc'"),
        (lambda: PPOConfig(learning_rate="abc"), "learning_rate: expected a number > 0, got 'abc'"),
        (lambda: PPOConfig(value_coef=None), "value_coef: expected a number, got None"),
        (lambda: PPOConfig(target_kl="abc"), "target_kl: expected a number > 0, or None, got 'abc'"),
        (lambda: PPOConfig(clip_value="yes"), "clip_value: expected True or False, got 'yes'"),
        (
            lambda: PPOConfig(bootstrap_at_time_limit=1),
            "bootstrap_at_time_limit: expected True or False, or None, got 1",
        ),
        (lambda: NetworkConfig((4,), "gelu"), "activation: expected 'tanh', 'relu', 'elu' or 'silu', got 'gelu'"),
        (lambda: TrainConfig("A", num_envs=0), "num_envs: expected an integer from 1 to 2147483647, 'auto' or None, got 0"),
        (lambda: PPOConfig(num_steps=True), "num_steps: expected an integer from 1 to 65536, got True"),
        (lambda: PPOConfig(learning_rate=float("nan")), "learning_rate: expected a number > 0, got nan"),
        (lambda: PPOConfig(value_coef=float("inf")), "value_coef: expected a number, got inf"),
        (lambda: PPOConfig(entropy_coef=10**400), "entropy_coef: expected a number, got 1000"),
        (lambda: PPOConfig(learning_rate=1e39), "learning_rate: expected a number within the range of a float32, got 1e\\+39"),
        (lambda: NetworkConfig(log_std=-1e39), "log_std: expected a number within the range of a float32, got -1e\\+39"),
        (lambda: NetworkConfig((True,)), "hidden_sizes: expected a tuple of integers"),
        (lambda: TrainConfig("A", num_envs=True), "num_envs: expected an integer from 1 to 2147483647, 'auto' or None, got True"),
        (lambda: TrainConfig("A", num_envs=10**12), "num_envs: expected an integer from 1 to 2147483647, .*, got 100"),
        (lambda: TrainConfig(5), "env_id: expected a registered id, such as .* got 5"),
        (lambda: TrainConfig("a:b:c"), "env_id: expected a registered id, such as .* got 'a:b:c'"),
        (lambda: TrainConfig("A", seed=-1), r"seed: expected an integer from 0 to 2\*\*64 - 1, got -1"),
        (lambda: TrainConfig("A", frozen="abc"), "frozen: expected a tuple of policy names, got 'abc'"),
        (lambda: TrainConfig("A", out=Path("x")), "out: expected a folder's path as a str, or None, got "),
        (lambda: TrainConfig("A", policy_map={"a": 1}), "policy_map: expected a dict of role and policy names, or None"),
        (lambda: TrainConfig("A", env_kwargs={1: 1}), "env_kwargs: expected a dict with str keys, got {1: 1}"),
        (lambda: TrainConfig("A", ppo=5), "ppo: expected a PPOConfig, or None, got 5"),
        (lambda: TrainConfig("A", env_kwargs={"x": object()}), "env_kwargs: expected numbers, text, lists and dicts"),
        (lambda: TrainConfig("A", env_kwargs={"x": np.array([object()])}), "env_kwargs: expected numbers, text, lists and dicts"),
        (lambda: TrainConfig("A", env_kwargs={"x": {1: 2}}), "env_kwargs: expected numbers, text, lists and dicts"),
        (lambda: PPOConfig(normalize_advantages=False), r"\('none' stands for the former False\), got False"),
        (lambda: PPOConfig(learning_rate_schedule="adaptive"), "learning_rate_schedule: expected a target_kl with 'adaptive'"),
        (lambda: PPOConfig(clip_coef_final=-0.1), "clip_coef_final: expected a number >= 0, or None, got -0.1"),
        (lambda: PolicyConfig(ppo={"num_steps": 3}), r"ppo.num_steps: expected .*--ppo num_steps=3\), got 3"),
        (lambda: PolicyConfig(ppo={"gamma": 3}), r"ppo.gamma: expected a number in \[0, 1\], got 3"),
        (lambda: PolicyConfig(ppo={"normalize_advantages": True}), "'rollout', 'minibatch' or 'none' .* got True"),
        (lambda: PolicyConfig(network=5), "network: expected fields by name, got 5"),
        (lambda: PolicyConfig(module=""), "module: expected a name, or None, got ''"),
        (lambda: TrainConfig("A", policies={"a": {}}), "policies: expected a dict of policy names and PolicyConfigs, got"),
        (lambda: TrainConfig("A", stop_at=5.0), "stop_at: expected an evaluation_interval with it, got None"),
        (lambda: TrainConfig("A", keep_checkpoints=0), "keep_checkpoints: expected an integer from 1 to"),
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
    preset = PRESETS["WarpTag-v0"].on("auto")
    params = preset.env_kwargs | {"num_other_agents_observed": 5}
    assert resolve(TrainConfig("WarpTag-v0", num_envs=7)) == ResolvedConfig(
        "WarpTag-v0", 7, preset.total_steps, ppo=preset.ppo, network=preset.network, schedule_steps=preset.total_steps,
        env_kwargs=params,
    )  # fmt: skip
    assert params["extended_observation"] is True
    given = {"extended_observation": False, "num_runners": 3}
    assert resolve(TrainConfig("WarpTag-v0", env_kwargs=given)).env_kwargs == params | given
    small = {"num_taggers": 1, "num_runners": 3}
    assert resolve(TrainConfig("WarpTag-v0", env_kwargs=small)).env_kwargs == params | small | {"num_other_agents_observed": 4}
    assert resolve(TrainConfig("gpu_vecenv:WarpTag-v0")).ppo == preset.ppo
    assert resolve(TrainConfig("Unknown-v3")).ppo == PPOConfig()


def test_key_value_words_are_parsed():
    words = ["a=5", "b=1e-3", "c=True", "d=(64,64)", "e=tanh", "f=x=y"]
    want = {"a": 5, "b": 1e-3, "c": True, "d": (64, 64), "e": "tanh", "f": "x=y"}
    assert parse_settings(words, "--env") == want
    with pytest.raises(ConfigError, match="--env: expected KEY=VALUE, got 'a'"):
        parse_settings(["a"], "--env")


def test_dicts_in_the_constructor_change_fields_of_the_preset():
    groups = {"ppo": {"gamma": 0.5}, "network": {"hidden_sizes": (8,)}, "auto_sizes": {"seconds": 3}}
    config = TrainConfig("WarpTag-v0", num_envs="auto", **groups)
    assert config.ppo == dataclasses.replace(PRESETS["WarpTag-v0"].on("auto").ppo, gamma=0.5)
    assert config.network == dataclasses.replace(PRESETS["WarpTag-v0"].on("auto").network, hidden_sizes=(8,))
    assert config.auto_sizes == AutoSizes(seconds=3)
    assert config == TrainConfig.from_options({"env_id": "WarpTag-v0", "num_envs": "auto", **groups})


@pytest.mark.parametrize(("build", "meant"), [
    (lambda: TrainConfig("WarpTag-v0", lr=1e-3), "'learning_rate' of 'ppo'"),
    (lambda: TrainConfig("WarpTag-v0", hidden_sizes=(8,)), "'hidden_sizes' of 'network'"),
    (lambda: TrainConfig("WarpTag-v0", n_envs=2), "'num_envs'"),
    (lambda: TrainConfig("WarpTag-v0", num_runners=20), "'num_runners' of 'env_kwargs'"),
    (lambda: TrainConfig("WarpTag-v0", ppo={"lr": 1e-3}), "'learning_rate'"),
    (lambda: TrainConfig.from_options({"env_id": "WarpTag-v0", "lr": 1e-3}), "'learning_rate' of 'ppo'"),
    (lambda: PPOConfig(lr=1e-3), "'learning_rate'"),
    (lambda: PPOConfig(ent_coef=0.1), "'entropy_coef'"),
    (lambda: NetworkConfig(hiden_sizes=(8,)), "'hidden_sizes'"),
    (lambda: PolicyConfig(ppo={"lr": 1e-3}), "'learning_rate'"),
    (lambda: PolicyConfig(lr=1e-3), "'learning_rate' of 'ppo'"),
])  # fmt: skip
def test_an_unknown_option_suggests_the_one_that_is_meant(build, meant):
    with pytest.raises(ConfigError, match=rf"\. Did you mean {re.escape(meant)}\?$"):
        build()


def test_an_unknown_option_that_resembles_none_has_no_suggestion():
    with pytest.raises(ConfigError, match="got 'zzz'$"):
        PPOConfig(zzz=1)
