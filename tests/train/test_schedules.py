"""Hyperparameters that change during a run."""

import contextlib
import dataclasses

import numpy as np
import pytest
import torch

from gpu_vecenv.train import ConfigError, NetworkConfig, PolicyConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.algorithms.schedules import scalars_at
from gpu_vecenv.train.config import resolve

MOVING = PPOConfig(learning_rate=0.4, entropy_coef=0.2, entropy_coef_final=0.1, clip_coef=0.3, clip_coef_final=0.1)


@pytest.mark.parametrize(
    ("progress", "want"),
    [(0.0, (0.4, 0.2, 0.3)), (0.25, (0.3, 0.175, 0.25)), (1.0, (0.0, 0.1, 0.1)), (7.0, (0.0, 0.1, 0.1))],
)
def test_schedules_are_linear_and_stay_at_their_end(progress, want):
    assert scalars_at(MOVING, 40 * progress, 40) == pytest.approx(want)


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_without_end_values_everything_is_constant(schedule):
    ppo = PPOConfig(learning_rate=0.4, learning_rate_schedule=schedule, target_kl=0.1, entropy_coef=0.2, clip_coef=0.3)
    assert scalars_at(ppo, 0, 10) == scalars_at(ppo, 9, 10) == (0.4, 0.2, 0.3)


def test_a_longer_run_keeps_the_steps_of_its_schedules():
    first = resolve(TrainConfig("WarpCartPole-v1", total_steps=1_000))
    stored = TrainConfig.from_options({**first.to_options(), "total_steps": 5_000})
    assert (resolve(stored).total_steps, resolve(stored).schedule_steps) == (5_000, 1_000)
    assert resolve(TrainConfig("WarpCartPole-v1", total_steps=1_000, schedule_steps=300)).schedule_steps == 300


POINTS = ((100, 0.5), (160, -0.25), (1_000, 0.0))
SEVERAL = PPOConfig(num_steps=8, num_epochs=1, num_minibatches=1, entropy_coef=0.2, entropy_schedule=POINTS)


@pytest.mark.parametrize("schedule_steps", [10, 10_000])
def test_an_entropy_schedule_is_linear_between_its_points(schedule_steps):
    """The points are steps of the run, whatever the steps of the other schedules."""
    steps = [0, 1, 50, 99, 100, 101, 159, 160, 161, 500, 999, 1_000, 10**7]
    want = np.interp(steps, [0, *(at for at, _ in POINTS)], [0.2, *(weight for _, weight in POINTS)])
    assert [scalars_at(SEVERAL, at, schedule_steps).entropy_coef for at in steps] == pytest.approx(want.tolist())


def test_an_entropy_schedule_is_stored_in_every_form(tmp_path):
    given = ([[100, 0.5], [160, -0.25], [1000, 0]], np.array([[100, 1], [160, 2]]), ((np.int64(7), np.float32(0.5)),))
    for points in given:
        ppo = dataclasses.replace(SEVERAL, entropy_schedule=points)
        assert ppo.entropy_schedule == tuple((int(at), float(weight)) for at, weight in points) and hash(ppo)
        config = TrainConfig("WarpCartPole-v1", ppo=ppo, policies={"agent": PolicyConfig(ppo={"entropy_schedule": points})})
        config.save(tmp_path)
        for stored in (TrainConfig.from_yaml(tmp_path / "config.yaml"), TrainConfig.from_json(config.to_json())):
            assert stored == config and stored.ppo.entropy_schedule == ppo.entropy_schedule
            assert resolve(stored).options_of("agent") == ppo


@pytest.mark.parametrize("points", [(), ((0, 0.1),), ((5, 0.1), (5, 0.2)), ((5, 0.1, 1),), ((5.5, 0.1),), ((5, None),), 3, "x"])
def test_a_wrong_entropy_schedule_is_refused(points):
    expected = "entropy_schedule: expected pairs of steps, which increase from 1 on, and weights"
    with pytest.raises(ConfigError, match=expected):
        PPOConfig(entropy_schedule=points)
    with pytest.raises(ConfigError, match=f"ppo.{expected}"):
        PolicyConfig(ppo={"entropy_schedule": points})


def test_an_entropy_schedule_and_an_end_value_are_refused_together():
    with pytest.raises(ConfigError, match="entropy_schedule: expected it or entropy_coef_final, got both, .* and 0.1"):
        dataclasses.replace(SEVERAL, entropy_coef_final=0.1)


def test_iterations_of_a_resumed_run_have_the_weights_of_the_schedule(tmp_path):
    """So have those of a policy with a schedule of its own."""
    own = {"tagger": PolicyConfig(ppo={"entropy_schedule": ((48, 1.0),)})}
    env = {"num_taggers": 1, "num_runners": 1, "episode_length": 5}
    config = TrainConfig(
        "WarpTag-v0", 4, 6 * 32, device="cpu", env_kwargs=env, ppo=SEVERAL, network=NetworkConfig((4,)), policies=own,
        out=str(tmp_path),
    )  # fmt: skip
    seen = []

    def train(trainer, iterations):
        for _ in range(iterations):
            trainer.train(1)
            seen.append([float(trainer.parts.schedules.scalars[role][1]) for role in ("runner", "tagger")])
        trainer.close()

    train(Trainer(config, quiet=True), 2)
    train(Trainer.resume(tmp_path, quiet=True), 4)
    steps = 32 * np.arange(6)
    want = [np.interp(steps, [0, 100, 160, 1_000], [0.2, 0.5, -0.25, 0.0]), np.interp(steps, [0, 48], [0.2, 1.0])]
    torch.testing.assert_close(torch.tensor(seen, dtype=torch.float64), torch.tensor(np.array(want).T), rtol=1e-6, atol=1e-7)


def test_a_run_says_from_which_step_on_it_learns_nothing(tmp_path, capsys):
    config = TrainConfig("WarpCartPole-v1", 4, 64, device="cpu", out=str(tmp_path), ppo={"num_steps": 8, "num_minibatches": 1})
    with contextlib.closing(Trainer(config)) as trainer:
        trainer.train()
    assert "learning rate is 0" not in capsys.readouterr().out
    for changes, line in (
        ({"total_steps": 128}, "agent: the learning rate is 0 from step 64 on (schedule_steps)\n"),
        ({"total_steps": 192, "schedule_steps": 192}, ""),
        ({"total_steps": 256, "ppo": dataclasses.replace(trainer.config.ppo, learning_rate_schedule="constant")}, ""),
    ):
        with contextlib.closing(Trainer.resume(str(tmp_path), **changes)) as trainer:
            trainer.train()
        printed = capsys.readouterr().out
        assert line in printed and ("learning rate is 0" in printed) == bool(line)
