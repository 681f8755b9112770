"""The command ``new``: each package that it writes is imported, stepped beside its reference, drawn and trained."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"discrete": [], "grid": ["--grid"], "continuous": ["--continuous"]}
ROLES = {"one role": [], "two roles": ["--roles", "gatherer:3,guard:1"], "one agent": ["--roles", "solo:1"]}
LANGUAGES = {"c++": [], "python": ["--python"]}
ALL = list(itertools.product(KINDS, ROLES, LANGUAGES))
QUICK = [("grid", "two roles", "c++"), ("continuous", "one role", "python")]
"""Combinations of the quick tests, which have each part once."""

USE = """
import sys
import gymnasium, numpy as np
import {name}
from {name}.reference import {title}Reference

env = gymnasium.make_vec("{name}:{title}-v0", num_envs=5, device="{device}", array="numpy", max_episode_steps=7,
                         autoreset_mode="disabled", render_mode="rgb_array").unwrapped
obs, _ = env.reset(seed=1)
env.action_space.seed(2)
one, largest = {title}Reference(env.params), 0.0
for step in range(7):
    before, actions = env.get_state(), env.action_space.sample()
    obs, reward, terminated, truncated, info = env.step(actions)
    after = env.get_state()
    for world in range(5):
        one.set_state({{name: array[world] for name, array in before.items()}})
        seen, rewards, over, late = one.step(actions[world])
        given = info["agent_reward"][world] if env.num_agents > 1 else reward[world]
        largest = max(largest, abs(seen - obs[world]).max(), abs(rewards - given).max())
        assert seen.shape == obs[world].shape and (over, late) == (terminated[world], truncated[world])
        assert all(np.allclose(array, after[field][world], atol=1e-6) for field, array in one.get_state().items())
assert truncated.all() and largest < 1e-5, largest
frames = env.render()
assert len(frames) == 5 and frames[0].std() > 0
"""

LEARN = """
from gpu_vecenv.train import TrainConfig, Trainer, evaluate
import {name}
config = TrainConfig("{name}:{title}-v0", device="cpu", out="run", total_steps={steps}, num_envs=16)
Trainer(config, quiet=True).train()
print(evaluate("run").mean_return)
print(evaluate("run", policy_map={{role: "random" for role in {roles}}}).mean_return)
"""


def made(folder, kind, roles, language, name="forage"):
    """Write a package and return the environment of a Python that finds it."""
    command = [sys.executable, "-m", "gpu_vecenv", "new", name, *KINDS[kind], *ROLES[roles], *LANGUAGES[language]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / name / "src"), str(ROOT)])}


def run(code, folder, environment, **names):
    done = subprocess.run([sys.executable, "-c", code.format(name="forage", title="Forage", **names)], cwd=folder,
                          env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(("kind", "roles", "language"), [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow, id=", ".join(case)) for case in ALL
])  # fmt: skip
def test_a_new_env_steps_as_its_reference_and_is_drawn(kind, roles, language, tmp_path):
    environment = made(tmp_path, kind, roles, language)
    run(USE, tmp_path, environment, device="cpu")
    if language == "python":
        run(USE, tmp_path, environment, device="python")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "roles", "language"), [case for case in ALL if case[2] == "c++" or case in QUICK])
def test_a_new_env_is_learned(kind, roles, language, tmp_path):
    environment = made(tmp_path, kind, roles, language)
    names = re.findall(r'Role\("(\w+)"', (tmp_path / "forage/src/forage/spec.py").read_text())
    learned, random = map(float, run(LEARN, tmp_path, environment, steps=100_000, roles=names).split())
    assert learned > 0.6 * random  # returns are negative


def files_of(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
