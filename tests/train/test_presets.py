"""Presets of envs of other packages."""

import dataclasses
import shlex
import subprocess
import sys

import gymnasium
import pytest
import tyro

from examples.evolution import EvolutionConfig
from gpu_vecenv import register_preset
from gpu_vecenv.cli import train as commands
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.registered import REGISTERED_PRESETS
from gpu_vecenv.train import (
    AlgorithmPreset,
    ConfigError,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    Preset,
    TrainConfig,
    Trainer,
    evaluate,
    train_many,
)
from gpu_vecenv.train.config import PRESETS, resolve
from gpu_vecenv.train.run_folder.plot import plot_curves
from gpu_vecenv.train.runner.preset_lines import preset_lines

PRESET = Preset(2, 40, PPOConfig(num_steps=10, num_minibatches=2, gamma=0.5), NetworkConfig((4,)), {"speed": 2.0})


@pytest.fixture
def orchard(tmp_path, monkeypatch):
    """Make a package that registers an env and, as text, its preset. It is forgotten afterwards."""
    package = tmp_path / "orchards"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import functools\nimport gymnasium\nfrom gpu_vecenv import register_preset\n"
        "gymnasium.register('fruit/Apples-v0', vector_entry_point='tag_stand_in:TagStandIn')\n"
        "register_preset('fruit/Apples-v0', 'orchards.training:PRESET')\n"
    )
    (package / "training.py").write_text(
        "from gpu_vecenv.train import NetworkConfig, PPOConfig, Preset\n"
        "PRESET = Preset(2, 40, PPOConfig(num_steps=10, num_minibatches=2, gamma=0.5), NetworkConfig((4,)))\nNUMBER = 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def forget():
        for name in [name for name in sys.modules if name.partition(".")[0] == "orchards"]:
            del sys.modules[name]
        gymnasium.registry.pop("fruit/Apples-v0", None)
        REGISTERED_PRESETS.pop("fruit/Apples-v0", None)

    yield forget
    forget()


ENV_ID = "orchards:fruit/Apples-v0"


def assert_of_the_preset(config):
    assert (config.num_envs, config.total_steps, config.network) == (2, 40, NetworkConfig((4,)))
    assert (config.ppo.num_steps, config.ppo.num_minibatches, config.ppo.gamma) == (10, 2, 0.5)


def test_every_kind_of_new_run_has_the_preset_of_the_package(orchard, tmp_path):
    """Each begins with the package not imported."""
    trainer = Trainer(TrainConfig(ENV_ID), quiet=True)
    assert_of_the_preset(trainer.config)
    trainer.close()
    orchard()
    (result,) = train_many({"only": TrainConfig(ENV_ID)}, quiet=True).values()
    assert_of_the_preset(result.config)
    orchard()
    (tmp_path / "run.yaml").write_text(f"env_id: {ENV_ID}\nppo: {{clip_coef: 0.1}}\n")
    config = TrainConfig.from_yaml(tmp_path / "run.yaml")
    assert_of_the_preset(resolve(config))
    assert config.ppo.clip_coef == 0.1
    orchard()
    assert evaluate(TrainConfig(ENV_ID), 2).episodes == 2


@pytest.mark.slow
def test_the_command_line_and_a_resumed_run_have_the_preset_of_the_package(orchard, tmp_path):
    tyro.cli(commands.train, args=shlex.split(f"{ENV_ID} --out {tmp_path}/run --ppo clip_coef=0.1"))
    first = TrainConfig.of_run(tmp_path / "run")
    assert_of_the_preset(first)
    resumed = Trainer.resume(tmp_path / "run", quiet=True, total_steps=60)
    assert_of_the_preset(dataclasses.replace(resumed.config, total_steps=40))
    assert resumed.config.ppo == first.ppo
    resumed.close()


def test_files_of_a_run_import_nothing(orchard, tmp_path):
    """Also if they lack fields of which the preset has values, as files of older versions do."""
    trainer = Trainer(TrainConfig(ENV_ID, out=str(tmp_path / "run")), quiet=True)
    trainer.train()
    trainer.close()
    file = tmp_path / "run" / "config.yaml"
    file.write_text(file.read_text().replace("  gamma: 0.5\n", ""))
    orchard()
    assert TrainConfig.of_run(tmp_path / "run").ppo.gamma == PPOConfig().gamma
    plot_curves(tmp_path / "run")
    assert not any(name.startswith("orchards") for name in sys.modules)


@pytest.mark.slow
def test_registering_imports_no_trainer_and_the_text_is_imported_by_a_run(orchard, tmp_path):
    code = (
        "import sys, orchards\nassert 'torch' not in sys.modules and 'orchards.training' not in sys.modules\n"
        "from gpu_vecenv.train import TrainConfig\nfrom gpu_vecenv.train.config import resolve\n"
        f"assert resolve(TrainConfig('{ENV_ID}')).num_envs == 2\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.fixture
def registered():
    before = dict(REGISTERED_PRESETS)
    yield
    REGISTERED_PRESETS.clear()
    REGISTERED_PRESETS.update(before)


def test_an_id_has_one_preset(registered):
    register_preset("Mine-v0", PRESET)
    register_preset("Mine-v0", dataclasses.replace(PRESET))  # an equal one, as of a second import
    register_preset("theirs/Mine-v0", "theirs.training:PRESET")
    for other in (dataclasses.replace(PRESET, num_envs=3), "theirs.training:PRESET"):
        with pytest.raises(ParameterError, match=r"expected one preset for 'Mine-v0', got Preset\(num_envs=2, .* and "):
            register_preset("Mine-v0", other)
    assert resolve(TrainConfig("Mine-v0")).env_kwargs == {"speed": 2.0}
    assert resolve(TrainConfig("other/Mine-v0")).num_envs == Preset().num_envs
    for name in PRESETS:
        with pytest.raises(ParameterError, match=f"expected an id of another package, got '{name}'"):
            register_preset(name, PRESET)


@pytest.mark.parametrize("env_id", ["", "module:Mine-v0", None, 5])
def test_a_wrong_id_is_refused(env_id):
    with pytest.raises(ParameterError, match="register_preset: expected an env id without a module, such as 'MyEnv-v0', got "):
        register_preset(env_id, PRESET)


@pytest.mark.parametrize("preset", [None, {}, "orchards", "orchards:", ":PRESET", "a b:PRESET", "a:b:c", Preset])
def test_a_wrong_preset_is_refused(preset):
    with pytest.raises(ParameterError, match="register_preset: expected for 'Mine-v0' a gpu_vecenv.train.Preset, or its place"):
        register_preset("Mine-v0", preset)
    assert "Mine-v0" not in REGISTERED_PRESETS


@pytest.mark.parametrize(
    ("place", "got"),
    [("orchards.training:NUMBER", "5"), ("orchards.training:NO", "AttributeError"), ("nowhere:PRESET", "ModuleNotFoundError")],
)
def test_a_place_without_a_preset_is_an_error_of_the_run(orchard, registered, place, got):
    register_preset("Mine-v0", place)
    with pytest.raises(ConfigError, match=f"preset of Mine-v0: expected a Preset at '{place}', as registered, got {got}"):
        resolve(TrainConfig("Mine-v0"))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_envs", 0, "num_envs: expected an integer from 1"),
        ("total_steps", 1.5, "total_steps: expected an integer"),
        ("ppo", {}, "ppo: expected a PPOConfig"),
        ("network", None, "network: expected a NetworkConfig"),
        ("env_kwargs", [], "env_kwargs: expected a dict with str keys"),
        ("stagger_starts", 1, "stagger_starts: expected True or False"),
        ("algorithms", {"evolution": EvolutionConfig()}, "algorithms: expected a dict of AlgorithmPresets by name"),
        ("algorithms", {"ppo": AlgorithmPreset(PPOConfig())}, "algorithms: expected a dict of .* but for PPO"),
        ("algorithms", {"evolution": AlgorithmPreset(PPOConfig())}, r"algorithms\['evolution'\].options: expected a Evolution"),
    ],
)
def test_fields_of_a_preset_are_checked(field, value, expected):
    with pytest.raises(ConfigError, match=expected):
        Preset(**{field: value})


# ---- presets of algorithms ----------------------------------------------------------------------------------------------

OF_EVOLUTION = AlgorithmPreset(EvolutionConfig(num_steps=10, sigma=0.25), 6, 120, NetworkConfig((5,), "relu"), True)
WITH_EVOLUTION = dataclasses.replace(PRESET, algorithms={"evolution": OF_EVOLUTION})


@pytest.fixture
def evolved(registered):
    register_preset("Mine-v0", WITH_EVOLUTION)


def of_run(config):
    return config.num_envs, config.total_steps, config.network, config.stagger_starts, config.schedule_steps


def test_a_run_has_the_preset_of_its_algorithm_and_no_value_of_another(evolved):
    found = resolve(TrainConfig("Mine-v0", algorithm="evolution"))
    assert of_run(found) == (6, 120, NetworkConfig((5,), "relu"), True, 120)
    assert (found.algorithms, found.options_of("any")) == ({"evolution": OF_EVOLUTION.options},) + (OF_EVOLUTION.options,)
    assert found.env_kwargs == {"speed": 2.0}  # the game is the same for all algorithms
    given = dict(num_envs=4, total_steps=80, stagger_starts=False, algorithms={"evolution": EvolutionConfig(sigma=0.5)})
    found = resolve(TrainConfig("Mine-v0", algorithm="evolution", network=NetworkConfig((3,)), **given))
    assert of_run(found) == (4, 80, NetworkConfig((3,)), False, 80) and found.algorithms == given["algorithms"]
    of_ppo = resolve(TrainConfig("Mine-v0"))
    assert_of_the_preset(of_ppo)
    assert (of_ppo.algorithms, of_ppo.stagger_starts) == ({}, False)


def test_an_algorithm_without_a_preset_has_its_defaults(registered, monkeypatch):
    register_preset("Mine-v0", dataclasses.replace(PRESET, stagger_starts=True))
    monkeypatch.setattr(EvolutionConfig, "network", NetworkConfig((7,), "elu"))
    found = resolve(TrainConfig("Mine-v0", algorithm="evolution"))
    assert of_run(found) == (64, 500_000, NetworkConfig((7,), "elu"), False, 500_000)
    assert found.algorithms == {"evolution": EvolutionConfig()} and found.env_kwargs == {"speed": 2.0}
    register_preset("Other-v0", Preset(algorithms={"evolution": AlgorithmPreset(num_envs=6)}))
    found = resolve(TrainConfig("Other-v0", algorithm="evolution"))  # a preset of worlds alone
    assert of_run(found) == (6, 500_000, NetworkConfig((7,), "elu"), False, 500_000)


def test_files_leave_out_what_the_preset_of_the_algorithm_has(evolved, tmp_path):
    (tmp_path / "run.yaml").write_text(
        "env_id: Mine-v0\nalgorithm: evolution\nevolution: {learning_rate: 0.5}\nnetwork: {activation: tanh}\n"
    )
    found = TrainConfig.from_yaml(tmp_path / "run.yaml")
    assert found.algorithms == {"evolution": EvolutionConfig(num_steps=10, sigma=0.25, learning_rate=0.5)}
    assert found.network == NetworkConfig((5,), "tanh") and resolve(found).num_envs == 6


def test_policies_of_one_run_have_the_presets_of_their_own_algorithms(evolved):
    """Worlds, steps and starts are those of the run's algorithm."""
    policies = {"b": PolicyConfig(algorithm="evolution", network={"activation": "elu"}), "c": PolicyConfig(module="any")}
    found = resolve(TrainConfig("Mine-v0", policies=policies))
    assert_of_the_preset(found)
    assert (found.options_of("a"), found.network_of("a"), found.network_of("c")) == (PRESET.ppo, *[NetworkConfig((4,))] * 2)
    assert (found.options_of("b"), found.network_of("b")) == (OF_EVOLUTION.options, NetworkConfig((5,), "elu"))
    turned = resolve(TrainConfig("Mine-v0", algorithm="evolution", policies={"b": PolicyConfig(algorithm="ppo")}))
    assert (turned.num_envs, turned.options_of("b"), turned.network_of("b")) == (6, PRESET.ppo, NetworkConfig((4,)))
    given = resolve(TrainConfig("Mine-v0", network=NetworkConfig((3,)), policies=policies))
    assert given.network_of("b") == NetworkConfig((3,), "elu")
    assert all(resolve(each) == each for each in (found, turned, given))


ON_CPU = AlgorithmPreset(PPOConfig(num_steps=7), num_envs=5, total_steps=70)


@pytest.mark.parametrize(("device", "gpu_works", "on_cpu"), [
    ("cpu", True, True), ("cuda", False, False), ("cuda:1", True, False), ("auto", False, True), ("auto", True, False),
])  # fmt: skip
def test_ppo_has_the_preset_of_its_device(registered, monkeypatch, device, gpu_works, on_cpu):
    monkeypatch.setattr("gpu_vecenv.train.config.presets.choose_device", lambda _: "cuda:0" if gpu_works else "cpu")
    register_preset("Mine-v0", dataclasses.replace(WITH_EVOLUTION, cpu=ON_CPU))
    config, expected = TrainConfig("Mine-v0", device=device), ON_CPU if on_cpu else PRESET
    resolved = resolve(config)
    assert (resolved.num_envs, resolved.total_steps) == (expected.num_envs, expected.total_steps)
    assert resolved.ppo == (ON_CPU.options if on_cpu else PRESET.ppo) and resolved.network == PRESET.network
    options = {"env_id": "Mine-v0", "device": device, "ppo": {"gamma": 0.5}}
    for some in (TrainConfig(**options), TrainConfig.from_options(options)):
        assert resolve(some).ppo == dataclasses.replace(resolved.ppo, gamma=0.5)
    assert of_run(resolve(dataclasses.replace(config, algorithm="evolution")))[:2] == (6, 120)
    assert resolve(resolved) == resolved


def test_a_preset_for_the_cpu_has_options_of_ppo():
    with pytest.raises(ConfigError, match=r"cpu.options: expected a PPOConfig or None, got EvolutionConfig"):
        Preset(cpu=AlgorithmPreset(EvolutionConfig()))


def test_a_run_of_ppo_says_whose_preset_it_has_if_that_depends_on_the_device(capsys):
    for env_id in ("WarpCartPole-v1", "WarpAcrobot-v1"):
        Trainer(TrainConfig(env_id, num_envs=2, total_steps=2, device="cpu", ppo={"num_steps": 4, "num_minibatches": 1})).train()
    said = "ppo: options are those of its preset for WarpCartPole-v1 on the CPU, but for num_envs, total_steps, num_steps,"
    assert capsys.readouterr().out.count(said) == 1


def test_the_line_of_a_preset_names_the_options_that_differ_from_it():
    """A file with all options of a run, such as ``best.yaml`` of a sweep, leaves none out, so the line says what differs."""
    said = "ppo: options are those of its preset for WarpTag-v0 on the CPU"
    usual = resolve(TrainConfig("WarpTag-v0", device="cpu"))
    assert list(preset_lines(usual, ["tagger", "runner"])) == [said]
    complete = TrainConfig.from_options({**usual.to_options(), "ppo": {**vars(usual.ppo), "gamma": 0.5}, "num_envs": 3})
    policies = {"runner": PolicyConfig(ppo={"num_epochs": 1}, network={"activation": "relu"})}
    changed = resolve(dataclasses.replace(complete, policies=policies))
    assert list(preset_lines(changed, ["tagger"])) == [f"{said}, but for num_envs, gamma"]
    expected = [f"{said}, but for num_envs, gamma, network.activation, num_epochs"]
    assert list(preset_lines(changed, ["tagger", "runner"])) == expected


def test_sizes_of_a_run_are_compared_with_the_preset_of_its_algorithm_alone():
    config = TrainConfig("WarpPendulum-v1", device="cpu", policies={"agent": PolicyConfig(algorithm="sac")})
    assert list(preset_lines(resolve(config), ["agent"])) == ["sac: options are those of its preset for WarpPendulum-v1"]


def test_a_new_run_says_which_preset_it_has(evolved, capsys, monkeypatch, tmp_path):
    options = dict(num_envs=2, total_steps=40, device="cpu", algorithm="evolution", network=NetworkConfig((4,)))
    own = {"evolution": EvolutionConfig(num_steps=10)}
    trainer = Trainer(TrainConfig("WarpCartPole-v1", **options, algorithms=own))
    trainer.train(1)
    told = "evolution: options are"
    differing = "num_envs, total_steps, network.hidden_sizes, num_steps"
    assert f"{told} its defaults, as WarpCartPole-v1 has no preset for it, but for {differing}\n" in capsys.readouterr().out
    trainer.train(1)
    assert told not in capsys.readouterr().out
    changed = dataclasses.replace(PRESETS["WarpCartPole-v1"], algorithms=WITH_EVOLUTION.algorithms)
    monkeypatch.setitem(PRESETS, "WarpCartPole-v1", changed)
    Trainer(TrainConfig("WarpCartPole-v1", **options)).train(1)
    assert f"{told} those of its preset for WarpCartPole-v1, but for " in capsys.readouterr().out
