"""Helpers marked with `dividing`: a GPU may run their bodies twice, and they give the bits of Python all the same."""

import numpy as np
import pytest

from gpu_vecenv.backend import compiler
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.errors import HookError
from gpu_vecenv.pyhooks.translate import translate
from tests.pyhooks.ledger import ledger, spec_of_text, text_with

BODIES = {
    "a parameter that is assigned": """
    x = x * 2.0
    return y / x
""",
    "parameters that change in a loop": """
    for k in range(2):
        x += f32(n)
        n -= 1
        x = y / x if k == 1 else x * 3.0
    return x / (1.0 + y)
""",
    "locals that change in branches and loops": """
    total = 1.0
    if y > 2.0:
        part = x
        total = total + part
    for k in range(n):
        total += y / x
        total = total / y
    return total
""",
    "a divisor that is assigned later": """
    z = y / x
    x = 5.0
    return z / x
""",
    "constants": """
    return x / SCALE + y / 3.0
""",
    "a local and a parameter with one value": """
    z = x + y
    return y / z + x / z + z / x
""",
}
OPERANDS = ("2.0, 3.0", "1e19, 1e20", "3e-20, 7.0", "-1e-20, 0.01", "0.7, -0.3")


def hooks():
    """Hooks in which the reward of agent k is the result of helper k, and the action chooses its operands."""
    text = "\nSCALE = 3.0\n"
    for k, body in enumerate(BODIES.values()):
        text += f"\n@dividing\ndef helper_{k}(w, x: f32, y: f32, n: i32) -> f32:{body}"
    text += "\ndef env_step(w):\n    for me in w.agents:\n        case = me.action.index()\n"
    for case, operands in enumerate(OPERANDS):
        text += f"        if case == {case}:\n"
        for k in range(len(BODIES)):
            text += f"            if me.index == {k}:\n                me.reward = helper_{k}(w, {operands}, 2)\n"
    return text


@pytest.mark.parametrize("shared", ["0", "1"])
def test_a_second_run_of_the_body_changes_no_bit(shared, tmp_path, monkeypatch):
    """The CPU divides as a GPU does with GV_SHARED_DIVISION 1. Operands above 1e18 or below 1e-18 make it run bodies again."""

    def source(*arguments):
        before, macro, after = kernel_source(*arguments).rpartition("#define GV_SHARED_DIVISION 0")
        assert macro
        return f"{before}{macro[:-1]}{shared}{after}"

    monkeypatch.setattr(compiler, "kernel_source", source)
    rewards = []
    for device in ("python", "cpu"):
        env = ledger(hooks(), tmp_path, device=device, num_owners=len(BODIES), num_worlds=len(OPERANDS))
        env.reset(seed=0)
        actions = np.repeat(np.arange(len(OPERANDS), dtype=np.int32)[:, None], len(BODIES), axis=1)
        rewards.append(np.array(env.step(actions)[4]["agent_reward"]))
        env.close()
    assert rewards[0].shape == (len(OPERANDS), len(BODIES)) and len(np.unique(rewards[0])) > rewards[0].size / 2
    np.testing.assert_array_equal(rewards[0].view(np.uint32), rewards[1].view(np.uint32))


ACTING = {
    "a write to the state": "me.gold = 1",
    "an action": "x = f32(me.action.index())",
    "an end of the episode": "w.terminate(True)",
    "a metric": "w.record.most(x)",
}


@pytest.mark.parametrize("name", ACTING)
def test_a_body_that_acts_is_refused(name, tmp_path):
    """Two runs would count twice."""
    line = ACTING[name]
    once = line.startswith("w.")
    parameter, argument = ("", "") if once else (", me: Agent", ", me")
    phase = "    if w.once:\n        w.state.pot = " if once else "    for me in w.agents:\n        me.gold = "
    text = text_with(
        f"\n@dividing\ndef helper(w, x: f32{parameter}) -> f32:\n    {line}\n    return 1.0 / x\n"
        f"\ndef env_step(w):\n{phase}i32(helper(w, 2.0{argument}))\n"
    )
    spec = spec_of_text(text, tmp_path)
    with pytest.raises(HookError, match="a helper marked with dividing returns f32 and changes nothing"):
        translate(spec, spec.kernel, text)


@pytest.mark.parametrize("inside", [True, False])
def test_a_while_is_refused(inside, tmp_path):
    """The first of two runs may have NaN for x / inf, with which this loop never ends."""
    loop = "    while not x < 1.0:\n        x = x / y\n    return x\n"
    head = "" if inside else f"\ndef halved(w, x: f32, y: f32) -> f32:\n{loop}"
    body = loop if inside else "    return halved(w, x, y) / y\n"
    text = text_with(
        f"{head}\n@dividing\ndef helper(w, x: f32, y: f32) -> f32:\n{body}"
        "\ndef env_step(w):\n    for me in w.agents:\n        me.reward = helper(w, 2.0, f32(w.t))\n"
    )
    spec = spec_of_text(text, tmp_path)
    line = next(number for number, line in enumerate(text.splitlines(), start=1) if "while" in line)
    with pytest.raises(HookError, match=rf"hooks\.py:{line}: .*helper\(\) is marked with dividing, and `while` may never end"):
        translate(spec, spec.kernel, text)
