"""Hyperparameters that change during a run."""

import pytest

from gpu_vecenv.train import PPOConfig, TrainConfig
from gpu_vecenv.train.algorithms.schedules import scalars_at
from gpu_vecenv.train.config import resolve

MOVING = PPOConfig(learning_rate=0.4, entropy_coef=0.2, entropy_coef_final=0.1, clip_coef=0.3, clip_coef_final=0.1)


@pytest.mark.parametrize(
    ("progress", "want"),
    [(0.0, (0.4, 0.2, 0.3)), (0.25, (0.3, 0.175, 0.25)), (1.0, (0.0, 0.1, 0.1)), (7.0, (0.0, 0.1, 0.1))],
)
def test_schedules_are_linear_and_stay_at_their_end(progress, want):
    assert scalars_at(MOVING, progress) == pytest.approx(want)


@pytest.mark.parametrize("schedule", ["constant", "adaptive"])
def test_without_end_values_everything_is_constant(schedule):
    ppo = PPOConfig(learning_rate=0.4, learning_rate_schedule=schedule, target_kl=0.1, entropy_coef=0.2, clip_coef=0.3)
    assert scalars_at(ppo, 0.0) == scalars_at(ppo, 0.9) == (0.4, 0.2, 0.3)


def test_a_longer_run_keeps_the_steps_of_its_schedules():
    first = resolve(TrainConfig("WarpCartPole-v1", total_steps=1_000))
    stored = TrainConfig.from_options({**first.to_options(), "total_steps": 5_000})
    assert (resolve(stored).total_steps, resolve(stored).schedule_steps) == (5_000, 1_000)
    assert resolve(TrainConfig("WarpCartPole-v1", total_steps=1_000, schedule_steps=300)).schedule_steps == 300
