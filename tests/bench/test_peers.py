"""Paths of the peers, without their libraries. ``gpu-vecenv bench`` runs the peers whose libraries are installed."""

import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from gpu_vecenv.bench.cases import CPU_CASES, GPU_CASES, TAG, Case
from gpu_vecenv.bench.peers import PEERS, TRAINERS
from gpu_vecenv.bench.peers.warpdrive import FromReset
from gpu_vecenv.bench.settings import GOALS, SETTINGS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", [*PEERS, *TRAINERS])
def test_paths_are_json_and_arguments_of_make(name):
    peer = import_module(f"gpu_vecenv.bench.peers.{name}")
    found = 0
    on_gpu, on_cpu = ((*SETTINGS[kind], *GOALS[kind]) if name in TRAINERS else None for kind in ("cuda", "cpu"))
    for cases, device in ((on_gpu or GPU_CASES, "cuda:0"), (on_cpu or CPU_CASES, "cpu")):
        for case in cases:
            ways = peer.ways(case, device)
            found += len(ways)
            for way in ways:
                inspect.signature(peer.make).bind(**json.loads(json.dumps(way)))
                assert way["num_envs"] == case.worlds and way["device"] in (device, "cpu")
            assert len({way["path"] for way in ways}) == len(ways)
    assert found > 0


@pytest.mark.parametrize("name", [*PEERS, *TRAINERS])
def test_listing_paths_imports_no_library(name):
    """Modules of peers are imported by the benchmark's own process; only ``make`` may import a peer's library."""
    source = inspect.getsource(import_module(f"gpu_vecenv.bench.peers.{name}"))
    top = {line.split()[1].partition(".")[0] for line in source.splitlines() if line.startswith(("import ", "from "))}
    assert top.isdisjoint({
        "torch", "jax", "gymnax", "jaxmarl", "vmas", "envpool", "warp_drive", "mpe2", "lbforaging", "rware", "jumanji",
    })


def test_tag_has_a_peer_in_its_default_size_and_starts_only():
    tag = {"num_taggers": 5, "num_runners": 100}
    modules = [import_module(f"gpu_vecenv.bench.peers.{name}") for name in PEERS]
    assert [m.NAME for m in modules if m.ways(Case(TAG, 100, tag), "cuda:0")] == ["WarpDrive"]
    assert [m.NAME for m in modules if m.ways(Case(TAG, 100, tag, "corner"), "cuda:0")] == []
    assert [m.NAME for m in modules if m.ways(Case(TAG, 100, {**tag, "num_runners": 99}), "cuda:0")] == []


def test_an_untimed_reset_precedes_timed_calls():
    done = []
    timed = FromReset(lambda: done.append("step"), lambda: done.append("reset"), "cpu")
    reading = timed.read(3)
    assert done == ["reset", "step", "step", "step"] and reading.seconds >= reading.host_seconds > 0


def test_alias_gym_stands_in_for_a_missing_gym():
    """Runs in a process of its own, as the alias is meant for one."""
    code = """import sys
sys.modules["gym"] = None  # as if it were not installed
from gpu_vecenv.bench.peers.gym_alias import alias_gym
alias_gym()
import gym, gym.spaces, gym.envs.classic_control.cartpole, numpy
import gymnasium
assert gym is gymnasium and gym.spaces is gymnasium.spaces
assert numpy.row_stack([[1], [2]]).shape == (2, 1)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
