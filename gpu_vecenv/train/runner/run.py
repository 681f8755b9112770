"""A run's folder: its policies, its env and its results, and what a notebook shows of it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gymnasium.vector import VectorWrapper

from gpu_vecenv.render.notebook import MAX_EMBEDDED, picture_html, pixels, png, table_html, video_html
from gpu_vecenv.train.config import TrainConfig, resolve
from gpu_vecenv.train.errors import ConfigError, MetricsError
from gpu_vecenv.train.run_folder.checkpoint import without_import
from gpu_vecenv.train.run_folder.matches import read_matches
from gpu_vecenv.train.run_folder.plot import plot_curves
from gpu_vecenv.train.run_folder.runs import metrics_of_run, names_env, runs_nearby
from gpu_vecenv.train.run_folder.source import PolicySource
from gpu_vecenv.train.runner.build import close_on_error, in_turn, make_wrapped
from gpu_vecenv.train.runner.evaluation import evaluate
from gpu_vecenv.train.runner.measure import Evaluation
from gpu_vecenv.train.runner.run_policy import RunPolicy
from gpu_vecenv.train.runner.saved_policy import saved_policy
from gpu_vecenv.train.runner.watch import watch
from gpu_vecenv.train.runner.wrappers import evaluate_as_saved, through_wrappers

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

VIDEO_FILE = "video.mp4"
CURVES_WIDTH, VIDEO_WIDTH = 900, 480


class Run:
    """A run's folder. A notebook shows its returns, its curves and, if the folder has one, its video.

    Example::

        run = Run("runs/tag")  # as the last line of a cell, it is shown
        env = run.make_env(num_worlds=4, view="agents")
        obs, info = env.reset(seed=0)
        actions, _ = run.policy("runner").act(obs[env.role_rows["runner"]])

    Args:
        folder: the run's folder.
        random_return: policy name to the mean return of an agent that acts at random, which is shown beside what was learned, as
            in ``evaluate(folder, policy_map={"tagger": "random", "runner": "random"}).mean_return``. By default it is that of
            the matches in the folder, which ``gpu-vecenv train`` plays at the end.

    Attributes:
        folder: the run's folder.
        metrics: the lines of its ``metrics.jsonl``, a dict by name for each iteration, with None for values that are missing.

    Raises:
        MetricsError: there is no such folder, it holds no metrics of a run, or its matches are damaged.
    """

    def __init__(self, folder: str | Path, random_return: Mapping[str, float] | None = None) -> None:
        self.folder = Path(folder)
        if names_env(self.folder):
            instead = f"gpu_vecenv.make_vec({str(folder)!r}) makes that env without a run{runs_nearby(self.folder)}"
            raise MetricsError(f"{folder}: expected the folder of a run, got the id of an env: {instead}")
        self.metrics = metrics_of_run(self.folder)
        self._random = dict(_random_returns(self.folder) if random_return is None else random_return)

    @cached_property
    def config(self) -> TrainConfig:
        """Options of the run, from its ``config.yaml``.

        Raises:
            ConfigError, OSError: see ``TrainConfig.of_run()``.
        """
        return TrainConfig.of_run(self.folder)

    def make_env(self, num_worlds: int = 1, device: str = "auto", **options: Any) -> GpuVectorEnv[Any]:
        """Make the env of the run with its parameters; if its id makes wrappers, with their statistics, which stay as they are.

        Args:
            num_worlds: number of worlds; they take values by world of the run in turn.
            device: ``auto``, ``cpu`` or ``cuda:0``.
            **options: further arguments of ``make_vec``, such as ``view`` and ``array``, and parameters of the env that differ
                from the run's. An env in wrappers needs ``view="agents"``.

        Returns:
            The env, or wrappers around it if its id makes them.

        Raises:
            CheckpointError: the run has no usable checkpoint, of an env in wrappers.
            ConfigError, DeviceError, CompileError, OutOfMemoryError: the env cannot be made.
        """
        config = resolve(without_import(self.config, self.folder))
        options = {"num_worlds": num_worlds, "device": device, **options}
        params = {name: value for name, value in config.env_kwargs.items() if name not in options}
        params = in_turn(config.env_id, params, range(num_worlds))
        env = make_wrapped(config.env_id, params, options)
        if isinstance(env, VectorWrapper):
            with close_on_error(env):
                unwrapped: Any = env.unwrapped
                if unwrapped.num_agents > 1 and unwrapped.view != "agents":
                    raise ConfigError(f'make_env: expected view="agents" for {config.env_id}, which has wrappers')
                evaluate_as_saved(through_wrappers(env, config.env_id), self.folder)
        return cast("GpuVectorEnv[Any]", env)

    def policy(self, name: str | None = None, best: bool = False, device: str = "auto", seed: int = 0) -> RunPolicy:
        """Return a policy of the run, ready to act.

        Args:
            name: name of the policy; None takes the run's only one.
            best: take the checkpoint whose evaluation was best, instead of the newest one.
            device: ``auto``, ``cpu`` or ``cuda:0``.
            seed: seed of the policy's draws.

        Raises:
            CheckpointError: the run has no usable checkpoint.
            ConfigError: the run has no such policy, or several and no name was given.
            DeviceError: there is no such device.
        """
        source = PolicySource(self.folder, None, "best" if best else "newest")
        return RunPolicy(saved_policy(source.file if best else self.folder, name, device, "Run.policy"), seed)

    def evaluate(self, episodes: int = 64, **options: Any) -> Evaluation:
        """Play one episode in each of some worlds; see ``evaluate()`` for the options."""
        return evaluate(self.folder, episodes, **options)

    def watch(self, out: str | Path | None = None, **options: Any) -> Path:
        """Write a video of the run's policies and return its path; see ``watch()`` for the options."""
        return watch(self.folder, out, **options)

    def __repr__(self) -> str:
        """Folder, steps and returns."""
        returns = "".join(f", {name} {late}" for name, _, late, *_ in self._returns())
        return f"Run({self.folder}, {self._steps():,} steps{returns})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Without matplotlib or Pillow there are no curves."""
        head = ("mean return of", "first episodes", "last 100 episodes", *(("at random",) if self._random else ()))
        parts = [f"<p>{self._steps():,} world steps in {len(self.metrics):,} iterations</p>", table_html(self._returns(), head)]
        if self.metrics:
            with contextlib.suppress(ImportError), tempfile.TemporaryDirectory() as folder:
                curves = plot_curves(self.folder, Path(folder) / "curves.png")  # drawn anew, because the run may have gone on
                parts.append(picture_html(png([pixels(curves)], width=CURVES_WIDTH), CURVES_WIDTH))
        video = self.folder / VIDEO_FILE
        if video.is_file() and video.stat().st_size <= MAX_EMBEDDED:
            parts.append(video_html(video.read_bytes(), VIDEO_WIDTH))
        return "".join(parts)

    def _steps(self) -> int:
        return int((self.metrics[-1]["steps"] or 0) if self.metrics else 0)

    def _returns(self) -> list[list[str]]:
        """Return a line for each policy: name; mean return in the first rollout with an ended episode, of late, and at random."""
        last = self.metrics[-1] if self.metrics else {}
        lines = []
        for name in [name.removeprefix("return/") for name in last if name.startswith("return/")]:
            first = next((value for line in self.metrics if (value := line.get(f"return/{name}")) is not None), None)
            values = [first, last.get(f"recent_return/{name}"), *([self._random.get(name)] if self._random else [])]
            lines.append([name, *("–" if value is None else f"{value:.2f}" for value in values)])
        return lines


def _random_returns(folder: Path) -> dict[str, float]:
    """Return the mean return of each policy's agents when all roles act at random; empty without matches."""
    matches = read_matches(folder)
    if matches is None:
        return {}
    names = {name for role in matches.learning for name in matches.roles[role].policies}
    known = {name: matches.baseline(name, *matches.learning) for name in names}
    return {name: value for name, value in known.items() if value is not None}
