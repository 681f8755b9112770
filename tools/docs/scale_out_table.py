"""Writes the tables of docs/design/scale-out.md from ``benchmarks/scale_out.py`` and the measured iterations of one H100.

``--check`` only says if the page is stale.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))
import scale_out  # noqa: E402

from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig  # noqa: E402
from gpu_vecenv.train.config import resolve  # noqa: E402
from gpu_vecenv.train.runner.build import make_env  # noqa: E402
from gpu_vecenv.train.runner.run_state import RunState  # noqa: E402
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/scale_out_table.py"
PAGE = ROOT / "docs" / "design" / "scale-out.md"
MEASURED = ROOT / "benchmarks" / "results" / "training_cuda.json"
RANKS = (8, 64)
ENVS = ("WarpCartPole-v1", "WarpGridTag-v0", "WarpTag-v0")


def gradients(row: dict[str, Any]) -> list[int]:
    """Return the numbers in the gradient of each policy of a measured run."""
    config = TrainConfig(
        row["env"],
        num_envs=1,
        device="cpu",
        env_kwargs=row["env_kwargs"],
        network=NetworkConfig(tuple(row["hidden_sizes"])),
        ppo=PPOConfig(num_steps=2, num_minibatches=1),
    )
    with contextlib.closing(make_env(resolve(config))) as env:
        policies = RunState(env, resolve(config)).policies
        return [sum(x.numel() for x in policy.parameters() if x.requires_grad) for policy in policies.values()]


def scaling_rows() -> list[list[str]]:
    """A line for each measured iteration of fused kernels, and of the larger network."""
    rows = []
    for row in json.loads(MEASURED.read_text())["rows"]:
        if row["mode"] != "training" or row["path"] != "fused" or row["env"] not in ENVS:
            continue
        sizes = gradients(row)
        steps = row["num_epochs"] * row["num_minibatches"]
        seconds = row["worlds"] * row["num_steps"] / row["env_steps_per_s"]
        largest, count = scale_out.FLOAT * max(sizes), steps * len(sizes)
        each = [scale_out.all_reduce_seconds(ranks, largest) for ranks in RANKS]
        shares = [scale_out.efficiency(ranks, seconds, largest, count) for ranks in RANKS]
        network = "-".join(map(str, row["hidden_sizes"]))
        rows.append(
            [
                f"{row['env']}, {row['worlds']:,} x {row['num_steps']}, {network}",
                f"{1e3 * seconds:.3g}",
                f"{largest / 1e3:.0f} kB",
                f"{count}",
                *(f"{1e6 * each_s:.0f}" for each_s in each),
                *(f"{100 * share:.0f} %" for share in shares),
            ]
        )
    return rows


def blocks() -> dict[str, str]:
    """The tables by the name of their block."""
    header = ["run on each GPU", "ms an iteration", "gradient", "all-reduces"]
    header += [f"us each, {ranks} GPUs" for ranks in RANKS] + [f"efficiency, {ranks} GPUs" for ranks in RANKS]
    ring = scale_out.LAUNCH_S + scale_out.ring_seconds(64, 40e3, scale_out.NETWORK)
    levels = scale_out.all_reduce_seconds(64, 40e3)
    flat = f"40 kB on 64 GPUs take {1e6 * ring:.0f} us in one ring through the network, and {1e6 * levels:.0f} us in two levels."
    shares = (1 / 64, 1 / 8, 1.0, 8.0)
    speeds = [[f"{share:g}", *(f"{scale_out.speed_up(ranks, share):.1f}" for ranks in RANKS)] for share in shares]
    ratios = [
        [f"{signal:g}", *(f"{scale_out.drift(signal, ranks) / scale_out.drift(signal, 1):.1f}" for ranks in RANKS)]
        for signal in (0.01, 0.1, 1.0)
    ]
    of_ranks = [f"{ranks} GPUs" for ranks in RANKS]
    return {
        "scaling": f"{table(header, scaling_rows())}\n{flat}\n",
        "batches": table(["batch of a GPU / noise scale", *of_ranks], speeds),
        "local": table(["mean / deviation of a GPU's gradient", *of_ranks], ratios),
    }


def main(arguments: list[str]) -> int:
    """Write the tables, or only say if they are stale; returns the exit status."""
    text = PAGE.read_text()
    for name, block in blocks().items():
        text = with_block(text, name, COMMAND, block)
    return update_page(PAGE, text, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
