"""Cases of training: a case, the hyperparameters of the trainer and, for goals, the mean return to reach."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from gpu_vecenv.bench.cases import CARTPOLE, CONTINUOUS, OTHERS, TAG, Case
from gpu_vecenv.registration import IDS
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig
from gpu_vecenv.train.config.presets import preset_of

PUREJAXRL = "PureJaxRL's, tuned anew"
"""Title of the hyperparameters of PureJaxRL."""

TOTAL_STEPS = 10**12
"""Steps of the run, so many that a benchmark never ends it."""


@dataclass(frozen=True)
class Setting(Case):
    """A case with the hyperparameters of an update and the shape of the networks."""

    ppo: PPOConfig = field(default_factory=PPOConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)

    @property
    def name(self) -> str:
        """Name of the case, steps of a rollout, epochs x minibatches and widths of the hidden layers."""
        ppo, sizes = self.ppo, "-".join(map(str, self.network.hidden_sizes))
        return f"{super().name}, {ppo.num_steps} steps, {ppo.num_epochs} x {ppo.num_minibatches}, {sizes}"

    @property
    def entries(self) -> dict[str, Any]:
        """Entries that every row of the case has, peers' rows as well."""
        ppo = self.ppo
        return {
            "num_steps": ppo.num_steps, "num_epochs": ppo.num_epochs, "num_minibatches": ppo.num_minibatches,
            "hidden_sizes": list(self.network.hidden_sizes),
        }  # fmt: skip

    def all_params(self) -> dict[str, Any]:
        """Env parameters, with defaults of the spec for those of the preset, so that a case does not depend on the preset."""
        module = IDS[self.env]["vector_entry_point"].partition(":")[0]
        defaults = importlib.import_module(f"{module}.spec").SPEC.resolve({})
        return {name: defaults[name] for name in preset_of(self.env).env_kwargs} | self.env_params()

    def config(self, device: str, threads: int, **more: Any) -> TrainConfig:
        """Options of a run that a benchmark never ends, without a folder; ``more`` replaces some of them."""
        options: dict[str, Any] = {
            "total_steps": TOTAL_STEPS,
            "device": device,
            "env_kwargs": self.all_params(),
            "threads": threads,
        }
        return TrainConfig(self.env, self.worlds, ppo=self.ppo, network=self.network, **(options | more))


@dataclass(frozen=True)
class Goal(Setting):
    """A setting that is trained until the mean return of the last 100 episodes reaches ``goal``, seed after seed.

    ``title`` names where the hyperparameters come from. ``total_steps`` is the length of the run, at whose end schedules end and
    after which a seed has failed.
    """

    title: str = ""
    goal: float = 475.0
    seeds: int = 1
    total_steps: int = 1

    @property
    def name(self) -> str:
        """Name of the setting, its title and the return to reach."""
        return f"{super().name}, {self.title}, to {self.goal:g}"

    @property
    def entries(self) -> dict[str, Any]:
        """Entries that every row of the case has, peers' rows as well."""
        return {**super().entries, "title": self.title, "goal": self.goal, "total_steps": self.total_steps}


def of_preset(env: str, seeds: int, only: tuple[str, ...] = ()) -> Goal:
    """The preset of an env on a GPU as a goal, the same one on every device."""
    preset = preset_of(env)
    return Goal(
        env, preset.num_envs, preset.env_params({}), only=only, ppo=preset.ppo, network=preset.network, title="preset",
        seeds=seeds, total_steps=preset.total_steps,
    )  # fmt: skip


def four_by_four(num_steps: int) -> PPOConfig:
    """Four epochs of four minibatches."""
    return PPOConfig(num_steps=num_steps, num_epochs=4, num_minibatches=4)


EXTENDED, NEAR = {"extended_observation": True}, {"use_full_observation": False}
"""Observations with which the roles of Tag and of grid Tag learn."""

FUSED_OR_GRAPH = ("fused", "graph")
LIKE_PUREJAXRL = PPOConfig(
    num_steps=16, num_epochs=4, num_minibatches=16, learning_rate=2.5e-3, entropy_coef=0.01, normalize_advantages="minibatch",
    normalize_observations=False, normalize_rewards=False, bootstrap_at_time_limit=False,
)  # fmt: skip
"""PureJaxRL's hyperparameters for CartPole with more worlds, more minibatches and a larger rate than in its script, with which it
reaches a mean return of 475 in the shortest time that a few tries found."""

SETTINGS: dict[str, tuple[Setting, ...]] = {
    "cuda": (
        Setting(CARTPOLE, 2_048, only=(*FUSED_OR_GRAPH, "eager", "fused_8_runs"), ppo=four_by_four(128)),
        *(Setting(env, 2_048, only=FUSED_OR_GRAPH, ppo=four_by_four(128))
          for env in ("WarpAcrobot-v1", "WarpPendulum-v1", CONTINUOUS)),
        Setting("WarpGridTag-v0", 10_000, NEAR, only=FUSED_OR_GRAPH, ppo=four_by_four(32)),
        Setting(TAG, 2_000, EXTENDED, only=FUSED_OR_GRAPH, ppo=four_by_four(16)),
        Setting(
            TAG, 2_000, EXTENDED, only=(*FUSED_OR_GRAPH, "graph_tf32", "graph_bfloat16"), network=NetworkConfig((256, 256)),
            ppo=PPOConfig(num_steps=16, num_epochs=1, num_minibatches=4),
        ),
        Setting(TAG, 1_000, {"use_full_observation": True}, only=FUSED_OR_GRAPH, ppo=four_by_four(16)),
        *(Setting("WarpRice-v0", 1_000, params, only=FUSED_OR_GRAPH, ppo=four_by_four(20))
          for params in ({}, {"negotiation_on": True})),
        Setting("WarpCovid-v0", 1_000, only=FUSED_OR_GRAPH, ppo=four_by_four(54)),
    ),
    "cpu": (
        Setting(CARTPOLE, 1_024, ppo=four_by_four(16)),
        Setting(TAG, 8, EXTENDED, ppo=four_by_four(16)),
        *(Setting(env, 64, NEAR if env == "WarpGridTag-v0" else {}, ppo=four_by_four(16)) for env in OTHERS),
    ),
}  # fmt: skip

GOALS: dict[str, tuple[Goal, ...]] = {
    "cuda": (
        of_preset(CARTPOLE, seeds=16, only=("fused",)),
        Goal(CARTPOLE, 2_048, only=FUSED_OR_GRAPH, ppo=LIKE_PUREJAXRL, title=PUREJAXRL, seeds=5,
             total_steps=3_000_000),
    ),
    "cpu": (of_preset(CARTPOLE, seeds=3),),
}  # fmt: skip
