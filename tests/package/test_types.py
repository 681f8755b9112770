"""Types that an editor and mypy see: arrays of an env have the type of its array kind."""

import pydoc
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

import gpu_vecenv
from tools.docs.readme import blocks

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
import torch
import gpu_vecenv
env = gpu_vecenv.make_vec("WarpTag-v0", num_envs=2, device="cpu")
obs, info = env.reset(seed=0)
reveal_type(obs)
obs.cpu()
reveal_type(env.step(0)[1])
reveal_type(env.get_state())
reveal_type(gpu_vecenv.EpisodeStatistics(env).reset()[0])
reveal_type(gpu_vecenv.make_vec("WarpTag-v0", array="numpy").reset()[0])
def policy(obs: gpu_vecenv.Array) -> None:
    reveal_type(obs)
obs.no_such_method()
"""
NDARRAY = r"numpy\.ndarray\[.*"
REVEALED = [
    r"torch\._tensor\.Tensor",
    r"torch\._tensor\.Tensor",
    r"dict\[(builtins\.)?str, torch\._tensor\.Tensor\]",
    r"torch\._tensor\.Tensor",
    NDARRAY,
    r"torch\._tensor\.Tensor \| " + NDARRAY,
]


@pytest.mark.slow
def test_mypy_knows_the_type_of_arrays(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    skipped = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(ROOT / "gpu_vecenv", tmp_path / "tree" / "gpu_vecenv", ignore=skipped)
    for folder in ("envs", "adapters"):
        shutil.copytree(ROOT / folder, tmp_path / "tree" / "gpu_vecenv" / folder, ignore=skipped, dirs_exist_ok=True)
    monkeypatch.setenv("MYPYPATH", str(tmp_path / "tree"))
    (tmp_path / "script.py").write_text(SOURCE)
    options = ["--follow-imports=silent", "--ignore-missing-imports", f"--cache-dir={tmp_path / 'cache'}"]
    printed, _, _ = api.run([*options, f"--python-executable={sys.executable}", str(tmp_path / "script.py")])
    revealed = re.findall(r'Revealed type is "(.*)"', printed)
    assert len(revealed) == len(REVEALED), printed
    for pattern, found in zip(REVEALED, revealed, strict=True):
        assert re.fullmatch(pattern, found), found
    assert re.findall(r"error: (.*)", printed) == ['"Tensor" has no attribute "no_such_method"  [attr-defined]']


def test_make_vec_makes_the_env_of_gymnasiums_function():
    made = [make("WarpCartPole-v1", 3, device="cpu", array="numpy") for make in (gpu_vecenv.make_vec, gymnasium.make_vec)]
    assert type(made[0]) is type(made[1]) and made[0].spec == made[1].spec
    first, second = (env.reset(seed=5)[0] for env in made)
    assert (first == second).all() and first.shape == (3, 4)
    for env in made:
        env.close()


def test_help_of_make_vec_is_ours():
    shown = pydoc.render_doc(gpu_vecenv.make_vec, renderer=pydoc.plaintext)
    assert "in module gpu_vecenv.vector.env.make" in shown and "GpuVectorEnv" in shown and "vectorization_mode" not in shown


SCRIPT = """
import gpu_vecenv
from gpu_vecenv.envs.tag.spec import SPEC
from gpu_vecenv.train import PolicyConfig, TrainConfig, Trainer

env = gpu_vecenv.make_vec("WarpTag-v0", num_envs=2, array="numpy")
obs, info = env.reset(seed=0)
print(obs.mean(), SPEC.name)
config = TrainConfig("WarpTag-v0", ppo={"learning_rate": 1e-3}, policies={"runner": PolicyConfig(ppo={"gamma": 0.9})})
metrics: dict[str, float] = Trainer(config).train()
print(config.ppo.learning_rate * 2, config.network.hidden_sizes)
print(config.ppo.lerning_rate)
obs.no_such_method()
"""
"""A user's script with two mistakes, in its last lines."""

CHECKERS = {
    "mypy": ["mypy", "--strict", "--cache-dir", "cache"],
    "pyright": ["pyright", "--level", "warning"],
}


@pytest.mark.in_ci
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_script_is_checked_after_the_install_of_readme(checker, tmp_path):
    """The checker of this environment finds the package as it was installed here, from another folder than the checkout."""
    module, *options = CHECKERS[checker]
    pytest.importorskip(module)
    (tmp_path / "script.py").write_text(SCRIPT)
    python = ["--pythonpath", sys.executable] if checker == "pyright" else ["--python-executable", sys.executable]
    command = [sys.executable, "-m", module, *options, *python, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    found = [line for line in done.stdout.splitlines() if re.search(r"\b(error|warning):?\s", line) and "script.py:" in line]
    assert len(found) == 2, done.stdout + done.stderr
    last = len(SCRIPT.splitlines())
    for line, mistake, number in zip(found, ("lerning_rate", "no_such_method"), (last - 1, last), strict=True):
        assert mistake in line and f"script.py:{number}" in line


PAGES = ("how-do-i.md", "learn/trained-policy.md", "rewards.md", "worlds.md")


@pytest.mark.in_ci
def test_mypy_finds_nothing_in_the_code_of_pages(tmp_path):
    """A user's editor knows the envs of ``make_vec`` and ``Run``, so it underlines nothing in what they copy."""
    pytest.importorskip("mypy")
    copied = [block for page in PAGES for block in blocks(ROOT / "docs" / page) if block.language == "python"]
    for block in copied:
        (tmp_path / f"{block.path.stem.replace('-', '_')}_{block.line}.py").write_text(block.text)
    scripts = sorted(path.name for path in tmp_path.glob("*.py"))
    assert len(scripts) == len(copied) > 20
    command = [sys.executable, "-m", "mypy", "--cache-dir", "cache", "--python-executable", sys.executable, *scripts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
