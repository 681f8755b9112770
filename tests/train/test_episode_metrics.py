"""Metrics of episodes in training and evaluations against a plain loop over the env's ``info``."""

import dataclasses
import functools
import math
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Town-v0)
import torch
import tyro
from gymnasium.spaces import Box, Discrete
from ways import WAYS

from gpu_vecenv import TIME_LIMIT, EnvSpec, EpisodeStatistics, Field, Metric, Role, TransformReward
from gpu_vecenv.cli.evaluation import eval_run
from gpu_vecenv.cli.learned import learned_lines
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer, evaluate
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.fused.rollout import whole_rollout
from gpu_vecenv.train.returns.metrics import mean_metrics
from gpu_vecenv.train.run_folder.matches import read_matches, save_matches
from gpu_vecenv.train.run_folder.metrics import read_metrics
from gpu_vecenv.train.run_folder.plot import plot_curves
from gpu_vecenv.train.runner import evaluation
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.matches import play_matches
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.roles import harvest

WALKER = EnvSpec(
    name="Walker-v0",
    kernel=Path(__file__).with_name("walker.cu"),
    roles=(Role("agent", 1),),
    params=(TIME_LIMIT,),
    state=(Field("x", "float32", (), "place"),),
    metrics=(
        Metric("farthest", "max", "largest x", "m"),
        Metric("mean_x", "mean", "mean x"),
        Metric("below", "last", "last x below 0"),
    ),
    observation=lambda params: Box(-np.inf, np.inf, (1,), np.float32),
    action=lambda params: Discrete(2),
    rewards={"x": "x after the step"},
)


def spoil(reward):
    """A reward function that changes the array in place, as a user's may."""
    return reward.mul_(-3)


def wrapped(**options):
    return TransformReward(EpisodeStatistics(harvest.make_vec(**options)), spoil)


gymnasium.register("Walker-v0", vector_entry_point=functools.partial(GpuVectorEnv, WALKER))
gymnasium.register("Grove-v0", vector_entry_point=harvest.make_vec)
gymnasium.register("WrappedGrove-v0", vector_entry_point=wrapped)

CASES = {
    "Town-v0": {"max_episode_steps": 7, "num_citizens": 3, "rich": 4.0},
    "Grove-v0": {"max_episode_steps": 2, "num_red": 1, "num_blue": 1},
    "WrappedGrove-v0": {"max_episode_steps": 2, "num_red": 1, "num_blue": 1},
    "Walker-v0": {"max_episode_steps": 30},
}
WORLDS, STEPS = 7, 8


def options(env_id, **changes):
    ppo = PPOConfig(num_steps=STEPS, num_epochs=1, num_minibatches=2)
    small = {"num_envs": WORLDS, "total_steps": WORLDS * STEPS * 5, "device": "cpu", "network": NetworkConfig((8,)), "ppo": ppo}
    return TrainConfig(env_id, **{**small, "env_kwargs": CASES[env_id], **changes})


def plain_env(env_id, num_worlds=WORLDS, device="cpu"):
    made = "Grove-v0" if "Grove" in env_id else env_id
    view = "worlds" if env_id == "Town-v0" else "agents"
    return gymnasium.make_vec(made, num_worlds=num_worlds, view=view, device=device, **CASES[env_id])


def actions_of(env, rollout, t):
    """The actions of a rollout's step, as the env takes them."""
    if not env.layout.by_role:
        return rollout.groups[0].action[t]
    groups = zip(env.layout.groups, rollout.groups, strict=True)
    return {group.role: slabs.action[t].unflatten(0, (-1, group.count)) for group, slabs in groups}


def played(env, rollout):
    """Repeat the steps of a rollout; return the metrics of each world whose episode ended, by metric."""
    found = {metric.name: [] for metric in env.env_spec.metrics}
    for t in range(rollout.num_steps):
        info = env.step(actions_of(env, rollout, t))[4]
        agents = env.num_envs // env.num_worlds
        for name, values in info["episode"].items():
            ended = values[info["_episode"]].tolist()
            assert len(ended) % agents == 0  # every row of a world has its number, so a mean over rows is one over worlds
            found[name] += ended
    return found


def mean(values):
    recorded = [value for value in values if not np.isnan(value)]
    return float(np.mean(recorded)) if recorded else np.nan


def assert_trained_as_played(config):
    trainer, env = Trainer(config, quiet=True), plain_env(config.env_id, device=config.device)
    env.reset(seed=config.seed)
    ended = unrecorded = 0
    for _ in range(5):
        trainer.launch()
        metrics = trainer.finish()
        expected = played(env, trainer.parts.rollout)
        got = {name.removeprefix("episode/"): x for name, x in metrics.items() if name.startswith("episode/")}
        assert got == {name: pytest.approx(mean(values), rel=1e-6, nan_ok=True) for name, values in expected.items()}
        ended += sum(map(len, expected.values()))
        unrecorded += sum(np.isnan(values).any() for values in expected.values())
    assert ended and (unrecorded or config.env_id == "Town-v0")
    trainer.close()


@pytest.mark.parametrize("env_id", CASES)
def test_an_iteration_gives_the_means_of_the_worlds_whose_episodes_ended(env_id):
    assert_trained_as_played(options(env_id))


def random_metrics(count, steps, worlds, agents, device="cpu"):
    """Metrics and flags with gaps between worlds; most records are missing or of episodes that go on."""
    g = torch.Generator().manual_seed(steps)
    values = 1e3 + torch.randn(count, steps, worlds * agents, generator=g)
    values = torch.where(torch.rand(values.shape, generator=g) < 0.3, math.nan, values)
    flags = torch.rand(2, steps, worlds * 3, generator=g) < 0.1
    return values.to(device)[..., ::agents], *flags.to(device)[..., 1::3]


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 1, 5, 2), (2, 40, 300, 1), (3, 700, 19, 2), (1, 2000, 301, 1)], ids=str)
def test_means_are_those_of_numpy(shape):
    metrics, terminated, truncated = random_metrics(*shape)
    ended = (terminated | truncated).numpy()
    want = [mean(values[ended]) for values in metrics.double().numpy()]
    np.testing.assert_allclose(mean_metrics(metrics, terminated, truncated).numpy(), want, rtol=1e-7)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 1, 5, 2), (3, 700, 19, 2), (1, 2000, 301, 1)], ids=str)
def test_means_have_the_same_bits_on_a_gpu(shape):
    found = mean_metrics(*random_metrics(*shape, device="cuda:0")).cpu()
    torch.testing.assert_close(found, mean_metrics(*random_metrics(*shape)), rtol=0, atol=0, equal_nan=True)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["eager", "graph", "fused"])
@pytest.mark.parametrize("env_id", CASES)
def test_an_iteration_on_a_gpu_gives_the_means_of_the_worlds_whose_episodes_ended(env_id, way):
    ways = {} if "Wrapped" in env_id else WAYS[way]
    assert_trained_as_played(options(env_id, device="cuda:0", **ways))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_a_fused_policy_collects_the_same_metrics_in_one_launch_and_step_by_step(device):
    found = []
    for whole in (False, True):
        trainer = Trainer(options("Walker-v0", device=device, kernels="torch", graph=False), quiet=True)
        collector, policy = trainer.parts.collector, trainer.policies["agent"]
        at = torch.device(trainer.env.device)
        fused = FusedPolicy(policy, require_fused(policy, at), at)
        collector.step_views = [(fused, views) for _, views in collector.step_views]
        collector.fill_rollout = whole_rollout(trainer.env, trainer.parts.rollout, fused) if whole else None
        for _ in range(2):
            collector.collect()
        metrics, terminated, truncated = trainer.parts.rollout.metrics_of_worlds()
        ended = terminated | truncated
        found.append((metrics[:, ended].cpu(), ended.cpu()))
    assert found[0][1].any()
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def watched(env, found):
    """Append to a list the metrics of each world whose episode ended in a step, with the world."""
    step = env.step

    def recorded(actions):
        info = step(actions)[4]
        results = {metric.name: info["episode"][metric.name].tolist() for metric in env.env_spec.metrics}
        for row in info["_episode"].nonzero().flatten().tolist():
            world = row if env.view == "worlds" else int(env.worlds.view.world_of_env[row])
            found.append((world, {name: values[row] for name, values in results.items()}))

    env.step = recorded
    return env


@pytest.mark.parametrize("env_id", CASES)
def test_an_evaluation_gives_the_means_of_the_first_episodes(env_id, tmp_path, monkeypatch):
    """So does one in training, of the same worlds and with the same weights."""
    config = options(env_id, evaluation_interval=3, evaluation_episodes=6, total_steps=WORLDS * STEPS * 3, out=str(tmp_path))
    trainer, found = Trainer(config, quiet=True), []
    metrics = trainer.train()
    trainer.close()
    monkeypatch.setattr(evaluation, "make_env", lambda *args: watched(make_env(*args), found))
    result = evaluate(tmp_path, 6, seed=evaluation.evaluation_seed(config.seed), device="cpu")
    first = dict(reversed(found))
    assert len(found) > len(first) == 6
    expected = {name: mean([numbers[name] for numbers in first.values()]) for name in first[0]}
    assert result.mean_metrics == {name: pytest.approx(x, rel=1e-6, nan_ok=True) for name, x in expected.items()}
    assert result.metric_units == {metric.name: metric.unit for metric in trainer.env.env_spec.metrics}
    in_training = {name.removeprefix("evaluation/episode/"): x for name, x in metrics.items() if "evaluation/episode/" in name}
    assert in_training == {name: x for name, x in result.mean_metrics.items() if not np.isnan(x)}


def test_a_run_writes_metrics_of_episodes_and_goes_on_with_the_same_bits(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        trainer = Trainer(options("Grove-v0", out=str(folder), env_kwargs={"max_episode_steps": 9}), quiet=True)
        trainer.train(None if folder == whole else 2)
        trainer.close()
    resumed = Trainer.resume(parts, quiet=True)
    resumed.train()
    resumed.close()
    lines = [[{n: x for n, x in line.items() if n != "steps_per_second"} for line in read_metrics(f)] for f in (whole, parts)]
    assert lines[0] == lines[1] and len(lines[0]) == 5
    assert [line["episode/eaten"] is None for line in lines[0]] == [True, False, False, False, False]


def test_the_command_prints_each_metric_with_its_unit(tmp_path, capsys):
    trainer = Trainer(options("Grove-v0", out=str(tmp_path)), quiet=True)
    trainer.train(1)
    trainer.close()
    tyro.cli(eval_run, args=[str(tmp_path), "--episodes", "3", "--seed", "4", "--device", "cpu"])
    means = evaluate(tmp_path, 3, seed=4, device="cpu").mean_metrics
    lines = capsys.readouterr().out.splitlines()
    assert f"eaten: {means['eaten']:.6g} apples" in lines and f"most_frozen: {means['most_frozen']:.6g} agents" in lines


def test_a_metric_without_a_record_or_a_unit_is_printed_as_such(tmp_path, capsys):
    trainer = Trainer(options("Walker-v0", out=str(tmp_path), env_kwargs={"max_episode_steps": 6}), quiet=True)
    trainer.train(1)
    trainer.close()
    evaluate_with = ["--episodes", "1", "--device", "cpu", "--seed"]
    found = set()
    for seed in range(5):
        tyro.cli(eval_run, args=[str(tmp_path), *evaluate_with, str(seed)])
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2].startswith("mean_x: ") and lines[-2].split()[-1] == lines[-2].split()[1]
        found.add(lines[-1] == "below: never recorded")
    assert found == {True, False}


@pytest.mark.slow
def test_curves_have_a_panel_for_each_metric(tmp_path):
    trainer = Trainer(options("Grove-v0", out=str(tmp_path)), quiet=True)
    trainer.train()
    trainer.close()
    drawn = plot_curves(tmp_path, tmp_path / "curves.svg").read_text()
    assert all(f"<!-- {metric.name} -->" in drawn for metric in harvest.SPEC.metrics)


@pytest.mark.slow
def test_matches_hold_metrics_of_trained_and_of_random_play(tmp_path):
    trainer = Trainer(options("Walker-v0", out=str(tmp_path)), quiet=True)
    trainer.train(1)
    trainer.close()
    matches = play_matches(tmp_path, "cpu")
    for match in matches.matches:
        alone = evaluate(tmp_path, matches.worlds, dict.fromkeys(match.random, "random"), device="cpu")
        assert match.mean_metrics == alone.mean_metrics and len(match.mean_metrics) == 3
    mean, at_random = (matches.match(*names).mean_metrics["mean_x"] for names in ((), ("agent",)))
    assert f"  mean_x: {mean:.4g} as trained, {at_random:.4g} at random" in list(learned_lines(matches))
    never = [dataclasses.replace(match, mean_metrics={"below": math.nan}) for match in matches.matches]
    save_matches(dataclasses.replace(matches, matches=never), tmp_path)
    read = read_matches(tmp_path)
    assert all(math.isnan(match.mean_metrics["below"]) for match in read.matches)
    assert "  below: not recorded as trained, not recorded at random" in list(learned_lines(read))
    plot_curves(tmp_path)
