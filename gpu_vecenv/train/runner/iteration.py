"""One iteration of a run as work for the device."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

import torch
from torch import Tensor

from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train.algorithms.contract import Algorithm
from gpu_vecenv.train.config import Precision
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Policy, apply
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.processes.late import LateSums
from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.returns.metrics import mean_metrics
from gpu_vecenv.train.run_folder.titles import EPISODE_METRICS
from gpu_vecenv.train.runner.collector import Collector
from gpu_vecenv.train.runner.finite import EXPONENTS, FiniteSearch
from gpu_vecenv.train.runner.metric_rows import MetricRows
from gpu_vecenv.train.runner.schedule_table import ScheduleTable
from gpu_vecenv.train.runner.torch_settings import in_precision
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.samples import Samples

IN_FLIGHT = 16
"""Most iterations in flight. The device has work while the host writes metrics of some iterations."""

NONFINITE = "nonfinite"
"""Name of the number that is 1 for a policy whose weights or statistics are not finite, and otherwise 0."""


WISHES = ("wish/stop", "wish/save")
"""Names of what a process of several wants: to end the run, and to save. They act in the iteration in which all know of them."""


def require_gradients() -> None:
    """Raise SequenceError in inference mode: torch makes tensors there that can never be trained."""
    if torch.is_inference_mode_enabled():
        raise SequenceError("training: expected a call outside of torch.inference_mode(), got one inside; no_grad() is allowed.")


class Iteration:
    """Collects a rollout and updates the policies. All shapes are fixed, and the host reads nothing.

    Attributes:
        metric_names: names of the metrics of an iteration.
        metric_rows: their values, in rows on the host.
        wishes: float32 (2,), see ``WISHES``, 1 for what this process wants.
    """

    def __init__(
        self,
        collector: Collector,
        policies: Mapping[str, Policy],
        rows: Mapping[str, PolicyRows],
        algorithms: Mapping[str, Algorithm],
        schedules: ScheduleTable,
        episodes: Mapping[str, EpisodeStats],
        precision: Precision = "float32",
        processes: Processes | None = None,
    ):
        self.precision, self.processes = precision, processes
        self.collector, self.policies, self.rows = collector, policies, rows
        self.algorithms, self.schedules, self.episodes = algorithms, schedules, episodes
        self.metric_names = [f"{metric}/{name}" for name in rows for metric in EPISODE_METRICS]
        self.metric_names += [f"episode/{metric.name}" for metric in collector.env.env_spec.metrics]
        self.metric_names += [f"{metric}/{name}" for name, algorithm in algorithms.items() for metric in algorithm.metric_names]
        device = collector.rollout.reward.device
        states = {name: [x for x in policy.state_dict().values() if x.is_floating_point()] for name, policy in policies.items()}
        states = {name: state for name, state in states.items() if state}
        for name, state in states.items():
            if unknown := next((x.dtype for x in state if x.dtype not in EXPONENTS), None):
                raise ConfigError(f"network of policy {name!r}: expected floats out of {list(EXPONENTS)}, got {unknown}")
        self.wishes = torch.zeros(len(WISHES), dtype=torch.float32, device=device)
        self.metric_names += [] if processes is None else WISHES
        self.metric_names += [f"{NONFINITE}/{name}" for name in states]
        self.metric_rows = MetricRows(IN_FLIGHT, len(self.metric_names), device)
        self._search = FiniteSearch(list(states.values()), device)
        self._nothing_found = torch.zeros(len(states), dtype=torch.float32, device=device)

    def run(self, first: bool) -> None:
        """Collect and learn, with the settings that ``ScheduleTable.prepare()`` chose, and copy the metrics to the host.

        Args:
            first: the first iteration of a run. Its rollout gives the running statistics of observations their first values
                before it is learned from; later rollouts are observed after the update.
        """
        require_gradients()
        with in_precision(self.precision, self.collector.env.device), torch.enable_grad():  # the caller may have switched it off
            self._run(first)

    def _run(self, first: bool) -> None:
        self.schedules.move()
        self.collector.collect()
        samples = {name: rows.samples() for name, rows in self.rows.items()}
        rewards = {
            name: of_policy.reward if of_policy.env_reward is None else of_policy.env_reward
            for name, of_policy in samples.items()
        }
        late_sums = None if self.processes is None else LateSums(self.processes)
        with late_sums or contextlib.nullcontext():
            metrics = [
                self.episodes[name].update(rewards[name], of_policy.ended, of_policy.valid) for name, of_policy in samples.items()
            ]
            if self.collector.rollout.episode is not None:
                metrics.append(mean_metrics(*self.collector.rollout.metrics_of_worlds(), self.processes))
        for name, algorithm in self.algorithms.items():
            of_policy = samples[name]
            if first:
                self._observe(name, of_policy)
                algorithm.begin(of_policy)
            metrics.append(algorithm.update(of_policy, self.schedules.scalars[name]))
            if not first:
                with late_sums or contextlib.nullcontext():
                    self._observe(name, of_policy)
        if late_sums is not None and self.processes is not None:
            metrics.append(self._wishes_of_all(late_sums, self.processes))
            late_sums.add_up()
        # An infinite weight or observation may leave gradients finite, for example if a unit is saturated.
        every = torch.cat((*metrics, self._nothing_found))
        self._search(every[len(every) - len(self._nothing_found) :])
        self.metric_rows.to_host(every)

    def _wishes_of_all(self, late_sums: LateSums, processes: Processes) -> Tensor:
        """Return what a process of all wants, float32 (2,), which is known when ``late_sums`` are added up."""
        wishes = torch.empty_like(self.wishes)
        with late_sums:
            processes.sum_then(self.wishes.double(), lambda of_all: wishes.copy_(of_all > 0))
        return wishes

    def _observe(self, name: str, samples: Samples) -> None:
        """Show a rollout's observations, and the inputs of its critic, to a policy."""
        critic = None if samples.critic is None else samples.critic[:-1]
        self.policies[name].observe(apply(samples.obs, lambda x: x[:-1]), samples.valid, critic)
