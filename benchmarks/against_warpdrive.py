"""Learning of Tag against WarpDrive's: ``python benchmarks/against_warpdrive.py --warpdrive FOLDER``.

Trains the same game with WarpDrive's own trainer (A2C on its Numba back end, settings of its ``tag_continuous.yaml``) and with
this package's PPO (``TAG_PPO``), on one GPU, one run after the other, each in a process of its own (``tag_training.py``). All
play from the start that WarpDrive's shipped seed draws. ``--num-taggers`` replaces that of the YAML file, and WarpDrive also
trains with more worlds than the file has. Policies are copied during training and play afterwards (``tag_matches.py``): each role
against random opponents, which stay the same while the role learns, and the last policies of all runs against each other.

Writes ``benchmarks/results/against_warpdrive.json``, in which runs that are not run again keep their results, and
``docs/figures/against_warpdrive.png``. ``--draw-only`` draws the picture and prints the table from the file. Copies of policies
stay in ``--work``, so that runs of several calls meet in the last matches. A run that fails leaves its output in the results.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

import shared  # noqa: E402
import tag_matches  # noqa: E402
from tag_training import OURS, WARPDRIVE, Job  # noqa: E402

from gpu_vecenv.render.looks import OTHERS, Look  # noqa: E402

GRACE_SECONDS = 180.0
"""Time that a process may take beside its training."""
TAIL = 20_000
"""Characters of a failed run's output that are kept."""


@dataclass(frozen=True)
class Run:
    """A way to train."""

    label: str
    """Name in the picture."""
    library: str
    """``OURS`` or ``WARPDRIVE``."""
    look: Look
    """Colour and style in the picture."""
    num_envs: int
    """Number of worlds."""
    extended: bool = False
    """Agents also observe themselves."""


RUNS = {
    "warpdrive_shipped": Run("WarpDrive, 100 worlds as shipped", WARPDRIVE, OTHERS[3], 100),
    "warpdrive_2000": Run("WarpDrive, 2,000 worlds", WARPDRIVE, OTHERS[1], 2_000),
    "ours": Run("gpu_vecenv, same observations", OURS, OTHERS[0], 256),
    "ours_extended": Run("gpu_vecenv, agents also observe themselves", OURS, OTHERS[2], 256, extended=True),
}
"""Runs by name."""


@dataclass(frozen=True)
class Options:
    """Options of the script."""

    warpdrive: Path | None = None
    """WarpDrive's source folder; WarpDrive's runs need it, and ours then play from its start."""
    runs: tuple[str, ...] = tuple(RUNS)
    """Names of ``RUNS``."""
    seeds: int = 3
    """Runs of this package, with the seeds 0, 1, ...; WarpDrive has one."""
    seconds: float = 45.0
    """Time limit of a training of this package."""
    warpdrive_seconds: float = 75.0
    """Time limit of a training of WarpDrive."""
    worlds: int | None = None
    """Worlds of this package's runs; None: those of ``RUNS``."""
    total_steps: int = 15_000_000
    """Steps of this package's runs; its learning rate falls to 0 over them."""
    num_taggers: int = 5
    """Taggers in a world."""
    episodes: int = 64
    """Episodes of a match."""
    device: str = "cuda:0"
    """``cuda:0``; ``cpu`` for this package alone."""
    params: str = "{}"
    """Further parameters of Tag as JSON, in place of those of WarpDrive's YAML file."""
    train: str = "{}"
    """Options of this package's runs as JSON, such as ``{"stagger_starts": true}``; others are those of ``tag_training.py``."""
    work: Path = ROOT / "runs" / "against_warpdrive"
    """Folder of copied policies and of the output of the processes."""
    out: Path = ROOT / "benchmarks" / "results" / "against_warpdrive.json"
    """File of the results."""
    figure: Path = ROOT / "docs" / "figures" / "against_warpdrive.png"
    """File of the picture."""
    draw_only: bool = False
    """Run nothing."""


def job_of(name: str, seed: int, options: Options) -> Job:
    """Return the job of a run."""
    run = RUNS[name]
    ours = run.library == OURS
    return Job(
        name=name,
        library=run.library,
        seed=seed,
        num_envs=options.worlds if ours and options.worlds else run.num_envs,
        extended=run.extended,
        num_taggers=options.num_taggers,
        total_steps=options.total_steps,
        seconds=options.seconds if ours else options.warpdrive_seconds,
        device=options.device,
        source=None if options.warpdrive is None else str(options.warpdrive.resolve()),
        file=str(snapshot_file(name, seed, options)),
        launched=time.time(),
        params=json.loads(options.params),
        train=json.loads(options.train),
    )


def snapshot_file(name: str, seed: int, options: Options) -> Path:
    """Return the file of a run's policies."""
    return options.work.resolve() / f"{name}_{seed}.pt"


def process(script: str, content: dict[str, Any], seconds: float, log: Path) -> str:
    """Run a script of this folder with its options in a file.

    Returns:
        The last part of its output if it failed; empty if it did not.
    """
    file = log.with_suffix(".json")
    file.write_text(json.dumps(content))
    command = [sys.executable, str(ROOT / "benchmarks" / script), str(file)]
    with log.open("w") as output:
        try:
            status: object = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, timeout=seconds).returncode
        except subprocess.TimeoutExpired:
            status = f"no end after {seconds:.0f} s"
    text = log.read_text(errors="replace")[-TAIL:]
    return "" if status == 0 else f"{text}\nexit status: {status}"


def trained(name: str, seed: int, options: Options) -> dict[str, Any]:
    """Train one run and play with its copies.

    Returns:
        ``seed``, ``start_up``, ``settings``, ``machine`` and ``points``, see ``tag_matches.curve()``; or ``seed`` and ``error``.
    """
    import torch

    job = job_of(name, seed, options)
    file = Path(job.file)
    file.unlink(missing_ok=True)
    error = process("tag_training.py", dataclasses.asdict(job), job.seconds + GRACE_SECONDS, file.with_suffix(".training.log"))
    if error:
        return {"seed": seed, "error": error}
    content = torch.load(file, weights_only=False)
    facts = {key: content[key] for key in ("start_up", "settings", "machine", "logged", "versions") if key in content}
    facts["game"] = {name: value for name, value in content["game"].items() if not isinstance(value, list)}  # no start positions
    points, error = played([file], options, file.with_suffix(".matches.log"))
    return {"seed": seed, **facts, "points": points} | ({"error": error} if error else {})


def played(files: list[Path], options: Options, log: Path) -> tuple[list[dict[str, Any]], str]:
    """Play with the copies in files; return the results, and the output if it failed."""
    out = log.with_suffix(".results.json")
    matches = {"files": [str(file) for file in files], "worlds": options.episodes, "device": options.device, "out": str(out)}
    error = process("tag_matches.py", matches, 2 * GRACE_SECONDS, log)
    return ([], error) if error else (json.loads(out.read_text()), "")


def measure(options: Options) -> None:
    """Train and play; write the results after each run, so that an interruption leaves what is done."""
    options.work.mkdir(parents=True, exist_ok=True)
    empty: dict[str, Any] = {"benchmark": "against_warpdrive", "runs": {}, "tournament": {}}
    results = json.loads(options.out.read_text()) if options.out.exists() else empty
    for name in options.runs:
        run, rows = RUNS[name], []
        for seed in range(options.seeds if run.library == OURS else 1):
            rows.append(trained(name, seed, options))
            facts = {"label": run.label, "library": run.library, "extended": run.extended}
            results["runs"][name] = {**facts, "seeds": rows}
            write(options.out, results)
            told = rows[-1].get("error") or rows[-1]["points"][-1]
            print(f"{name} seed {seed}: {told}", flush=True)
    files = [file for name in RUNS if (file := snapshot_file(name, 0, options)).exists()]
    if len(files) > 1:
        matches, error = played(files, options, options.work.resolve() / "tournament.log")
        results["tournament"] = {"episodes": options.episodes, "matches": matches} | ({"error": error} if error else {})
        write(options.out, results)


def write(path: Path, results: dict[str, Any]) -> None:
    """Write results as JSON, a seed of a run or a match on a line."""
    between = ",\n  "
    lines = []
    for name, row in results["runs"].items():
        head = json.dumps({key: value for key, value in row.items() if key != "seeds"})
        seeds = between.join(json.dumps(seed) for seed in row["seeds"])
        lines.append(f'  {json.dumps(name)}: {head[:-1]}, "seeds": [\n  {seeds}\n  ]}}')
    runs = ",\n".join(lines)
    matches = between.join(json.dumps(match) for match in results["tournament"].get("matches", []))
    head = json.dumps({key: value for key, value in results["tournament"].items() if key != "matches"})
    head = head[:-1] + (", " if len(head) > 2 else "")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'{{\n "benchmark": {json.dumps(results["benchmark"])},\n "runs": {{\n{runs}\n }},\n'
        f' "tournament": {head}"matches": [\n  {matches}\n ]}}\n}}\n'
    )


def table(results: dict[str, Any]) -> None:
    """Print the last points of each run, and the matches of the last policies."""
    print("\nsteps that a runner stays in the game against random opponents, and runners caught of all; last point of each run")
    for name, row in results["runs"].items():
        for seed in row["seeds"]:
            if not seed.get("points"):
                print(f"{name:<20} seed {seed['seed']}: failed")
                continue
            last = seed["points"][-1]
            taggers, runners = last["taggers"], last["runners"]
            print(
                f"{name:<20} seed {seed['seed']}: start-up {seed['start_up']:5.1f} s, training {last['seconds']:5.1f} s, "
                f"{last['iterations']:6d} iterations, {last['steps']:11,d} steps; taggers {taggers['survival']:5.1f} steps, "
                f"{taggers['caught']:5.1f} caught; runners {runners['survival']:5.1f} steps, {runners['caught']:5.1f} caught"
            )
    for match in results["tournament"].get("matches", []):
        print(f"taggers {match['taggers']:<20} runners {match['runners']:<20} caught {match['caught']:5.1f}")


def random_survival(results: dict[str, Any]) -> float | None:
    """Return the steps that a runner stays in the game if all act at random; None without matches."""
    for match in results["tournament"].get("matches", []):
        if match["taggers"] == match["runners"] == tag_matches.RANDOM:
            return float(match["survival"])
    return None


PANELS = {
    "taggers": ("Taggers against random runners: lower is better", "steps that a runner stays in the game"),
    "runners": ("Runners against random taggers: higher is better", "steps that a runner stays in the game"),
}
"""Matches of the picture, with the title and the label of their panels."""


def draw(results: dict[str, Any], path: Path) -> None:
    """Draw a panel for each role: every seed is a line over the seconds of training."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.style.context("default"):
        figure, grid = pyplot.subplots(1, len(PANELS), figsize=(10.4, 4.6), layout="constrained")
        level = random_survival(results)
        for axes, (match, (title, label)) in zip(grid, PANELS.items(), strict=True):
            for name, row in results["runs"].items():
                shown = [seed for seed in row["seeds"] if seed.get("points")]
                for number, seed in enumerate(shown):
                    seconds = [point["seconds"] for point in seed["points"]]
                    values = [point[match]["survival"] for point in seed["points"]]
                    count = f" ({len(shown)} seeds)" if len(shown) > 1 else ""
                    text = None if number else row["label"] + count
                    axes.plot(seconds, values, lw=1.4, marker="o", ms=3, alpha=0.85, label=text, **RUNS[name].look)
            if level is not None:
                axes.axhline(level, color="black", lw=0.9, ls="--", label="all agents act at random")
            axes.set_xscale("symlog", linthresh=1.0)
            axes.set_xlim(left=0)
            ticks = [0, 1, 3, 10, 30, 100]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.set(title=title, xlabel="seconds of training, without start-up", ylabel=label)
            axes.grid(True, alpha=0.3)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
        shared.save(figure, path)


if __name__ == "__main__":
    shared.run(tyro.cli(Options, description=__doc__), measure, table, draw)
