"""The trainer's commands ``train``, ``eval`` and ``plot``; tyro makes options of their arguments."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gpu_vecenv.cli.key_value import Settings, help_option, parse_settings, require_within
from gpu_vecenv.cli.main import RUN_PARTS, missing_modules
from gpu_vecenv.cli.processes import device_of, require_one_kind, restarted_run, start_processes
from gpu_vecenv.cli.run_options import LearningOptions, RunOptions, given_options, option_name, with_file
from gpu_vecenv.cli.start import import_trainer
from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.render.canvas import has_renderer
from gpu_vecenv.train.config import AUTO, TrainConfig
from gpu_vecenv.train.errors import ConfigError, UnfinishedError
from gpu_vecenv.train.processes.launcher import own_rank
from gpu_vecenv.train.runner.waiting import AT_ONCE

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.one_of_many import RunResult
    from gpu_vecenv.train.runner.trainer import Trainer

RESUMABLE = ("out", "total_steps", "schedule_steps", "device", "threads")
"""Options that a resumed run takes."""


def train(
    env_id: tyro.conf.Positional[Annotated[str | None, help_option("the config's", "[ENV_ID]")]] = None,
    config: Annotated[Path | None, help_option("none", "FILE")] = None,
    resume: bool = False,
    seeds: Annotated[int | None, help_option("one run in the folder itself", "INT")] = None,
    at_once: Annotated[int | None, help_option(str(AT_ONCE), "INT")] = None,
    devices: Annotated[Settings, help_option("that of --device", "DEVICE ...")] = (),
    gpus: Annotated[int | None, help_option("one process", "INT")] = None,
    dry_run: bool = False,
    matches: bool = True,
    video: bool = True,
    live: bool = False,
    live_port: Annotated[int | None, help_option("a free one", "INT")] = None,
    opponent: Annotated[Settings, help_option("none", "ROLE=WHO ...")] = (),
    modules: Annotated[Settings, help_option("none", "MODULE ...")] = (),
    options: Annotated[RunOptions, tyro.conf.arg(name="")] = RunOptions(),  # noqa: B008  (frozen)
    learning: Annotated[LearningOptions, tyro.conf.arg(name="")] = LearningOptions(),  # noqa: B008
) -> None:
    """Train policies, by default with PPO, and write checkpoints, metrics, curves and, if the env can be drawn, a video.

    Example: gpu-vecenv train WarpTag-v0 --env num_taggers=2 num_runners=8 --total-steps 20000 --out runs/tag

    Args:
        env_id: registered env id, such as WarpTag-v0.
        config: YAML file with options of a run, such as the config.yaml of another run; options given here replace its own.
        resume: continue the run in the folder; of the other options only --out, --total-steps, --schedule-steps, --device,
            --threads and --modules may be given.
        seeds: train this number of runs side by side, with the seeds --seed, --seed + 1 and so on, in folders seed-0, seed-1 and
            so on of --out. --resume continues all runs of a folder, without --seeds.
        at_once: with --seeds: most runs at a time, 1 to 32, with --devices on each of them; each has memory of its own.
        devices: with --seeds: devices that the runs take in turn, such as cuda:0 cuda:1.
        gpus: train on this number of GPUs, one process each, by torchrun; --num-envs and --total-steps are totals. With --device
            cpu the processes share the cores.
        dry_run: with --gpus: print the command of torchrun, and start nothing.
        matches: play matches against random play at the end, and print what was learned.
        video: write a video at the end.
        live: serve a page on this machine that shows worlds of the run while it goes on, and print its address.
        live_port: port of that page.
        opponent: roles that act and do not learn; WHO is random, a scripted policy of the env such as flee, or a policy of
            another run, FOLDER[:POLICY][@best|@newest]. A folder alone means its policy of that role.
        modules: modules that register the run's algorithms, networks and env, to import first.
        options: options of the run.
        learning: options of its policies and of how they learn.
    """
    import_trainer()
    from gpu_vecenv.cli import many
    from gpu_vecenv.train.runner.build import import_modules

    import_modules(modules)
    settings = given_options(options, learning)
    require_one_kind(gpus, dry_run, seeds)
    port = _live_port(live, live_port, seeds)
    left_out = say_left_out() | ({"matches"} if not matches else set()) | ({"video"} if not video else set())
    opponents = {role: str(who) for role, who in parse_settings(opponent, "--opponent").items()}
    if resume:
        if opponents:
            raise ConfigError(f"--resume: expected no --opponent, because the run has its opponents, got {' '.join(opponent)}")
        folder = _resumed_folder(env_id, config, seeds, settings)
        if many.holds_runs(folder):
            require_one_kind(gpus, dry_run, folder)
            _live_port(live, live_port, folder)
            return _finish(folder, many.resume_seeds(folder, settings, at_once, devices), left_out)
    else:
        settings = with_file(settings if env_id is None else {"env_id": env_id, **settings}, config)
        if not settings.get("env_id"):
            raise ConfigError(f"expected an env id, such as WarpTag-v0, or a --config with one, got {settings.get('env_id')!r}")
        if settings.get("out") is None:
            settings["out"] = f"runs/{settings['env_id']}"
        if opponents:
            settings = _with_opponents(settings, opponents)
        if seeds is not None:
            results = many.train_seeds(TrainConfig.from_options(settings), seeds, at_once, devices)
            return _finish(settings["out"], results, left_out)
    of_algorithm = str(settings.get("algorithm", "")).rpartition(":")[0]
    for option, value in (("--at-once", at_once), ("--devices", " ".join(devices) or None)):
        if value is not None:
            raise ConfigError(f"{option}: expected it with several runs, as by --seeds, got one run and {value}")
    if start_processes(gpus, dry_run, settings, folder if resume else None):
        return
    if not resume and restarted_run(settings):
        resume, folder, settings = True, str(settings["out"]), {}
    trainer = _trained(settings, folder if resume else None, port)
    if own_rank() == 0:
        show_run(trainer, left_out, [of_algorithm, *modules])


def _live_port(live: bool, port: int | None, several: int | str | None) -> int | None:
    """Return the port of the live page of a run, 0 for a free one; None without a page.

    Args:
        live: the option ``--live``.
        port: the option ``--live-port``.
        several: the option ``--seeds``, or the folder of several runs; None: one run.

    Raises:
        ConfigError: an option has no effect, there are several runs, or the port is none.
        MissingExtraError: packages of the extra "web" are missing.
    """
    if not live and port is not None:
        raise ConfigError(f"--live-port: expected --live with it, got {port} alone")
    if live and several is not None:
        raise ConfigError(f"--live: expected one run, got those of {several!r}; watch one of them in a run of its own")
    if port is not None:
        require_within("--live-port", port, 0, 65535)
    if not live:
        return None
    from gpu_vecenv.backend.wasm import require_compiler
    from gpu_vecenv.web.loopback import require_server

    require_server()
    require_compiler()
    return port or 0


def _with_opponents(settings: Mapping[str, Any], opponents: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of a run that trains against opponents."""
    from gpu_vecenv.train.runner.opponents import with_opponents

    config, _ = with_opponents(TrainConfig.from_options(settings), opponents)
    return {**settings, **{name: config.to_options()[name] for name in ("policy_map", "policies", "frozen", "load_policies")}}


def _trained(settings: Mapping[str, Any], folder: str | None, live: int | None) -> Trainer:
    """Train, in this process or in those that torchrun started, and return the closed trainer.

    Args:
        settings: options of a new run, or those that a resumed one changes.
        folder: folder of a run to resume; None: a new run.
        live: port of the run's live page; None: no page.
    """
    from gpu_vecenv.train.processes.join import joined
    from gpu_vecenv.train.run_folder.progress import Progress
    from gpu_vecenv.train.runner.trainer import Trainer

    device = str(settings.get("device", "auto" if folder is None else device_of(folder)))
    quiet = own_rank() > 0 or settings.get("num_envs") == AUTO  # a search for sizes has a display of its own
    with joined(device) as processes:
        with Progress(sys.stdout, quiet, task="making the env, its kernels and the policies"):
            if folder is None:
                trainer = Trainer(TrainConfig.from_options(settings), processes=processes)
            else:
                trainer = Trainer.resume(folder, processes=processes, **settings)
        with contextlib.closing(trainer):
            if live is not None:
                trainer.serve_live_page(live)
            trainer.train()
    return trainer


def say_left_out() -> set[str]:
    """Return the parts of a run's folder that are left out because a package is missing, and name them."""
    missing = {part: names for part, modules in RUN_PARTS.items() if (names := missing_modules(modules))}
    if missing and own_rank() == 0:
        packages = ", ".join(sorted({name for names in missing.values() for name in names}))
        print(f'without {packages}: the run gets no {" and no ".join(missing)}; pip install "gpu-vecenv[train]"', flush=True)
    return set(missing)


@contextlib.contextmanager
def optional(part: str) -> Iterator[None]:
    """Say why a part of a run's folder is left out if the block fails: the policies that the run learned are saved."""
    try:
        yield
    except BrokenPipeError:  # the reader of the output is gone
        raise
    except (GpuVecenvError, OSError) as error:
        print(f"{part}: none, because {error}", flush=True)


def show_run(trainer: Trainer, left_out: Container[str] = (), modules: Sequence[str] = ()) -> None:
    """Draw curves, and after the end of the run say what it learned, write a video and name commands that may come next.

    Args:
        trainer: the trainer of a run with a folder.
        left_out: parts that ``say_left_out()`` named.
        modules: modules that the commands import, beside that of the env's id.
    """
    from gpu_vecenv.cli.learned import learned_lines, next_lines
    from gpu_vecenv.cli.watch import watch
    from gpu_vecenv.train.run_folder.matches import save_matches
    from gpu_vecenv.train.run_folder.metrics import read_metrics
    from gpu_vecenv.train.runner.matches import play_matches
    from gpu_vecenv.train.runner.watch import FRAMES_WITHOUT_END

    config, folder = trainer.config, str(trainer.config.out)
    if not read_metrics(folder):  # an interrupt in the first iteration
        return
    max_frames = None
    if trainer.finished and "matches" not in left_out:  # an interrupted run ends at once
        with optional("matches against random play"):
            try:
                matches = play_matches(folder, config.device, progress=True)
            except UnfinishedError:  # a video of such an episode would not end either
                max_frames = FRAMES_WITHOUT_END
                raise
            save_matches(matches, Path(folder))
            print("\n".join(learned_lines(matches)), flush=True)
    if "curves" not in left_out:
        with optional("curves"):
            plot(folder)
    if not trainer.finished:
        return
    source = trainer.env.env_spec.kernel.parent
    drawn = has_renderer(source)
    if drawn and "video" not in left_out:
        with optional("video"):
            watch(folder, out=Path(folder) / "video.mp4", device=config.device, beside_random=True, max_frames=max_frames)
    elif not drawn:
        print(f"video: none, because {source} has no render.py")
    print("\n".join(next_lines(config, drawn and "video" not in left_out, modules)))


def _finish(folder: str, results: Mapping[str, RunResult], left_out: Container[str]) -> None:
    """Draw the curves of several runs, print their returns, and raise RunsError if one of them failed."""
    from gpu_vecenv.cli import many

    if any(result.metrics for result in results.values()) and "curves" not in left_out:
        with optional("curves"):
            plot(folder)
    many.print_returns(results)
    many.raise_failures(results)


def _resumed_folder(env_id: str | None, config: Path | None, seeds: int | None, settings: dict[str, Any]) -> str:
    """Return the folder of the run or the runs to resume, and remove it from the options that are given."""
    from gpu_vecenv.cli import many
    from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
    from gpu_vecenv.train.runner.build import import_modules

    fixed = [name for name in settings if name not in RESUMABLE]
    fixed += [name for name, value in (("config", config), ("seeds", seeds)) if value is not None]
    if fixed:
        raise ConfigError(
            f"--resume: expected no other options than {', '.join(map(option_name, RESUMABLE))} and --modules, "
            f"got {', '.join(map(option_name, fixed))}"
        )
    if env_id is None and "out" not in settings:
        raise ConfigError("--resume: expected the run's env id or --out, got none")
    if env_id is not None and ":" in env_id:  # the module name comes from the user, not from the checkpoint
        import_modules([env_id.rpartition(":")[0]])
    folder = str(settings.pop("out", f"runs/{env_id}"))
    run_env_id = many.env_id_of(folder) if many.holds_runs(folder) else saved_config(folder, load_checkpoint(folder)).env_id
    if env_id is not None and run_env_id.rpartition(":")[2] != env_id.rpartition(":")[2]:
        raise ConfigError(f"--resume: expected {run_env_id}, the env of the run in {folder}, got {env_id}")
    return folder


def plot(
    run: tyro.conf.Positional[Annotated[str, help_option("", "RUN")]],
    out: Annotated[str | None, help_option("curves.png in the run's folder", "FILE")] = None,
) -> None:
    """Draw the curves of a run.

    Example: gpu-vecenv plot runs/tag --out tag.svg

    Args:
        run: the run's folder.
        out: picture to write, such as .png, .svg or .pdf.
    """
    from gpu_vecenv.train.run_folder.plot import plot_curves

    print(f"curves: {plot_curves(run, out)}")
