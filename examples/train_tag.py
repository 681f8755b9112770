"""Trains both roles of a small game of Tag on one device; takes a few minutes on two CPU cores."""

from dataclasses import replace

from gpu_vecenv.train import Trainer, evaluate
from gpu_vecenv.train.config import SMALL_TAG

OUT = "runs/small-tag"

Trainer(replace(SMALL_TAG, out=OUT)).train()

print("trained against trained:", evaluate(OUT))
print("trained taggers against random runners:", evaluate(OUT, policy_map={"runner": "random"}))
print("random taggers against trained runners:", evaluate(OUT, policy_map={"tagger": "random"}))
