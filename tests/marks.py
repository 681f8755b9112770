"""Marks of cases, for tests whose time is spent on many of them."""

import pytest


def slow_but(quick, cases):
    """Return cases as parameters of a test; those that are not in ``quick`` are slow."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]
