"""The command ``new``: each package that it writes is imported, stepped beside its reference, drawn and trained."""

import itertools
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

from gpu_vecenv.cli.main import main
from gpu_vecenv.cli.new import KINDS as TEXTS
from gpu_vecenv.cli.new import package_files

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
print(min(evaluate("run").mean_return.values()))
print(max(evaluate("run", policy_map={{role: "random" for role in {roles}}}).mean_return.values()))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, which is the present one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(folder, kind, roles, language, name="forage"):
    """Write a package and return the environment of a Python that finds it."""
    assert main(["new", name, *KINDS[kind], *ROLES[roles], *LANGUAGES[language]]) == 0
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / name / "src"), str(ROOT)])}


def run(code, folder, environment, **names):
    done = subprocess.run([sys.executable, "-c", code.format(name="forage", title="Forage", **names)], cwd=folder,
                          env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(("kind", "roles", "language"), [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow, id=", ".join(case)) for case in ALL
])  # fmt: skip
def test_a_new_env_steps_as_its_reference_and_is_drawn(kind, roles, language, here):
    environment = made(here, kind, roles, language)
    if language == "python":
        run(USE, here, environment, device="python")
    if language != "python" or (kind, roles, language) not in QUICK:
        run(USE, here, environment, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_roles_may_get_spaces_of_their_own(language, here):
    environment = made(here, "grid", "two roles", language)
    spec = here / "forage/src/forage/spec.py"
    text = spec.read_text()
    spaces = re.search(r"    observation=(lambda .*),\n    action=(lambda .*),\n", text)
    text = re.sub(r'(Role\("\w+", "\w+")\)', rf"\1, {spaces[1]}, {spaces[2]})", text.replace(spaces[0], ""))
    spec.write_text(text)
    stepped = """
import gymnasium, {name}
env = gymnasium.make_vec("{name}:{title}-v0", num_envs=2, device="cpu")
env.reset(seed=0)
print(sorted(env.step(env.action_space.sample())[0]))
"""
    assert run(stepped, here, environment) == "['gatherer', 'guard']\n"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "roles", "language"), [case for case in ALL if case[2] == "c++" or case in QUICK])
def test_a_new_env_is_learned(kind, roles, language, here):
    environment = made(here, kind, roles, language)
    names = re.findall(r'Role\("(\w+)"', (here / "forage/src/forage/spec.py").read_text())
    learned, random = map(float, run(LEARN, here, environment, steps=50_000, roles=names).split())
    assert learned > 0.6 * random  # returns are negative


def test_the_files_of_a_package(here, capsys):
    made(here, "grid", "two roles", "c++")
    files = {str(path.relative_to(here / "forage")): path.read_text() for path in (here / "forage").rglob("*") if path.is_file()}
    source = ("__init__", "preset", "reference", "render", "spec")
    assert set(files) == {
        "pyproject.toml", "README.md", ".github/workflows/test.yml", "tests/test_forage.py", "src/forage/forage.cu",
        *(f"src/forage/{name}.py" for name in source),
    }  # fmt: skip
    assert tomllib.loads(files["pyproject.toml"])["tool"]["setuptools"]["package-data"] == {"forage": ["*.cu", "*.h"]}
    (steps,) = [job["steps"] for job in yaml.safe_load(files[".github/workflows/test.yml"])["jobs"].values()]
    assert {"run": "gpu-vecenv check forage:Forage-v0"} in steps
    assert len(re.findall(r"^def|^    [^ ]", files["tests/test_forage.py"], re.MULTILINE)) <= 10
    lines = [line for text in files.values() for line in text.splitlines() if not line.startswith("A world has")]
    assert max(map(len, lines)) <= 130
    assert "\n\nAgents walk on a grid" in files["README.md"]
    assert not re.search(r"\$\w|%each|%end", "".join(files.values()))
    assert [path.name for path in here.iterdir()] == ["forage"]
    assert "gpu-vecenv train forage:Forage-v0 --out runs/forage" in capsys.readouterr().out


def test_the_files_in_python_have_no_mistake(tmp_path):
    for kind, python in itertools.product(TEXTS, (False, True)):
        for path, text in package_files("two_words", kind, {"a": 1, "b": 2}, python):
            (tmp_path / kind / str(python) / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / kind / str(python) / path).write_text(text)
    options = ["--isolated", "--select", "E,F,W,B,UP", "--line-length", "130"]
    done = subprocess.run([sys.executable, "-m", "ruff", "check", *options, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0 or "No module named ruff" in done.stderr, done.stdout


REFUSED = {
    "Forage": "expected a name of lower-case letters, digits and single underscores, such as my_env, got 'Forage'.",
    "my-env": "expected a name of lower-case letters, digits and single underscores, such as my_env, got 'my-env'.",
    "../forage": "expected a name of lower-case letters, digits and single underscores, such as my_env, got '../forage'.",
    "class": "expected a name of lower-case letters, digits and single underscores, such as my_env, got 'class'.",
    "numpy": "numpy: expected the name of a new module, got one that is installed.",
    "cart_pole": "cart_pole: expected a name whose id is new, got CartPole-v0, which Gymnasium has.",
    "there": "there: expected a name that no file or folder has here, got one that exists.",
    "forage --grid --continuous": "--grid: expected it or --continuous, got both.",
    "forage --roles a": "--roles: expected NAME:COUNT,... with numbers from 1 to 1000, got 'a'.",
    "forage --roles a:0": "--roles: expected NAME:COUNT,... with numbers from 1 to 1000, got 'a:0'.",
    "forage --roles a:1,a:2": "--roles: expected each role once, got 'a' twice.",
    "forage --roles int:1": "--roles: expected names of lower-case letters, digits and underscores, got 'int'.",
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_wrong_name_is_refused_and_nothing_is_written(words, here, capsys):
    (here / "there").mkdir()
    assert main(["new", *words.split()]) == 2
    assert capsys.readouterr().err == f"gpu-vecenv new: {REFUSED[words]}\n"
    assert [path.name for path in here.iterdir()] == ["there"] and not list((here / "there").iterdir())


@pytest.mark.slow
def test_a_wheel_of_a_package_has_the_kernel(here):
    made(here, "discrete", "one role", "c++")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "wheels", "./forage"]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = (here / "wheels").iterdir()
    assert {"forage/forage.cu", "forage/spec.py", "forage/render.py"} <= set(zipfile.ZipFile(wheel).namelist())
