"""Trains with Lightning in two processes, which Lightning or torchrun starts: ``lightning_worker.py ACCELERATOR FOLDER``.

A run is trained, evaluated and saved, and resumed from the checkpoint of its third iteration. The results of each process go to a
file in the folder.
"""

import os
import sys
from pathlib import Path

import lightning.pytorch as lightning
import torch
from lightning.pytorch import callbacks
from lightning.pytorch.loggers import CSVLogger

from gpu_vecenv.adapters.lightning import LightningRun
from gpu_vecenv.train import PPOConfig, TrainConfig

TAG = TrainConfig(
    "WarpTag-v0", 4, 4 * 16 * 6, seed=3, env_kwargs={"num_taggers": 2, "num_runners": 5, "episode_length": 20},
    ppo=PPOConfig(num_steps=16, num_minibatches=2, num_epochs=2),
)  # fmt: skip
"""Six iterations, two worlds in each process, two policies."""


class Seen(callbacks.Callback):
    """Keeps the metrics of each iteration, and the evaluations that callbacks can monitor."""

    def __init__(self):
        self.metrics, self.evaluations, self.wrapped = [], [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.metrics.append(outputs)
        self.wrapped.append(trainer.strategy.model is not pl_module)

    def on_validation_end(self, trainer, pl_module):
        self.evaluations.append(float(trainer.callback_metrics["evaluation/tagger"]))


def weights(module):
    states = {name: policy.state_dict() for name, policy in module.run.policies.items()}
    return {f"{name}/{key}": x.cpu().clone() for name, state in states.items() for key, x in state.items()}


def main(accelerator, folder):
    options = {"accelerator": accelerator, "devices": 2, "strategy": "ddp", "max_epochs": -1, "enable_progress_bar": False,
               "default_root_dir": folder}  # fmt: skip
    seen, csv = Seen(), CSVLogger(folder, "csv", "")
    saver = callbacks.ModelCheckpoint(folder, "{step}", every_n_train_steps=3, save_top_k=-1)
    module = LightningRun(TAG, evaluation_episodes=4, iterations_per_step=1)
    trainer = lightning.Trainer(
        **options, callbacks=[seen, saver], logger=csv, log_every_n_steps=1, val_check_interval=2, num_sanity_val_steps=0
    )
    trainer.fit(module)
    tested = trainer.test(module, verbose=False)
    module.run.save(folder / "whole.pt")
    again = LightningRun(TAG, iterations_per_step=1)
    bare = {"logger": False, "enable_checkpointing": False, "limit_val_batches": 0}
    lightning.Trainer(**options, **bare).fit(again, ckpt_path=folder / "step=3.ckpt")
    results = {
        "weights": weights(module), "metrics": seen.metrics, "evaluations": seen.evaluations, "wrapped": seen.wrapped,
        "tested": tested, "resumed": weights(again), "iterations": (module.run.iteration, again.run.iteration),
        "worlds": module.run.parts.spread.num_worlds, "device": module.run.env.device,
        "torchrun": "TORCHELASTIC_RUN_ID" in os.environ,
    }  # fmt: skip
    torch.save(results, folder / f"rank-{trainer.global_rank}.pt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
