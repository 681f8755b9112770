"""Trains both sides of a small game of Tag on one device; about three minutes on two CPU cores."""

from gpu_vecenv.train import TrainConfig, Trainer, evaluate
from gpu_vecenv.train.presets import SMALL_TAG

OUT = "runs/small-tag"

config = TrainConfig("WarpTag-v0", num_envs=64, total_steps=300_000, env_kwargs=SMALL_TAG, out=OUT)
Trainer(config).train()

print("trained against trained:", evaluate(OUT))
print("trained taggers against random runners:", evaluate(OUT, policy_map={"runner": "random"}))
print("random taggers against trained runners:", evaluate(OUT, policy_map={"tagger": "random"}))
