"""Runs that several processes train as one process does, and their results."""

import contextlib
import dataclasses
import hashlib

import fused_runs
import ghosts  # noqa: F401  (registers Ghost-v0)
import pytest
import role_envs  # noqa: F401  (registers Arena-v0, Pairs-v0 and Town-v0)
import torch

from gpu_vecenv.train import NetworkConfig, PPOConfig, PQNConfig, TrainConfig, Trainer

GHOSTS = TrainConfig(
    "Ghost-v0", num_envs=8, total_steps=8 * 6 * 2, device="cpu", stagger_starts=False, env_kwargs={"max_episode_steps": 20},
    ppo=PPOConfig(num_steps=6, num_epochs=2, num_minibatches=1, learning_rate=1e-3, target_kl=0.5),
    network=NetworkConfig(hidden_sizes=(8,)),
)  # fmt: skip
"""Two iterations with agents that leave or are absent, and with masks."""


def changed(config, **ppo):
    return dataclasses.replace(config, ppo=dataclasses.replace(config.ppo, **ppo))


SHARDED = changed(dataclasses.replace(GHOSTS, shards=4), num_minibatches=3)
"""Three minibatches, whose transitions one process deals as four do."""
ARENA = dataclasses.replace(SHARDED, env_id="Arena-v0", network=NetworkConfig((8,), critic="observations"))
MEMORY = NetworkConfig((), memory="gru", memory_size=32)
PQN = dataclasses.replace(
    SHARDED, ppo=None, algorithm="pqn", algorithms={"pqn": PQNConfig(num_steps=6, num_minibatches=2)},
    network=NetworkConfig((8,)),
)  # fmt: skip
TEAMS = {"pqn": PQNConfig(num_steps=6, num_minibatches=2, mixing="vdn")}
BOTH = {"red": "both", "blue": "both"}

CASES = {
    "one minibatch": GHOSTS,
    "shards": SHARDED,
    "torch": dataclasses.replace(SHARDED, kernels="torch"),
    "advantages of minibatches": changed(SHARDED, normalize_advantages="minibatch", clip_value=True),
    "advantages as they are": changed(SHARDED, normalize_advantages="none", normalize_rewards=False),
    "adaptive rate": changed(SHARDED, learning_rate_schedule="adaptive", target_kl=1e-4),
    "stop by divergence": changed(SHARDED, target_kl=1e-6),
    "memory": dataclasses.replace(changed(SHARDED, sequence_length=3), network=MEMORY),
    "memory, whole rollouts": dataclasses.replace(changed(SHARDED, num_minibatches=2), network=MEMORY),
    "shared part": dataclasses.replace(SHARDED, env_id="Pairs-v0"),
    "one policy of two roles": dataclasses.replace(SHARDED, policy_map=BOTH),
    "central critic": ARENA,
    "metrics of episodes": dataclasses.replace(SHARDED, env_id="Town-v0"),
    "fused": fused_runs.fused(SHARDED),
    "fused, advantages of minibatches": fused_runs.fused(changed(SHARDED, normalize_advantages="minibatch")),
    "fused, split": fused_runs.fused(dataclasses.replace(SHARDED, network=NetworkConfig((136, 16)))),
    "fused, memory": fused_runs.fused(dataclasses.replace(changed(SHARDED, sequence_length=3), network=MEMORY)),
    "pqn": PQN,
    "pqn, teams": dataclasses.replace(PQN, algorithms=TEAMS, policy_map=BOTH),
}


def run(config, processes=None, reasons=None):
    """Train, and return weights, statistics and metrics; ``reasons`` gets why there was no graph."""
    trainer = Trainer(config, quiet=True, processes=processes)
    metrics = []
    for _ in range(trainer.num_iterations):
        trainer.launch()
        metrics.append({name: x for name, x in trainer.finish().items() if name != "steps_per_second"})
    state = {name: {key: x.clone() for key, x in policy.state_dict().items()} for name, policy in trainer.policies.items()}
    if reasons is not None:
        executor = trainer.executor
        reasons.append("" if getattr(executor, "_graph", None) is not None else getattr(executor, "reason", "") or "eager")
    trainer.close()
    return state, metrics


def assert_close(got, wanted):
    """Compare weights, statistics and metrics; where a gradient is nearly 0, the direction of Adam's step is rounding."""
    state, metrics = got
    for name, policy in wanted[0].items():
        for key, x in policy.items():
            torch.testing.assert_close(state[name][key], x, rtol=1e-5, atol=1e-6, msg=f"{name}/{key}")
    for one, other in zip(metrics, wanted[1], strict=True):
        assert one.keys() == other.keys()
        for name, x in other.items():
            assert one[name] == pytest.approx(x, rel=1e-4, abs=1e-5, nan_ok=True), name


def of_cases(names, processes=None):
    return {name: run(CASES[name], processes) for name in names}


def hashes(processes=None, device="cpu"):
    """Hashes of the steps of each world of a run by given actions: all that the env gives, by number of the world."""
    count, rank = (1, 0) if processes is None else (processes.count, processes.rank)
    worlds = 8 // count
    found = [hashlib.sha256() for _ in range(worlds)]
    config = dataclasses.replace(GHOSTS, device=device)
    with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
        env, agents = trainer.env, trainer.env.num_agents
        env.unbind()
        env.reset(seed=3)
        generator = torch.Generator().manual_seed(0)
        for _ in range(50):
            actions = torch.randint(0, 3, (8, agents, 2), generator=generator, dtype=torch.int32)
            own = actions[rank * worlds : (rank + 1) * worlds]
            parts = [own[:, rows.start // worlds : rows.stop // worlds].flatten(0, 1) for rows in env.role_rows.values()]
            results = [x.cpu() for x in env.step(torch.cat(parts).to(env.device))[:4]]
            for world in range(worlds):
                for rows in env.role_rows.values():
                    for x in results:
                        found[world].update(x[rows].unflatten(0, (worlds, -1))[world].contiguous().numpy().tobytes())
    return [each.hexdigest() for each in found]
