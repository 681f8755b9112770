"""Runs every fenced code block of the documents, except the two quick-start commands, which .ci/run runs."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from gpu_vecenv import testing
from gpu_vecenv.cli.main import main
from gpu_vecenv.spec.registered import REGISTERED_PRESETS
from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.runner.build import make_env
from tools.docs.readme import blocks, quick_start

ROOT = Path(__file__).resolve().parents[2]

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")),
             *sorted((ROOT / "envs").rglob("*.md"))]
BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]
WALK = [b for b in BLOCKS if b.path.name == "own-env.md" and b.language in ("python", "cuda")]
BASH = [b for b in BLOCKS if b.language == "bash" and b.path.name != "README.md"]
# Blocks of another library, beside ours that replace them. They need that library, so only their syntax is checked.
OTHERS = [b for b in BLOCKS if b.text.startswith("# WarpDrive")]
PYTHON = [b for b in BLOCKS if b.language == "python" and b not in WALK + OTHERS]
YAML = [b for b in BLOCKS if b.language == "yaml"]
# Hooks that start with a comment of their file's name; Python blocks of the same page find the file.
HOOKS = [b for b in PYTHON if re.match(r"# \w+\.py\n", b.text)]
KERNELS = [b for b in BLOCKS if b.language == "cuda" and b not in WALK]


# Pages of libraries that the extra "test" does not install; .ci/run installs them and runs these blocks last.
LIBRARIES = {"skrl.md": "skrl", "rl_games.md": "rl_games", "rsl_rl.md": "rsl_rl", "jax.md": "jax", "tianshou.md": "tianshou",
             "agilerl.md": "agilerl", "supersuit.md": "supersuit", "sbx.md": "sbx", "rllib.md": "ray.rllib",
             "benchmarl.md": "benchmarl", "lightning.md": "lightning"}  # fmt: skip


LONGEST = "sb3-contrib.md"
"""Page whose block takes longest: it trains by six algorithms."""
QUICK = ("README.md", "env_page_cartpole", "first-run.md", "sac.md", "wrappers.md", "threads.md")
"""Pages whose blocks run in each run of the tests, beside those of libraries, which are skipped if their library is missing."""


def marked(block):
    """Return a block as a parameter, with the name of its page; pages of envs have that of their folder."""
    of_env = block.path.parent.parent.name == "envs"
    name = f"env_page_{block.path.parent.name}" if of_env else block.path.name
    marks = pytest.mark.slow if name == LONGEST else () if name in (*QUICK, *LIBRARIES) else pytest.mark.in_ci
    return pytest.param(block, marks=marks, id=f"{name}:{block.line}")


@pytest.mark.parametrize("block", [marked(block) for block in PYTHON])
def test_python_block_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if block.path.name in LIBRARIES:
        pytest.importorskip(LIBRARIES[block.path.name])
    for file in KERNELS + HOOKS:
        if file.path == block.path:
            (tmp_path / file.text.splitlines()[0].lstrip("/# ")).write_text(file.text)
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
    """``tests/pyhooks/test_page.py`` and ``tests/debug`` have what messages say, and the latter commands of debuggers."""
    quick = [b for b in BLOCKS if b.path.name == "README.md" and b.heading == "Quick start"]
    shown = [b for b in BLOCKS if b.language in ("text", "gdb") and b.path.name in ("python-hooks.md", "debugging.md")]
    assert [b for b in BLOCKS if b not in PYTHON + YAML + OTHERS + KERNELS + WALK + BASH + quick + shown] == []


def test_every_env_page_makes_steps_changes_trains_and_watches():
    pages = {b.path.parent.name: b.text for b in PYTHON if b.path.parent.parent.name == "envs"}
    assert {*pages} == {path.parent.name for path in (ROOT / "envs").glob("*/README.md")}
    for text in pages.values():
        assert all(call in text for call in ("make_vec(", "env.step(", "env.set_params(", ".train()", ".watch("))


def test_blocks_of_the_readme_are_short():
    made, mapped = (b for b in PYTHON if b.path == ROOT / "README.md")
    assert len(made.text.splitlines()) <= 10
    assert len(mapped.text.splitlines()) <= 15


def test_quick_start_is_two_commands_for_a_fresh_clone():
    train, check = quick_start()
    for command in (train, check):
        assert command.startswith("python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e ")
    assert "gpu-vecenv train WarpTag-v0" in train
    assert check.endswith("&& pytest -n 2")


@pytest.fixture
def walk(tmp_path, monkeypatch, request):
    """The folder with the files of "Write your env", on the path of imports; the id is removed afterwards.

    Tests in both languages parametrise it by the file of the hooks.
    """
    spec, kernel, hooks, _, preset = WALK
    assert [block.language for block in WALK] == ["python", "cuda", "python", "python", "python"]
    (tmp_path / "walk.py").write_text(f"{spec.text}\n{preset.text}".replace("walk.cu", getattr(request, "param", "walk.cu")))
    (tmp_path / "walk.cu").write_text(kernel.text)
    (tmp_path / "walk_hooks.py").write_text(hooks.text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("walk", None)
    gymnasium.registry.pop("Walk-v0", None)
    REGISTERED_PRESETS.pop("Walk-v0", None)


BOTH_LANGUAGES = pytest.mark.parametrize("walk", ["walk.cu", "walk_hooks.py"], indirect=True)


@BOTH_LANGUAGES
def test_a_run_of_the_example_environment_has_the_registered_preset(walk):
    options = TrainConfig.from_options({"env_id": "walk:Walk-v0", "ppo": {"gamma": 0.5}})
    run = resolve(options)
    assert (run.num_envs, run.total_steps, run.env_kwargs) == (16, 20_000, {"max_episode_steps": 20})
    assert (run.ppo.num_steps, run.ppo.gamma) == (20, 0.5)


@pytest.mark.slow
@BOTH_LANGUAGES
def test_the_example_environment_works(walk):
    exec(compile(WALK[3].text, WALK[3].path, "exec"), {"__name__": "__main__"})
    env = gymnasium.make_vec("Walk-v0", num_envs=3, device="cpu", array="numpy", stride=0.25)
    start, _ = env.reset(seed=0)
    assert (0 <= start).all() and (start < 1).all()
    obs, reward, terminated, _, info = env.step(np.array([1, 0, 1]))
    moved = start[:, 0] + np.array([0.25, -0.25, 0.25], np.float32)
    np.testing.assert_array_equal(reward, -np.abs(moved))
    np.testing.assert_array_equal(terminated, np.abs(moved) > 1)
    np.testing.assert_array_equal(np.where(terminated, info["final_obs"][:, 0], obs[:, 0]), moved)
    env.close()


@BOTH_LANGUAGES
def test_the_reference_of_the_page_on_checks_is_that_of_the_example(walk):
    (block,) = (b for b in PYTHON if b.path.name == "check.md" and "WalkReference" in b.text)
    (walk / "reference.py").write_text(block.text)
    subject = testing.Subject("walk:Walk-v0", {"max_episode_steps": 9}, num_steps=30)
    assert testing.check_reference(subject) == "30 steps of 4 worlds"


SETUP = re.compile(
    r"python3 -m venv \.venv|\. \.venv/bin/activate|"
    r'pip install (?:-c constraints\.txt -e "\.|"\./gpu_vecenv-\S+\.whl|"gpu_vecenv)\[([\w,]+)\](?: @ git\+https://REPOSITORY)?"'
)
"""Commands of set-up, which .ci/run and tools/packaging/try_wheel.sh run; the group holds the extras."""

SMALL_TAG = ["num_taggers=1", "num_runners=3", "episode_length=6"]


def lines(block):
    """Commands of a block; one that goes on behind a backslash is one line."""
    return block.text.replace("\\\n", "").splitlines()


def with_value(words, option, value):
    """Words of a command with this value of an option in place of another one."""
    at = words.index(option) if option in words else len(words)
    return [*words[:at], *words[at + 2 :], option, value]


def shortened(words):
    """Words of a command that takes seconds: training has few steps, and games of Tag are small."""
    if words[0] == "reproduce":
        return with_value(with_value(words, "--seeds", "1"), "--total-steps", "1")
    if words[0] != "train":
        return words
    small = ["--env", *SMALL_TAG] if "WarpTag-v0" in words and "--env" not in words else []
    return with_value([*words, *small], "--total-steps", "800" if "--resume" in words else "400")


LONG_COMMANDS = ("trained-policy.md", "debugging.md")
"""Pages whose commands take longest: an export and its checks, builds for a debugger and sanitizers."""


def marked_page(path):
    return pytest.param(path, marks=pytest.mark.slow if path.name in LONG_COMMANDS else pytest.mark.in_ci)


@pytest.mark.parametrize("page", [marked_page(path) for path in sorted({b.path for b in BASH})], ids=lambda path: path.name)
def test_commands_of_a_page_run(page, request, tmp_path, monkeypatch, capsys):
    """Commands of this package run in order and in one folder; of others, set-up is checked."""
    monkeypatch.chdir(tmp_path)
    if page.name == "own-env.md":
        request.getfixturevalue("walk")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for line in (line for b in BASH if b.path == page for line in lines(b)):
        if (command := line.removeprefix("PYTHONPATH=. ")).startswith("gpu-vecenv "):
            assert main(shortened(shlex.split(command)[1:])) == 0, capsys.readouterr().err
        else:
            setup = SETUP.fullmatch(line)
            assert setup, f"expected a command of gpu-vecenv or of set-up, got {line}"
            assert set((setup[1] or "train").split(",")) <= set(extras)
