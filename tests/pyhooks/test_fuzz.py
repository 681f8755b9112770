"""Mutants of hooks are refused, or Python and the compiled kernel run them to the same results."""

import random
from pathlib import Path

import numpy as np
import pytest

from tests.pyhooks.fuzz import GOOD, PORTS, SEEDS, bits, fuzz, mutant, verdict


def test_mutants_are_refused_or_accepted_without_a_traceback():
    counts = fuzz(60, seed=7, compiles=False, most=150)
    assert {said: count for said, count in counts.items() if said not in GOOD} == {}
    assert counts["refused"] > 30 and counts["accepted"] > 15


def test_the_sign_of_zero_is_compared_and_that_of_nan_is_not():
    zero, nan = np.zeros(1, np.float32), np.full(1, np.nan, np.float32)
    assert bits(zero) != bits(-zero) and bits(nan) == bits(-nan) and bits(zero) == bits(zero.view(np.int32))


def test_mutants_differ():
    text = (PORTS / "ledger.py").read_text()
    assert len({mutant(text, random.Random(seed)) for seed in range(50)}) > 40


@pytest.mark.slow
def test_the_check_notices_a_difference(tmp_path, monkeypatch):
    """The wrong order of a subtraction in Python alone."""
    from gpu_vecenv.pyhooks import transform

    monkeypatch.setattr(transform, "negative", lambda x: x)
    text = (PORTS / "spread.py").read_text().replace("lambda it: -it.near_by", "lambda it: -(it.near_by)")
    assert verdict("spread", text, tmp_path) == "Python and the kernel differ"


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_the_hooks_that_are_mutated_run_alike(name, tmp_path):
    assert verdict(name, SEEDS[name][0].read_text(), Path(tmp_path)) == "same"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("flags", [("-O0",), ("-O1", "-DGV_LANES=5", "-pthread")], ids=["one lane", "five lanes"])
def test_mutants_run_alike_in_python_and_compiled(flags):
    counts = fuzz(240, seed=len(flags), flags=flags)
    assert {said: count for said, count in counts.items() if said not in GOOD} == {}
    assert counts["same"] > 20
