"""Runs every fenced code block of the documents, except the two quick-start commands, which .ci/run runs."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.vector.vector_env import GpuVectorEnv
from tools.docs.readme import blocks, quick_start

ROOT = Path(__file__).resolve().parents[2]

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
             *sorted((ROOT / "envs").rglob("*.md"))]
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
WALK = [b for b in BLOCKS if b.path.name == "CONTRIBUTING.md" and b.heading == "Writing an environment"]
# Blocks of another library, beside ours that replace them. They need that library, so only their syntax is checked.
OTHERS = [b for b in BLOCKS if b.text.startswith("# WarpDrive")]
PYTHON = [b for b in BLOCKS if b.language == "python" and b not in WALK + OTHERS]
YAML = [b for b in BLOCKS if b.language == "yaml"]
# Kernels that start with a comment of their file's name; Python blocks of the same page find the file.
KERNELS = [b for b in BLOCKS if b.language == "cuda" and b not in WALK]


# Pages of libraries that the extra "test" does not install; .ci/run installs them and runs these blocks last.
LIBRARIES = {"skrl.md": "skrl", "rl_games.md": "rl_games", "rsl_rl.md": "rsl_rl", "arrays.md": "jax"}


@pytest.mark.parametrize("block", PYTHON, ids=lambda b: f"{b.path.name}:{b.line}")
def test_python_block_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if block.path.name in LIBRARIES:
        pytest.importorskip(LIBRARIES[block.path.name])
    for kernel in KERNELS:
        if kernel.path == block.path:
            (tmp_path / kernel.text.splitlines()[0].removeprefix("// ")).write_text(kernel.text)
    exec(compile("\n" * (block.line - 1) + block.text, block.path, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", OTHERS, ids=lambda b: f"{b.path.name}:{b.line}")
def test_block_of_another_library_is_python(block):
    assert block.language == "python"
    compile(block.text, block.path, "exec")


@pytest.mark.parametrize("block", YAML, ids=lambda b: f"{b.path.name}:{b.line}")
def test_yaml_block_holds_options_of_a_run(block, tmp_path):
    (tmp_path / "run.yaml").write_text(block.text)
    env = make_env(resolve(TrainConfig.from_yaml(tmp_path / "run.yaml")), num_worlds=1)
    env.close()


def test_every_block_is_tested():
    quick = [b for b in BLOCKS if b.path.name == "README.md" and b.heading == "Quick start"]
    assert [b for b in BLOCKS if b not in PYTHON + YAML + OTHERS + KERNELS and b not in WALK and b not in quick] == []


def test_blocks_of_the_readme_are_short():
    made, mapped = (b for b in PYTHON if b.path.name == "README.md")
    assert len(made.text.splitlines()) <= 10
    assert len(mapped.text.splitlines()) <= 15


def test_quick_start_is_two_commands_for_a_fresh_clone():
    train, check = quick_start()
    for command in (train, check):
        assert command.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e ")
    assert "gpu-vecenv train WarpTag-v0" in train
    assert check.endswith("&& pytest -n 2")


def test_the_example_environment_works(tmp_path):
    spec_block, kernel_block = WALK
    assert (spec_block.language, kernel_block.language) == ("python", "cuda")
    (tmp_path / "spec.py").write_text(spec_block.text)
    (tmp_path / "walk.cu").write_text(kernel_block.text)
    location = importlib.util.spec_from_file_location("walk_spec", tmp_path / "spec.py")
    module = importlib.util.module_from_spec(location)
    location.loader.exec_module(module)
    env = GpuVectorEnv(module.SPEC, num_envs=3, device="cpu", array="numpy", stride=0.25)
    start, _ = env.reset(seed=0)
    assert (0 <= start).all() and (start < 1).all()
    obs, reward, terminated, _, info = env.step(np.array([1, 0, 1]))
    moved = start[:, 0] + np.array([0.25, -0.25, 0.25], np.float32)
    np.testing.assert_array_equal(reward, -np.abs(moved))
    np.testing.assert_array_equal(terminated, np.abs(moved) > 1)
    np.testing.assert_array_equal(np.where(terminated, info["final_obs"][:, 0], obs[:, 0]), moved)
    env.close()
