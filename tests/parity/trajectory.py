"""One fixed rollout of an env, reduced to a hash of every bit of its results.

``python -m tests.parity.trajectory CASE ...`` records the hashes of cases. With ``--without FIELD ...`` it records nothing and
compares hashes that leave out state fields: a field that is new changes the hash of a case although all else may be as before.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Collection
from operator import itemgetter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
import tests.roles  # noqa: F401
from gpu_vecenv.testing.run import OF_ENDS, steps_of
from gpu_vecenv.testing.subject import action_table
from tests.ids import marked
from tests.trees import leaves, map_tree

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("WarpCartPole-v1", {"num_envs": 64, "max_episode_steps": 60}),
    "cartpole, without velocities": ("WarpCartPole-v1", {"num_envs": 70, "max_episode_steps": 60, "observe_velocity": False}),
    "acrobot": ("WarpAcrobot-v1", {"num_envs": 64, "max_episode_steps": 60}),
    "mountain car": ("WarpMountainCar-v0", {"num_envs": 64, "max_episode_steps": 60, "gravity": np.linspace(0.001, 0.003, 64)}),
    "mountain car, continuous": ("WarpMountainCarContinuous-v0", {"num_envs": 64, "max_episode_steps": 60}),
    "pendulum": ("WarpPendulum-v1", {"num_envs": 64, "max_episode_steps": 60}),
    "pendulum, without velocity": ("WarpPendulum-v1", {"num_envs": 70, "max_episode_steps": 60, "observe_velocity": False}),
    "recall": ("WarpRecall-v0", {"num_envs": 70, "delay": 20}),
    "recall, nine cues": ("WarpRecall-v0", {"num_envs": 40, "num_cues": 9, "delay": 3}),
    "foraging": ("WarpForaging-5x5-3p-3f-v3", {"num_envs": 12, "max_episode_steps": 20}),
    "foraging, a crowd of short sight": (
        "WarpForaging-v3",
        {"num_envs": 6, "players": 9, "rows": 5, "cols": 7, "max_num_food": 4, "sight": 2, "observe_agent_levels": False,
         "normalize_reward": False, "penalty": 0.1},
    ),
    "foraging, more players than lanes": (
        "WarpForaging-v3", {"num_envs": 2, "players": 40, "rows": 12, "cols": 20, "max_num_food": 30, "max_player_level": 5},
    ),
    "grid tag": ("WarpGridTag-v0", {"num_envs": 24, "grid_length": 6, "episode_length": 40}),
    "grid tag, partial observation": (
        "WarpGridTag-v0",
        {"num_envs": 4, "num_taggers": 50, "grid_length": 60, "episode_length": 90, "use_full_observation": False},
    ),
    "tag, small worlds": (
        "WarpTag-v0",
        {"num_envs": 24, "num_taggers": 2, "num_runners": 4, "num_other_agents_observed": 3, "episode_length": 70,
         "tagging_distance": 0.1, "edge_hit_penalty": -0.1},
    ),
    "tag, full observation, no exits": (
        "WarpTag-v0",
        {"num_envs": 8, "num_taggers": 3, "num_runners": 6, "use_full_observation": True, "tagging_distance": 0.1,
         "runner_exits_game_after_tagged": False, "episode_length": 90, "extended_observation": True},
    ),
    "tag, defaults": ("WarpTag-v0", {"num_envs": 3, "episode_length": 150}),
    "tag, many neighbours": (
        "WarpTag-v0", {"num_envs": 2, "num_taggers": 4, "num_runners": 32, "num_other_agents_observed": 34,
                       "episode_length": 120},
    ),
    "tag, neighbours found by cell": (
        "WarpTag-v0", {"num_envs": 1, "num_taggers": 5, "num_runners": 425, "episode_length": 60, "tagging_distance": 0.01},
    ),
    "tag, a standing crowd": (
        "WarpTag-v0",
        {"num_envs": 1, "num_taggers": 5, "num_runners": 425, "episode_length": 60, "max_acceleration": 0.0,
         "min_acceleration": 0.0, "runner_exits_game_after_tagged": False,
         "starting_location_x": [i % 21 / 16 for i in range(430)], "starting_location_y": [i // 21 / 16 for i in range(430)]},
    ),
    "tag, too many for the serial search": (
        "WarpTag-v0", {"num_envs": 1, "num_taggers": 10, "num_runners": 1090, "episode_length": 60, "tagging_distance": 0.01},
    ),
    "catalysis": ("WarpCatalysis-v0", {"num_envs": 40, "configuration": "gas1", "episode_length": 90}),
    "catalysis, the atom leaves the slab": (
        "WarpCatalysis-v0", {"num_envs": 40, "configuration": "diffusion2d_relaxed", "episode_length": 70},
    ),
    "catalysis, two atoms": ("WarpCatalysis-v0", {"num_envs": 24, "configuration": "check_two_atom_c"}),
    "rice": ("WarpRice-v0", {"num_envs": 3, "old_debt_rule": True}),
    "rice, negotiation, whole rows": (
        "WarpRice-v0", {"num_envs": 3, "negotiation_on": True, "observe": "whole", "num_discrete_action_levels": 100,
                        "full_rates": True},
    ),
    "robot warehouse": ("WarpRware-v2", {"num_envs": 24, "n_agents": 6, "request_queue_size": 12, "max_steps": 90}),
    "robot warehouse, messages, two stages": (
        "WarpRware-v2",
        {"num_envs": 8, "n_agents": 40, "msg_bits": 2, "sensor_range": 2, "request_queue_size": 3, "reward_type": "two_stage",
         "normalised_coordinates": True, "max_inactivity_steps": 70, "max_steps": 120},
    ),
    "robot warehouse, collisions end episodes": (
        "WarpRware-v2",
        {"num_envs": 40, "n_agents": 3, "request_queue_size": 5, "collision": "end", "reward_type": "global",
         "layout": "....g\n.xx..\n.xx.x\n.xx.x\ng...."},
    ),
    "spread": (
        "WarpSimpleSpread-v3",
        {"num_envs": 20, "num_landmarks": 5, "num_landmark_neighbors": 3, "num_agent_neighbors": 2, "terminate_on_success": True},
    ),
    "speaker listener": ("WarpSimpleSpeakerListener-v4", {"num_envs": 20, "continuous_actions": True}),
    "world comm": ("WarpSimpleWorldComm-v3", {"num_envs": 20}),
    "simple": ("WarpSimple-v3", {"num_envs": 40}),
    "simple tag": ("WarpSimpleTag-v3", {"num_envs": 20, "num_good": 2, "continuous_actions": True, "num_agent_neighbors": 3}),
    "reference": ("WarpSimpleReference-v3", {"num_envs": 20}),
    "adversary": ("WarpSimpleAdversary-v3", {"num_envs": 20, "num_landmarks": 4, "num_landmark_neighbors": 2}),
    "push": ("WarpSimplePush-v3", {"num_envs": 20, "continuous_actions": True}),
    "crypto": ("WarpSimpleCrypto-v3", {"num_envs": 20}),
    "town": ("Town-v0", {"num_envs": 24, "max_episode_steps": 30}),
    "town, one citizen": ("Town-v0", {"num_envs": 40, "num_citizens": 1, "rich": 1.6, "max_episode_steps": 25}),
    "town, more citizens than lanes": ("Town-v0", {"num_envs": 5, "num_citizens": 40, "rich": 90.0, "max_episode_steps": 30}),
    "harvest": ("Harvest-v0", {"num_envs": 12, "map": 1, "max_episode_steps": 40}),
    "harvest, more agents than lanes": (
        "Harvest-v0", {"num_envs": 4, "num_red": 30, "num_blue": 10, "map": 2, "regrowth": 0.2, "max_episode_steps": 40},
    ),
    "harvest, a map for each world": ("Harvest-v0", {"num_envs": 12, "map": np.arange(12) % 3, "max_episode_steps": 25}),
    "pot": ("Pot-v0", {"num_envs": 24, "max_episode_steps": 20}),
    "choir, whole rows, agents view": (
        "Choir-v0", {"num_envs": 40, "num_singers": 5, "whole": True, "view": "agents", "max_episode_steps": 9},
    ),
    "whisper": ("Whisper-v0", {"num_envs": 24, "num_whisperers": 5, "quiet": 1, "max_episode_steps": 20}),
    "covid": ("WarpCovid-v0", {"num_envs": 2, "episode_length": 310}),
    "covid, weekly vaccines, risk averse": (
        "WarpCovid-v0",
        {"num_envs": 3, "episode_length": 61, "start_date": "2020-11-05", "vaccine_interval": 7, "vaccine_start": "2020-11-20",
         "eta": 3.5, "action_cooldown": 5, "subsidy_interval": 11, "num_subsidy_levels": 6},
    ),
}  # fmt: skip
"""Envs small enough to run for a thousand steps in every build. Together they take each path of the kernels."""


RECORD = Path(__file__).with_name("hashes.json")
"""Recorded hash of each case."""

STEPS = {
    "spread": 250,
    "world comm": 250,
    "covid": 750,
    "foraging": 250,
    "foraging, a crowd of short sight": 250,
    "foraging, more players than lanes": 100,
    "rice": 250,
    "rice, negotiation, whole rows": 250,
    "tag, neighbours found by cell": 250,
    "tag, a standing crowd": 250,
    "tag, too many for the serial search": 250,
}
"""Fewer steps for cases that take long; some episodes still end."""

EACH = [case if marked(name) == name else pytest.param(case, marks=pytest.mark.slow) for case, (name, _) in CASES.items()]
"""Parameters of tests of every case. Those of particle envs that share their parts with another case are slow."""


def trajectory_hash(
    case: str, steps: int | None = None, backend: Any = None, at_once: int = 0, without: Collection[str] = (), **options: Any
) -> str:
    """SHA-256 of all results of ``steps`` steps, resets included, and of the state at the end.

    ``steps`` is 1,000 by default, or the entry of the case in ``STEPS``.
    ``at_once`` is the number of steps of a launch, 0 for single steps; the hash does not depend on it.
    ``without`` names state fields that are left out of the hash.
    """
    name, params = CASES[case]
    steps = steps or STEPS.get(case, 1000)
    if at_once and steps % at_once:
        raise ValueError(f"{case}: {steps} steps are no whole number of launches of {at_once}")
    env = gymnasium.make_vec(name, **{"device": "cpu", **params, "array": "numpy", **options})
    inner = env.unwrapped
    if backend is not None:
        inner.worlds.backend = backend(inner.layout)
    fields = [field.name for field in inner.layout.state]
    if unknown := set(without) - set(fields):
        raise ValueError(f"{case}: expected state fields out of {fields}, got {sorted(unknown)}")
    digest, ended = digest_of(inner, action_table(inner, steps, 11), at_once, without)
    env.close()
    if steps >= 1000 and ended < inner.num_worlds:
        raise RuntimeError(f"{case}: only {ended} episodes ended, too few to test resets")
    return digest


def digest_of(env: Any, actions: Any, at_once: int = 0, without: Collection[str] = ()) -> tuple[str, int]:
    """Reset an env, step it with actions, and return the hash of ``trajectory_hash()`` and the number of episodes that ended."""
    digest = hashlib.sha256()
    for array in leaves(dict(enumerate(env.reset(seed=7)))):
        digest.update(array.tobytes())
    ended = 0
    for *arrays, info in steps_of(env, actions, at_once):
        finished = info.pop("_final_obs")
        ended += int(finished.sum())
        final = [map_tree(itemgetter(finished), info.pop(name)) for name in OF_ENDS if name in info]
        for array in leaves(dict(enumerate([*arrays, finished, *final, info]))):
            digest.update(np.ascontiguousarray(array).tobytes())
    for field, value in env.get_state().items():
        if field not in without:
            digest.update(value.tobytes())
    return digest.hexdigest(), ended


def record(*cases: str) -> None:
    """Record the hashes of the cases given, of all by default, and print the cases whose hash changed."""
    old = json.loads(RECORD.read_text())
    new = {case: trajectory_hash(case) if case in (cases or CASES) else old[case] for case in CASES}
    _print_changes(new, old)
    RECORD.write_text(json.dumps(new, indent=2) + "\n")


def compare(cases: Collection[str], without: Collection[str]) -> None:
    """Print which cases have another hash than the recorded one, although the state fields ``without`` are left out."""
    _print_changes({case: trajectory_hash(case, without=without) for case in cases}, json.loads(RECORD.read_text()))


def _print_changes(new: dict[str, str], old: dict[str, str]) -> None:
    print("changed:", ", ".join(f"{case!r}" for case in new if new[case] != old.get(case)) or "none")


def main() -> None:
    """Record or compare, as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.trajectory", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="such as 'grid tag'; all cases if none is given")
    parser.add_argument("--without", nargs="+", metavar="FIELD", help="compare without these state fields, and record nothing")
    given = parser.parse_args()
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"expected cases out of {list(CASES)}, got {sorted(unknown)}")
    if not given.without:
        record(*given.cases)
    elif not given.cases:
        parser.error("--without: expected CASE, because each env has state fields of its own, got none")
    else:
        compare(given.cases, given.without)


if __name__ == "__main__":
    main()
