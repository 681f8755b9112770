"""Ids of the package for tests of every env."""

import pytest

from gpu_vecenv.registration import IDS

ALONE = ("WarpSimpleSpread-v3", "WarpSimpleWorldComm-v3")
"""Scenarios of particle envs that stand for all in fast tests: one role, and three roles."""


def marked(name: str) -> object:
    """Return an id as a parameter, which is slow for particle envs other than ``ALONE``: they share their parts with these."""
    slow = name.startswith("WarpSimple") and name not in ALONE
    return pytest.param(name, marks=pytest.mark.slow) if slow else name


EVERY_ID = [marked(name) for name in IDS]
"""Parameters of tests of every env."""
