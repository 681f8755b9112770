"""Worlds that a browser steps, in Chromium and in Firefox, give the recorded bits."""

import contextlib
import dataclasses
import json

import gymnasium
import pytest

from gpu_vecenv.backend import wasm
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.testing.subject import action_table
from tests.parity.trajectory import CASES, RECORD, STEPS, digest_of
from tests.web.page_worlds import FIND, PageWorlds, WorkingPage
from tests.web.test_same_bits import IN_CI


@pytest.fixture(scope="module")
def pages():
    """Returns the page of a browser, which all cases share."""
    with contextlib.ExitStack() as stack:
        opened = {}

        def page_of(browser):
            if FIND[browser]() is None:
                pytest.skip(f"needs {browser}: apt-get install chromium firefox-esr")
            if browser not in opened:
                opened[browser] = stack.enter_context(contextlib.closing(WorkingPage(browser)))
            return opened[browser]

        yield page_of


def digest_in(page, case, spec=None):
    """Return the hash of a case in a page, with the kernels of ``spec``, by default those of the env."""
    name, params = CASES[case]
    with contextlib.closing(gymnasium.make_vec(name, **{"device": "cpu", **params, "array": "numpy"}).unwrapped) as env:
        worlds = PageWorlds(env.worlds.view, wasm.wasm_module(spec or env.env_spec), page)
        digest, _ = digest_of(worlds, action_table(env, STEPS.get(case, 1000), 11), at_once=50)
        assert worlds.num_invalid() == 0
        return digest


def marks_of(browser, case):
    """One case of Chromium is fast, CI runs those of ``IN_CI``, and all others are slow, those of Firefox too."""
    if browser == "firefox":
        return pytest.mark.slow
    return () if case == "cartpole" else pytest.mark.in_ci if case in IN_CI else pytest.mark.slow


EACH = [pytest.param(browser, case, marks=marks_of(browser, case)) for browser in FIND for case in CASES]


@pytest.mark.parametrize(("browser", "case"), EACH)
def test_the_bits_are_the_recorded_ones(pages, browser, case):
    assert digest_in(pages(browser), case) == json.loads(RECORD.read_text())[case]


@pytest.mark.in_ci
def test_one_changed_token_of_a_kernel_changes_the_hash(pages, tmp_path):
    text, changed = SPEC.kernel.read_text(), tmp_path / "cartpole.cu"
    assert text.count("s.x += ") == 1
    changed.write_text(text.replace("s.x += ", "s.x -= "))
    digest = digest_in(pages("chromium"), "cartpole", dataclasses.replace(SPEC, kernel=changed))
    assert digest != json.loads(RECORD.read_text())["cartpole"]
