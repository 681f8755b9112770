"""Fills and samples replay buffers on cuda:0: python short_replay.py ENV_ID [FIELD=VALUE ...], FIELD a parameter of the env."""

import ast
import sys

import torch

from gpu_vecenv.train import PPOConfig, Replay, TrainConfig, Trainer

env_id, *words = sys.argv[1:]
env_kwargs = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in words)}
ppo = PPOConfig(num_steps=9, num_minibatches=1, bootstrap_at_time_limit=True)
config = TrainConfig(env_id, num_envs=13, total_steps=10**6, device="cuda:0", env_kwargs=env_kwargs, ppo=ppo)
trainer, added = Trainer(config, quiet=True), 0
replays = [
    (rows, Replay(rows, 20 * rows.num_samples, 700, 0.9, 1, "cuda:0", 3, exponent))
    for rows in trainer.parts.rows.values()
    for exponent in (None, 0.6)
]
for _ in range(4):  # over the end of the ring
    trainer.parts.collector.collect()
    for rows, replay in replays:
        replay.add(rows.samples())
        batch = replay.sample(*(() if replay.exponent is None else (0.5,)))
        if replay.exponent is not None:
            replay.set_priorities(batch, torch.rand(700, device="cuda:0"))
        added += int(batch.valid.any())
trainer.close()
print("sampled", added == 4 * len(replays))
