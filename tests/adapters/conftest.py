"""What each library can and cannot do with these environments, recorded from the tests that show it.

A test marked ``works("library", "what")`` shows that something works, one marked ``limit("library", "what, and why")`` that
something does not, by catching the error. ``pytest tests/adapters --record-support FILE`` merges what passed into FILE, from
which the table in ``docs/adapters/index.md`` is made.
"""

import json
from importlib.metadata import version
from pathlib import Path

import pytest

DISTRIBUTIONS = {
    "Stable-Baselines3": "stable-baselines3",
    "CleanRL-style": "torch",
    "TorchRL": "torchrl",
    "PettingZoo": "pettingzoo",
    "skrl": "skrl",
    "rl_games": "rl-games",
    "rsl_rl": "rsl-rl-lib",
    "JAX": "jax",
    "CuPy": "cupy-cuda13x",
}
"""Library to the distribution whose version counts."""


def pytest_addoption(parser):
    parser.addoption("--record-support", type=Path, help="JSON file into which what works and what does not is merged")


def pytest_configure(config):
    config.stash[RESULTS] = {}


RESULTS = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call" and report.passed:
        for kind in ("works", "limit"):
            for marker in item.iter_markers(kind):
                library, what = marker.args
                item.config.stash[RESULTS].setdefault(library, {"works": [], "limit": []})[kind].append(what)
    return report


def pytest_sessionfinish(session):
    target = session.config.getoption("--record-support")
    if target is None:
        return
    recorded = json.loads(target.read_text()) if target.exists() else {}
    for library, found in session.config.stash[RESULTS].items():
        lists = {kind: sorted(set(texts)) for kind, texts in found.items()}
        recorded[library] = {"version": version(DISTRIBUTIONS[library]), **lists}
    target.write_text(json.dumps(recorded, indent=2, sort_keys=True) + "\n")
