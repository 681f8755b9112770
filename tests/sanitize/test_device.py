"""compute-sanitizer on the GPU build: no access outside an array, no race in shared memory, no barrier missed by lanes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sanitize.faults import ON_GPU

ROOT = Path(__file__).resolve().parents[2]
TOOL = shutil.which("compute-sanitizer", path=f"{os.environ.get('PATH', '')}:/usr/local/cuda/bin")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,
    pytest.mark.skipif(TOOL is None, reason="compute-sanitizer is neither on the path nor in /usr/local/cuda/bin"),
]

BLOCKS = {"one lane a world, blocks of several warps": "256"}
"""Threads of a block, if not chosen by the launch, which would give few worlds a block of one warp each."""

SHORT_RUN = str(Path(__file__).with_name("short_run.py"))
SMALL = ("tagging_distance=0.2", "episode_length=4")
CASES = {
    "one lane a world": ("WarpCartPole-v1", "12", "num_envs=70", "max_episode_steps=5"),
    "one lane a world, blocks of several warps": ("WarpCartPole-v1", "12", "num_envs=70", "max_episode_steps=5"),
    "features and choices of a parameter": ("WarpRecall-v0", "12", "num_envs=70", "num_cues=7", "delay=3"),
    "robots, two lanes a world": ("WarpRware-v2", "12", "num_envs=70", "max_steps=5"),
    "robots with messages": ("WarpRware-v2", "12", "num_envs=9", "n_agents=40", "msg_bits=2", "collision='end'"),
    "a landscape": ("WarpCatalysis-v0", "12", "num_envs=70", "configuration='diffusion2d_relaxed'", "episode_length=5"),
    "a landscape of two atoms": ("WarpCatalysis-v0", "12", "num_envs=70", "configuration='check_two_atom_c'", "episode_length=5"),
    "players and food": ("WarpForaging-5x5-3p-4f-v3", "12", "num_envs=37", "max_episode_steps=5"),
    "worlds packed in a warp": ("WarpTag-v0", "6", "num_envs=37", "num_taggers=2", "num_runners=4", *SMALL),
    "a block a world": ("WarpTag-v0", "6", "num_envs=3", *SMALL),
    "more agents than lanes": ("WarpTag-v0", "3", "num_envs=2", "num_taggers=20", "num_runners=280", "episode_length=2"),
    "enough agents for a grid": ("WarpTag-v0", "3", "num_envs=2", "num_taggers=20", "num_runners=400", "episode_length=2"),
    "roles": ("Town-v0", "6", "num_envs=37", "max_episode_steps=4"),
    "roles, more agents than lanes": ("Town-v0", "3", "num_envs=3", "num_citizens=300", "max_episode_steps=2"),
    "masks": ("Harvest-v0", "6", "num_envs=37", "map=1", "max_episode_steps=4"),
    "masks, more agents than lanes": ("Harvest-v0", "3", "num_envs=2", "num_red=200", "num_blue=100", "max_episode_steps=2"),
    "doubles": ("WarpRice-v0", "4", "num_envs=37"),
    "doubles, whole rows": ("WarpRice-v0", "7", "num_envs=5", "negotiation_on=True", "observe='whole'"),
    "a shared part": ("Pot-v0", "6", "num_envs=37", "max_episode_steps=4"),
    "governors and a planner": ("WarpCovid-v0", "6", "num_envs=37", "episode_length=4"),
}

SHORT_TRAIN = str(Path(__file__).with_name("short_train.py"))
LEAVING = ("WarpTag-v0", "num_taggers=2", "num_runners=4", "tagging_distance=0.2", "episode_length=4")
TRAININGS = {
    "choices, agents that leave": LEAVING,
    "numbers": ("WarpPendulum-v1", "max_episode_steps=5"),
    "split networks": ("WarpTag-v0", "num_taggers=2", "num_runners=4", "episode_length=4", "hidden=(160, 40)"),
    "a GRU": ("WarpPendulum-v1", "max_episode_steps=5", "hidden=()", "memory='gru'"),
    "a GRU, agents that leave": (*LEAVING, "hidden=()", "memory='gru'"),
    "wide observations": ("WarpTag-v0", "num_taggers=5", "num_runners=60", "use_full_observation=True", "episode_length=4"),
    "shared parts": ("WarpRice-v0",),
    "heads by the hundred": ("WarpRice-v0", "negotiation_on=True"),
    "governors and a planner": ("WarpCovid-v0", "episode_length=4"),
}
BY_TORCH = {
    "an LSTM": (*LEAVING, "memory='lstm'"),
    "a critic of the world": (*LEAVING, "critic='observations'"),
    "sac": ("WarpPendulum-v1", "max_episode_steps=5", "algorithm='sac'"),
    "sac, priorities, agents that leave": (*LEAVING, "algorithm='sac'", "priorities=0.6"),
    "td3": ("WarpPendulum-v1", "max_episode_steps=5", "algorithm='td3'", "priorities=0.6"),
    "ddpg, agents that leave": (*LEAVING, "continuous_actions=True", "algorithm='ddpg'"),
    "pqn": ("WarpCartPole-v1", "max_episode_steps=5", "algorithm='pqn'"),
    "pqn of teams": (*LEAVING, "algorithm='pqn'", "mixing='vdn'"),
}
"""Trainings whose kernels are those of draws, recurrences, the order of minibatches and replay buffers."""


def run(tool, *arguments, block=None, script=SHORT_RUN):
    # Only our kernels are checked: torch and CuPy probe the driver with calls that may fail without being errors.
    options = ["--kernel-name", "kernel_substring=gv_", *(["--report-api-errors", "no"] if tool == "memcheck" else [])]
    command = [str(TOOL), "--tool", tool, "--error-exitcode", "9", *options,
               sys.executable, script, *arguments]  # fmt: skip
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, **({"GPU_VECENV_BLOCK_SIZE": block} if block else {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT, env=environment)


@pytest.mark.parametrize("seed", range(12))
def test_random_calls_cause_no_sanitizer_error(seed):
    """Random states, invalid arguments and extreme parameters."""
    done = run("memcheck", str(seed), "250", "cuda:0", script=str(ROOT / "tests" / "api" / "fuzz.py"))
    assert done.returncode == 0 and "step ok" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("case", CASES)
def test_a_short_run_causes_no_sanitizer_error(case, tool):
    done = run(tool, *CASES[case], block=BLOCKS.get(case))
    assert done.returncode == 0 and "ran" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("kernels", ["torch", "fused"])
@pytest.mark.parametrize("case", TRAININGS)
def test_a_short_training_causes_no_sanitizer_error(case, kernels, tool):
    done = run(tool, kernels, *TRAININGS[case], script=SHORT_TRAIN)
    assert done.returncode == 0 and "trained 3" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("case", BY_TORCH)
def test_a_short_training_by_torch_causes_no_sanitizer_error(case, tool):
    done = run(tool, "torch", *BY_TORCH[case], script=SHORT_TRAIN)
    assert done.returncode == 0 and "trained 3" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("case", ["choices, agents that leave", "numbers"])
def test_a_replay_buffer_causes_no_sanitizer_error(case, tool):
    done = run(tool, *TRAININGS[case], script=str(Path(__file__).with_name("short_replay.py")))
    assert done.returncode == 0 and "sampled True" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize(("tool", "fault"), [("memcheck", "overrun"), ("racecheck", "race")])
def test_a_planted_fault_is_reported(tool, fault):
    done = run(tool, *CASES["a block a world"], f"fault={fault}")
    assert done.returncode != 0 and ON_GPU[fault].words in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
