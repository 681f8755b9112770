"""A thread sanitizer finds no race in hooks in Python, and finds one if any barrier that the translator placed is left out."""

import pytest

from gpu_vecenv.pyhooks.translate import translator_of
from gpu_vecenv.testing.recording import build, record, replay
from gpu_vecenv.testing.sanitize import RACES as THREADS
from tests.pyhooks.cases import PORTS, port_of
from tests.pyhooks.test_text import BARRIERS
from tests.sanitize.faults import with_faults

pytestmark = pytest.mark.slow

CASES = {
    "cartpole": ("WarpCartPole-v1", {"num_envs": 3, "max_episode_steps": 12}),
    "grid tag": ("WarpGridTag-v0", {"num_envs": 3, "grid_length": 4, "episode_length": 6}),
    "grid tag, agents view": ("WarpGridTag-v0", {"num_worlds": 3, "view": "agents", "grid_length": 4, "episode_length": 6}),
    "grid tag, partial": ("WarpGridTag-v0", {"num_envs": 2, "use_full_observation": False, "episode_length": 6}),
    "pot": ("Pot-v0", {"num_envs": 3, "max_episode_steps": 6}),
    "pot, next step": ("Pot-v0", {"num_envs": 3, "max_episode_steps": 6, "autoreset_mode": "next_step"}),
    "harvest": ("Harvest-v0", {"num_envs": 3, "map": 1, "regrowth": 0.3, "max_episode_steps": 6}),
    "spread": ("Spread-v0", {"num_envs": 3, "num_walkers": 9, "max_episode_steps": 6}),
}
LEFT_OUT = [(name, number) for name, placed in BARRIERS.items() for number in range(len(placed))]
CROWDS = {"Pot-v0": {"num_players": 9}, "Spread-v0": {"num_walkers": 9},
          "Harvest-v0": {"num_red": 5, "num_blue": 6, "regrowth": 0.3}}  # fmt: skip
"""Agents enough for all lanes, by id."""


def barriers_of(spec):
    """The text of each barrier with the directive behind it, which occurs once."""
    translator = translator_of(spec, spec.kernel, spec.kernel.read_text())
    return [f'w.barrier();\n#line {line} "{spec.kernel}"' for _, line in translator.barriers]


@pytest.mark.parametrize("case", CASES)
def test_hooks_in_python_have_no_races(case, tmp_path):
    env_id, options = CASES[case]
    spec = port_of(record(tmp_path / "recording", env_id, 20, **options))
    done = replay(build(spec, tmp_path, THREADS), tmp_path / "recording")
    assert done.returncode == 0 and done.stdout == "replayed\n", done.stderr[:4000]


@pytest.mark.parametrize(("name", "number"), LEFT_OUT)
def test_a_barrier_that_is_left_out_is_reported(name, number, tmp_path):
    spec = port_of(record(tmp_path / "recording", name, 20, num_envs=2, **CROWDS.get(name, {})))
    barrier = barriers_of(spec)[number]
    planted = {barrier: barrier.removeprefix("w.barrier();")}
    done = replay(build(spec, tmp_path, THREADS, with_faults(spec, planted)), tmp_path / "recording")
    assert done.returncode != 0 and "data race" in done.stderr


def test_every_port_is_tried():
    assert {env_id for env_id, _ in CASES.values()} == set(PORTS) == set(BARRIERS)
