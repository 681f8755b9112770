"""The page on hooks in Python shows what a debugger and the translator say."""

import io
import pdb
import sys
from pathlib import Path

import numpy as np
import pytest

import gpu_vecenv.pyhooks
from gpu_vecenv.errors import HookError
from tools.docs.readme import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGE = blocks(ROOT / "docs" / "learn" / "python-hooks.md")
HOOKS, SPEC = (block.text for block in PAGE if block.language == "python")
SESSION, MESSAGE = (block.text for block in PAGE if block.language == "text")


@pytest.fixture
def crowd(tmp_path, monkeypatch):
    """Return a maker of the page's env with hooks that are written to the present folder."""
    monkeypatch.chdir(tmp_path)

    def make(text):
        Path("crowd_hooks.py").write_text(text)
        names = {}
        exec(SPEC.split("results = {}")[0], names)
        return names["GpuVectorEnv"](names["SPEC"], num_envs=1, device="python", array="numpy")

    return make


def test_the_session_is_that_of_a_debugger(crowd, tmp_path, monkeypatch):
    env = crowd(HOOKS.replace("        me.reward =", "        breakpoint()\n        me.reward =", 1))
    env.reset(seed=0)
    said, typed = io.StringIO(), [line.removeprefix("(Pdb) ") for line in SESSION.splitlines() if line.startswith("(Pdb)")]
    debugger = pdb.Pdb(stdin=io.StringIO("\n".join([*typed, "c", "c", "c", "c", "c", "c"]) + "\n"), stdout=said)
    debugger.use_rawinput = False
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
    try:
        env.step(np.full((1, 5), 2, np.int32))
    finally:
        sys.settrace(None)
    shown = said.getvalue().replace(f"{tmp_path}/", "").replace("(Pdb) ", "")
    expected = "\n".join(line for line in SESSION.splitlines() if not line.startswith("(Pdb)"))
    assert shown.startswith(expected)


def test_the_message_is_that_of_the_translator(crowd, tmp_path):
    line = next(line for line in HOOKS.splitlines() if "me.reward =" in line)
    with pytest.raises(HookError) as raised:
        crowd(HOOKS.replace(line, "        me.reward = me.x * w.params.cost"))
    assert str(raised.value).replace(f"{tmp_path}/", "") == MESSAGE.strip()


@pytest.mark.parametrize("name", gpu_vecenv.pyhooks.__all__)
def test_every_name_has_help(name):
    assert len(getattr(gpu_vecenv.pyhooks, name).__doc__) > 20


@pytest.mark.parametrize("name", [name for name in vars(gpu_vecenv.pyhooks.World) if name[0] != "_"])
def test_every_call_of_the_world_has_help(name):
    assert getattr(gpu_vecenv.pyhooks.World, name).__doc__


def test_the_page_names_every_function():
    page = (ROOT / "docs" / "learn" / "python-hooks.md").read_text()
    assert all(f"w.{name}" in page for name in ("count", "any", "sum", "pairs", "each", "once", "agents", "role", "record"))
