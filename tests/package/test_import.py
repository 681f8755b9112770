"""Time that ``import gpu_vecenv`` takes, and modules that it loads."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys, time
sys.path.insert(0, {root!r})
start = time.process_time()
import gpu_vecenv
seconds = time.process_time() - start
import gpu_vecenv.adapters
print(seconds, *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def test_import_is_fast_and_loads_no_optional_library():
    reports = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", CODE.format(root=str(ROOT))], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        reports.append(done.stdout.split())
    # The least processor time of three runs, so that other programs on the machine do not count.
    assert min(float(seconds) for seconds, *_ in reports) < 0.5
    modules = set(reports[0][1:])
    assert "gymnasium" in modules
    assert modules.isdisjoint({"torch", "cupy", "tyro", "matplotlib", "PIL"})
    assert modules.isdisjoint({"stable_baselines3", "torchrl", "tensordict", "pettingzoo", "skrl", "rl_games", "rsl_rl", "jax"})
    assert modules.isdisjoint({"lightning", "pytorch_lightning", "torchmetrics"})


TRAINING = """
import sys
sys.path.insert(0, {root!r})
from gpu_vecenv.train import TrainConfig, Trainer
Trainer(TrainConfig("WarpCartPole-v1", 2, device="cpu", out={out!r}), quiet=True).train(iterations=1)
print(*sys.modules)
"""


@pytest.mark.slow
def test_a_run_imports_no_library_and_no_part_of_the_package_that_it_does_not_need(tmp_path):
    code = TRAINING.format(root=str(ROOT), out=str(tmp_path / "run"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    modules = {name.partition(".")[0] for name in names}
    assert {"torch", "gpu_vecenv"} <= modules
    assert modules.isdisjoint({"matplotlib", "imageio", "imageio_ffmpeg", "PIL", "pygame", "rich"})
    assert modules.isdisjoint({"tyro", "cupy", "sympy", "pandas", "wandb", "optuna", "starlette", "uvicorn"})
    assert not any(name.startswith(("torch._dynamo", "torch._inductor", "numpy.ma.")) for name in names)
    unused = [f"gpu_vecenv.{name}" for name in ("web", "bench", "adapters", "testing", "train.runner.live", "train.runner.page")]
    unused += [f"gpu_vecenv.train.{name}" for name in ("runner.sweep", "runner.watch", "runner.export", "run_folder.plot")]
    assert not {*names} & {*unused}
    assert any((tmp_path / "run" / "tensorboard").iterdir())


def test_the_gymnasium_version_of_rllib_is_allowed():
    """RLlib pins 1.2.2 and takes these envs by their vector entry point."""
    asked = map(Requirement, tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    (gymnasium,) = (each for each in asked if each.name == "gymnasium")
    assert gymnasium.specifier.contains("1.2.2")
