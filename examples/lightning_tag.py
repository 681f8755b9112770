"""Trains both roles of Tag with Lightning: the game of WarpDrive's tutorial, 5 taggers against 100 runners.

``python examples/lightning_tag.py`` takes about ten minutes on two CPU cores. Curves and checkpoints are in
``runs/lightning-tag``: ``tensorboard --logdir runs/lightning-tag``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as lightning
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger

from gpu_vecenv.adapters.lightning import LightningRun
from gpu_vecenv.train import TrainConfig, evaluate
from gpu_vecenv.train.config.presets import preset_of

OUT = "runs/lightning-tag"
GAME = {
    "episode_length": 500,
    "max_speed": 1.0,
    "num_acceleration_levels": 10,
    "num_turn_levels": 10,
    "min_turn": -2.35,
    "max_turn": 2.35,
    "num_other_agents_observed": 10,
    "extended_observation": False,
}
"""Parameters of the tutorial's game that differ from those of the preset."""
PPO = replace(preset_of("WarpTag-v0").on("cpu").ppo, num_steps=25)
RUN: dict[str, Any] = {"num_envs": 400, "total_steps": 500 * 500, "ppo": PPO}
"""The tutorial's size: 500 episodes of 500 steps, of which an iteration takes 10,000 in 400 worlds."""


class Progress(Callback):
    """Prints the returns of each evaluation, and the speed."""

    def on_validation_end(self, trainer: lightning.Trainer, pl_module: LightningRun) -> None:
        """Print a line; Lightning calls this."""
        metrics = {name: float(x) for name, x in trainer.callback_metrics.items()}
        returns = ", ".join(f"{role} {metrics[f'evaluation/{role}']:.1f}" for role in ("tagger", "runner"))
        print(f"iteration {metrics['iteration']:.0f}: mean return {returns}; {metrics['steps_per_second']:,.0f} steps/s")


def main(out: str = OUT, limits: dict[str, Any] | None = None, **options: Any) -> dict[str, float]:
    """Train, then measure the taggers.

    Args:
        out: folder of curves and checkpoints.
        limits: further options of Lightning's trainer, such as ``max_steps``.
        **options: options of ``TrainConfig`` in place of those of ``RUN``; ``env_kwargs`` are added to the game's.

    Returns:
        Mean returns of taggers, trained and at random, against runners at random.
    """
    game = GAME | options.pop("env_kwargs", {})
    config = TrainConfig("WarpTag-v0", env_kwargs=game, **{**RUN, **options})
    module = LightningRun(config, iterations_per_epoch=5, evaluation_episodes=8)
    saver = ModelCheckpoint(Path(out, "checkpoints"), monitor="evaluation/tagger", mode="max", save_last=True)
    trainer = lightning.Trainer(
        max_epochs=-1,
        devices=1,
        default_root_dir=out,
        logger=TensorBoardLogger(out, "curves"),
        log_every_n_steps=1,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        callbacks=[Progress(), saver],
        **(limits or {}),
    )
    trainer.fit(module)
    checkpoint = module.run.save(Path(out, "tag.pt"))
    taggers = {"trained": {"runner": "random"}, "random": {"tagger": "random", "runner": "random"}}
    returns = {name: evaluate(checkpoint, 8, policy_map=policies).mean_return["tagger"] for name, policies in taggers.items()}
    print("mean return of taggers against random runners:", returns)
    return returns


if __name__ == "__main__":
    main()
