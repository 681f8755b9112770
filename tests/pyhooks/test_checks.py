"""``device="python"``: Python runs hooks with checks, pdb stops in them, and the rest of an env is as on the CPU."""

import bdb
import copy
import dataclasses
import pickle
import sys

import numpy as np
import pytest

from gpu_vecenv import Constant, Table
from gpu_vecenv.errors import HookError, HookFault, ParameterError
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.kernels.test_ptx import spec_of
from tests.pyhooks.cases import port_of
from tests.pyhooks.ledger import FIRST, HEAD, ledger, spec_of_text, text_with

ACTIONS = np.zeros((2, 3), np.int32)

FAULTS = {
    "overflow of a product": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 0.0
        x = 65536 * (me.index + 1)
        me.gold = x * x
""", 5, "env_step: overflow: scalar multiply gives a number that 32 bits do not hold"),
    "overflow of a sum of floats": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 3e38
        me.reward += me.reward
""", 4, "overflow: scalar add"),
    "overflow in a helper": ("""
def twice(w, x: i32) -> i32:
    return 2 * x


def env_step(w):
    for me in w.agents:
        me.reward = 0.0
        me.gold = twice(w, 2000000000)
""", 2, "twice: overflow"),
    "an integer of a float that none holds": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 1e10
        me.gold = i32(me.reward)
""", 4, "i32(1e+10): an i32 lies between"),
    "a reward that is infinite": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 1.0
        me.reward /= f32(2 - me.index)
""", 4, "reward of agent 2 becomes inf; step 1, world 0, agent 2."),
    "a feature that is NaN": ("""
def env_observe(w):
    for me in w.agents:
        me.obs = [1.0, sqrt(f32(1 - me.index))]
""", 3, "element 1 of obs of agent 2 becomes nan"),
    "a division by 0": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 0.0
        me.gold = 3 // (me.gold - me.gold)
""", 4, "3 // 0"),
    "a rest of a division by 0": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 0.0
        me.gold = 3 % (me.gold - me.gold)
""", 4, "env_step: 3 % 0; step 1, world 0, agent 0."),
    "an index behind an array": ("""
def env_step(w):
    for me in w.agents:
        me.reward = 0.0
        me.gold = w.state.cells[me.index + 5]
""", 4, "index 6 of w.state.cells, which has the elements 0 to 5"),
    "an index before an array": ("""
def env_step(w):
    for me in w.agents:
        me.reward = w.tables.prices[me.index - 1]
""", 3, "index -1 of w.tables.prices"),
    "an index of an agent's array": ("""
def env_step(w):
    for me in w.agents:
        me.reward = me.memory[me.index]
""", 3, "index 2 of memory of agent 2, which has the elements 0 to 1"),
    "an index before an axis, inside the array": ("""
def env_step(w):
    for me in w.agents:
        me.reward = w.at.memory[1, me.index - 1]
""", 3, "index -1 of axis 1 of w.state.memory, which has the elements 0 to 1"),
    "an index behind an axis of agents": ("""
def env_step(w):
    for me in w.agents:
        me.reward = w.at.memory[me.index + 1, 0]
""", 3, "index 3 of axis 0 (num_agents) of w.state.memory, which has the elements 0 to 2"),
    "an agent that there is not": ("""
def env_step(w):
    for me in w.agents:
        me.reward = f32(w.agents[me.index + 1].gold)
""", 3, "index 3 of <w.agents: 3 agents>"),
    "an index in a lambda": ("""
def env_step(w):
    rich = w.count(w.agents, lambda it: w.state.cells[it.index + 4] > 0)
""", 2, "env_step: index 6 of w.state.cells"),
    "scratch that nothing has written": ("""
def env_step(w):
    for me in w.agents:
        me.reward = w.scratch.sums[me.index]
""", 3, "reads element 0 of w.scratch.sums before anything writes it"),
    "a reward of the step before": ("""
def env_step(w):
    for me in w.agents:
        me.reward += 1.0
""", 3, "reads element 0 of reward of agent 0 before anything writes it"),
    "a state of the episode before": ("""
def env_reset(w):
    for me in w.agents:
        me.memory[0] = me.memory[1]
""", 3, "of w.state.memory before anything writes it"),
    "a state that no episode starts with": ("""
def env_reset(w):
    for me in w.agents:
        me.gold = 3
""", 1, "env_reset: it ends without writing element 0 of w.state.memory"),
    "a reward that is missing": ("""
def env_step(w):
    for me in w.agents:
        if me.index > 0:
            me.reward = 0.0
""", 1, "env_step: it ends without writing reward of agent 0"),
    "a feature that is missing": ("""
def env_observe(w):
    for me in w.agents:
        me.obs[1] = 1.0
""", 1, "env_observe: it ends without writing element 0 of obs of agent 0"),
    "a row of another length": ("""
def env_observe(w):
    for me in w.agents:
        me.obs = [1.0, 2.0, 3.0]
""", 3, "3 values for obs of agent 0, which has 2"),
    "a feature that two lanes write": ("""
def env_observe(w):
    for me, it in w.pairs(w.agents):
        me.obs[it.index // 2] = f32(it.gold)
""", 3, "two lanes write element 0 of obs of agent 0: the lane of pair 0, 0 and the lane of pair 0, 1"),
    "entries that an action does not have": ("""
def env_step(w):
    for me in w.agents:
        me.reward = f32(me.action.index(1))
""", 3, "entry 1 of an action, which has the entries 0 to 0"),
    "more choices than an action has": ("""
def env_step(w):
    for me in w.agents:
        move, zap = me.action.indices()
        me.reward = f32(move + zap)
""", 3, "not enough values to unpack"),
    "a number of an action that is a choice": ("""
def env_step(w):
    for me in w.agents:
        me.reward = me.action.value()
""", 3, "the entries of this action are choices, which index() reads"),
    "a draw below 0": ("""
def env_step(w):
    for me in w.agents:
        me.reward = f32(w.draw(0).below(me.index))
""", 3, "below(0): expected a number from 1 on"),
}  # fmt: skip
"""Hooks with a fault: text, line from its first line on, and a part of the message."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_has_its_line(fault, tmp_path):
    text, line, says = FAULTS[fault]
    env = ledger(text, tmp_path)
    with pytest.raises(HookFault) as raised:
        env.reset(seed=0)
        env.step(ACTIONS)
    assert str(raised.value).startswith(f"{tmp_path}/hooks.py:{FIRST + line}: "), raised.value
    assert says in str(raised.value)


@pytest.mark.parametrize("device", ["python", "cpu"])
def test_an_index_for_each_axis_names_the_element_of_the_flat_array(device, tmp_path):
    env = ledger("""
def env_step(w):
    if w.once:
        for k in range(6):
            w.at.memory[k // 2, k % 2] = f32(k)
            w.at.cells[k] += 1
        w.at.memory[2, 1] *= 2.0
    for me in w.agents:
        me.reward = w.at.memory[me.index, 1]
""", tmp_path, device=device)  # fmt: skip
    env.reset(seed=0)
    before = env.get_state("cells")["cells"]
    reward = env.step(ACTIONS)[4]["agent_reward"]
    state = env.get_state("memory", "cells")
    np.testing.assert_array_equal(state["memory"], [[[0, 1], [2, 3], [4, 10]]] * 2)
    np.testing.assert_array_equal(state["cells"], before + 1)
    np.testing.assert_array_equal(reward, [[1, 3, 10]] * 2)


@pytest.mark.parametrize("device", ["python", "cpu"])
def test_only_return_leaves_a_loop_of_a_helper(device, tmp_path):
    env = ledger("""
def steps_to_one(w, x: i32) -> i32:
    number = 0
    while True:
        for k in range(9):
            if k == number:
                break
        if x == 1:
            return number
        x = 3 * x + 1 if x % 2 == 1 else x // 2
        number += 1


def env_step(w):
    for me in w.agents:
        me.reward = f32(steps_to_one(w, me.index + 5))
""", tmp_path, device=device)  # fmt: skip
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(ACTIONS)[4]["agent_reward"], [[5, 8, 16]] * 2)


@pytest.mark.parametrize("device", ["python", "cpu"])
def test_all_values_of_an_assignment_are_those_before_it(device, tmp_path):
    env = ledger("""
def env_step(w):
    for me in w.agents:
        k = 0
        k, it = 1, w.agents[k]
        seven, drawn = 7, w.draw(2, k)
        k, again = 2, w.draw(2, k)
        me.reward = f32(it.index) + f32(seven) * f32(drawn.uniform() == again.uniform())
""", tmp_path, device=device)  # fmt: skip
    env.reset(seed=0)
    np.testing.assert_array_equal(env.step(ACTIONS)[4]["agent_reward"], [[7, 7, 7]] * 2)


def test_hooks_without_a_fault_run(tmp_path):
    env = ledger("", tmp_path)
    env.reset(seed=0)
    obs, reward, *_ = env.step(ACTIONS)
    assert obs.shape == (2, 3, 2) and reward.shape == (2,)


def test_a_race_between_phases_is_noticed_if_a_barrier_is_missing(tmp_path):
    """The translator places barriers; without them the check of each element tells of the race."""
    text = """
def env_step(w):
    for me in w.agents:
        me.gold = me.index
    for me in w.agents:
        me.reward = f32(w.agents[(me.index + 1) % 3].gold)
"""
    env = ledger(text, tmp_path)
    env.reset(seed=0)
    env.step(ACTIONS)
    env.worlds.backend._hooks["env_step"].__globals__[".barrier"] = lambda: None
    with pytest.raises(HookFault, match="reads element 1 of w.state.gold, which lane 1 writes in the same phase"):
        env.step(ACTIONS)


PLACES = {
    "in a phase over agents": ("for me in w.agents:\n        me.gold = 1 // (me.index + 3 * w.t - 7)", ", agent 1"),
    "in a phase over numbers": ("for k in w.each(CELLS):\n        w.state.cells[k] = 1 // (w.t - 2)", ""),
    "in the first lane": ("if w.once:\n        w.state.pot = 1 // (w.t - 2)", ""),
}
"""Statements that divide by 0 in step 2, and the agent in the place that the message ends with."""


@pytest.mark.parametrize("where", PLACES)
def test_a_fault_has_its_step_world_and_agent(where, tmp_path):
    statement, agent = PLACES[where]
    head = "\ndef env_step(w):\n    for me in w.agents:\n        me.reward = 0.0\n"
    env = ledger(f"{head}    {statement}\n", tmp_path)
    env.reset(seed=0)
    env.set_state({"t": np.array([0, 1], np.int32)})
    with pytest.raises(HookFault, match=f"; step 2, world 1{agent}[.]$"):
        env.step(ACTIONS)


def test_the_env_goes_on_after_a_fault(tmp_path):
    env = ledger("\ndef env_step(w):\n    for me in w.agents:\n        me.reward = f32(12 // (w.t - 2))\n", tmp_path)
    env.reset(seed=0)
    env.step(ACTIONS)
    with pytest.raises(HookFault):
        env.step(ACTIONS)
    env.step(ACTIONS)


def test_an_error_of_the_translator_comes_first(tmp_path):
    with pytest.raises(HookError, match=r"hooks.py:8: env_step: expected f32, got i32"):
        ledger("\ndef env_step(w):\n    for me in w.agents:\n        me.reward = 1\n", tmp_path)


def test_hooks_in_cpp_are_refused():
    with pytest.raises(ParameterError, match='device="python" runs hooks in Python, and the hooks of this env are cartpole.cu'):
        GpuVectorEnv(spec_of("WarpCartPole-v1"), device="python")


def test_print_and_breakpoint_are_left_out_when_compiled(tmp_path, capsys):
    text = text_with("""
def env_step(w):
    for me in w.agents:
        print("gold", me.gold, f"{me.gold + 1:3d}")
        me.reward = 0.0
""")
    spec = spec_of_text(text, tmp_path)
    for device in ("python", "cpu"):
        env = GpuVectorEnv(spec, num_worlds=1, device=device, array="numpy")
        env.reset(seed=0)
        env.step(ACTIONS[:1])
    gold = env.get_state("gold")["gold"][0]
    assert capsys.readouterr().out.splitlines() == [f"gold {g} {g + 1:3d}" for g in gold]


def test_print_reads_what_another_lane_writes(tmp_path, capsys):
    env = ledger("""
def env_step(w):
    for me in w.agents:
        me.gold = 7
        print(w.agents[0].gold)
        me.reward = 0.0
""", tmp_path, num_worlds=1)  # fmt: skip
    env.reset(seed=0)
    env.step(ACTIONS[:1])
    assert capsys.readouterr().out == "7\n7\n7\n"


class Scripted(bdb.Bdb):
    """A debugger that notes the lines at which it stops, and looks at names there."""

    def __init__(self, path, look):
        super().__init__()
        self.path, self.look, self.seen = str(path), look, []

    def user_line(self, frame):
        if frame.f_code.co_filename == self.path:
            self.seen.append((frame.f_lineno, {name: eval(name, frame.f_globals, frame.f_locals) for name in self.look(frame)}))
        self.set_step()


def test_a_debugger_steps_through_the_lines_of_the_file(tmp_path):
    text = "\ndef env_step(w):\n    for me in w.agents:\n        x = me.gold\n        x = x + 1\n        me.reward = f32(x)\n"
    env = ledger(text, tmp_path, num_worlds=1)
    env.reset(seed=0)
    gold = env.get_state("gold")["gold"][0].tolist()
    names = ["x", "me.gold", "w.agents[0].gold"]
    debugger = Scripted(tmp_path / "hooks.py", lambda frame: names if frame.f_lineno == FIRST + 4 else [])
    debugger.reset()
    debugger.set_step()
    sys.settrace(debugger.trace_dispatch)
    try:
        env.step(ACTIONS[:1])
    finally:
        sys.settrace(None)
    lines = [line - FIRST for line, _ in debugger.seen]
    assert lines[:5] == [2, 3, 4, 5, 2] and lines.count(5) == 3
    looked = [names for _, names in debugger.seen if names]
    assert looked == [{"x": g, "me.gold": g, "w.agents[0].gold": gold[0]} for g in gold]


def test_breakpoint_calls_the_debugger_in_the_hook(tmp_path, monkeypatch):
    text = "\ndef env_step(w):\n    for me in w.agents:\n        me.reward = 0.0\n        breakpoint()\n"
    env = ledger(text, tmp_path, num_worlds=1)
    env.reset(seed=0)
    stopped = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stopped.append(sys._getframe(1).f_lineno - FIRST))
    env.step(ACTIONS[:1])
    assert stopped == [4, 4, 4]


def test_a_look_at_all_agents_in_a_debugger_leaves_no_trace(tmp_path, monkeypatch):
    env = ledger("""
def env_step(w):
    for me in w.agents:
        breakpoint()
        me.gold = 1
    for me in w.agents:
        me.reward = f32(me.gold)
""", tmp_path, num_worlds=1)  # fmt: skip
    env.reset(seed=0)
    looked = []

    def look():
        frame = sys._getframe(1)
        looked.append(eval("[it.gold for it in w.agents]", frame.f_globals, {"w": frame.f_locals["w"]}))

    monkeypatch.setattr(sys, "breakpointhook", look)
    env.step(ACTIONS[:1])
    assert [len(seen) for seen in looked] == [3, 3, 3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_runs_in_python_too(copied):
    env = GpuVectorEnv(port_of(spec_of("Pot-v0")), num_worlds=2, device="python", array="numpy")
    env.reset(seed=0)
    twin = copied(env)
    assert type(twin.worlds.backend).__name__ == "PythonBackend"
    actions = env.action_space.sample()
    for one, two in zip(env.step(actions)[1:4], twin.step(actions)[1:4], strict=True):
        np.testing.assert_array_equal(one, two)


def test_constants_and_tables_of_a_world_follow_its_parameters(tmp_path):
    text = """
def env_step(w):
    for me in w.agents:
        me.reward = w.params.twice + w.tables.prices[me.index]
"""
    spec = spec_of_text(text_with(text), tmp_path)
    tax, of_tax = dataclasses.replace(spec.params[1], per_world=True), {"by_world": ("tax",)}
    spec = dataclasses.replace(
        spec,
        params=(spec.params[0], tax, spec.params[2]),
        constants=(Constant("twice", lambda p: 2 * p["tax"], "twice the tax", **of_tax),),
        tables=(Table("prices", lambda p: [1, 10 * p["tax"], 100 * p["tax"]], "prices", **of_tax),),
    )
    for values, rewards in (([0.5, 0.25], [[2, 6, 51], [1.5, 3, 25.5]]), (0.5, [[2, 6, 51]] * 2)):
        env = GpuVectorEnv(spec, num_worlds=2, device="python", array="numpy", tax=values)
        env.reset(seed=0)
        np.testing.assert_array_equal(env.step(ACTIONS)[4]["agent_reward"], rewards)


def test_two_envs_run_in_turn(tmp_path):
    one, two = (ledger("", tmp_path) for _ in range(2))
    for env in (one, two, one):
        env.reset(seed=3)
    np.testing.assert_array_equal(one.step(ACTIONS)[0], two.step(ACTIONS)[0])


def test_the_head_of_the_texts_is_whole():
    assert HEAD.endswith("CELLS = 6\n")


OWN_NAMES = """
_i32 = 1
_f32 = 2


def _quotient(w, x: i32) -> i32:
    return x // 2


def _first(w) -> i32:
    return 3


def env_step(w):
    if w.once:
        w.state.pot = _quotient(w, 7) + _first(w)
    for me in w.agents:
        _negative, _rest, _serial, _untraced, _barrier = 1.5, 1, 2, 3, 4
        print(f"{me.gold:>{_serial // 2}}")
        me.gold = _i32 + _f32 + -_rest % 5 + _serial + _untraced + _barrier
        me.reward = -_negative
"""


def test_names_that_begin_with_an_underscore_are_those_of_the_file(tmp_path, capsys):
    for device in ("python", "cpu"):
        env = ledger(OWN_NAMES, tmp_path, device=device)
        env.reset(seed=0)
        _, _, _, _, info = env.step(ACTIONS)
        assert np.all(info["agent_reward"] == -1.5)
        state = env.get_state("gold", "pot")
        assert np.all(state["gold"] == 1 + 2 + 4 + 2 + 3 + 4) and np.all(state["pot"] == 6)
        env.close()
    assert capsys.readouterr().out.count("\n") == 6


LIKE_ESCAPES = """
def é(w, Agent_N: Agent) -> f32:
    return 1.0 + 0.0 * f32(Agent_N.gold)


def Ue9(w, N: Agent) -> f32:
    Agent_N, N_Agent = 2.0, 0.0
    return Agent_N + N_Agent * f32(N.gold)


def env_step(w):
    for me in w.agents:
        if me.gold > 0:
            à = 1.0
            Ue0, Ue0_, Ue0__U, àU = 2.0, 3.0, 4.0, 5.0
        else:
            à = 6.0
            Ue0, Ue0_, Ue0__U, àU = 7.0, 8.0, 9.0, 10.0
        me.reward = à + 10.0 * Ue0 + 100.0 * Ue0_ + 1000.0 * Ue0__U + 10000.0 * àU
        me.memory[0] = 10.0 * é(w, me) + Ue9(w, me)
"""


def test_names_like_escapes_of_other_names_are_names_of_their_own(tmp_path):
    for device in ("python", "cpu"):
        env = ledger(LIKE_ESCAPES, tmp_path, device=device)
        env.reset(seed=0)
        _, _, _, _, info = env.step(ACTIONS)
        assert np.all(info["agent_reward"] == 54321.0), device
        assert np.all(env.get_state("memory")["memory"][..., 0] == 12.0), device
        env.close()
