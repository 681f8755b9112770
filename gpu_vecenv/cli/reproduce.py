"""The command ``reproduce``: results of a task by its protocol, in one table, one picture and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import tyro

from gpu_vecenv.cli.key_value import help_option, require_within
from gpu_vecenv.cli.many import MAX_SEEDS
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.config.tasks import EVALUATIONS, TASKS, task_of
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.runner.waiting import AT_ONCE


def reproduce(
    task: tyro.conf.Positional[Annotated[str | None, help_option("with --list none", "[ID]")]] = None,
    *,
    list: bool = False,
    algorithm: Annotated[str | None, help_option("the task's first", "NAME")] = None,
    seeds: int = 10,
    device: str = "auto",
    total_steps: Annotated[int | None, help_option("the task's", "INT")] = None,
    at_once: int = AT_ONCE,
    out: Annotated[Path | None, help_option("runs/reproduce/ID-NAME", "FOLDER")] = None,
) -> None:
    """Train runs of a task by its protocol, evaluate them, and print returns beside random play; write JSON and a picture.

    Example: gpu-vecenv reproduce WarpSimpleSpread-v3 --algorithm mappo --seeds 10

    Args:
        task: id of a task, as --list prints it.
        list: print the tasks, their algorithms and protocols, and train nothing.
        algorithm: algorithm of the task.
        seeds: number of runs, with the training seeds 0, 1, ...
        device: auto, cpu or cuda:0.
        total_steps: steps of a run, summed over worlds; other steps than the task's give another protocol.
        at_once: most runs at a time, 1 to 32; each has memory of its own.
        out: folder of the runs, of results.json, marl_eval.json and returns.png.
    """
    if list:
        if task is not None or algorithm is not None:
            raise ConfigError(f"--list: expected no task and no --algorithm with it, got {task or algorithm}")
        print("\n".join(_lines()))
        return
    if task is None:
        raise ConfigError("expected the id of a task, or --list, got neither")
    from gpu_vecenv.train.run_folder.reproduction import PICTURE, draw_returns, result_lines, save_results
    from gpu_vecenv.train.runner.reproduction import reproduce as results_of

    require_within("--seeds", seeds, 1, MAX_SEEDS)
    of_task = task_of(task)
    name = of_task.algorithm(algorithm)
    folder = Path("runs") / "reproduce" / f"{task}-{name}" if out is None else out
    results = results_of(task, name, seeds, folder, device, total_steps, at_once)
    save_results(results, folder)
    draw_returns(results, folder / PICTURE)
    print("\n".join(result_lines(results)))
    print(f"files: {folder}")


def _lines() -> Iterator[str]:
    """Yield a line for each algorithm of each task."""
    width = max(map(len, TASKS)) + 1
    yield f"{'task':{width}}{'algorithm':12}{'steps':>13}{'worlds':>8}  evaluations"
    for task_id, task in TASKS.items():
        for algorithm in task.algorithms:
            config = resolve(task.config(algorithm))
            during = f"{EVALUATIONS} of {task.episodes} episodes, then {10 * task.episodes}"
            params = "".join(f", {name}={value}" for name, value in task.env_kwargs.items())
            yield f"{task_id:{width}}{algorithm:12}{config.total_steps:13,}{config.num_envs:8,}  {during}{params}"
