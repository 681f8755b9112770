"""Learning with a memory: ``python benchmarks/memory.py --workers 16``.

CartPole and Pendulum hide their velocities (env parameter ``observe_velocity=False``), and Recall asks for a cue of 64 steps
before. Each is trained with its preset by a feed-forward network and by networks with a GRU and an LSTM, CartPole and Pendulum
also by a feed-forward network that observes velocities. Each case has five seeds, and each run a process and one thread. Runs of
Pendulum with a memory learn from segments of 16 steps, the others from whole rollouts.

Stated beforehand: a memory reaches the full observation if its mean return, as a share of the range from random actions to the
feed-forward network with the full observation, is at least 0.9; the feed-forward network without velocities does not reach it.
Recall has no full observation: its range ends at 1, the return of right answers alone.

Writes ``benchmarks/results/memory.json``, in which cases that are not run again keep their results, and
``docs/figures/memory.png``. ``--draw-only`` draws the picture and prints the table from the file.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import learning  # noqa: E402
import shared  # noqa: E402

from gpu_vecenv.render.looks import OTHERS  # noqa: E402
from gpu_vecenv.train import TrainConfig  # noqa: E402
from gpu_vecenv.train.config.presets import preset_of  # noqa: E402
from gpu_vecenv.train.run_folder.intervals import student_quantile  # noqa: E402

ENVS = {"CartPole": "WarpCartPole-v1", "Pendulum": "WarpPendulum-v1", "Recall": "WarpRecall-v0"}
FULL, HIDDEN, GRU, LSTM = "all observed", "velocities hidden", "velocities hidden, GRU", "velocities hidden, LSTM"
OF_RECALL = {"no memory": None, "GRU": "gru", "LSTM": "lstm"}
WAYS = {"CartPole": (FULL, HIDDEN, GRU, LSTM), "Pendulum": (FULL, HIDDEN, GRU, LSTM), "Recall": tuple(OF_RECALL)}
"""Ways to observe and remember, by env."""

LOOKS = {GRU: OTHERS[0], LSTM: OTHERS[1], FULL: OTHERS[2], HIDDEN: OTHERS[3]}
LOOKS |= {"GRU": OTHERS[0], "LSTM": OTHERS[1], "no memory": OTHERS[3]}
"""Colours and styles of ways."""

SEGMENTS = {"Pendulum": 16}
"""Steps of a sequence; other envs learn from whole rollouts."""

ENOUGH = 0.9
"""Least share of the range from random actions to the full observation."""


def config_of(env: str, way: str) -> TrainConfig:
    """Return the options of a case: the preset, with what is hidden and remembered."""
    env_id = ENVS[env]
    preset = preset_of(env_id)
    ppo, network = preset.ppo, preset.network
    if way in OF_RECALL:
        return TrainConfig(env_id, ppo=ppo, network=dataclasses.replace(network, memory=OF_RECALL[way]))
    if way in (GRU, LSTM):
        network = dataclasses.replace(network, memory="gru" if way == GRU else "lstm")
        ppo = dataclasses.replace(ppo, sequence_length=SEGMENTS.get(env))
    return TrainConfig(env_id, env_kwargs={"observe_velocity": way == FULL}, ppo=ppo, network=network)


CASES = {f"{env}: {way}": config_of(env, way) for env, ways in WAYS.items() for way in ways}
"""Runs by name."""


@dataclass(frozen=True)
class Options(learning.Options):
    """Options of the script."""

    cases: tuple[str, ...] = tuple(CASES)
    """Names of cases."""
    out: Path = ROOT / "benchmarks" / "results" / "memory.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "memory.png"
    """File of the picture."""


def measure(options: Options) -> None:
    """Run all cases and seeds."""
    learning.measure(options, CASES, "memory")


def means(row: dict[str, Any], random: bool = False) -> np.ndarray:
    """Return the mean return of each seed's evaluation, with trained or random actions."""
    return np.array([learning.match(run, *(["agent"] if random else []))["agent"] for run in learning.finished(row)])


def shares(results: dict[str, Any], env: str) -> dict[str, float]:
    """Return each way's share of the range from random actions to the full observation; NaN if the latter was not run."""
    rows = {way: results["envs"].get(f"{env}: {way}", {"runs": []}) for way in WAYS[env]}
    rows = {way: row for way, row in rows.items() if learning.finished(row)}
    least = next((means(row, random=True).mean() for row in rows.values()), math.nan)
    best = 1.0 if env == "Recall" else means(rows[FULL]).mean() if FULL in rows else math.nan
    return {way: float((means(row).mean() - least) / (best - least)) for way, row in rows.items()}


def table(results: dict[str, Any]) -> None:
    """Print the final returns of each case, and their share of the range from random actions to the full observation."""
    print("\nmean return of the last evaluation: mean over seeds and its 95 % interval; share of the full observation's range")
    for env in ENVS:
        for way, share in shares(results, env).items():
            values = means(results["envs"][f"{env}: {way}"])
            enough = "" if math.isnan(share) else f"{share:6.2f}  {'reaches it' if share >= ENOUGH else 'does not reach it'}"
            print(f"{env:<10} {way:<24} {len(values)} seeds {learning.shown(list(values)):>19} {enough}")


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw a panel for each env: the mean curve of each case, with its 95 % interval."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(ENVS), figsize=(4.6 * len(ENVS), 3.6), layout="constrained", squeeze=False)
    for axes, env in zip(panels.flat, ENVS, strict=True):
        for way in WAYS[env]:
            runs = learning.finished(results["envs"].get(f"{env}: {way}", {"runs": []}))
            if not runs:
                continue
            points = min(len(run["curve"]["steps"]) for run in runs)
            curves = np.array([run["curve"]["recent_return"]["agent"][:points] for run in runs], dtype=float)
            steps, mean = runs[0]["curve"]["steps"][:points], curves.mean(0)
            axes.plot(steps, mean, lw=1.4, label=way, **LOOKS[way])
            if len(runs) > 1:
                half = student_quantile(0.975, len(runs) - 1) * curves.std(0, ddof=1) / math.sqrt(len(runs))
                axes.fill_between(steps, mean - half, mean + half, color=LOOKS[way]["color"], alpha=0.2, lw=0)
        shared.label(axes, env, "return, last 100 episodes")
        axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)  # below, off the curves
    shared.save(figure, path)


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, draw)
