"""RICE-N: extreme, recorded, random and trained play. ``python benchmarks/findings_rice.py --device cuda:0``.

Cases are the game without and with negotiation. Ways to play are:

- ``scripted``: the two policies whose results bound the authors' indices, and the rollout that the authors recorded, played with
  the debt rule of that time;
- ``random``: actions drawn under the masks;
- ``trained``: one policy for all regions.

The authors publish means of agents that they trained on a GPU; rows of trained play hold them. Training on a GPU has 256 worlds;
on a CPU it is the preset's, which is much shorter. Writes ``benchmarks/results/findings_rice.json``; then run ``python
tools/docs/findings_table.py``.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import findings
import gymnasium
import numpy as np
import tyro
from findings import Measured, Options, Rows

from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.config.tasks import TASKS

ENV = "WarpRice-v0"
CASE_TASKS = {"without negotiation": TASKS["WarpRice-v0"], "with negotiation": TASKS["WarpRice-v0 with negotiation"]}
"""Task of each case, whose options a training on a GPU has."""

CASES: dict[str, dict[str, Any]] = {case: dict(task.env_kwargs) for case, task in CASE_TASKS.items()}
"""Parameters of each case."""

PLAYS = ("scripted", "random", "trained")
EPISODES = 128
"""Worlds of an evaluation."""

AUTHORS_TRAINED = {
    "without negotiation": {"temperature_rise": 3.961, "gross_output": 6498.5},
    "with negotiation": {"temperature_rise": 1.364, "gross_output": 5038.6},
}
"""Means of agents that the authors trained, from data beside their code; with negotiation that is their bilateral protocol."""

BOUNDS = {
    "no savings, full mitigation": ((0, 10), {"temperature_rise": 1.2506777048110962, "gross_output": 606.57275390625}),
    "full savings, no mitigation": ((10, 0), {"temperature_rise": 7.006738662719727, "gross_output": 9673.5322265625}),
}
"""Levels of savings and mitigation of the policies that bound the indices, and the authors' bounds; all other levels are 0."""

RECORDED = findings.ROOT / "tests" / "golden" / "rice_published_example2.npz"
"""The rollouts that the authors recorded."""

PERIODS, REGIONS = 20, 27


def play(params: dict[str, Any], actions: Iterable[np.ndarray], device: str) -> Measured:
    """Play one episode of one world with the actions (27, entries) of each step; return a region's return, and the metrics."""
    env = gymnasium.make_vec(ENV, num_envs=1, device=device, array="numpy", autoreset_mode="disabled", **params)
    env.reset(seed=0)
    returns = np.zeros(REGIONS)
    for action in actions:
        *_, info = env.step({"region": action[None].astype(np.int32)})
        returns += info["agent_reward"][0]
    env.close()
    return {"region": float(returns.mean()), **{name: float(values[0]) for name, values in info["episode"].items()}}


def scripted(rows: Rows, case: str, options: Options) -> None:
    """Play the policies of the bounds, which make no proposals, and the recorded rollout."""
    if not CASES[case]:
        for name, (levels, published) in BOUNDS.items():
            action = np.zeros((REGIONS, 57), np.int32)
            action[:, :2] = levels
            measured = play({"full_rates": True}, [action] * PERIODS, options.device)
            rows.put(case, name, [{"measured": measured}], published=published)
    mode = "neg" if CASES[case] else "noneg"
    with np.load(RECORDED) as archive:
        actions = archive[f"{mode}/actions"]
        temperature = archive[f"{mode}/state_global_temperature"][:, 0].astype(float)
        ends = np.diff(archive[f"{mode}/state_global_temperature"][:, 0], prepend=np.nan) != 0  # a period was played
        output = archive[f"{mode}/state_gross_output_all_regions"][1:][ends[1:]].sum(dtype=float)
    measured = play({"full_rates": True, "old_debt_rule": True, **CASES[case]}, actions, options.device)
    published = {"temperature_rise": temperature[-1] - temperature[0], "gross_output": float(output)}
    rows.put(case, "recorded", [{"measured": measured}], published=published)


def base(case: str, options: Options) -> TrainConfig:
    """Return the options of a training; on a CPU with the worlds and steps of the preset."""
    config = TrainConfig(ENV, env_kwargs=CASES[case], **CASE_TASKS[case].algorithms["ippo"])
    return dataclasses.replace(config, num_envs=None, total_steps=None) if options.device == "cpu" else config


def main(options: Options) -> None:
    """Play all chosen cases in all chosen ways."""
    findings.one_thread()
    cases, plays = options.chosen(CASES, PLAYS)
    rows = Rows("findings_rice", options)
    for case in cases:
        configs = findings.with_seeds(base(case, options), options)
        if "scripted" in plays:
            scripted(rows, case, options)
        if "random" in plays:
            rows.put(case, "random", findings.random_runs(configs, options, EPISODES, ["region"]))
        if "trained" in plays:
            with tempfile.TemporaryDirectory() as folder:
                paths, facts = findings.train(case, configs, Path(folder))
                runs = findings.trained_runs(paths, options, EPISODES)
            rows.put(case, findings.on_device("trained", options.device), runs, authors=AUTHORS_TRAINED[case], **facts)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
