"""The trainer's commands ``train``, ``eval`` and ``plot``; tyro makes options of their arguments."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings
from gpu_vecenv.cli.run_options import RunOptions, option_name, with_file
from gpu_vecenv.render.canvas import has_renderer
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.errors import ConfigError

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.trainer import Trainer


RESUMABLE = ("out", "total_steps", "schedule_steps", "device", "threads")
"""Options that a resumed run takes."""


def train(
    env_id: tyro.conf.Positional[Annotated[str | None, help_option("the config's", "ENV_ID")]] = None,
    config: Annotated[Path | None, help_option("none", "FILE")] = None,
    resume: bool = False,
    options: Annotated[RunOptions, tyro.conf.arg(name="")] = RunOptions(),  # noqa: B008  (frozen)
) -> None:
    """Train policies with PPO, and write checkpoints, metrics, curves and, if the env can be drawn, a video into a folder.

    Example: gpu-vecenv train WarpTag-v0 --env num_taggers=2 num_runners=8 --total-steps 20000 --out runs/tag

    Args:
        env_id: registered env id, such as WarpTag-v0.
        config: YAML file with options of a run, such as the config.yaml of another run; options given here replace its own.
        resume: continue the run in the folder; of the other options only --out, --total-steps, --schedule-steps, --device
            and --threads may be given.
        options: options of the run.
    """
    from gpu_vecenv.train.run_folder.metrics import read_metrics
    from gpu_vecenv.train.runner.trainer import Trainer

    given = options.given()
    if resume:
        trainer = _resumed(env_id, config, given)
    else:
        given = with_file(given if env_id is None else {"env_id": env_id, **given}, config)
        if not given.get("env_id"):
            raise ConfigError(f"expected an env id, such as WarpTag-v0, or a --config with one, got {given.get('env_id')!r}")
        if given.get("out") is None:
            given["out"] = f"runs/{given['env_id']}"
        trainer = Trainer(TrainConfig.from_options(given))
    folder = str(trainer.config.out)
    with contextlib.closing(trainer):
        trainer.train()
    if read_metrics(folder):  # no metrics after an interrupt in the first iteration
        plot(folder)
    if trainer.finished:  # an interrupted run ends at once
        from gpu_vecenv.cli.watch import watch

        source = trainer.env.env_spec.kernel.parent
        if has_renderer(source):
            watch(folder, device=trainer.config.device)
        else:
            print(f"video: none, because {source} has no render.py")


def _resumed(env_id: str | None, config: Path | None, given: dict[str, Any]) -> Trainer:
    """Return the trainer of the run in a folder."""
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
    from gpu_vecenv.train.runner.build import import_modules
    from gpu_vecenv.train.runner.trainer import Trainer

    fixed = [name for name in given if name not in RESUMABLE] + ["config"] * (config is not None)
    if fixed:
        *first, last = map(option_name, RESUMABLE)
        raise ConfigError(
            f"--resume: expected no other options than {', '.join(first)} and {last}, got {', '.join(map(option_name, fixed))}"
        )
    if env_id is None and "out" not in given:
        raise ConfigError("--resume: expected the run's env id or --out, got none")
    if env_id is not None and ":" in env_id:  # the module name comes from the user, not from the checkpoint
        import_modules([env_id.rpartition(":")[0]])
    folder = given.pop("out", f"runs/{env_id}")
    run_env_id = saved_config(folder, load_checkpoint(folder)).env_id
    if env_id is not None and run_env_id.rpartition(":")[2] != env_id.rpartition(":")[2]:
        raise ConfigError(f"--resume: expected {run_env_id}, the env of the run in {folder}, got {env_id}")
    return Trainer.resume(folder, **given)


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
