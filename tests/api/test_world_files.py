"""``debug=True`` finds numbers that are not finite, and writes the world that gave them; ``replay`` makes the step again."""

import contextlib
import dataclasses
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import gpu_vecenv
from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, GpuVectorEnv, Param, Role
from gpu_vecenv.cli.main import main
from gpu_vecenv.errors import DifferenceError, HookFault, NonFiniteError, RecordingError
from gpu_vecenv.vector.env.world_file import replay_command

KERNEL = """#include "world.h"

GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.x = w.draw(0, me.index).uniform() + w.params.start;
}

GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) {
        const gv_i32 choice = me.action.index();
        me.x += w.draw(1, me.index).uniform();
        me.reward = choice == 2 ? (me.x - me.x) / (me.x - me.x) : me.x;
        if (choice == 3) me.x = 1.0f / (me.x - me.x);
    }
    if (w.once) w.truncate_at(w.params.max_episode_steps);
}

GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {1.0f, me.x};
}
"""


def by_roles(text, loop):
    """A hook with a loop over each role in place of that over all agents."""
    before, _, rest = text.partition(loop)
    body, end, after = rest.partition("\n    }\n") if rest.startswith("{") else rest.partition(";\n")
    return before + "".join(f"for (auto me : w.role.{role}) {body}{end}" for role in ("catcher", "runner")) + after


def spec_of(folder, by_role=False):
    kernel = folder / f"spoilt_{'by_role' if by_role else 'alike'}.cu"
    loop = "for (auto me : w.agents) "
    hooks = KERNEL.split("GV_FN ")
    kernel.write_text("GV_FN ".join([*hooks[:2], *(by_roles(hook, loop) if by_role else hook for hook in hooks[2:])]))
    box = lambda params: Box(-np.inf, np.inf, (2,), np.float32)  # noqa: E731
    return EnvSpec(
        name="Spoilt-v0", kernel=kernel,
        roles=(Role("catcher", 2, observation=box if by_role else None), Role("runner", 3)),
        params=(TIME_LIMIT, Param("start", 0.5, "float32", "added to a start", per_world=True)),
        state=(Field("x", "float32", ("num_agents",), "a number of each agent"),),
        observation=box, action=lambda params: Discrete(4), sizes=(),
    )  # fmt: skip


@pytest.fixture(scope="module")
def kernel_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spoilt")


@pytest.fixture(autouse=True)
def temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def actions_with(view, by_role, world, agent, choice, worlds=4):
    actions = np.ones((worlds, 5), np.int32)
    actions[world, agent] = choice
    if by_role:
        return {"catcher": actions[:, :2], "runner": actions[:, 2:]}
    return actions if view == "worlds" else np.concatenate([actions[:, :2].reshape(-1), actions[:, 2:].reshape(-1)])


@pytest.mark.parametrize(("view", "by_role"), [("worlds", False), ("agents", False), ("worlds", True)])
@pytest.mark.parametrize(("choice", "what"), [(2, "reward of"), (3, r"observation\[1\] of")])
def test_a_world_is_written_and_made_again(view, by_role, choice, what, kernel_folder):
    spec = spec_of(kernel_folder, by_role)
    env = GpuVectorEnv(spec, num_worlds=4, view=view, device="cpu", debug=True, start=[0.5, 1.0, 2.0, 3.0])
    env.reset(seed=7)
    for _ in range(3):
        env.step(actions_with(view, by_role, 0, 0, 1))
    said = rf"^Spoilt-v0: world 2 \(seed 7, id 2, episode 0\), in step 4: {what} agent 3 \(runner 1\) is (-?nan|inf); gpu-vecenv"
    with pytest.raises(NonFiniteError, match=said) as caught:
        env.step(actions_with(view, by_role, 2, 3, choice))
    recording = gpu_vecenv.read_recording(caught.value.file)
    assert recording.params["start"] == 2.0 and recording.parts[0].state["t"].tolist() == [3]
    (step,) = gpu_vecenv.replay(caught.value.file, env_spec=spec)
    assert np.isnan(step.reward[0, 3]) == (choice == 2) and np.isfinite(step.reward[0, [0, 1, 2, 4]]).all()
    env.close()


def test_a_rollout_is_cut_at_the_first_such_step(kernel_folder):
    env = GpuVectorEnv(spec_of(kernel_folder), num_worlds=4, device="cpu", debug=True, max_episode_steps=2)
    env.reset(seed=7)
    actions = np.ones((6, 4, 5), np.int32)
    actions[4, 1, 0], actions[5, 0, 0] = 2, 2
    with pytest.raises(NonFiniteError, match=r"world 1 \(seed 7, id 1, .*\), 5 steps after step 0: reward of agent 0") as caught:
        env.rollout(actions)
    steps = list(gpu_vecenv.replay(caught.value.file, env_spec=env.env_spec))
    assert [bool(step.ended[0]) for step in steps] == [False, True, False, True, False]
    assert [bool(np.isfinite(step.reward).all()) for step in steps] == [True] * 4 + [False]


def test_drawn_actions_are_known(kernel_folder):
    env = GpuVectorEnv(spec_of(kernel_folder), num_worlds=4, device="cpu", debug=True)
    env.reset(seed=7)
    with pytest.raises(NonFiniteError) as caught:
        env.rollout(num_steps=20, keep_actions=False)
    *_, last = gpu_vecenv.replay(caught.value.file, env_spec=env.env_spec)
    assert not np.isfinite(last.reward).all() or not np.isfinite(last.outputs["obs"]).all()
    finite = GpuVectorEnv(gpu_vecenv.EnvSpec(**{**vars(env.env_spec), "action": lambda params: Discrete(2)}), num_worlds=2,
                          device="cpu", debug=True)  # fmt: skip
    finite.reset(seed=1)
    assert "actions" not in finite.rollout(num_steps=2, keep_actions=False)[4]
    assert finite.rollout(num_steps=2)[4]["actions"].shape == (2, 2, 5)


def test_a_start_is_written_without_steps(kernel_folder, tmp_path):
    (tmp_path / "kernels").mkdir()
    spec = spec_of(tmp_path / "kernels")
    spec.kernel.write_text(KERNEL.replace("+ w.params.start", "+ 1.0f / (w.params.start - 2.0f)"))
    env = GpuVectorEnv(spec, num_worlds=3, device="cpu", debug=True, start=[1.0, 2.0, 3.0])
    with pytest.raises(NonFiniteError, match=r"world 1 \(.*\), at its start: observation\[1\] of agent 0") as caught:
        env.reset(seed=1)
    assert list(gpu_vecenv.replay(caught.value.file, env_spec=spec)) == []


def test_without_debug_nothing_is_looked_at(kernel_folder, tmp_path):
    env = GpuVectorEnv(spec_of(kernel_folder), num_worlds=4, device="cpu")
    env.reset(seed=7)
    env.step(actions_with("worlds", False, 2, 3, 2))
    assert list(tmp_path.iterdir()) == []


def test_rewards_of_a_function_are_not_the_env_s(kernel_folder):
    spoilt = lambda reward, *_: reward * float("nan")  # noqa: E731
    env = GpuVectorEnv(spec_of(kernel_folder), num_worlds=2, device="cpu", debug=True, reward=spoilt)
    env.reset(seed=7)
    assert env.step(np.ones((2, 5), np.int32))[1].isnan().all()


def test_changed_bits_are_named(kernel_folder, tmp_path):
    env = GpuVectorEnv(spec_of(kernel_folder), num_worlds=4, device="cpu", debug=True)
    env.reset(seed=7)
    with pytest.raises(NonFiniteError) as caught:
        env.step(actions_with("worlds", False, 2, 3, 2))
    with np.load(caught.value.file) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["0/results/state/x"][0, 1] += 1
    np.savez(tmp_path / "changed.npz", **arrays)
    with pytest.raises(DifferenceError, match=r"expected state/x\[0, 1\] = "):
        list(gpu_vecenv.replay(tmp_path / "changed.npz", env_spec=env.env_spec))
    with pytest.raises(RecordingError, match="gpu-vecenv replay steps it"):
        gpu_vecenv.verify(caught.value.file, env_spec=env.env_spec)
    arrays["0/state/x"] = arrays["0/state/x"][:, :2]
    np.savez(tmp_path / "changed.npz", **arrays)
    with pytest.raises(RecordingError, match="expected a state of the env, got state field x must have shape"):
        list(gpu_vecenv.replay(tmp_path / "changed.npz", env_spec=env.env_spec))


MODULE = """
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from gpu_vecenv import EnvSpec, Field, GpuVectorEnv, Role

SPEC = EnvSpec(
    name="Crash-v0", kernel=Path(__file__).with_name("HOOKS"), roles=(Role("agent", 3),), params=(),
    state=(Field("gold", "int32", ("num_agents",), "coins"),),
    observation=lambda params: Box(-np.inf, np.inf, (1,), np.float32), action=lambda params: Discrete(4),
)
make_vec = partial(GpuVectorEnv, SPEC)
gymnasium.register("Crash-v0", vector_entry_point="crash_env:make_vec")
"""

HOOKS = '''from gpu_vecenv.pyhooks import f32, i32


def env_reset(w):
    for me in w.agents:
        me.gold = me.index


def env_step(w):
    """Pay the agents."""
    for me in w.agents:
        choice = me.action.index()
        me.reward = 1.0 / f32(3 - choice)
        if choice == 2:
            me.gold = 2000000000 + 2000000000 * me.index


def env_observe(w):
    for me in w.agents:
        me.obs[0] = f32(me.gold)
'''

CPP = """#include "world.h"
GV_FN void env_reset(GvWorld& w) {
    for (auto me : w.agents) me.gold = me.index;
}
GV_FN void env_step(GvWorld& w) {
    for (auto me : w.agents) me.reward = 1.0f / (float)(3 - me.action.index());
}
GV_FN void env_observe(GvWorld& w) {
    for (auto me : w.agents) me.obs = {(float)me.gold};
}
"""


@pytest.fixture
def crash(tmp_path, monkeypatch):
    """The spec of Crash-v0 in a module of its own, by the language of its hooks."""

    def made(name, text):
        folder = tmp_path / "package"
        folder.mkdir()
        (folder / "crash_env.py").write_text(MODULE.replace("HOOKS", name))
        (folder / name).write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        import crash_env

        return crash_env.SPEC

    yield made
    import gymnasium

    gymnasium.registry.pop("Crash-v0", None)
    sys.modules.pop("crash_env", None)


def broken(spec, choice, device="cpu"):
    env = GpuVectorEnv(spec, num_worlds=3, device=device, debug=True)
    env.reset(seed=5)
    actions = np.zeros((3, 3), np.int32)
    actions[1, 2] = choice
    env.step(actions)


@pytest.mark.slow
def test_hooks_in_python_are_made_again_in_pdb(crash, capsys, monkeypatch):
    spec = crash("hooks.py", HOOKS)
    with pytest.raises(NonFiniteError, match=r"in step 1: reward of agent 2 \(agent 2\) is inf") as caught:
        broken(spec, 3)
    assert main(["replay", caught.value.file, "--device", "cpu"]) == 0
    assert "step 1: agent_reward[2] is inf\n1 steps: the same bits as recorded on cpu" in capsys.readouterr().out
    line = f"step 1: {spec.kernel}:13: env_step: reward of agent 2 becomes inf; step 1, world 0, agent 2."
    assert main(["replay", caught.value.file]) == 0
    assert capsys.readouterr().out.endswith(f"{line}\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("p w.state.gold\nwhere\ndisable 1\ncontinue\n"))
    tracer = sys.gettrace()
    assert main(["replay", caught.value.file, "--pdb", "--modules", "crash_env"]) == 0
    sys.settrace(tracer)
    shown = capsys.readouterr().out
    assert f"{spec.kernel}(11)env_step()" in shown and "for me in w.agents" in shown and line in shown


def test_a_hook_that_fails_leaves_its_world(crash, capsys):
    spec = crash("hooks.py", HOOKS)
    with pytest.raises(HookFault, match=r"hooks.py:15: env_step: overflow.* It fails in world 1, 0 steps after") as caught:
        broken(spec, 2, "python")
    file = str(caught.value).partition("gpu-vecenv replay ")[2].split()[0]
    assert main(["replay", file]) == 0
    assert re.search("^step 1: .*hooks.py:15: env_step: overflow", capsys.readouterr().out, re.MULTILINE)
    assert main(["replay", file, "--device", "cpu"]) == 0
    assert "1 steps: no hook failed" in capsys.readouterr().out


def test_a_wrong_index_in_cpp_is_made_again_with_its_check(crash, capsys, monkeypatch):
    spec = crash("hooks.cu", CPP.replace("me.action.index())", "w.state.gold[me.index + (me.action.index() == 2)])"))
    monkeypatch.setenv("GPU_VECENV_KERNELS", "debug")
    with pytest.raises(HookFault, match="index 3 of w.state.gold, .* It fails in world 1, 0 steps after") as caught:
        broken(spec, 2)
    monkeypatch.delenv("GPU_VECENV_KERNELS")
    file = str(caught.value).partition("gpu-vecenv replay ")[2].split()[0]
    assert main(["replay", file]) == 0
    assert re.search("^step 1: hooks.cu:6: env_step: index 3 of w.state.gold", capsys.readouterr().out, re.MULTILINE)


def test_mended_hooks_make_the_steps_again(crash, capsys):
    spec = crash("hooks.cu", CPP)
    with pytest.raises(NonFiniteError, match="is inf") as caught:
        broken(spec, 3)
    spec.kernel.write_text(CPP.replace("3 - me", "4 - me"))
    assert main(["replay", caught.value.file]) == 0
    said = "The hooks of Crash-v0 changed since the file was written: these are steps of the present env."
    mended = f"{said}\nstep 1: all numbers are finite\n1 steps: not compared with the file, because the hooks changed\n"
    assert capsys.readouterr().out.endswith(mended)
    with pytest.raises(RecordingError, match="expected Crash-v0 as it was recorded, got one whose kernel changed"):
        list(gpu_vecenv.replay(caught.value.file))
    (step,) = gpu_vecenv.replay(caught.value.file, changed=True)
    assert step.reward.tolist() == [[0.25, 0.25, 1.0]]
    wider = dataclasses.replace(spec, state=(*spec.state, Field("debt", "int32", (), "coins owed")))
    with pytest.raises(RecordingError, match="got one whose spec changed"):
        list(gpu_vecenv.replay(caught.value.file, env_spec=wider, changed=True))


def test_the_command_names_the_module_of_an_env_outside_the_package(crash):
    spec, file = crash("hooks.py", HOOKS), Path("world.npz")
    with contextlib.closing(GpuVectorEnv(spec, num_worlds=1, device="cpu")) as env:
        assert replay_command(env, file) == "gpu-vecenv replay world.npz --modules crash_env"
        assert replay_command(env, file, "other") == "gpu-vecenv replay world.npz --modules other"
    with contextlib.closing(gpu_vecenv.make_vec("WarpCartPole-v1", num_envs=1, device="cpu").unwrapped) as env:
        assert replay_command(env, file) == "gpu-vecenv replay world.npz"


def test_hooks_in_cpp_are_made_again_in_gdb(crash, tmp_path, monkeypatch, capfd):
    spec = crash("hooks.cu", CPP)
    with pytest.raises(NonFiniteError, match="is inf") as caught:
        broken(spec, 3)
    for words, said in (("--pdb", "expected hooks in Python, got hooks.cu"), ("--gdb --pdb", "no --pdb, got --pdb"),
                        ("--gdb --device python", "got python"), ("--pdb --device cpu", "expected the device python")):
        assert main(["replay", caught.value.file, *words.split()]) == 2
        assert said in capfd.readouterr().err
    gdb = tmp_path / "bin" / "gdb"  # gdb itself reads the symbols of every library, which takes a minute
    gdb.parent.mkdir()
    gdb.write_text('#!/bin/sh\necho "gdb $GPU_VECENV_KERNELS: $*"\nwhile [ "$1" != --args ]; do shift; done; shift; exec "$@"\n')
    gdb.chmod(0o755)
    monkeypatch.setenv("PATH", f"{gdb.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert main(["replay", caught.value.file, "--gdb", "--modules", "crash_env"]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith("gdb debug: -q ") and "-ex break env_step(GvWorld&) -ex break gv_fault -ex run --args " in shown
    assert "step 1: agent_reward[2] is inf\n1 steps: the same bits as recorded" in shown
    imported = subprocess.run([sys.executable, "-c", "import sys, gpu_vecenv.cli.replayed_steps; print('torch' in sys.modules)"],
                              capture_output=True, text=True)  # fmt: skip
    assert imported.stdout == "False\n", "gdb would read the symbols of torch"
    changed = MODULE.replace("HOOKS", "hooks.cu").replace("(1,)", "(1 + 1,)")  # compiled anew: it has another size
    (spec.kernel.parent / "crash_env.py").write_text(changed)
    assert main(["replay", caught.value.file, "--gdb", "--modules", "crash_env"]) == 2
    assert "gpu-vecenv replay: expected Crash-v0 as it was recorded, got one whose spec changed" in capfd.readouterr().err
    monkeypatch.setenv("PATH", "")
    assert main(["replay", caught.value.file, "--gdb"]) == 2
    assert "--gdb needs gdb, which is not on the path" in capfd.readouterr().err
