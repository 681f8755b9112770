"""Scripts of CleanRL and LeanRL, changed by the diffs in docs/adapters: their changed lines, and copies that train.

Tests that train read the environment variables CLEANRL and LEANRL. Each names a folder with upstream's repository.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/adapters"
needs_cleanrl, needs_leanrl = (
    pytest.mark.skipif(name not in os.environ, reason=f"{name} names no folder with upstream's repository")
    for name in ("CLEANRL", "LEANRL")
)


class Writer(list):
    """Collects logged values as (name, step, value)."""

    def add_scalar(self, name, value, step):
        self.append((name, step, float(value)))


def claims(diffs, said):
    """Parameters of a test: diffs of CleanRL's scripts, each with the text of its row in the support table."""
    names = [f"{diff.stem.removeprefix('cleanrl_')}.py" for diff in diffs]
    works = [pytest.mark.works("CleanRL-style", f"upstream's {name} {said}") for name in names]
    return [pytest.param(diff, id=name, marks=mark) for diff, name, mark in zip(diffs, names, works, strict=True)]


def script_and_counts(diff):
    """Path of the script that a diff changes, and the numbers of added and removed lines."""
    counts = subprocess.run(["git", "apply", "--numstat", diff], capture_output=True, text=True, check=True).stdout
    added, removed, path = counts.split()
    return path, int(added), int(removed)


def hunks(diff, sign):
    """Lines of each hunk before the diff (``-``) or after it (``+``), as programs of their own."""
    return [
        textwrap.dedent("\n".join(line[1:] for line in hunk.splitlines()[1:] if line[0] in f" {sign}"))
        for hunk in diff.read_text().split("\n@@ ")[1:]
    ]


def names_for(env_id, device):
    """Names of upstream's scripts: their imports, options and device."""
    args = SimpleNamespace(env_id=env_id, num_envs=4, gamma=0.9, seed=3)
    return {"np": np, "torch": torch, "gym": gymnasium, "args": args, "device": torch.device(device)}


def play(before, each_step, steps, names):
    """Run the programs ``before``, then ``each_step`` with random actions; return the names that they set."""
    for program in before:
        exec(program, names)
    generator = torch.Generator().manual_seed(0)
    space = names["envs"].single_action_space
    for names["step"] in range(steps):
        names["global_step"] = names["step"]
        action = torch.randint(2, (names["args"].num_envs, *space.shape), generator=generator)
        names["action"] = (action.float() if space.dtype.kind == "f" else action).to(names["device"])
        exec(each_step, names)
    return names


def returns_of_pendulum(steps):
    """Sums of the raw rewards of the worlds that ``play`` steps on the Pendulum."""
    plain = gymnasium.make_vec("WarpPendulum-v1", num_envs=4, device="cpu", array="numpy")
    plain.reset(seed=3)
    generator = torch.Generator().manual_seed(0)
    return sum(plain.step(torch.randint(2, (4, 1), generator=generator).float().numpy())[1].astype(float) for _ in range(steps))


def run_script(script, folder, *options):
    """Run a script in ``folder``; return the finished process with its output."""
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command, environment = [sys.executable, script, *options], {**os.environ, "PYTHONPATH": search}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def run_changed(repository, diff, folder, *options):
    """Run a copy of upstream's script after the diff, in ``folder``."""
    path, *_ = script_and_counts(diff)
    script = folder / path
    script.parent.mkdir(exist_ok=True)
    script.write_text((Path(repository) / path).read_text())
    subprocess.run(["git", "apply", diff], cwd=folder, check=True)
    done = run_script(script, folder, *options)
    assert done.returncode == 0, done.stderr


def options_on(page, script):
    """Options of the command that a page shows for a script."""
    (options,) = re.findall(f"`python {script} (.*?)`", page.read_text(), re.DOTALL)
    return options.split()
