"""What each library can and cannot do with these environments, recorded from the tests that show it.

A test marked ``works("library", "what")`` shows that something works, one marked ``limit("library", "what, and why")`` that
something does not, by catching the error. ``pytest tests/adapters --record-support FILE`` merges what passed into FILE, from
which the table in ``docs/adapters/index.md`` is made: a text of which a test failed is taken out, and one of which none was run
stays as it is, so that fast, slow and GPU tests may be recorded one after the other.
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
    if report.failed or (report.when == "call" and report.passed):
        for kind in ("works", "limit"):
            for marker in item.iter_markers(kind):
                library, what = marker.args
                said = item.config.stash[RESULTS].setdefault(library, {"works": {}, "limit": {}})[kind]
                said[what] = said.get(what, True) and report.passed
    return report


def merged(before, said):
    """Texts recorded before, and those said now: by each whether all of its tests passed."""
    return sorted({text for text in before if said.get(text, True)} | {text for text, passed in said.items() if passed})


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
