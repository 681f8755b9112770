"""Trains on cuda:0 for three iterations with a trainer's kernels: python short_train.py KERNELS ENV_ID [FIELD=VALUE ...].

FIELD is a parameter of the env, or ``hidden`` for the sizes of hidden layers.
"""

import ast
import sys

from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer

kernels, env_id, *words = sys.argv[1:]
env_kwargs = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in words)}
network = NetworkConfig(hidden_sizes=env_kwargs.pop("hidden", (64, 64)))
ppo = PPOConfig(num_steps=9, num_epochs=2, num_minibatches=3)
options = {"num_envs": 13, "total_steps": 3 * 13 * 9, "env_kwargs": env_kwargs, "ppo": ppo, "network": network}
trainer = Trainer(TrainConfig(env_id, device="cuda:0", kernels=kernels, graph=kernels == "fused", **options), quiet=True)
trainer.train()
trainer.close()
print("trained", trainer.iteration)
