"""Records the features of each library that work and that do not, from the results of tests.

A test marked ``works("library", "text")`` passes if the thing named by the text works. A test marked ``limit("library", "text")``
passes if it fails with the error that the test catches. ``pytest tests/adapters --record-support FILE`` merges the results into
FILE, from which the table in ``docs/adapters/index.md`` is made. A text is removed if one of its tests failed. It is kept if none
of its tests ran, so that fast, slow and GPU tests can be recorded one after another.
"""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

DISTRIBUTIONS = {
    "Stable-Baselines3": "stable-baselines3",
    "sb3-contrib": "sb3-contrib",
    "SBX": "sbx-rl",
    "CleanRL-style": "torch",
    "LeanRL": "torch",
    "TorchRL": "torchrl",
    "BenchMARL": "benchmarl",
    "PettingZoo": "pettingzoo",
    "skrl": "skrl",
    "rl_games": "rl-games",
    "rsl_rl": "rsl-rl-lib",
    "Lightning": "lightning",
    "JAX": "jax",
    "CuPy": "cupy-cuda13x",
    "SuperSuit": "supersuit",
    "RLlib": "ray",
    "rl_zoo3": "rl_zoo3",
    "Tianshou": "tianshou",
    "AgileRL": "agilerl",
}
"""Distribution of each library; its version is recorded."""


def pytest_addoption(parser):
    parser.addoption("--record-support", type=Path, help="JSON file into which results of tests marked works or limit are merged")


def pytest_configure(config):
    config.stash[RESULTS] = {}


RESULTS = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed or (report.when == "call" and report.passed):
        for kind in ("works", "limit"):
            for marker in item.iter_markers(kind):
                library, what = marker.args
                said = item.config.stash[RESULTS].setdefault(library, {"works": {}, "limit": {}})[kind]
                said[what] = said.get(what, True) and report.passed
    return report


def merged(before, passed_by_text):
    """Return sorted texts: those recorded before whose tests did not fail in this run, and those whose tests all passed in it."""
    kept = {text for text in before if passed_by_text.get(text, True)}
    return sorted(kept | {text for text, passed in passed_by_text.items() if passed})


def pytest_sessionfinish(session):
    target = session.config.getoption("--record-support")
    if target is None:
        return
    recorded = json.loads(target.read_text()) if target.exists() else {}
    for library, found in session.config.stash[RESULTS].items():
        before = recorded.get(library, {})
        lists = {kind: merged(before.get(kind, []), said) for kind, said in found.items()}
        recorded[library] = {"version": version(DISTRIBUTIONS[library]), **lists}
    target.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
