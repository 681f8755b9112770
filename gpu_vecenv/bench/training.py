"""Whole iterations of this package's trainer: rollout and PPO update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gpu_vecenv.bench.cases import CARTPOLE, OTHERS, TAG, Case
from gpu_vecenv.bench.counting import count, peak_memory
from gpu_vecenv.bench.env_only import prepare
from gpu_vecenv.bench.subject import Maker, Subject
from gpu_vecenv.bench.timing import Local
from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer

TOTAL_STEPS = 10**12
"""Steps of the run, so many that a benchmark never ends it."""


@dataclass(frozen=True)
class Setting:
    """A case, and the hyperparameters of the update."""

    case: Case
    ppo: PPOConfig


SETTINGS = {
    "cuda": (
        Setting(Case(CARTPOLE, 2_048), PPOConfig(num_steps=16, num_minibatches=16)),
        Setting(Case(CARTPOLE, 16_384), PPOConfig(num_steps=32, num_minibatches=4)),
        Setting(Case(TAG, 60), PPOConfig(num_steps=32, num_minibatches=4)),
        Setting(Case(TAG, 500), PPOConfig(num_steps=32, num_minibatches=4)),
        Setting(Case(TAG, 2_000), PPOConfig(num_steps=16, num_minibatches=4)),
        *(Setting(Case(env, 4_096), PPOConfig(num_steps=32, num_minibatches=4)) for env in OTHERS),
    ),
    "cpu": (
        Setting(Case(CARTPOLE, 1_024), PPOConfig(num_steps=16, num_minibatches=4)),
        Setting(Case(TAG, 8), PPOConfig(num_steps=16, num_minibatches=4)),
        *(Setting(Case(env, 64), PPOConfig(num_steps=16, num_minibatches=4)) for env in OTHERS),
    ),
}


def ways(setting: Setting, device: str) -> dict[str, Maker]:
    """Maker of the trainer's iteration."""
    return {"ppo_iteration": lambda: _trainer(setting, device)}


def _trainer(setting: Setting, device: str) -> Subject:
    torch.manual_seed(0)
    case, ppo = setting.case, setting.ppo
    config = TrainConfig(case.env, case.worlds, TOTAL_STEPS, device=device, env_kwargs=case.env_params(), ppo=ppo,
                         threads=torch.get_num_threads())  # fmt: skip
    facts: dict[str, Any] = {"num_epochs": ppo.num_epochs, "num_minibatches": ppo.num_minibatches, "num_steps": ppo.num_steps}
    env, env_facts = prepare(case, device, copy=False)
    env.close()
    with peak_memory(device) as peak:
        trainer = Trainer(config, quiet=True)

        def call() -> None:
            trainer.train(iterations=1)

        call()
    facts |= {**peak, **count(trainer.env, call, ppo.num_steps, device), "floor_bytes": env_facts["floor_bytes"]}
    return Subject(Local(call, device), ppo.num_steps, facts, trainer.close)
