"""Runs of SAC, TD3 and DDPG: they resume with the same bits, read nothing on the host, and their policies act everywhere."""

import contextlib
import dataclasses
import functools
import math
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from dispatched import HostReads
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from policy_cases import draws, group, observations
from test_algorithms import assert_same, state
from ways import WAYS

import tests.train.role_envs  # noqa: F401
from gpu_vecenv import EnvSpec, Field, GpuVectorEnv, Param, Role
from gpu_vecenv.cli.main import main
from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    DDPGConfig,
    NetworkConfig,
    PolicyConfig,
    PPOConfig,
    SACConfig,
    TD3Config,
    TrainConfig,
    Trainer,
    evaluate,
    export_policy,
    load_checkpoint,
    train_many,
)
from gpu_vecenv.train.algorithms.off_policy.learner import OffPolicy
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.policies.actor import (
    Deterministic,
    SoftChoices,
    SquashedGaussian,
    make_deterministic_policy,
    make_soft_policy,
)
from gpu_vecenv.train.policies.contract import Inputs
from gpu_vecenv.train.policies.networks import WorldSpec
from gpu_vecenv.train.runner.memory import training_needs

SMALL = {"num_steps": 4, "replay_size": 400, "learning_starts": 24, "batch_size": 8, "gradient_steps": 2}
CONFIGS = {"sac": SACConfig, "td3": TD3Config, "ddpg": DDPGConfig}
TAG = {
    "num_taggers": 2, "num_runners": 3, "num_other_agents_observed": 2, "episode_length": 6, "tagging_distance": 0.3,
    "continuous_actions": True,
}  # fmt: skip


def pendulum(name, steps=8 * 4 * 6, num_envs=8, **options):
    options = CONFIGS[name](**{**SMALL, **options})
    return TrainConfig(
        "WarpPendulum-v1", num_envs=num_envs, total_steps=steps, device="cpu", network=NetworkConfig((8,)), algorithm=name,
        algorithms={name: options},
    )  # fmt: skip


def choices(env_id="WarpTag-v0", env_kwargs=None, **options):
    """Discrete SAC in a game in which agents leave."""
    env_kwargs = {**TAG, "continuous_actions": False} if env_kwargs is None else env_kwargs
    return TrainConfig(
        env_id, num_envs=4, total_steps=4 * 4 * 5, device="cpu", network=NetworkConfig((8,)), algorithm="sac",
        env_kwargs=env_kwargs, algorithms={"sac": SACConfig(**{**SMALL, **options})},
    )  # fmt: skip


MIXED = dataclasses.replace(
    choices(), ppo=PPOConfig(num_steps=4, num_minibatches=2), env_kwargs=TAG,
    policies={"tagger": PolicyConfig(algorithm="ppo", network={"shared_trunk": True})},
)  # fmt: skip
"""Taggers learn by PPO, runners by SAC."""
RUNS = {
    "sac": pendulum("sac", priority_exponent=0.6, normalize_observations=True),
    "td3": pendulum("td3", n_steps=3, num_atoms=5, value_min=-9.0, value_max=0.0),
    "delayed": pendulum("td3", policy_delay=2, n_steps=2),
    "ddpg": pendulum("ddpg", gradient_steps=1),
    "choices": choices(n_steps=2),
    "mixed": MIXED,
    "waiting": pendulum("sac", learning_starts=150),
    "shared parts": choices("Pairs-v0", {"max_episode_steps": 5}),
}


@pytest.fixture(autouse=True)
def _quiet_replay():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def trained(config, iterations=None):
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        metrics = trainer.train(iterations)
        return metrics, state(trainer)


@pytest.mark.parametrize("name", ["sac", "td3", "ddpg", "sac by torch", "choices"])
def test_steps_that_are_left_out_before_learning_begins_change_no_bit(name, monkeypatch):
    """An iteration has 32 transitions of Pendulum, and at most 32 and 48 of the roles of Tag."""
    config = choices(learning_starts=97) if name == "choices" else pendulum(name.split()[0], learning_starts=70)
    config = dataclasses.replace(config, kernels="torch") if name == "sac by torch" else config
    for iterations in (2, 5):
        skipping = trained(config, iterations)
        with monkeypatch.context() as patch:
            patch.setattr(OffPolicy, "_skips_steps", lambda self: False)
            computing = trained(config, iterations)
        of_adam = {name for name in computing[1] if "/adams/" in name and name not in skipping[1]}  # a step makes its moments
        assert not any(computing[1].pop(name).any() for name in of_adam) and (iterations == 2 or not of_adam)
        assert_same(skipping[1], computing[1])
        timed = {"seconds", "steps_per_second"}
        np.testing.assert_equal(*({key: row[key] for key in row if key not in timed} for row, _ in (skipping, computing)))


@pytest.mark.parametrize("name", RUNS)
def test_a_resumed_run_has_the_bits_of_one_without_an_interruption(name, tmp_path):
    want, states = trained(RUNS[name])
    with contextlib.closing(Trainer(RUNS[name], quiet=True)) as first:
        first.train(2)
        path = first.save(tmp_path / "run.pt")
    with contextlib.closing(Trainer.resume(path, quiet=True)) as second:
        metrics = second.train()
        assert_same(state(second), states)
    del want["steps_per_second"], metrics["steps_per_second"]
    assert metrics == pytest.approx(want, rel=0, abs=0, nan_ok=True)
    assert any(value > 0 for key, value in metrics.items() if key.startswith("updates/"))
    assert evaluate(path, episodes=4, device="cpu", max_steps=500).episodes == 4


@pytest.mark.parametrize("name", RUNS)
def test_an_update_reads_nothing_on_the_host(name):
    with contextlib.closing(Trainer(RUNS[name], quiet=True)) as trainer:
        trainer.train(2)
        with HostReads():
            trainer.launch()
        trainer.finish()


def test_each_policy_of_a_run_learns_by_its_own_algorithm():
    with contextlib.closing(Trainer(MIXED, quiet=True)) as trainer:
        start = {name: [x.clone() for x in policy.parameters()] for name, policy in trainer.policies.items()}
        metrics = trainer.train()
        for name, policy in trainer.policies.items():
            assert any(not torch.equal(x, y) for x, y in zip(policy.parameters(), start[name], strict=True)), name
        assert isinstance(trainer.policies["runner"], SquashedGaussian)
    assert {"policy_loss/tagger", "temperature/runner"} <= metrics.keys() and "q/tagger" not in metrics


def test_runs_side_by_side_equal_each_alone():
    configs = {f"seed-{seed}": dataclasses.replace(pendulum("sac"), seed=seed) for seed in range(2)}
    results = train_many(configs, quiet=True)
    for name, config in configs.items():
        want, found = trained(config)[0], results[name].metrics
        del want["steps_per_second"], found["steps_per_second"]
        assert found == pytest.approx(want, rel=0, abs=0, nan_ok=True)


def test_a_run_goes_on_without_its_replay_buffer(tmp_path):
    """It acts by its policy at once, and learns after as many new transitions as a new run."""
    with contextlib.closing(Trainer(pendulum("td3", save_replay=False), quiet=True)) as first:
        first.train(3)
        path = first.save(tmp_path / "run.pt")
    assert "ring" not in load_checkpoint(path)["algorithms"]["agent"]["replay"]
    with pytest.warns(UserWarning, match="holds no transitions"):
        second = Trainer.resume(path, quiet=True)
    with contextlib.closing(second):
        algorithm = second.parts.algorithms["agent"]
        assert bool(algorithm.begun) and int(algorithm.seen) == 0
        small = int(math.ceil(SMALL["learning_starts"] / 32))
        counts = [second.train(1)["updates/agent"] > 0 for _ in range(2)]
        assert counts == [small <= 1, True]


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, True), ({"temperature_learning_rate": 1e-3}, True), ({"temperature": 0.5}, False),
        ({"temperature_learning_rate": None}, False), ({"temperature": 0.5, "temperature_learning_rate": None}, False),
    ],
)  # fmt: skip
def test_a_resumed_run_starts_from_another_temperature(changes, kept, tmp_path):
    config = pendulum("sac", temperature_learning_rate=0.1)
    with contextlib.closing(Trainer(config, quiet=True)) as first:
        first.train(3)
        path = first.save(tmp_path / "run.pt")
    options = dataclasses.replace(config.algorithms["sac"], **changes)
    with contextlib.closing(Trainer.resume(path, quiet=True, algorithms={"sac": options})) as second:
        now = second.parts.algorithms["agent"].temperature.value
        learned = first.parts.algorithms["agent"].temperature.value
        assert float(learned) < 0.9 and torch.equal(now, learned) == kept
        assert kept or float(now) == pytest.approx(options.temperature)
        second.train(1)
        moved = second.parts.algorithms["agent"].temperature.value
        assert torch.equal(moved, now) == (options.temperature_learning_rate is None)


def test_actions_are_random_until_learning_begins():
    config = dataclasses.replace(pendulum("ddpg", num_steps=50, learning_starts=400), num_envs=8, total_steps=3 * 8 * 50)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        found = []
        for _ in range(3):
            trainer.train(1)
            found.append(trainer.parts.rollout.groups[0].action.clone().flatten().sort().values)
    uniform = torch.linspace(-2, 2, 400)
    assert (found[0] - uniform).abs().max() < 0.35 and (found[2] - uniform).abs().max() > 0.5
    assert max(x.abs().max() for x in found) <= 2


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_noise_is_held_for_some_steps_of_an_episode(name):
    """The actor of rollouts draws in step t what one without the option draws in step t // 4 for the same observation."""
    runs = [Trainer(pendulum(name, noise_steps=steps), quiet=True) for steps in (1, 4)]
    with contextlib.ExitStack() as stack, torch.no_grad():
        usual, held = (stack.enter_context(contextlib.closing(run)).parts.algorithms["agent"].actor() for run in runs)
        for begun in (False, True):
            for run in runs:
                run.parts.algorithms["agent"].begun.fill_(begun)
            inputs, draw = Inputs(torch.ones(3, 3)), draws(3)
            found = []
            for t in range(9):
                draw.t.fill_(t)
                found.append(held.act(inputs, draw)[0])
                assert torch.equal(found[t], usual.act(inputs, draws(3, t=t // 4))[0])
            assert torch.equal(found[4], found[7]) and not torch.equal(found[3], found[4])


def test_the_next_value_is_added_at_a_time_limit_alone():
    """Pendulum ends by its time limit alone, so each transition has a next value unless the limit is taken for a rule."""
    for option, want in ((None, True), (False, False)):
        config = pendulum("sac", bootstrap_at_time_limit=option, num_steps=200, replay_size=2000, batch_size=8192)
        with contextlib.closing(Trainer(config, quiet=True)) as trainer:
            trainer.train(1)
            discount = trainer.parts.algorithms["agent"].replay.sample().discount
        assert bool((discount > 0).all()) == want


# ---- policies -----------------------------------------------------------------------------------------------------------

BOUNDS = (np.array([-2.0, 0.1], np.float32), np.array([-1.0, 0.7], np.float32))


def policy_of(action, make=make_soft_policy, masked=(), scale=1.0):
    policy = make("p", group(action, masked=masked), 3, NetworkConfig((8, 8)), SACConfig(), None, True, WorldSpec())
    with torch.no_grad():
        for x in policy.parameters():
            x *= scale
    return policy


@pytest.mark.parametrize("make", [make_soft_policy, make_deterministic_policy])
def test_continuous_actions_stay_within_bounds_and_agree_with_a_plain_draw(make):
    policy, inputs = policy_of(Box(*BOUNDS), make), observations(400)
    for scale in (1.0, 30.0):
        with torch.no_grad():
            for x in policy.parameters():
                x *= scale
            drawn, log_prob = policy.act(inputs, draws(400))
            mode, _ = policy.act(inputs, draws(400), deterministic=True)
            outputs = policy.network(inputs.obs)
        low, high = (torch.from_numpy(x) for x in BOUNDS)
        for action in (drawn, mode):
            assert (action >= low).all() and (action <= high).all()
        centre, half = (high + low) / 2, (high - low) / 2
        torch.testing.assert_close(mode, centre + half * torch.tanh(outputs[:, :2]), rtol=1e-5, atol=1e-5)
        if make is make_deterministic_policy:
            assert torch.equal(drawn, mode) and not log_prob.any()
            continue
        if scale == 1.0:  # the density by the change of variables, in float64, of the draw itself
            u = torch.atanh(((drawn - centre) / half).double().clamp(-1 + 1e-7, 1 - 1e-7))
            normal = torch.distributions.Normal(outputs[:, :2].double(), outputs[:, 2:].double().clamp(-20, 2).exp())
            want = (normal.log_prob(u) - torch.log1p(-torch.tanh(u).square())).sum(1)
            calm = (u.abs() < 3).all(1)
            assert (drawn != mode).any(1).all()
            torch.testing.assert_close(log_prob.double()[calm], want[calm], rtol=1e-2, atol=1e-2)
            assert calm.sum() > 200


def test_a_draw_depends_on_its_counters_alone():
    policy, inputs = policy_of(Box(*BOUNDS)), observations(50)
    rows = torch.tensor([7, 3, 44])
    whole, part = policy.act(inputs, draws(50)), policy.act(inputs._replace(obs=inputs.obs[rows]), draws(50, rows=rows))
    torch.testing.assert_close(whole[0][rows], part[0], rtol=1e-6, atol=1e-6)
    assert (policy.act(inputs, draws(50, t=1))[0] != whole[0]).any(1).all()


def test_choices_respect_masks():
    policy, inputs = policy_of(MultiDiscrete([3, 4]), masked=(1,), scale=3.0), observations(300)
    mask = torch.rand(300, 4, generator=torch.Generator().manual_seed(1)) < 0.4
    action, log_prob = policy.act(inputs._replace(mask=mask), draws(300))
    allowed = mask.gather(1, action[:, 1:].long()).squeeze(1)
    assert torch.equal(allowed, mask.any(1)) and not action[~mask.any(1), 1].any()
    assert isinstance(policy, SoftChoices) and (log_prob <= 0).all()


@pytest.mark.parametrize("suffix", [".pt2", pytest.param(".onnx", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["sac", "td3", "choices", "shared parts"])
def test_an_exported_policy_acts_as_the_policy(name, suffix, tmp_path):
    config = RUNS[name]
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.train()
        path, policies = trainer.save(tmp_path / "run.pt"), {**trainer.policies}
        rows = {key: trainer.parts.rows[key].samples() for key in policies}
    key = next(iter(policies))
    file, samples = export_policy(path, tmp_path / f"policy{suffix}", key), rows[key]
    inputs = samples.steps(samples.obs, slice(0, 4), with_mask=True)
    arrays = list(inputs.obs.values()) if isinstance(inputs.obs, dict) else [inputs.obs]
    arrays += [] if inputs.mask is None else [inputs.mask]
    if suffix == ".onnx":
        pytest.importorskip("onnxscript")
        session = pytest.importorskip("onnxruntime").InferenceSession(str(file))
        names = [x.name for x in session.get_inputs()]
        action = torch.from_numpy(session.run(None, dict(zip(names, map(np.asarray, arrays), strict=True)))[0])
    else:
        action = torch.export.load(file).module()(*arrays)[0]
    policy = policies[key]
    with torch.no_grad():
        outputs = policy.outputs(policy.features(inputs.obs, None))
        if isinstance(policy, SquashedGaussian | Deterministic):
            want = policy.env_actions(torch.tanh(outputs.chunk(2, -1)[0] if isinstance(policy, SquashedGaussian) else outputs))
            torch.testing.assert_close(action, want, rtol=1e-5, atol=1e-5)
        else:
            sizes, free, first = policy.group.choices, policy.group.limited, 0
            masks = dict(zip(free, inputs.mask.split(policy.group.limited_choices, -1), strict=True)) if free else {}
            for entry, part in enumerate(outputs.split(sizes, -1)):
                want = torch.where(masks.get(entry, torch.ones_like(part, dtype=torch.bool)), part, -torch.inf).argmax(-1)
                assert torch.equal(action[..., entry].long(), want), first


# ---- what does not fit --------------------------------------------------------------------------------------------------


def of_policy(**options):
    return {"policies": {"agent": PolicyConfig(**options)}}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"env_id": "WarpCartPole-v1"}, r"policy 'agent': TD3 and DDPG learn numbers; expected a flat Box.*, got Discrete\(2\)"),
        ({"network": NetworkConfig((8,), shared_trunk=True)}, "network.shared_trunk has no effect; expected False, got True"),
        ({"network": NetworkConfig((8,), log_std=1.0)}, "network.log_std has no effect; expected 0.0, got 1.0"),
        (of_policy(module="mine"), "builds the networks from NetworkConfig; expected no module, got one"),
    ],
)
def test_what_a_policy_cannot_have_is_refused_by_name(changes, text, tmp_path):
    config = dataclasses.replace(pendulum("td3"), **changes, out=str(tmp_path / "run"))
    with pytest.raises(ConfigError, match=text):
        Trainer(config, quiet=True)
    assert not (tmp_path / "run").exists()


def test_actions_without_finite_bounds_are_refused():
    for low, high in ((-np.inf, 1.0), (0.0, 0.0), (-3e38, 3e38)):
        if np.isfinite(high - low) and low < high:
            continue
        with pytest.raises(ConfigError, match="policy 'p': expected actions with finite bounds, low below high"):
            policy_of(Box(np.float32(low), np.float32(high), (2,)))


def test_critics_of_choices_have_no_atoms():
    with pytest.raises(ConfigError, match=r"num_atoms: expected 1 with Multi.*, got 5"):
        Trainer(choices(num_atoms=5, value_min=0.0, value_max=1.0), quiet=True)


def test_entropies_that_no_policy_has_are_refused():
    for config, most in ((pendulum("sac", target_entropy=0.7), "0.6931"), (choices(target_entropy=9.0), r"\d\.\d+")):
        with pytest.raises(ConfigError, match=f"target_entropy: expected at most {most}, that of uniform random actions, got"):
            Trainer(config, quiet=True)
    Trainer(pendulum("sac", target_entropy=0.69), quiet=True).close()


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("sac", {"learning_starts": 2_000_000}, "learning_starts: expected at most replay_size, 1000000, got 2000000"),
        ("sac", {"num_atoms": 3}, "value_min, value_max: expected returns of the first and of the last atom"),
        ("sac", {"num_atoms": 3, "value_min": 1.0, "value_max": 1.0}, "value_min, value_max: expected returns"),
        ("sac", {"num_atoms": 3, "value_min": 1.0, "value_max": 1.0 + 1e-7}, "value_min, value_max: expected 3 atoms"),
        ("sac", {"value_max": 3.0}, "value_min, value_max: expected None without num_atoms above 1"),
        ("sac", {"importance_exponent": 0.4}, "importance_exponent: expected None without priority_exponent, got 0.4"),
        ("sac", {"temperature_learning_rate": None, "target_entropy": 1.0}, "target_entropy: expected None without"),
        ("sac", {"temperature": 0.0}, "temperature: expected a number > 0, got 0.0"),
        ("td3", {"gradient_steps": 3}, "gradient_steps: expected a multiple of policy_delay, 2, got 3"),
        ("td3", {"exploration_noise": 0.0}, "exploration_noise: expected a number > 0, got 0.0"),
        ("ddpg", {"tau": 1.5}, r"tau: expected a number in \[0, 1\], got 1.5"),
    ],
)
def test_options_are_checked(name, options, text):
    with pytest.raises(ConfigError, match=text):
        CONFIGS[name](**options)


def test_words_of_an_algorithm_that_a_file_or_nothing_names_are_options(tmp_path, capsys):
    (tmp_path / "run.yaml").write_text("env_id: WarpPendulum-v1\nalgorithm: sac\n")
    assert main(["train", "--config", str(tmp_path / "run.yaml"), "--sac", "batch_size=0"]) == 2
    assert "batch_size: expected an integer from 1" in capsys.readouterr().err
    assert main(["train", "WarpCartPole-v1", "--device", "cpu", "--out", str(tmp_path / "run"), "--sac", "batch_size=8"]) == 2
    assert "sac: expected algorithms of the policies, ppo, got 'sac', which no policy uses" in capsys.readouterr().err


def test_a_replay_buffer_holds_a_rollout_at_least():
    with pytest.raises(ConfigError, match="replay_size: expected at least 160 for 4 steps and n_steps 2 of the policy 'agent'"):
        Trainer(pendulum("ddpg", num_envs=32, replay_size=159, n_steps=2), quiet=True)


def test_an_update_draws_no_more_numbers_than_32_bits_count():
    with pytest.raises(ConfigError, match=r"gradient_steps: expected at most 134,217,727 with 8 rows in a batch, got 134217728"):
        Trainer(pendulum("sac", batch_size=8, gradient_steps=2**27), quiet=True)


@pytest.mark.parametrize("name", ["value_min", "value_max"])
def test_a_resumed_run_keeps_the_atoms_of_its_critics(name, tmp_path):
    config = pendulum("td3", num_atoms=5, value_min=-9.0, value_max=0.0)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        path = trainer.save(tmp_path / "run.pt")
    options = dataclasses.replace(config.options_of("agent"), **{name: -4.0})
    with pytest.raises(ConfigError, match=rf"^td3.{name}: expected -?\d.0, as in the run that is resumed, got -4.0"):
        Trainer.resume(path, quiet=True, algorithms={"td3": options})


def test_a_state_of_another_form_is_refused(tmp_path):
    with contextlib.closing(Trainer(pendulum("sac"), quiet=True)) as trainer:
        trainer.train(2)
        algorithm = trainer.parts.algorithms["agent"]
        for change in ({"begun": torch.zeros(2)}, {"critics": {}}, {"adams": {}}, {"noise": None}):
            with pytest.raises(CheckpointError, match=f"here/{next(iter(change))}"):
                algorithm.load_state_dict({**algorithm.state_dict(), **change}, "here")


def test_options_survive_files_and_a_policy_has_its_own(tmp_path):
    own = PolicyConfig(algorithm="sac", algorithms={"sac": {"tau": 0.25}})
    config = dataclasses.replace(MIXED, policies={**MIXED.policies, "runner": own})
    for each in (config, resolve(config)):
        assert TrainConfig.from_yaml(each.save(tmp_path)) == TrainConfig(**vars(each))
    assert resolve(config).options_of("runner") == SACConfig(**SMALL, tau=0.25)
    (tmp_path / "options.yaml").write_text("env_id: WarpPendulum-v1\nalgorithm: td3\ntd3: {policy_delay: 4}\n")
    assert TrainConfig.from_yaml(tmp_path / "options.yaml").options_of("agent").policy_delay == 4


@pytest.mark.parametrize("name", ["sac", "td3", "choices"])
def test_the_bytes_that_last_are_those_of_the_state(name):
    with contextlib.closing(Trainer(RUNS[name], quiet=True)) as trainer:
        trainer.train()
        config, layout = resolve(RUNS[name]), trainer.env.layout
        by_use = training_needs(config, layout, torch.device("cpu"))
        needs, buffers = by_use["networks, optimisers, statistics"], by_use["replay buffers"]
        held = sum(x.nbytes for key, x in state(trainer).items() if isinstance(x, torch.Tensor))
        rings = [algorithm.replay.ring for algorithm in trainer.parts.algorithms.values()]
        if name == "sac":  # its kernels
            (algorithm,) = trainer.parts.algorithms.values()
            kernels = (algorithm.steps, trainer.parts.actors["agent"].actor)
            held += sum(x.nbytes for each in kernels for x in each.arrays.values())
    arrays = [x for ring in rings for x in (*ring.arrays.values(), ring.priority, ring.counts, ring.masses) if x is not None]
    assert buffers == sum(x.nbytes for x in arrays)
    needs += buffers
    assert held <= needs * 1.02 and needs <= held * 1.3 + 4096


# ---- learning -----------------------------------------------------------------------------------------------------------

AIM = EnvSpec(
    name="Aim-v0",
    kernel=Path(__file__).with_name("aim.cu"),
    roles=(Role("agent", 1),),
    params=(Param("choices", 0, "int32", "1: the action is a third of the range", low=0, high=1),),
    state=(Field("mark", "float32", (), "what is aimed at"),),
    observation=lambda params: Box(-1, 1, (1,), np.float32),
    action=lambda params: Discrete(3) if params["choices"] else Box(-2, 2, (1,), np.float32),
    rewards={"miss": "minus the squared distance, or -1 for a wrong third"},
)
gymnasium.register("Aim-v0", vector_entry_point=functools.partial(GpuVectorEnv, AIM))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CONFIGS, "choices"])
def test_aiming_is_learned(name, tmp_path):
    """Random play has a return near -3.3 with numbers and -1.3 with choices, and the best one is 0."""
    algorithm = "sac" if name == "choices" else name
    rates = {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3, "tau": 0.02}
    rates |= {"temperature": 0.05, "temperature_learning_rate": None} if algorithm == "sac" else {}
    options = {"num_steps": 2, "learning_starts": 200, "replay_size": 20_000, "batch_size": 128, "gradient_steps": 2, **rates}
    config = TrainConfig(
        "Aim-v0", num_envs=16, total_steps=16 * 2 * 150, device="cpu", network=NetworkConfig((32, 32), "relu"),
        algorithm=algorithm, algorithms={algorithm: CONFIGS[algorithm](**options)},
        env_kwargs={"choices": int(name == "choices")},
    )  # fmt: skip
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run.pt")
    assert evaluate(path, episodes=400, deterministic=True, device="cpu").mean_return["agent"] > -0.3


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_pendulum_is_solved(name):
    """Random play has a mean return near -1,200, and the best one is near -140."""
    rates = {"actor_learning_rate": 1e-3, "critic_learning_rate": 1e-3, "tau": 0.005, "gamma": 0.98}
    options = {"num_steps": 1, "replay_size": 50_000, "learning_starts": 1_000, "batch_size": 128, "gradient_steps": 8, **rates}
    config = dataclasses.replace(pendulum(name, **options), total_steps=8 * 2_500, network=NetworkConfig((64, 64), "relu"))
    config = dataclasses.replace(config, evaluation_interval=250, evaluation_episodes=100, stop_at=-200.0)
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        trainer.train()
        assert trainer.best.value >= -200


# ---- on a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("name", RUNS)
def test_a_graph_trains_to_the_same_bits(name):
    base = dataclasses.replace(RUNS[name], device="cuda:0", total_steps=2 * RUNS[name].total_steps)
    runs = [Trainer(dataclasses.replace(base, **WAYS[way]), quiet=True) for way in ("eager", "graph")]
    for run in runs:
        run.train()
    assert runs[1].executor.reason == ""
    assert_same(state(runs[1]), state(runs[0]))
    for run in runs:
        run.close()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sac", "choices", "td3"])
def test_actions_of_a_gpu_are_those_of_the_cpu(name):
    """In the first rollout, whose actions are random."""
    found = []
    for device in ("cpu", "cuda:0"):
        with contextlib.closing(Trainer(dataclasses.replace(RUNS[name], device=device, kernels="torch"), quiet=True)) as trainer:
            trainer.train(1)
            found.append([slabs.action.float().cpu() for slabs in trainer.parts.rollout.groups])
    for on_cpu, on_gpu in zip(*found, strict=True):
        torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-5, atol=1e-5)
