"""The command ``debug``: random steps and scripts with debug and sanitizer builds, and gdb."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpu_vecenv.backend.build_kind import VARIABLE
from gpu_vecenv.cli.debug import flat_indices
from gpu_vecenv.cli.main import main
from gpu_vecenv.cli.random_steps import main as random_steps
from tests.debug.faulty import SPEC, line_of
from tools.docs.readme import blocks

ROOT = Path(__file__).resolve().parents[2]
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
FAULTY = "tests.debug.faulty:Faulty-v0"
HOOKS = "tests.debug.ported:Ported-v0"
PAGE = blocks(ROOT / "docs" / "learn" / "debugging.md")

SCRIPT = """
import sys
import numpy as np
import gpu_vecenv
env = gpu_vecenv.make_vec("tests.debug.faulty:Faulty-v0", num_envs=2, device="cpu", array="numpy", fault=int(sys.argv[1]))
env.reset(seed=0)
for _ in range(3):
    env.step(np.ones((2, 3), np.int32))
print("stepped by", type(env.unwrapped.worlds.backend).__name__)
"""


def debug(*words, script="", stdin=None):
    """Run the command in another process, with a script of its own if there is one."""
    command = [sys.executable, "-m", "gpu_vecenv", "debug", *words]
    environment = {**os.environ, "PYTHONPATH": PATH}
    return subprocess.run(command, env=environment, capture_output=True, text=True, input=stdin, timeout=250, check=False)


@pytest.mark.slow
def test_random_steps_end_with_0_or_name_the_fault():
    clean = debug(FAULTY, "--steps", "3")
    assert (clean.returncode, clean.stderr) == (0, "")
    assert clean.stdout.splitlines()[-1] == f"{FAULTY}: 3 random steps of 4 worlds on cpu, no fault"
    wrong = debug(FAULTY, "--steps", "3", "--env", "fault=4")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(f"gpu-vecenv debug: faulty.cu:{line_of('me.v[2')}: env_step: index 2 of row 0 of w.state.v")


@pytest.mark.in_ci
def test_a_script_gets_debug_kernels_and_its_words(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    clean = debug(FAULTY, str(tmp_path / "script.py"), "0")
    assert clean.returncode == 0 and "stepped by DebugCpuBackend" in clean.stdout
    wrong = debug(FAULTY, str(tmp_path / "script.py"), "2")
    assert wrong.returncode == 1 and "HookFault: faulty.cu:" in wrong.stderr


ON_GPU = "on a GPU use GPU_VECENV_KERNELS=debug"
class Started:
    """Stands in for the process that the command starts."""

    def __init__(self, words, env, preexec_fn):
        type(self).words, type(self).env, type(self).prepared = words, env, preexec_fn

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait(self):
        return -6  # SIGABRT


@pytest.mark.parametrize(("words", "library", "kind"), [
    ("", "", "debug"), ("--gdb", "", "debug"), ("--asan", "libasan", "asan"), ("--tsan", "libtsan", "tsan"),
])  # fmt: skip
def test_a_python_is_started_for_the_kind_of_build(words, library, kind, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.debug.subprocess", SimpleNamespace(Popen=Started))
    monkeypatch.setattr("gpu_vecenv.cli.debug.shutil", SimpleNamespace(which=lambda name: f"/usr/bin/{name}"))
    assert main(["debug", FAULTY, *words.split(), "--steps", "3", "--env", "fault=4"]) == 134  # as a shell reports it
    assert Started.env[VARIABLE] == kind and Started.env["PYTHONFAULTHANDLER"] == "1"
    assert library in Started.env.get("LD_PRELOAD", "") and (Started.prepared is not None) == (kind == "tsan")
    assert Started.words[0] == ("gdb" if words == "--gdb" else sys.executable)
    assert ("break env_step(GvWorld&)" in Started.words) == (words == "--gdb")


def test_words_of_a_script_are_left_as_they_are(monkeypatch):
    monkeypatch.setattr("gpu_vecenv.cli.debug.subprocess", SimpleNamespace(Popen=Started))
    words = "script.py --episodes many --num-envs 1e3 --num-runners 3 --lr 1".split()
    main(["debug", FAULTY, "--", *words])
    assert Started.words[1:] == words


def test_random_steps_name_the_fault(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(VARIABLE, "debug")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # for the file of the world
    assert random_steps(FAULTY, {"fault": 4}, num_worlds=2, steps=3, seed=0, device="cpu") == 1
    said = f"gpu-vecenv debug: faulty.cu:{line_of('me.v[2')}: env_step: index 2 of row 0 of w.state.v"
    shown = capsys.readouterr().err
    assert shown.startswith(said) and re.search(r"gpu-vecenv replay \S+faulty-world-0\S+[.]npz .*makes the step again[.]$", shown)
    assert random_steps(FAULTY, {"fault": 4}, 2, 3, 0, "cpu", writes_worlds=False) == 1
    assert "replay" not in capsys.readouterr().err
    assert random_steps(FAULTY, {}, num_worlds=2, steps=3, seed=0, device="cpu") == 0
    assert capsys.readouterr().out == f"{FAULTY}: 3 random steps of 2 worlds on cpu, no fault\n"


def test_arrays_that_are_indexed_by_one_number_are_named():
    """The hooks of Faulty index cells in both ways, and v by w.at alone or by agent."""
    (hint,) = flat_indices(SPEC)
    assert hint == "w.state.cells[k] is checked as one index; w.at.cells(i, j) checks one for each of the axes (height, width)."


REFUSED = {
    "--asan --gdb": "expected one of --asan, --tsan and --gdb, got --asan and --gdb.",
    "script.py --steps 3": "--steps: expected it without a script, which makes its envs itself, got 'script.py', too.",
    "--steps -1": "--steps: expected an integer >= 0, got -1",
    "--device python": "--device python: expected an env with hooks in Python, got faulty.cu.",
    "--device cuda --asan": f"--asan: expected --device cpu, got 'cuda'; {ON_GPU} compute-sanitizer python SCRIPT.",
    "--device cuda --gdb": f"--gdb: expected --device cpu, got 'cuda'; {ON_GPU} cuda-gdb --args python SCRIPT.",
}


@pytest.mark.parametrize("words", REFUSED)
def test_an_option_without_effect_is_refused(words, capsys):
    assert main(["debug", FAULTY, *words.split()]) == 2
    assert capsys.readouterr().err == f"gpu-vecenv debug: {REFUSED[words]}\n"


def test_tools_of_compiled_code_are_refused_for_hooks_in_python(capsys):
    assert main(["debug", HOOKS, "--gdb"]) == 2
    said = capsys.readouterr().err
    assert '--gdb: expected compiled hooks, got hooks in Python; make the env with device="python"' in said and "pdb" in said


@pytest.mark.slow
def test_hooks_in_python_are_stepped_in_python():
    done = debug(HOOKS, "--steps", "2", "--num-envs", "1")
    assert done.returncode == 0 and "2 random steps of 1 worlds on python, no fault" in done.stdout and "pdb" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "fault", "said"), [
    ("--asan", 0, ""),
    ("--asan", 9, "ERROR: AddressSanitizer: heap-buffer-overflow"),
    ("--asan", 11, "runtime error: signed integer overflow"),
    ("--asan", 2, "faulty.cu:{line}: env_step: index -1 of w.state.cells"),
    ("--tsan", 0, ""),
    ("--tsan", 10, "WARNING: ThreadSanitizer: data race"),
])  # fmt: skip
def test_a_sanitizer_names_the_line(tool, fault, said):
    done = debug(FAULTY, tool, "--env", f"fault={fault}", "--steps", "5")
    assert (done.returncode == 0) == (fault == 0), done.stdout + done.stderr[-3000:]
    if fault:
        line = line_of({9: "w.tables.list", 11: "2147483647", 2: "w.state.cells[me", 10: "% w.agents.count"}[fault])
        assert said.format(line=line) in done.stderr and f"faulty.cu:{line}" in done.stderr


GDB = [b for b in PAGE if b.language == "gdb"]


@pytest.mark.in_ci
@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_the_recipe_of_gdb_stops_in_the_hook_in_a_step_and_at_the_fault():
    (recipe,) = (b.text for b in GDB if "cuda" not in b.text)
    commands = f"{recipe}\ncontinue\nprint w.t\nbacktrace 5\nkill\nquit\n"
    faultless, wrong = (debug(FAULTY, "--gdb", "--env", f"fault={fault}", stdin=commands) for fault in (0, 4))
    assert re.search(r"\$4 = \(const gv_i32 &\) @0x\w+: 12\n", faultless.stdout), faultless.stdout[-3000:]
    assert re.search(r"hit Breakpoint 1, env_step \(w=[^$]*faulty\.cu[^$]*\$1 = \(const gv_i32 &\) @0x\w+: 1\n", faultless.stdout)
    place = rf"env_step \(w=\.\.\.\)\s+at \S*faulty\.cu:{line_of('me.v[2')}"
    assert re.search(rf"hit Breakpoint 2, gv_fault.*{place}", wrong.stdout, re.S), wrong.stdout[-3000:]


@pytest.mark.gpu
@pytest.mark.skipif(shutil.which("cuda-gdb") is None, reason="cuda-gdb is not installed")
def test_the_recipe_of_cuda_gdb_stops_in_the_hook(tmp_path):
    (recipe,) = (b.text for b in GDB if "cuda" in b.text)
    (tmp_path / "script.py").write_text(SCRIPT.replace('device="cpu"', 'device="cuda"'))
    command = ["cuda-gdb", "-q", "--args", sys.executable, str(tmp_path / "script.py"), "0"]
    environment = {**os.environ, "PYTHONPATH": PATH, VARIABLE: "debug"}
    done = subprocess.run(command, input=f"{recipe}\nkill\nquit\n", env=environment, capture_output=True, text=True, timeout=280)
    assert re.search(r"Breakpoint 1.*env_step.*faulty\.cu", done.stdout, re.S), done.stdout[-3000:] + done.stderr[-2000:]
