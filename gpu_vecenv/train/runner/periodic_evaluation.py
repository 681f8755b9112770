"""Evaluation of the policies during training, which finds the best state of a run and may end it early."""

from __future__ import annotations

import contextlib
import math
from typing import Any

from gpu_vecenv.train.config import ResolvedConfig
from gpu_vecenv.train.errors import ConfigError, UnfinishedError
from gpu_vecenv.train.run_folder.best import BestReturn
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.evaluation import evaluation_seed
from gpu_vecenv.train.runner.measure import Evaluation, measure, piece_steps
from gpu_vecenv.train.runner.players import Players
from gpu_vecenv.train.runner.run_state import RunState
from gpu_vecenv.train.runner.wrappers import evaluate_as_in_training
from gpu_vecenv.train.storage.policy_map import trainable_policies


class PeriodicEvaluation:
    """Evaluates the present policies every ``evaluation_interval`` iterations, in worlds of its own.

    Attributes:
        best: the best mean return so far, which a checkpoint holds.
        latest: result of this iteration's evaluation; None without one.
        latest_is_best: True if that result is the best so far, in all processes of a run.
        found_best: the same, until the trainer has saved it.
    """

    def __init__(self, config: ResolvedConfig, parts: RunState) -> None:
        self.config, self.parts = config, parts
        self.best = BestReturn()
        self.latest: Evaluation | None = None
        self.latest_is_best = self.found_best = False
        roles = list(parts.collector.env.role_rows)
        if config.best_of is not None and config.best_of not in roles:
            raise ConfigError(f"best_of: expected one of the roles {roles}, got {config.best_of!r}")
        self.role = self._role(config)
        self._resources = contextlib.ExitStack()
        self._players: Players | None = None

    def _role(self, config: ResolvedConfig) -> str:
        """Return the role whose mean return counts with some options of this run."""
        learn = trainable_policies(list(self.parts.rows), config.frozen, self.parts.fixed)
        return config.best_of or self.parts.rows[learn[0]].spans[0].members.role

    def load_state_dict(self, state: dict[str, Any], where: str, before: ResolvedConfig) -> None:
        """Restore the best return of a checkpoint. It starts anew if evaluations now measure something else.

        Args:
            state: the state.
            where: its name in errors.
            before: options of the run that wrote it.

        Raises:
            CheckpointError: the state is damaged.
        """
        self.best.load_state_dict(state, where)
        measured, now = (
            (self._role(config), config.evaluation_episodes, config.env_kwargs) for config in (before, self.config)
        )
        if measured != now:
            self.best = BestReturn()

    @property
    def finished(self) -> str:
        """The reason to end the run, also of a run that is resumed after its end; empty while it continues."""
        stop_at, patience, best = self.config.stop_at, self.config.patience, self.best
        if stop_at is not None and best.value >= stop_at:
            return f"mean return {best.value:.6g} of {self.role} reached stop_at {stop_at:g}"
        if patience is not None and best.evaluations_since >= patience:
            return f"{best.evaluations_since} evaluations without a better return than {best.value:.6g}"
        return ""

    def evaluate(self, iteration: int) -> dict[str, float]:
        """Evaluate if this iteration is due; return metrics ``evaluation/ROLE`` and ``evaluation/episode/NAME``.

        The first process of a run evaluates and returns metrics; the others return none.

        Raises:
            UnfinishedError: an episode did not end within 10,000 steps, or the env's time limit if it is longer.
        """
        interval, processes = self.config.evaluation_interval, self.parts.processes
        if interval is None or iteration % interval != 0:
            return {}
        metrics = self._evaluate(iteration) if processes is None or processes.is_first else {}
        if processes is not None:  # the others learn what decides whether the run goes on
            heard = processes.from_first(lambda: [self.best.value, self.best.evaluations_since, self.latest_is_best])
            self.best.value, self.best.evaluations_since, self.latest_is_best = heard
        self.found_best = self.latest_is_best
        return metrics

    def _evaluate(self, iteration: int) -> dict[str, float]:
        """Evaluate in this process; see ``evaluate()``."""
        try:
            result = self.measured()
        except UnfinishedError as error:
            go_on = "A run without evaluations goes on: Trainer.resume(FOLDER, evaluation_interval=None)."
            raise UnfinishedError(f"evaluation after iteration {iteration}: {error} {go_on}") from None
        mean_return = result.mean_return[self.role]
        self.latest, self.latest_is_best = result, self.best.update(mean_return)
        return evaluation_metrics(result)

    def measured(self) -> Evaluation:
        """Evaluate the present policies, with the same worlds each time; the run does not change.

        Raises:
            UnfinishedError: see ``evaluate()``.
        """
        if self._players is None:
            env = make_env(self.config, self.config.evaluation_episodes)
            self._resources.callback(env.close)
            actors = self.parts.evaluation_actors
            parts = self.parts
            self._players = Players(env, self.config.policy_map, parts.policies, piece_steps(env), actors, parts.functions)
        evaluate_as_in_training(self._players.collector.env, self.parts.collector.env)
        return measure(self._players, evaluation_seed(self.config.seed), deterministic=False)

    def close(self) -> None:
        """Close the env of evaluations."""
        self._resources.close()


def evaluation_metrics(result: Evaluation) -> dict[str, float]:
    """Return the metrics of an evaluation that have a value: ``evaluation/ROLE`` and ``evaluation/episode/NAME``."""
    means = result.mean_return | {f"episode/{name}": x for name, x in result.mean_metrics.items()}
    return {f"evaluation/{name}": x for name, x in means.items() if math.isfinite(x)}
