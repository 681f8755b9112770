"""Command lines of rl_zoo3, unchanged, with ids of this package and with ``Sb3VecEnv``."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from gpu_vecenv.errors import ParameterError

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")

ZOO = """
WarpCartPole-v1:
  n_envs: 2
  n_timesteps: 128
  policy: MlpPolicy
WarpPendulum-v1:
  n_envs: 2
  n_timesteps: 128
  policy: MlpPolicy
WarpTag-v0:
  n_envs: 16
  n_timesteps: 512
  policy: MlpPolicy
  n_steps: 16
  batch_size: 64
"""


def works(what):
    return pytest.mark.works("rl_zoo3", what)


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """Function that runs ``python -m rl_zoo3.NAME`` in this process, in a folder with a file of hyperparameters."""
    managers = pytest.importorskip("rl_zoo3.exp_manager")
    monkeypatch.setattr(managers.ExperimentManager, "default_vec_env_cls", None)
    for algorithm, kind in dict(managers.ALGOS).items():
        monkeypatch.setitem(managers.ALGOS, algorithm, kind)  # a module of --gym-packages may replace it until the test ends
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("zoo.yml").write_text(ZOO)

    def run(name, algorithm, env, *options):
        module = pytest.importorskip(f"rl_zoo3.{name}")
        settings = ["--algo", algorithm, "--env", env, "-f", "logs", "--num-threads", "1", "--seed", "1", *options]
        if name == "train":
            settings += ["-conf", "zoo.yml"]
        monkeypatch.setattr(sys, "argv", [name, *settings])
        getattr(module, name)()

    return run


OURS = ("--gym-packages", "gpu_vecenv")


@works("`rl_zoo3.train` by id with `--gym-packages gpu_vecenv`, and `rl_zoo3.enjoy` of its result")
@works("a file of hyperparameters, `n_envs`, `--hyperparams`, `--env-kwargs` and `--eval-env-kwargs`")
def test_the_command_line_trains_and_plays(zoo, capsys):
    zoo("train", "ppo", "WarpCartPole-v1", *OURS, "--eval-freq", "64", "--eval-episodes", "1", "-params", "n_steps:32",
        "batch_size:32", "n_epochs:1", "--env-kwargs", "max_episode_steps:20", "gravity:9.0",
        "--eval-env-kwargs", "max_episode_steps:30")  # fmt: skip
    results = np.load("logs/ppo/WarpCartPole-v1_1/evaluations.npz")
    assert results["timesteps"].tolist() == [64, 128] and (results["results"] >= 8).all() and results["results"].max() <= 30
    kept = yaml.unsafe_load(Path("logs/ppo/WarpCartPole-v1_1/WarpCartPole-v1/args.yml").read_text())
    assert kept["env_kwargs"] == {"max_episode_steps": 20, "gravity": 9.0}
    lengths = [int(row.split(",")[1]) for log in (0, 1)
               for row in Path(f"logs/ppo/WarpCartPole-v1_1/{log}.monitor.csv").read_text().splitlines()[2:]]  # fmt: skip
    assert len(lengths) >= 5 and max(lengths) <= 20
    zoo("enjoy", "ppo", "WarpCartPole-v1", *OURS, "-n", "60", "--no-render", "--env-kwargs", "max_episode_steps:25")
    played = re.findall(r"Episode Length (\d+)", capsys.readouterr().out)
    assert len(played) >= 2 and max(map(int, played)) <= 25  # a limit of the command line goes before the one of the training


CONTRIB = {
    "qrdqn": ("WarpCartPole-v1", ["learning_starts:30"]),
    "trpo": ("WarpCartPole-v1", ["n_steps:32", "batch_size:32"]),
    "ppo_lstm": ("WarpCartPole-v1", ["policy:'MlpLstmPolicy'", "n_steps:32", "batch_size:32"]),
    "ars": ("WarpCartPole-v1", ["policy:'LinearPolicy'", "n_delta:2", "n_envs:1"]),
    "tqc": ("WarpPendulum-v1", ["learning_starts:30"]),
    "crossq": ("WarpPendulum-v1", ["learning_starts:30", "gradient_steps:1"]),
}


@works("algorithms of sb3-contrib by id: qrdqn, trpo, ppo_lstm, ars, tqc, crossq")
@pytest.mark.parametrize("algorithm", [name if name in ("trpo", "ppo_lstm") else pytest.param(name, marks=pytest.mark.slow)
                                       for name in CONTRIB])  # fmt: skip
def test_algorithms_of_sb3_contrib_by_id(algorithm, zoo, capsys):
    env, hyperparams = CONTRIB[algorithm]
    zoo("train", algorithm, env, *OURS, "--eval-freq", "-1", "-params", *hyperparams)
    assert Path(f"logs/{algorithm}/{env}_1/{env}.zip").stat().st_size > 0
    zoo("enjoy", algorithm, env, *OURS, "-n", "501", "--no-render")
    assert "Episode Reward: " in capsys.readouterr().out


def written(name, page="by_id.md"):
    """Write the block of the page that starts with ``# name.py`` to that file; return the options that import it."""
    text = (ROOT / "docs" / "adapters" / page).read_text()
    Path(f"{name}.py").write_text(re.search(rf"^~~~python\n(# {name}\.py\n.*?)^~~~", text, re.MULTILINE | re.DOTALL)[1])
    sys.modules.pop(name, None)
    return "--gym-packages", name


@works("`rl_zoo3.train` and `rl_zoo3.enjoy` on the rows of `Sb3VecEnv`, by `ExperimentManager.default_vec_env_cls`")
def test_rows_of_one_env_take_the_place_of_single_envs(zoo, capsys):
    """TRPO with VecNormalize. The model trained on rows plays in single envs too, and it has learned."""
    rows = written("gpu_rows")
    params = ["n_envs:16", "n_steps:64", "batch_size:256", "normalize:True"]
    zoo("train", "trpo", "WarpCartPole-v1", *rows, "--eval-freq", "4000", "--n-eval-envs", "2", "--env-kwargs",
        "max_episode_steps:200", "-n", "8000", "-params", *params)  # fmt: skip
    manager = sys.modules["rl_zoo3.exp_manager"].ExperimentManager
    assert manager.default_vec_env_cls is sys.modules["gpu_vecenv.adapters.sb3"].Sb3VecEnv
    folder = Path("logs/trpo/WarpCartPole-v1_1")
    assert [path.name for path in folder.glob("*.monitor.csv")] == ["0.monitor.csv"]  # the rows of one env share a log
    lengths = [int(row.split(",")[1]) for row in (folder / "0.monitor.csv").read_text().splitlines()[2:]]
    assert 8192 - 16 * 200 <= sum(lengths) <= 8192 and max(lengths) <= 200  # unfinished episodes are not in it
    assert np.load(folder / "evaluations.npz")["timesteps"].tolist() == [4000, 8000]
    for packages in (rows, OURS):
        manager.default_vec_env_cls = manager.default_vec_env_cls if packages is rows else None
        capsys.readouterr()
        zoo("enjoy", "trpo", "WarpCartPole-v1", *packages, "-n", "1000", "--no-render")
        assert float(re.search(r"Mean reward: ([\d.]+)", capsys.readouterr().out)[1]) > 66  # random actions have 22


@works("several agents, with a function that makes `Sb3VecEnv`")
def test_tag_trains_and_plays(zoo):
    tag = written("tag_rows")
    zoo("train", "ppo", "WarpTag-v0", *tag, "--eval-freq", "256", "--eval-episodes", "4", "--n-eval-envs", "4")
    assert np.load("logs/ppo/WarpTag-v0_1/evaluations.npz")["results"].shape == (2, 4)
    zoo("enjoy", "ppo", "WarpTag-v0", *tag, "-n", "30", "--n-envs", "8", "--no-render")


@pytest.mark.limit("rl_zoo3", "`env_wrapper` on the rows of `Sb3VecEnv`: there are no single envs; use `vec_env_wrapper`")
def test_rows_take_wrappers_of_rows_only(zoo):
    rows, common = written("gpu_rows"), ["n_steps:32", "batch_size:32"]
    with pytest.raises(ParameterError, match="without the wrappers of single envs, got <HistoryWrapper"):
        zoo("train", "ppo", "WarpPendulum-v1", *rows, "-params", *common, "env_wrapper:'rl_zoo3.wrappers.HistoryWrapper'")
    wrapper = "vec_env_wrapper:'stable_baselines3.common.vec_env.VecCheckNan'"
    zoo("train", "ppo", "WarpPendulum-v1", *rows, "-n", "64", "-params", *common, wrapper)
    assert Path("logs/ppo/WarpPendulum-v1_2/WarpPendulum-v1.zip").is_file()


@works("algorithms of SBX")
@pytest.mark.slow
def test_an_algorithm_of_sbx(zoo):
    pytest.importorskip("sbx")
    zoo("train", "sac", "WarpPendulum-v1", *written("sbx_rows", "sbx.md"), "--eval-freq", "-1", "-params", "learning_starts:30")
    assert sys.modules["rl_zoo3"].ALGOS["sac"].__module__.startswith("sbx.")
    assert Path("logs/sac/WarpPendulum-v1_1/WarpPendulum-v1.zip").is_file()


@works("`--optimize-hyperparameters`, on single envs and on rows")
@pytest.mark.slow
@pytest.mark.parametrize("rows", [False, True])
def test_hyperparameters_are_optimized(rows, zoo, capsys):
    packages = written("gpu_rows") if rows else OURS
    zoo("train", "ppo", "WarpCartPole-v1", *packages, "-optimize", "--n-trials", "2", "-n", "200", "--n-evaluations", "1",
        "--no-optim-plots")  # fmt: skip
    assert list(Path("logs/ppo").glob("report_WarpCartPole-v1_2-trials-*.csv"))
