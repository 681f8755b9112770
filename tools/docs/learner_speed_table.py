"""Writes the tables of docs/training-speed.md, from results of benchmarks; ``--check`` tells staleness."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.docs.generated import short_commit, table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/learner_speed_table.py"
PAGE = ROOT / "docs" / "training-speed.md"
RESULTS = ROOT / "benchmarks" / "results"

OURS = "gpu_vecenv"
MEMORY = {
    "feed-forward": ("feed-forward, 64-64", None),
    "GRU, segments of 16": ("GRU of 64 units, segments of 16 steps", "PureJaxRL, 64 units, sequences of 16"),
    "GRU, sequences of 128": ("GRU of 64 units, whole sequences of 128 steps", "PureJaxRL, 64 units, sequences of 128"),
}
"""Name of a way in the results, its name in the table, and the peer with sequences of the same length."""


def machine_text(machine: Mapping[str, Any]) -> str:
    """The device and the commit of a measurement."""
    return f"{machine.get('gpu', machine['cpu'])}, commit {short_commit(machine['commit'])}"


def memory_block(results: Mapping[str, Any]) -> str:
    """Milliseconds of an iteration of PPO with a memory, by kernels, by torch, and of PureJaxRL."""
    ways, rows = results["ways"], []
    for way, (name, peer) in MEMORY.items():
        ours, torch = (ways[f"{way}, {kind}"]["ms"] for kind in ("auto", "torch"))
        peer_ms = ways[peer]["ms"] if peer in ways else None
        peer_text = "" if peer_ms is None else f"{peer_ms:.1f} ({peer_ms / ours:.0f} times)"
        rows.append([name, f"{ours:.2f}", f"{torch:.1f}", peer_text])
    options = results["options"]
    size = f"CartPole, {options['worlds']:,} worlds x {options['num_steps']} steps, 4 x 4 minibatches"
    header = [size, "kernels of its own, ms an iteration", "torch in a CUDA graph, ms", "PureJaxRL, ms"]
    return f"{table(header, rows)}\n{machine_text(results['machine'])}, medians of {options['rounds']} rounds.\n"


def recurrent_block(results: Mapping[str, Any]) -> str:
    """Steps a second of a core with a memory, by env, and how many times those of sb3-contrib they are."""
    envs, key, lines = results["rows"], "steps_per_core_second", []
    first = next(iter(next(iter(envs.values())).values()))
    for library in next(iter(envs.values())):
        cells = []
        for row in (rows[library] for rows in envs.values()):
            times = ", ".join(f"{each[key]:.1f}" for each in row.get("times_faster", {}).values())
            cells.append(f"{row[key]:,.0f}" + (f" ({times})" if times else ""))
        lines.append([library, *cells])
    text = table(["steps a second of a core", *envs], lines)
    libraries = " and of ".join(first["times_faster"])
    version = results["sb3_contrib"]
    return f"{text}\nIn brackets: times the steps of {libraries}, version {version}. {machine_text(first['machine'])}.\n"


def times_of_torch(rows: list[Mapping[str, Any]], way: str) -> list[float]:
    """Times of iterations by a way of torch over those by fused kernels, of each env and network that has both, in order."""
    seconds: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        if row["mode"] == "training" and row["library"] == OURS and "median_s" in row:
            seconds.setdefault((row["env"], *row["hidden_sizes"]), {})[row["path"]] = row["median_s"]
    return sorted(each[way] / each["fused"] for each in seconds.values() if {way, "fused"} <= each.keys())


def named(row: Mapping[str, Any]) -> str:
    """The env of a row, with the parameters that it has beside their defaults."""
    return ", ".join([f"`{row['env']}`", *(f"`{name}={value}`" for name, value in row.get("params", {}).items())])


def iterations_block(results: Mapping[str, Any]) -> str:
    """Milliseconds of an iteration of PPO by each way to run it, in the order of the results."""
    lines = []
    for row in results["rows"]:
        if row["mode"] != "training" or row["library"] != OURS or "median_s" not in row:
            continue
        size = f"{row['worlds']:,} x {row['num_steps']}, {row['num_epochs']} x {row['num_minibatches']}"
        layers = "-".join(map(str, row["hidden_sizes"]))
        way = row["path"].replace("_8_runs", ", 8 runs side by side").replace("_", ", ")
        ms = f"{1e3 * row['median_s'] * row['num_steps']:.3g}"
        lines.append([named(row), size, layers, way, ms, f"{row['env_steps_per_s']:,.0f}"])
    sizes = "worlds x steps, epochs x minibatches"
    text = table(["environment", sizes, "layers", "way", "ms an iteration", "env steps/s"], lines)
    command = "gpu-vecenv bench --device cuda:0 --modes training"
    times = times_of_torch(results["rows"], "graph")
    cost = f"Torch in a graph takes {times[0]:.1f} to {times[-1]:.1f} times as long as fused kernels.\n" if times else ""
    return f"{text}\n{cost}{machine_text(results['machine'])}, medians of {results['rounds']} rounds of `{command}`.\n"


def off_policy_rows(rows: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """A line for each algorithm and library with one world; the share is our rate over that of the library."""
    lines = []
    for name, row in rows.items():
        algorithm, setting, library = name.split(" ", 2)
        if setting == "one" and "steps_per_second" in row:
            ours = rows[f"{algorithm} one {OURS}"]["steps_per_second"]
            rate = row["steps_per_second"]
            lines.append([algorithm.upper(), library, f"{rate:,.0f}", f"{ours / rate:.2f}"])
    return lines


def off_policy_block(results: Mapping[str, Any]) -> str:
    """Steps a second with one world, and transitions learned a second with many."""
    rows = results["rows"]
    text = table(["algorithm", "library", "steps/s", "gpu_vecenv's rate, times"], off_policy_rows(rows))
    lines = [
        [algorithm.upper(), f"{many['steps_per_second']:,.0f}", f"{many['learned'] / 1e6:.1f} M",
         f"{rows[f'{algorithm} update {OURS}']['gradient_steps_per_second']:,.0f}"]
        for algorithm in ("sac", "td3") for many in [rows[f"{algorithm} many {OURS}"]]
    ]  # fmt: skip
    header = ["algorithm", "steps/s, many worlds", "transitions learned a second", "gradient steps/s of 256, 32 a step"]
    text += f"\n{table(header, lines)}\n"
    seconds = rows[f"sac goal {OURS}"]["seconds_with_setup"]
    text += f"Pendulum reaches a mean return of -200 by SAC in {seconds:.1f} s, set-up included.\n"
    return text + f"{machine_text(rows[f'sac one {OURS}']['machine'])}.\n"


def pqn_block(results: Mapping[str, Any]) -> str:
    """Milliseconds of an iteration of PQN beside purejaxql."""
    rows, libraries = results["rows"], (OURS, f"{OURS}, tf32", "purejaxql")
    lines = [
        [setting, *(f"{rows[name]['ms']:.1f}" if (name := f"{setting}, {library}") in rows else "" for library in libraries)]
        for setting in ("as shipped", "many worlds")
    ]
    text = table(["CartPole", *(f"{library}, ms an iteration" for library in libraries)], lines)
    return f"{text}\n{machine_text(rows[f'as shipped, {OURS}']['machine'])}.\n"


BLOCKS = {
    "iterations": (iterations_block, "training_cuda"),
    "large_iterations": (iterations_block, "training_large_cuda"),
    "memory_speed": (memory_block, "memory_speed"),
    "off_policy_speed": (off_policy_block, "off_policy_speed"),
    "pqn_speed": (pqn_block, "pqn_speed"),
    "recurrent_cpu": (recurrent_block, "recurrent_cpu"),
}
"""Blocks of the page, with their texts and the files of their results."""


def main(arguments: list[str]) -> int:
    """Write the tables, or only say if they are stale; returns the exit status."""
    text = PAGE.read_text()
    for name, (block, file) in BLOCKS.items():
        text = with_block(text, name, COMMAND, block(json.loads((RESULTS / f"{file}.json").read_text())))
    return update_page(PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
