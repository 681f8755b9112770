"""Sanitizers on the CPU builds: no race between lanes, no access outside an array, no undefined behaviour."""

import pytest

import tests.roles  # noqa: F401
from gpu_vecenv.testing.recording import build, record, replay
from gpu_vecenv.testing.sanitize import BOUNDS
from gpu_vecenv.testing.sanitize import RACES as THREADS
from tests.sanitize.faults import RACES, TAG, WRITES, with_faults

pytestmark = pytest.mark.slow

SMALL = {"num_taggers": 2, "num_runners": 5, "tagging_distance": 0.2, "episode_length": 6}

CASES = {
    "cartpole": ("WarpCartPole-v1", 30, {"num_envs": 3, "max_episode_steps": 12}),
    "cartpole, a pack and 3 worlds": ("WarpCartPole-v1", 30, {"num_envs": 35}),
    "cartpole, a pack and 3 worlds, without velocities": ("WarpCartPole-v1", 30, {"num_envs": 35, "observe_velocity": False}),
    "cartpole, next step": ("WarpCartPole-v1", 30, {"num_envs": 3, "autoreset_mode": "next_step"}),
    "catalysis": ("WarpCatalysis-v0", 30, {"num_envs": 35, "configuration": "diffusion2d_relaxed", "episode_length": 12}),
    "catalysis, two atoms": ("WarpCatalysis-v0", 30, {"num_envs": 3, "configuration": "check_two_atom_c", "episode_length": 12}),
    "recall": ("WarpRecall-v0", 30, {"num_envs": 35, "delay": 6}),
    "recall, next step": ("WarpRecall-v0", 30, {"num_envs": 3, "num_cues": 7, "delay": 2, "autoreset_mode": "next_step"}),
    "foraging": ("WarpForaging-5x5-3p-4f-v3", 20, {"num_envs": 3, "max_episode_steps": 6}),
    "foraging, a board that is not square": (
        "WarpForaging-v3", 20, {"num_envs": 3, "players": 5, "rows": 4, "cols": 7, "max_num_food": 9, "sight": 1}
    ),
    "robot warehouse": ("WarpRware-v2", 30, {"num_envs": 7, "n_agents": 9, "msg_bits": 1, "max_steps": 12}),
    "robot warehouse, collisions": ("WarpRware-v2", 30, {"num_envs": 3, "n_agents": 30, "collision": "end"}),
    "spread, neighbours": (
        "WarpSimpleSpread-v3", 20, {"num_envs": 3, "num_agent_neighbors": 4, "num_landmark_neighbors": 1, "max_cycles": 6},
    ),
    "simple": ("WarpSimple-v3", 20, {"num_envs": 35, "max_cycles": 6}),
    "simple tag, neighbours": (
        "WarpSimpleTag-v3", 20, {"num_envs": 3, "num_good": 2, "num_obstacles": 0, "num_agent_neighbors": 2, "max_cycles": 6},
    ),
    "speaker listener": ("WarpSimpleSpeakerListener-v4", 20, {"num_envs": 3, "max_cycles": 6}),
    "reference": ("WarpSimpleReference-v3", 20, {"num_envs": 3, "max_cycles": 6}),
    "adversary": ("WarpSimpleAdversary-v3", 20, {"num_envs": 3, "num_landmarks": 3, "max_cycles": 6}),
    "push": ("WarpSimplePush-v3", 20, {"num_envs": 3, "continuous_actions": True, "max_cycles": 6}),
    "crypto": ("WarpSimpleCrypto-v3", 20, {"num_envs": 3, "max_cycles": 6}),
    "world comm": ("WarpSimpleWorldComm-v3", 20, {"num_envs": 3, "max_cycles": 6}),
    "small": ("WarpTag-v0", 20, {"num_envs": 3, **SMALL}),
    "agents view": ("WarpTag-v0", 20, {"num_worlds": 3, "view": "agents", **SMALL}),
    "next step": ("WarpTag-v0", 20, {"num_envs": 3, "autoreset_mode": "next_step", **SMALL}),
    "disabled": ("WarpTag-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", **SMALL}),
    "full observation, no exits": (
        "WarpTag-v0", 20, {"num_envs": 3, "use_full_observation": True, "runner_exits_game_after_tagged": False, **SMALL}
    ),
    "one pair": ("WarpTag-v0", 20, {"num_envs": 3, **SMALL, "num_taggers": 1, "num_runners": 1, "flatten_actions": True}),
    "defaults": ("WarpTag-v0", 8, {"num_envs": 2, "tagging_distance": 0.1, "episode_length": 5}),
    "many neighbours": ("WarpTag-v0", 8, {"num_envs": 1, "num_runners": 60, "num_other_agents_observed": 40}),
    "town": ("Town-v0", 20, {"num_envs": 3, "max_episode_steps": 6}),
    "town, next step": ("Town-v0", 20, {"num_envs": 3, "autoreset_mode": "next_step", "max_episode_steps": 6}),
    "town, one citizen": ("Town-v0", 20, {"num_envs": 3, "num_citizens": 1, "max_episode_steps": 6}),
    "town, disabled": ("Town-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", "max_episode_steps": 6}),
    "harvest": ("Harvest-v0", 20, {"num_envs": 3, "regrowth": 0.3, "max_episode_steps": 6}),
    "harvest, agents view": ("Harvest-v0", 20, {"num_worlds": 3, "view": "agents", "map": 2, "max_episode_steps": 6}),
    "harvest, next step": ("Harvest-v0", 20, {"num_envs": 3, "map": 1, "autoreset_mode": "next_step", "max_episode_steps": 6}),
    "harvest, disabled": ("Harvest-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", "max_episode_steps": 6}),
    "pot": ("Pot-v0", 20, {"num_envs": 3, "max_episode_steps": 6}),
    "pot, disabled": ("Pot-v0", 20, {"num_envs": 3, "autoreset_mode": "disabled", "max_episode_steps": 6}),
    "whisper": ("Whisper-v0", 20, {"num_envs": 3, "quiet": 1, "max_episode_steps": 6}),
    "whisper, agents view, next step": (
        "WhisperAlike-v0", 20, {"num_worlds": 3, "view": "agents", "autoreset_mode": "next_step", "max_episode_steps": 6},
    ),
    "covid": ("WarpCovid-v0", 10, {"num_envs": 2, "episode_length": 4, "vaccine_start": "2020-03-24", "vaccine_interval": 2}),
    "choir, whole rows": ("Choir-v0", 20, {"num_worlds": 3, "whole": True, "view": "agents", "max_episode_steps": 6}),
    "rice": ("WarpRice-v0", 4, {"num_envs": 2}),
    "rice, negotiation, whole rows": ("WarpRice-v0", 7, {"num_envs": 2, "negotiation_on": True, "observe": "whole"}),
    "4,096 agents": ("WarpTag-v0", 1, {"num_envs": 1, "num_taggers": 96, "num_runners": 4000, "episode_length": 1}),
}  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return a maker of replaying programs; each is compiled once."""
    built = {}

    def make(spec, flags):
        if (spec.name, flags) not in built:
            built[spec.name, flags] = build(spec, tmp_path_factory.mktemp("program"), flags)
        return built[spec.name, flags]

    return make


@pytest.mark.parametrize("flags", [THREADS, BOUNDS], ids=["threads", "bounds"])
@pytest.mark.parametrize("case", CASES)
def test_a_recording_causes_no_sanitizer_error(case, flags, program, tmp_path):
    env_id, steps, options = CASES[case]
    spec = record(tmp_path / "recording", env_id, steps, **options)
    done = replay(program(spec, flags), tmp_path / "recording")
    assert done.returncode == 0 and done.stdout == "replayed\n", done.stderr[:4000]


def said_of(fault, flags, folder, steps=20, **options):
    """Return what a sanitizer says of a kernel with a planted fault, and whether it reported an error."""
    spec = record(folder / "recording", fault.env_id, steps, num_envs=2, **options)
    done = replay(build(spec, folder, flags, with_faults(spec, {fault.piece: fault.wrong})), folder / "recording")
    return done.stderr, done.returncode != 0


LIMIT = {"max_episode_steps": 6}


@pytest.mark.parametrize("name", RACES)
def test_a_planted_race_is_reported(name, tmp_path):
    fault = RACES[name]
    crowd = {"num_taggers": 2, "num_runners": 30, "tagging_distance": 0.3} if fault.env_id == TAG else LIMIT
    said, reported = said_of(fault, THREADS, tmp_path, **crowd)
    assert reported and fault.words in said


@pytest.mark.parametrize("name", WRITES)
def test_a_planted_fault_is_reported(name, tmp_path):
    fault = WRITES[name]
    said, reported = said_of(fault, BOUNDS, tmp_path, **(SMALL if fault.env_id == TAG else LIMIT))
    assert reported and any(words in said for words in fault.words.split("|"))
