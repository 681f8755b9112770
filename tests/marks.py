"""Marks of cases, for tests whose time is spent on many of them."""

import pytest


def slow_but(quick, cases):
    """Return cases as parameters of a test; those that are not in ``quick`` are slow."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def in_ci(long, cases):
    """Return cases as parameters of a test; those in ``long`` run in ``.ci/run`` beside the tests that are not slow."""
    long_ones = [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.in_ci) for case in long]
    return [*(case for case in cases if case not in long), *long_ones]
