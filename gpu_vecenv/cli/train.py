"""The trainer's commands ``train``, ``eval`` and ``plot``; tyro makes options of their arguments."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Annotated, Any

import tyro

from gpu_vecenv.cli.defaults import by_env, fields
from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings
from gpu_vecenv.render.canvas import has_renderer
from gpu_vecenv.train.config.options import NetworkConfig, PPOConfig, TrainConfig, from_options
from gpu_vecenv.train.errors import ConfigError


def train(
    env_id: tyro.conf.Positional[str],
    num_envs: Annotated[int | None, help_option(by_env("num_envs"), "INT")] = None,
    total_steps: Annotated[int | None, help_option(by_env("total_steps"), "INT")] = None,
    seed: Annotated[int | None, help_option(str(TrainConfig.seed), "INT")] = None,
    device: Annotated[str | None, help_option(f"{TrainConfig.device}; with --resume the run's", "STR")] = None,
    out: Annotated[str | None, help_option("runs/ENV_ID", "FOLDER")] = None,
    resume: bool = False,
    env: Annotated[Settings, help_option("the env's defaults", "KEY=VALUE ...")] = (),
    policy: Annotated[Settings, help_option("a policy of its own for each role", "ROLE=NAME ...")] = (),
    frozen: Annotated[Settings, help_option("none", "NAME ...")] = (),
    load: Annotated[Settings, help_option("none", "NAME=FILE ...")] = (),
    ppo: Annotated[Settings, help_option("", "KEY=VALUE ...", f"hyperparameters by name:\n{fields('ppo')}")] = (),
    network: Annotated[Settings, help_option("", "KEY=VALUE ...", f"network shape by name:\n{fields('network')}")] = (),
    checkpoint_interval: Annotated[int | None, help_option(str(TrainConfig.checkpoint_interval), "INT")] = None,
    threads: Annotated[int | None, help_option(f"{TrainConfig.threads}; with --resume the run's", "INT")] = None,
) -> None:
    """Train policies with PPO, and write checkpoint, metrics, curves and, if the env can be drawn, a video into the run's folder.

    Example: gpu-vecenv train WarpTag-v0 --env num_taggers=2 num_runners=8 --total-steps 20000 --out runs/tag

    Args:
        env_id: registered env id, such as WarpTag-v0.
        num_envs: number of worlds.
        total_steps: steps of the run, summed over worlds.
        seed: seed of worlds, weights and sampling.
        device: auto, cpu or cuda:0.
        out: the run's folder; with --resume also one of its checkpoint files, to go on from there.
        resume: continue the run in the folder; of the other options only --out, --total-steps, --device and
            --threads may be given.
        env: env parameters by name, such as num_taggers=5 num_runners=20.
        policy: policy of each role, such as tagger=tagger runner=random.
        frozen: policies that act and do not learn.
        load: policies that start with the weights of a checkpoint.
        ppo: hyperparameters, fields of gpu_vecenv.train.PPOConfig, such as learning_rate=3e-4.
        network: network shape, fields of gpu_vecenv.train.NetworkConfig, such as hidden_sizes=(64,64).
        checkpoint_interval: iterations between two checkpoints; slow runs also save every minute.
        threads: CPU threads of torch. With 1, results are bitwise the same for any number of cores, and small networks
            are fastest on a busy machine.
    """
    from gpu_vecenv.train.config.presets import resolve
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
    from gpu_vecenv.train.run_folder.metrics import read_metrics
    from gpu_vecenv.train.runner.build import import_modules
    from gpu_vecenv.train.runner.trainer import Trainer

    folder = out if out is not None else f"runs/{env_id}"
    options: dict[str, Any] = {
        "num_envs": num_envs,
        "total_steps": total_steps,
        "seed": seed,
        "device": device,
        "checkpoint_interval": checkpoint_interval,
        "threads": threads,
    }
    options = {name: value for name, value in options.items() if value is not None}
    if resume:
        settings = {"env": env, "policy": policy, "frozen": frozen, "load": load, "ppo": ppo, "network": network}
        used = [*options, *(name for name, value in settings.items() if value)]
        fixed = [f"--{name.replace('_', '-')}" for name in used if name not in ("total_steps", "device", "threads")]
        if fixed:
            raise ConfigError(
                "--resume: expected no other options than --out, --total-steps, --device and --threads, "
                f"got {', '.join(fixed)}"
            )
        if ":" in env_id:  # the module name comes from the user, not from the checkpoint
            import_modules([env_id.rpartition(":")[0]])
        run_env_id = saved_config(folder, load_checkpoint(folder)).env_id
        if run_env_id.rpartition(":")[2] != env_id.rpartition(":")[2]:
            raise ConfigError(f"--resume: expected {run_env_id}, the env of the run in {folder}, got {env_id}")
        trainer = Trainer.resume(folder, **options)
        folder = trainer.config.out or folder
    else:
        config = resolve(
            TrainConfig(
                env_id,
                out=folder,
                **options,
                env_kwargs=parse_settings(env, "--env"),
                policy_map={k: str(v) for k, v in parse_settings(policy, "--policy").items()} or None,
                frozen=frozen,
                load_policies={k: str(v) for k, v in parse_settings(load, "--load").items()},
            )
        )
        ppo_options = {**vars(config.ppo), **parse_settings(ppo, "--ppo")}
        network_options = {**vars(config.network), **parse_settings(network, "--network")}
        config = dataclasses.replace(
            config,
            ppo=from_options(PPOConfig, ppo_options),
            network=from_options(NetworkConfig, network_options),
        )
        trainer = Trainer(config)
    with contextlib.closing(trainer):
        trainer.train()
    if read_metrics(folder):  # no metrics after an interrupt in the first iteration
        plot(folder)
    if trainer.iteration == trainer.num_iterations:  # an interrupted run ends at once
        from gpu_vecenv.cli.watch import watch

        source = trainer.env.env_spec.kernel.parent
        if has_renderer(source):
            watch(folder, device=trainer.config.device)
        else:
            print(f"video: none, because {source} has no render.py")


def eval_run(
    run: tyro.conf.Positional[str],
    episodes: int = 64,
    seed: int = 1,
    device: str = "auto",
    deterministic: bool = False,
    policy: Annotated[Settings, help_option("as in training", "ROLE=NAME ...")] = (),
    threads: Annotated[int | None, help_option("the run's", "INT")] = None,
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
) -> None:
    """Play episodes with the policies of a run, and print mean returns and lengths.

    Example: gpu-vecenv eval runs/tag --episodes 16 --policy runner=random

    Args:
        run: the run's folder, or a checkpoint file.
        episodes: number of worlds, each played for one episode.
        seed: seed of worlds and sampling.
        device: auto, cpu or cuda:0.
        deterministic: take the likeliest actions instead of draws.
        policy: roles with another policy than in training, such as runner=random.
        threads: CPU threads of torch.
        modules: modules that register the run's env, to import first; a checkpoint alone imports none.
    """
    from gpu_vecenv.train.runner.build import import_modules
    from gpu_vecenv.train.runner.evaluation import evaluate

    import_modules(modules)
    policy_map = {role: str(name) for role, name in parse_settings(policy, "--policy").items()}
    changes = {} if threads is None else {"threads": threads}
    result = evaluate(run, episodes, policy_map, deterministic, progress=True, seed=seed, device=device, **changes)
    print(f"{result.episodes} episodes of {result.mean_length:.1f} steps")
    for role, mean_return in result.mean_return.items():
        survival, exits = result.mean_survival[role], result.mean_exits[role]
        print(f"{role}: return {mean_return:.3f}, alive for {survival:.1f} steps, {exits:.2f} left early")


def plot(
    run: tyro.conf.Positional[str], out: Annotated[str | None, help_option("curves.png in the run's folder", "FILE")] = None
) -> None:
    """Draw the curves of a run.

    Example: gpu-vecenv plot runs/tag --out tag.svg

    Args:
        run: the run's folder.
        out: picture to write, such as .png, .svg or .pdf.
    """
    from gpu_vecenv.train.run_folder.plot import plot_curves

    print(f"curves: {plot_curves(run, out)}")
