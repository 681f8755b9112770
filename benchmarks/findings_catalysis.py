"""Catalysis: exact, random and trained play. ``python benchmarks/findings_catalysis.py --device cuda:0``.

Cases are the twelve configurations. Ways to play are:

- ``exact``: the best episode by value iteration without a discount, and the lowest barrier of any path;
- ``random``: actions drawn at random;
- ``trained``: the preset; on a GPU with more worlds and steps. The likeliest actions are played, from the usual start;
- ``trained from everywhere``: the same, but a share of the episodes of the training start in cells that are drawn at random
  from those that cost little, so that the policy also learns what to do beside its path.

Writes ``benchmarks/results/findings_catalysis.json``; then run ``python tools/docs/findings_table.py``.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import findings
import numpy as np
import tyro
from findings import Measured, Options, Rows

from gpu_vecenv.envs.catalysis import optimum
from gpu_vecenv.envs.catalysis.spec import SPEC, atoms, configurations, places, rewards
from gpu_vecenv.train import NetworkConfig, TrainConfig, Trainer
from gpu_vecenv.train.config import PRESETS
from gpu_vecenv.train.config.tasks import TASKS

ENV = "WarpCatalysis-v0"
PLAYS = ("exact", "random", "trained", "trained from everywhere")

EPISODES = 64
"""Worlds of random play. Likeliest actions are the same in all worlds, so one world is enough for them."""

RECIPE = TASKS[ENV].algorithms["ppo"]
"""Options of a training on a GPU; those below differ by configuration."""

STEPS = {False: RECIPE["total_steps"], True: 1_000_000_000}
"""Steps of a training on a GPU, summed over worlds, by ``case in LONG``."""

LONG = ("check_two_atom_b", "gas2_double_grids")
"""Configurations whose policies need more steps: one turns to a longer path late, the other has paths that hardly differ."""

FAR = ("gas1", "gas2", "gas2_double_grids")
"""Configurations with long paths, on which a policy needs most of its episodes from the usual start, and less entropy."""

LEAST_ENTROPY = {False: RECIPE["ppo"]["entropy_coef_final"], True: 0.002}
"""Weight of entropy at the end of a training on a GPU, by ``case in FAR``."""

CLOSE = ("gas2_double_grids",)
"""Configurations with orders of moves whose returns differ by 0.0002 or less. Only a policy with little entropy tells them apart.

Their trainings on a GPU have rollouts of several episodes, so few of them are cut at the end of a rollout, where the value
network stands in for the rest of a return. A quarter of the episodes starts in random cells.
"""

CLOSE_ROLLOUT, CLOSE_MINIBATCHES, CLOSE_ENTROPY = 256, 32, ((0.4, 0.03), (0.75, 0.0005))
"""Steps of a rollout, minibatches of an epoch, and weights of entropy after shares of the steps, of ``CLOSE``."""

RIVALS = ("surface_double_grids",)
"""Configurations with two distant paths whose returns differ by 0.03. A policy settles on one of them early.

Of 100 episodes of their trainings from everywhere, 99 have the usual start.
"""

RIVALS_ENTROPY = (0.15, 0.002)
"""Weights of entropy at the beginning and at the end of a training on a GPU, of ``RIVALS``."""

UNITS = {1: (64, 64), 2: (128, 128)}
"""Hidden units of a training on a GPU, by the number of atoms."""


STARTS, COST = 10_000, 0.2
"""Random starts of a training from everywhere, and the cost of a cell below which it may be one."""

USUAL_STARTS = {False: 1, True: 9}
"""Episodes from the usual start for each from a random one in a training from everywhere, by ``case in FAR``."""

CLOSE_STARTS, RIVALS_STARTS = 3, 99
"""The same of ``CLOSE``, and of ``RIVALS``."""


def start_everywhere(trainer: Trainer) -> None:
    """Let a share of the episodes start in random cells that cost little, the rest in the start of the configuration."""
    case = trainer.config.env_kwargs["configuration"]
    usual = CLOSE_STARTS if case in CLOSE else RIVALS_STARTS if case in RIVALS else USUAL_STARTS[case in FAR]
    params = trainer.env.params
    cells = np.argwhere(rewards(params) > -COST).reshape(-1, atoms(params), 3) + (0, 0, params["z_slab_lower"])
    drawn = cells[np.random.default_rng(trainer.config.seed).integers(len(cells), size=STARTS)]
    drawn = drawn[(drawn != places(params, "final_state")).any(axis=(1, 2))]
    starts = np.concatenate([drawn, np.repeat(places(params, "initial_state")[None], usual * len(drawn), axis=0)])
    padded = np.concatenate([starts, np.zeros_like(starts[..., :1])], axis=2).astype(np.uint8)
    trainer.env.set_reset_pool({name: padded[:, atom] for atom, name in enumerate(("position", "position2")[: atoms(params)])})


def exact(case: str) -> Measured:
    """Return the numbers of the best episode, and the lowest barrier."""
    params = SPEC.resolve({"configuration": case})
    best = optimum.best_return(params)
    return {
        "agent": best.total,
        "barrier": best.barrier,
        "arrived": float(best.arrived),
        "steps": float(best.steps),
        "lowest_barrier": optimum.lowest_barrier(params),
    }


def base(case: str, options: Options) -> TrainConfig:
    """Return the options of a training."""
    config = TrainConfig(ENV, env_kwargs={"configuration": case})
    if options.device == "cpu":
        return config
    steps = STEPS[case in LONG]
    ppo = dataclasses.replace(PRESETS[ENV].ppo, learning_rate=RECIPE["ppo"]["learning_rate"], entropy_coef_final=None)
    if case in CLOSE:
        schedule = tuple((int(share * steps), weight) for share, weight in CLOSE_ENTROPY)
        ppo = dataclasses.replace(ppo, num_steps=CLOSE_ROLLOUT, num_minibatches=CLOSE_MINIBATCHES, entropy_schedule=schedule)
    elif case in RIVALS:
        ppo = dataclasses.replace(ppo, entropy_coef=RIVALS_ENTROPY[0], entropy_coef_final=RIVALS_ENTROPY[1])
    else:
        ppo = dataclasses.replace(ppo, entropy_coef_final=LEAST_ENTROPY[case in FAR])
    network = NetworkConfig(UNITS[atoms(SPEC.resolve(config.env_kwargs))])
    return dataclasses.replace(config, num_envs=RECIPE["num_envs"], total_steps=steps, ppo=ppo, network=network)


def main(options: Options) -> None:
    """Play all chosen cases in all chosen ways."""
    findings.one_thread()
    cases, plays = options.chosen(configurations(), PLAYS)
    rows = Rows("findings_catalysis", options)
    for case in cases:
        configs = findings.with_seeds(base(case, options), options)
        if "exact" in plays:
            rows.put(case, "exact", [{"measured": exact(case)}])
        if "random" in plays:
            rows.put(case, "random", findings.random_runs(configs, options, EPISODES, ["agent"]))
        for play, prepare in (("trained", lambda trainer: None), ("trained from everywhere", start_everywhere)):
            if play in plays:
                with tempfile.TemporaryDirectory() as folder:
                    paths, facts = findings.train(case, configs, Path(folder), prepare)
                    runs = findings.trained_runs(paths, options, 1, deterministic=True)
                rows.put(case, findings.on_device(play, options.device), runs, **facts)


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
