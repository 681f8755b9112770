"""Weights that this checkout and another one learn: ``python tools/compare/weights.py FOLDER --device cpu``.

A change of the trainer that must not change results is checked with it. Each tree trains in a process of its own: three
iterations of every preset, and of runs that use the parts of the trainer that presets leave out. A line says for each run if the
weights and the metrics are equal to the bit; the exit status is 1 if one differs.

Make the other tree with ``git worktree add FOLDER COMMIT``. If this checkout is installed in editable mode, its import hook would
serve parts of the other tree as well: name a Python of an environment with the other tree by ``--other-python``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import tyro

ROOT = Path(__file__).resolve().parent.parent.parent
ITERATIONS = 3


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    other: tyro.conf.Positional[Path]
    """Folder of the other checkout."""
    other_python: str = sys.executable
    """Python that runs the other tree."""
    device: str = "cpu"
    """cpu or cuda:0."""
    runs: tuple[str, ...] = ()
    """Compare only runs whose name contains one of these words."""


# ---- one tree ---------------------------------------------------------------------------------------------------------


def backends(device: str) -> dict[str, dict[str, Any]]:
    """Return the options of each way to run the updates, in the words of the tree that is imported."""
    from gpu_vecenv.train import TrainConfig

    if "executor" in {field.name for field in fields(TrainConfig)}:
        ways = {"eager": {"executor": "eager"}, "graph": {"executor": "graph"}, "fused": {"executor": "fused"}}
    else:
        ways = {
            "eager": {"kernels": "torch", "graph": False},
            "graph": {"kernels": "torch", "graph": True},
            "fused": {"kernels": "fused", "graph": True},
        }
    return ways if device != "cpu" else {"eager": ways["eager"], "fused": {**ways["eager"], "policies": "fused"}}


def configs() -> dict[str, Any]:
    """Return a ``TrainConfig`` for each run, without the number of steps."""
    from gpu_vecenv.train import NetworkConfig, PolicyConfig, PPOConfig, TrainConfig
    from gpu_vecenv.train.config.presets import PRESETS

    small = PPOConfig(num_steps=16, num_epochs=2, num_minibatches=2)
    cartpole = TrainConfig("WarpCartPole-v1", num_envs=32, ppo=small)
    town = TrainConfig("tests.train.role_envs:Town-v0", num_envs=8, ppo=small, env_kwargs={"max_episode_steps": 11})
    tag = TrainConfig("WarpTag-v0", num_envs=4, ppo=small, env_kwargs={"episode_length": 20, "num_runners": 12})
    wide = {"env_kwargs": {**tag.env_kwargs, "num_taggers": 3}}
    return {
        **{f"preset of {env_id}": TrainConfig(env_id) for env_id in PRESETS},
        "roles, masks and deaths": replace(town, env_id="tests.train.role_envs:Arena-v0", env_kwargs={}),
        "masks": replace(town, env_id="tests.train.role_envs:Masked-v0"),
        "shared parts": replace(town, env_id="tests.train.role_envs:Pairs-v0"),
        "roles": town,
        "normal actions": replace(cartpole, env_id="WarpPendulum-v1"),
        "minibatch moments": replace(cartpole, ppo=replace(small, normalize_advantages="minibatch", clip_value=False)),
        "KL stop": replace(cartpole, ppo=replace(small, num_epochs=4, target_kl=0.001)),
        "adaptive rate": replace(cartpole, ppo=replace(small, learning_rate_schedule="adaptive", target_kl=0.01)),
        "schedules": replace(cartpole, ppo=replace(small, clip_coef_final=0.1, entropy_coef_final=0.0)),
        "frozen": replace(tag, frozen=("runner",)),
        "random and ranges": replace(tag, policy_map={"tagger": "tagger", "runner[0:5]": "first", "runner[5:12]": "random"}),
        "shared policy": replace(town, env_id="tests.train.role_envs:Pairs-v0", policy_map={"left": "all", "right": "all"}),
        "settings by policy": replace(
            tag, **wide, policies={"tagger": PolicyConfig(ppo={"learning_rate": 1e-3}, network={"hidden_sizes": [32]})}
        ),
        "wide network": replace(cartpole, network=NetworkConfig(hidden_sizes=(256, 256))),
        "staggered": replace(cartpole, stagger_starts=True, ppo=replace(small, normalize_rewards=False)),
    }


def digest(trainer: Any, metrics: dict[str, float]) -> str:
    """Return a hash of all weights, running statistics and metrics that are no times."""
    digest = hashlib.sha256()
    for name, policy in sorted(trainer.policies.items()):
        for key, value in sorted(policy.state_dict().items()):
            digest.update(f"{name}/{key}".encode() + value.detach().cpu().contiguous().numpy().tobytes())
    for key, value in sorted(metrics.items()):
        if "second" not in key and "time" not in key:
            digest.update(f"{key}={value!r}".encode())
    return digest.hexdigest()


def train(config: Any, resumed: bool) -> str:
    """Return the digest of a run of three iterations; a resumed one is saved after the second."""
    from gpu_vecenv.train import Trainer

    trainer = Trainer(config, quiet=True)
    if resumed:
        trainer.train(ITERATIONS - 1)
        with tempfile.TemporaryDirectory() as folder:
            path = trainer.save(Path(folder) / "run.pt")
            trainer.close()
            trainer = Trainer.resume(path, quiet=True)
    metrics = trainer.train()
    result = digest(trainer, metrics)
    trainer.close()
    return result


def with_fused(config: Any) -> Any:
    """Return a config for the CPU whose learning policies are updated by the builds of the fused kernels for the CPU."""
    from gpu_vecenv.train import PolicyConfig, Trainer
    from gpu_vecenv.train.config import resolve

    trainer = Trainer(config, quiet=True)
    names = [name for name in trainer.policies if name not in config.frozen]
    trainer.close()
    policies = {name: config.policies.get(name, PolicyConfig()) for name in names}
    if not register_fused():
        return replace(config, policies={name: replace(policy, algorithm="fused") for name, policy in policies.items()})
    policies = {
        name: replace(policy, algorithm="fused", ppo={}, algorithms={"fused": policy.ppo} if policy.ppo else {})
        for name, policy in policies.items()
    }
    return replace(config, ppo=None, algorithms={"fused": resolve(config).ppo}, policies=policies)


def register_fused() -> bool:
    """Register an algorithm ``fused``, PPO with fused kernels; return True if algorithms have options of their own."""
    try:
        from gpu_vecenv.train.algorithms.registry import register_algorithm as register_builder
    except ImportError:
        from gpu_vecenv.train import PPOConfig, register_algorithm

        with contextlib.suppress(ValueError):  # registered by an earlier run
            register_algorithm("fused", PPOConfig, make_fused)
        return True
    from gpu_vecenv.train.fused.update import FusedPPO

    with contextlib.suppress(ValueError):
        register_builder("fused", FusedPPO)
    return False


def make_fused(policy: Any, options: Any, setup: Any) -> Any:
    """Return PPO with fused kernels."""
    from gpu_vecenv.train.algorithms.ppo import PPO
    from gpu_vecenv.train.config import bootstraps
    from gpu_vecenv.train.fused.update import FusedBackend

    options = replace(options, bootstrap_at_time_limit=bootstraps(options.bootstrap_at_time_limit, setup.spec))
    return PPO(policy, options, setup.rows.shape, setup.seed, setup.device, FusedBackend, setup.schedule_steps)


def with_steps(config: Any, ways: dict[str, Any], device: str, seed: int) -> Any:
    """Return a config of three iterations."""
    from gpu_vecenv.train.config import resolve

    steps = resolve(config).ppo.num_steps
    if ways.get("policies") == "fused":
        ways = {name: value for name, value in ways.items() if name != "policies"}
        config = with_fused(replace(config, device=device, **ways))
    config = replace(config, device=device, seed=seed, **ways)
    full = resolve(config)
    return replace(config, total_steps=ITERATIONS * full.num_envs * steps)


def runs(device: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each run and a function that trains it."""
    from gpu_vecenv.train import train_many

    for name, config in configs().items():
        for way, options in backends(device).items():
            yield f"{name}, {way}", lambda c=config, o=options: train(with_steps(c, o, device, 1), resumed=False)
    plain = configs()["roles" if device == "cpu" else "frozen"]
    for way, options in backends(device).items():
        yield f"resumed, {way}", lambda o=options: train(with_steps(plain, o, device, 2), resumed=True)
        seeds = lambda o=options: {f"seed-{seed}": with_steps(plain, o, device, seed) for seed in range(3)}  # noqa: E731
        yield f"several seeds, {way}", lambda s=seeds: digest_many(train_many(s(), quiet=True))


def digest_many(results: dict[str, Any]) -> str:
    """Return a hash of the metrics of several runs."""
    rows = {name: {k: v for k, v in result.metrics.items() if "second" not in k} for name, result in results.items()}
    return hashlib.sha256(repr(sorted(rows.items())).encode()).hexdigest()


def record(device: str, words: tuple[str, ...]) -> None:
    """Print a JSON line with the name and the digest, or the error, of each run."""
    for name, run in runs(device):
        if words and not any(word in name for word in words):
            continue
        try:
            result = run()
        except Exception as error:  # a way that a policy does not take fails alike in both trees
            result = f"{type(error).__name__}"
        print(json.dumps([name, result]), flush=True)


# ---- both trees -------------------------------------------------------------------------------------------------------


def recorded(folder: Path, python: str, options: Options) -> dict[str, str]:
    """Return the digests of a tree by run."""
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    command, env = [python, __file__, "--record", options.device, *options.runs], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=env, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))


def main(options: Options) -> int:
    """Compare the trees; return 1 if a run differs."""
    here, there = recorded(ROOT, sys.executable, options), recorded(options.other.resolve(), options.other_python, options)
    different = 0
    for name in sorted({*here, *there}):
        of_this, of_other = (digests.get(name, "missing")[:16] for digests in (here, there))
        different += of_this != of_other
        print(f"{'same     ' if of_this == of_other else 'DIFFERENT'}  {name}  {of_this}  {of_other}")
    return min(different, 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2], tuple(sys.argv[3:]))
    else:
        raise SystemExit(main(tyro.cli(Options)))
