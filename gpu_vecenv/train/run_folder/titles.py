"""Titles of metrics for the curves and the progress line of a run."""

from __future__ import annotations

from collections.abc import Iterable

EPISODE_METRICS = ("return", "episode_length", "recent_return", "recent_length")
"""Names of what ``EpisodeStats.update()`` returns: over the episodes that ended in a rollout, and over the last ones."""

_NOT_OF_ALGORITHMS = (*EPISODE_METRICS, "episode", "evaluation")
"""First parts of the names of metrics that a run has with any algorithm."""

_NOT_SHOWN = {
    "clip_fraction", "grad_norm", "explained_variance", "learning_rate", "valid_fraction", "choice_fraction", "replay_filled",
    "update_to_data", "updates", "skipped",
}  # fmt: skip
"""Metrics that say how an update went, which files and TensorBoard hold alone."""

_TITLES = {"entropy": "entropy (nats)", "kl": "KL divergence (nats)", "q": "Q value", "q_value": "Q value"}
"""Titles, with a unit if there is one, of metrics whose names do not say enough. Others have their names, without underscores."""


def title_of(metric: str) -> str:
    """Return the title of an algorithm's metric."""
    return _TITLES.get(metric, metric.replace("_", " "))


def metrics_of_algorithms(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return metric and policy of each number that an algorithm, also one of a user, gave a run and that is worth a look.

    Args:
        names: names of the metrics of a run, such as ``kl/runner``; the result has their order.
    """
    parts = [name.partition("/") for name in names]
    return [
        (metric, policy)
        for metric, slash, policy in parts
        if slash and metric not in _NOT_OF_ALGORITHMS and metric not in _NOT_SHOWN
    ]
