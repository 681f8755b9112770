"""Files, table and picture of the results of ``gpu-vecenv reproduce``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpu_vecenv.atomic_file import atomic_file
from gpu_vecenv.render.looks import NEUTRAL, look_of_role
from gpu_vecenv.train.run_folder.intervals import bootstrap_interval, interquartile_mean

SUM = "sum"
"""Name of the return of all agents of a world, beside the names of roles."""

RESULTS_FILE, MARL_EVAL_FILE, PICTURE = "results.json", "marl_eval.json", "returns.png"


def save_results(results: Mapping[str, Any], folder: Path) -> None:
    """Write ``results.json`` without the episodes of the best policies, which are in ``marl_eval.json``.

    Raises:
        OSError: a file cannot be written.
    """
    runs = [{name: value for name, value in run.items() if name != "best"} for run in results["runs"]]
    _write({**results, "runs": runs}, folder / RESULTS_FILE)
    _write(marl_eval(results), folder / MARL_EVAL_FILE)


def _write(content: Mapping[str, Any], path: Path) -> None:
    with atomic_file(path) as partial:
        partial.write_text(json.dumps(content) + "\n", "utf-8")


def marl_eval(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return results in the form that marl-eval reads (github.com/instadeepai/marl-eval).

    Suites are its environments. Evaluations in a training hold one mean, and ``absolute_metrics`` the episodes of the best
    policies of a run. ``return`` is that of all agents of a world, and ``return_ROLE`` that of an agent.
    """
    names = {SUM: "return", **{role: f"return_{role}" for role in results["roles"]}}
    runs = {}
    for run in results["runs"]:
        curve = run["curve"]
        evaluations = {
            f"step_{number}": {
                "step_count": steps,
                "elapsed_time": seconds,
                **{name: [curve["returns"][of][number]] for of, name in names.items()},
            }
            for number, (steps, seconds) in enumerate(zip(curve["steps"], curve["seconds"], strict=True))
        }
        best = {name: run["best"][of] for of, name in names.items()}
        runs[f"seed_{run['seed']}"] = {**evaluations, "absolute_metrics": best}
    return {results["suite"]: {results["task"]: {results["algorithm"]: runs}}}


def final_returns(results: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the mean returns after the training, a number for each run, by role and for ``SUM``."""
    return {name: [run["final"][name] for run in results["runs"]] for name in (*results["roles"], SUM)}


def result_lines(results: Mapping[str, Any]) -> Iterator[str]:
    """Yield a table: interquartile mean over runs, its interval and random play, for an agent of each role and for all agents."""
    runs, time = len(results["runs"]), f"{results['seconds']:.0f} s on {results['device']}"
    yield f"{results['task']}, {results['algorithm']}: {runs} runs of {results['steps']:,} steps, {time}"
    yield f"returns of {results['episodes']} episodes of each run after its training, on seeds that it did not train on:"
    yield f"  {'':24}{'interquartile mean':>20}{'95 % interval':>24}{'random play':>14}"
    for name, values in final_returns(results).items():
        low, high = bootstrap_interval(np.array(values))
        interval = f"{low:.4g} to {high:.4g}" if runs > 1 else "one run"
        random = results["random"][name]
        yield f"  {_agents(name, results['roles']):24}{interquartile_mean(values):>20.4g}{interval:>24}{random:>14.4g}"


def _agents(name: str, roles: Mapping[str, int]) -> str:
    """Return whose return a row of the table has: an agent of a role, or all agents."""
    if name == SUM:
        return f"all {sum(roles.values())} agents"
    return name if roles[name] == 1 else f"{name}, each of {roles[name]}"


def draw_returns(results: Mapping[str, Any], path: Path) -> None:
    """Draw the returns of evaluations in the training, a panel a role: interquartile mean over runs, interval, random play.

    Raises:
        OSError: the file cannot be written.
    """
    from matplotlib.figure import Figure

    roles: Mapping[str, int] = results["roles"]
    figure = Figure(figsize=(5.2 * len(roles), 3.8), layout="constrained")
    figure.suptitle(f"{results['task']}, {results['algorithm']}: {len(results['runs'])} runs")
    for number, (axes, role) in enumerate(zip(figure.subplots(1, len(roles), squeeze=False)[0], roles, strict=True)):
        curves = np.array([run["curve"]["returns"][role] for run in results["runs"]])
        _panel(axes, results["runs"][0]["curve"]["steps"], curves, results["random"][role], number)
        axes.set(title=role, xlabel="steps of all worlds", ylabel="return of an agent")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    with atomic_file(path) as partial:
        figure.savefig(partial, dpi=120)


def _panel(axes: Any, steps: Sequence[int], curves: np.ndarray, random: float, number: int) -> None:
    """Draw the curves of one role, (runs, evaluations)."""
    look = look_of_role(number)
    means = [interquartile_mean(column) for column in curves.T]
    axes.plot(steps, means, marker=".", label="interquartile mean over runs", **look)
    if len(curves) > 1:
        low, high = np.array([bootstrap_interval(column) for column in curves.T]).T
        axes.fill_between(steps, low, high, color=look["color"], alpha=0.2, lw=0, label="95 % interval")
    axes.axhline(random, color=NEUTRAL["color"], lw=0.9, ls="--", label="random play")
    axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0), useMathText=True)
    axes.grid(True, alpha=0.3)
