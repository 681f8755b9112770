"""Trains for three iterations with a trainer's kernels: python short_train.py KERNELS ENV_ID [FIELD=VALUE ...].

FIELD is a parameter of the env; or ``hidden`` for the sizes of hidden layers, ``memory`` for 32 units of it, ``critic`` for its
inputs, ``algorithm`` for another one than PPO, ``mixing`` for that of PQN, ``priorities`` for their exponent; or ``device``, by
default cuda:0.
"""

import ast
import sys

from gpu_vecenv.train import DDPGConfig, NetworkConfig, PPOConfig, PQNConfig, SACConfig, TD3Config, TrainConfig, Trainer

kernels, env_id, *words = sys.argv[1:]
env_kwargs = {name: ast.literal_eval(value) for name, _, value in (word.partition("=") for word in words)}
device, algorithm = env_kwargs.pop("device", "cuda:0"), env_kwargs.pop("algorithm", "ppo")
memory = {"memory": env_kwargs.pop("memory"), "memory_size": 32} if "memory" in env_kwargs else {}
hidden, critic = env_kwargs.pop("hidden", (64, 64)), env_kwargs.pop("critic", "own")
network = NetworkConfig(hidden_sizes=hidden, critic=critic, **memory)
ppo = PPOConfig(num_steps=9, num_epochs=2, num_minibatches=3, sequence_length=3 if memory else None)
off_policy = {
    "num_steps": 9, "gradient_steps": 2, "batch_size": 33, "replay_size": 3000, "learning_starts": 13, "n_steps": 3,
    "priority_exponent": env_kwargs.pop("priorities", None),
}  # fmt: skip
options = {
    "ppo": lambda: ppo,
    "pqn": lambda: PQNConfig(num_steps=9, num_epochs=2, num_minibatches=3, mixing=env_kwargs.pop("mixing", "none")),
    **{name: lambda cls=cls: cls(**off_policy) for name, cls in (("sac", SACConfig), ("td3", TD3Config), ("ddpg", DDPGConfig))},
}[algorithm]()
learning = {"ppo": options} if algorithm == "ppo" else {"algorithm": algorithm, "algorithms": {algorithm: options}}
config = TrainConfig(
    env_id, 13, 3 * 13 * 9, device=device, kernels=kernels, graph=kernels == "fused" and device != "cpu", env_kwargs=env_kwargs,
    network=network, **learning,
)  # fmt: skip
trainer = Trainer(config, quiet=True)
trainer.train()
trainer.close()
print("trained", trainer.iteration)
