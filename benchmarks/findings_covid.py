"""COVID-19 and the economy: scripted, random and trained play. ``python benchmarks/findings_covid.py --device cuda:0``.

Cases are the game of the authors' published scenarios, 405 days with priorities of 1, and the env's defaults, 540 days. Ways to
play are:

- ``scripted``: the published scenarios, with the authors' numbers beside them, and the best of a grid of simple policies: one
  stringency for all states up to some day, open afterwards, and one level of the subsidy;
- ``random``: actions drawn under the masks;
- ``trained``: governors and planner learn together; then each plays beside the other acting at random, too;
- ``two phases``: governors learn beside a planner that acts at random, then the planner learns beside these governors.

Training on a GPU has 256 worlds; on a CPU it is the preset's, which is much shorter. Writes
``benchmarks/results/findings_covid.json``; then run ``python tools/docs/findings_table.py``.
"""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import findings
import gymnasium
import numpy as np
import tyro
from findings import Options, Rows

from gpu_vecenv.envs.covid import scripted
from gpu_vecenv.envs.covid.spec import SPEC, STATES
from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.config.tasks import TASKS

ENV = "WarpCovid-v0"
CASES: dict[str, dict[str, Any]] = {"published game": scripted.PARAMS, "default game": {}}
"""Parameters of each case."""

PLAYS = ("scripted", "random", "trained", "two phases")
EPISODES = 64
"""Worlds of an evaluation."""

OPENINGS = (30, 45, 60, 90, 120, 150, 180, 210, 240, 270, 300, 360)
"""Days on which a simple policy may open the states; the cooldown allows them all."""

SUBSIDIES = (0, 5, 10, 15, 20)
"""Levels of the subsidy of a simple policy."""

ROLES = ("governor", "planner")

Actions = Callable[[int], tuple[np.ndarray, np.ndarray]]
"""Gives the stringencies of all worlds and states (worlds, 51), and the levels of the subsidy (worlds,), of a step."""


def play(params: dict[str, Any], worlds: int, actions: Actions, device: str, daily: bool = False) -> dict[str, np.ndarray]:
    """Play one episode in each world.

    Args:
        params: parameters of the env.
        worlds: number of worlds.
        actions: what each world does.
        device: device of the env.
        daily: change the subsidy on days without a decision, too, by setting the state.

    Returns:
        Return of a governor and of the planner, and the metrics of the episode, each (worlds,).
    """
    env = gymnasium.make_vec(ENV, num_envs=worlds, device=device, array="numpy", autoreset_mode="disabled", **params)
    env.reset(seed=0)
    returns, over, t = np.zeros((worlds, STATES + 1)), False, 0
    while not over:
        levels, subsidies = actions(t)
        if daily:
            env.unwrapped.set_state({"subsidy_level": subsidies.astype(np.int32)})
        *_, truncated, info = env.step({"governor": levels, "planner": subsidies[:, None]})
        returns, over, t = returns + info["agent_reward"], truncated.all(), t + 1
    env.close()
    metrics = {name: values.astype(np.float64) for name, values in info["episode"].items()}
    return {"governor": returns[:, :STATES].mean(1), "planner": returns[:, STATES], **metrics}


def world(played: dict[str, np.ndarray], number: int) -> dict[str, Any]:
    """Return a run that holds the numbers of one world."""
    return {"measured": {name: float(values[number]) for name, values in played.items()}}


def published(rows: Rows, case: str, options: Options) -> None:
    """Play the published scenarios; that of recorded persons is no play of the env, and only its welfare is known."""
    for scenario in (*scripted.SCRIPTS, "recorded policies"):
        levels, subsidies = scripted.actions(scenario)
        run = world(
            play(
                CASES[case],
                1,
                lambda t, levels=levels, subsidies=subsidies: (levels[t][None], subsidies[t : t + 1]),
                options.device,
                daily=scenario == "recorded policies",
            ),
            0,
        )
        rows.put(case, scenario, [run], published={"planner": scripted.PUBLISHED[scenario]})
    run = {"measured": {"planner": scripted.welfare_of_recorded_days()}}
    rows.put(case, "recorded days", [run], published={"planner": scripted.PUBLISHED["recorded days"]})


def simple(rows: Rows, case: str, options: Options) -> None:
    """Play the grid of simple policies; store the best one for governors, and the best one for the planner."""
    days = SPEC.resolve(CASES[case])["episode_length"]
    grid = np.array(list(itertools.product(range(1, 11), [day for day in OPENINGS if day < days] + [days], SUBSIDIES)))
    level, opening, subsidy = grid.T

    def actions(t: int) -> tuple[np.ndarray, np.ndarray]:
        levels = np.where(t == 0, level, np.where(t == opening, 1, 0))  # 0 keeps the level
        return np.repeat(levels[:, None], STATES, axis=1), subsidy

    played = play(CASES[case], len(grid), actions, options.device)
    for role in ("governor", "planner"):
        best = int(played[role].argmax())
        name = f"best simple policy for {'governors' if role == 'governor' else 'the planner'}"
        policy = dict(zip(("stringency", "days", "subsidy"), grid[best].tolist(), strict=True))
        rows.put(case, name, [world(played, best)], policy=policy, of=len(grid))


def base(case: str, options: Options) -> TrainConfig:
    """Return the options of a training: those of the task on a GPU, and the preset's on a CPU."""
    on_gpu = {} if options.device == "cpu" else TASKS[ENV].algorithms["ippo"]
    return TrainConfig(ENV, env_kwargs=CASES[case], **on_gpu)


def trained(rows: Rows, case: str, options: Options, folder: Path) -> None:
    """Train both roles together."""
    paths, facts = findings.train(f"{case}, together", findings.with_seeds(base(case, options), options), folder)
    for name, random in (("trained", []), ("trained, random planner", ["planner"]), ("trained, random governors", ["governor"])):
        runs = findings.trained_runs(paths, options, EPISODES, random)
        rows.put(case, findings.on_device(name, options.device), runs, **facts)


def two_phases(rows: Rows, case: str, options: Options, folder: Path) -> None:
    """Train governors, then the planner."""
    configs = findings.with_seeds(base(case, options), options)
    alone = {"governor": "governor", "planner": "random"}
    first, facts = findings.train(
        f"{case}, governors", [dataclasses.replace(config, policy_map=alone) for config in configs], folder
    )
    second, then = findings.train(
        f"{case}, planner",
        [
            dataclasses.replace(config, frozen=("governor",), load_policies={"governor": str(path)})
            for config, path in zip(configs, first, strict=True)
        ],
        folder,
    )
    facts |= {name: facts[name] + then[name] for name in ("seconds", "start_up", "steps")}
    rows.put(case, findings.on_device("two phases", options.device), findings.trained_runs(second, options, EPISODES), **facts)


def main(options: Options) -> None:
    """Play all chosen cases in all chosen ways."""
    findings.one_thread()
    cases, plays = options.chosen(CASES, PLAYS)
    rows = Rows("findings_covid", options)
    for case in cases:
        if "scripted" in plays:
            if case == "published game":
                published(rows, case, options)
            simple(rows, case, options)
        if "random" in plays:
            configs = findings.with_seeds(base(case, options), options)
            rows.put(case, "random", findings.random_runs(configs, options, EPISODES, ROLES))
        for name, way in (("trained", trained), ("two phases", two_phases)):
            if name in plays:
                with tempfile.TemporaryDirectory() as folder:
                    way(rows, case, options, Path(folder))


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
