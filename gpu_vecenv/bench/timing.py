"""Timing: calls that can be timed, interleaved rounds, and a confidence interval for the median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Protocol

CHUNK = 500
"""Calls after which the host waits for the device, at the end of a lap. CUDA queues about a thousand launches; a full queue would
make the host wait inside a call."""

CONFIDENCE = 0.9
"""Least confidence of an interval. With five rounds, the interval from the lowest to the highest value has 0.9375."""


@dataclass(frozen=True)
class Reading:
    """Wall-clock seconds until the work of some calls is done, and the host time of the calls.

    ``reached`` is False for a training run that did not reach its goal; the seconds are then those of the whole run.
    """

    seconds: float
    host_seconds: float
    reached: bool = True


class Timed(Protocol):
    """Calls that can be timed, in this process or in another."""

    @property
    def most_calls(self) -> int | None:
        """Most calls in one sample; None for no limit."""

    def read(self, calls: int) -> Reading:
        """Make ``calls`` calls and wait for their work."""


class Local:
    """Calls in this process.

    Args:
        call: the call to time.
        device: device to wait for.
        most_calls: most calls in one sample; None for no limit.
        lap: number of calls after which ``between`` is called; it is also called at the end of a sample.
        between: function called between laps, such as a rewind. Its time counts in the seconds of a sample, not in the host time.
    """

    def __init__(
        self, call: Callable[[], object], device: str, most_calls: int | None = None,
        lap: int = CHUNK, between: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self._call, self._device, self.most_calls = call, device, most_calls
        self._lap, self._between = lap, between

    def read(self, calls: int) -> Reading:
        """Make ``calls`` calls and wait for their work.

        The host time leaves out the first call after each wait: its caches are cold, so it is slower than other calls. A sample
        of one call includes it.
        """
        call, host, timed, queued = self._call, 0.0, 0, 0
        synchronise(self._device)
        start = time.perf_counter()
        for done in range(0, calls, self._lap):
            if queued >= CHUNK:
                synchronise(self._device)
                queued = 0
            lap = min(self._lap, calls - done)
            cold = int(queued == 0 and calls > 1)
            for _ in range(cold):
                call()
            before = time.perf_counter()
            for _ in range(lap - cold):
                call()
            host += time.perf_counter() - before
            timed += lap - cold
            queued += lap
            self._between()
        synchronise(self._device)
        return Reading(time.perf_counter() - start, host / max(1, timed) * calls)


@dataclass(frozen=True)
class Summary:
    """Seconds of a call: median over the rounds, interval of the median, its coverage, and host time by round.

    ``reached`` is the number of rounds that reached their goal, see ``Reading``.
    """

    median: float
    low: float
    high: float
    coverage: float
    hosts: tuple[float, ...]
    calls: int
    reached: int

    @property
    def host(self) -> float:
        """Host time of a call, median over the rounds."""
        return statistics.median(self.hosts)

    def host_over(self, other: Summary) -> float:
        """Host time of a call minus that of a call of ``other``: median of the differences within a round."""
        return statistics.median(host - other_host for host, other_host in zip(self.hosts, other.hosts, strict=True))


def synchronise(device: str) -> None:
    """Wait for a CUDA device; does nothing on the CPU."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize(device)


def seconds_per_call(call: Callable[[], object], device: str, target: float = 0.1) -> float:
    """Return wall-clock seconds of one call, from back-to-back calls that take ``target`` seconds in all."""
    timed = Local(call, device)
    calls = calls_to_fill(timed, target)
    return timed.read(calls).seconds / calls


def calls_to_fill(timed: Timed, target: float) -> int:
    """Return the number of calls (at least 1) that take about ``target`` seconds. Finding it also warms the calls up."""
    calls, most = 1, timed.most_calls or 1_000_000
    timed.read(1)
    while True:
        seconds = timed.read(calls).seconds
        if seconds >= target / 4 or calls >= most:
            return max(1, min(most, round(calls * target / max(seconds, 1e-9))))
        calls = min(most, calls * max(2, min(16, int(target / 4 / max(seconds, 1e-9)) + 1)))


def interleaved(subjects: Mapping[str, Timed], rounds: int, target: float | None) -> dict[str, Summary | Exception]:
    """Time every subject once in each round, so that a slow phase of the machine affects all of them.

    Args:
        subjects: calls to time, by name.
        rounds: samples of each subject.
        target: seconds of a sample, which has at least one call; None for one call without warm-up.

    Returns:
        Seconds of each subject's call, or the error of a subject that failed.
    """
    calls: dict[str, int] = {}
    readings: dict[str, list[Reading]] = {}
    failed: dict[str, Exception] = {}
    for name, subject in subjects.items():
        calls[name], readings[name] = 1, []
        if target is None:
            continue
        try:
            calls[name] = calls_to_fill(subject, target)
        except Exception as error:  # an error of a library is recorded in its row
            failed[name] = error.with_traceback(None)  # its frames would keep memory
    for _ in range(rounds):
        for name in [name for name in calls if name not in failed]:
            try:
                readings[name].append(subjects[name].read(calls[name]))
            except Exception as error:
                failed[name] = error.with_traceback(None)
    return {name: failed[name] if name in failed else summary(readings[name], calls[name]) for name in subjects}


def summary(readings: Sequence[Reading], calls: int) -> Summary:
    """Summarise readings of ``calls`` calls each, one reading a round."""
    each = [reading.seconds / calls for reading in readings]
    low, high, coverage = median_interval(each)
    hosts = tuple(reading.host_seconds / calls for reading in readings)
    reached = sum(reading.reached for reading in readings)
    return Summary(statistics.median(each), low, high, coverage, hosts, calls, reached)


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """Return a confidence interval for the median of the values' distribution, without assumptions about its shape.

    The median lies between the k-th smallest and the k-th largest of n independent values with probability 1 - 2 P(B < k), B
    binomial (n, 1/2) (the sign test's interval). k is the largest that keeps ``confidence``, or 1.

    Returns:
        low, high, and the probability of the interval, which is below ``confidence`` only if the values are too few.
    """
    ordered, n = sorted(values), len(values)

    def coverage(k: int) -> float:
        return 1.0 - 2 * sum(comb(n, i) for i in range(k)) / float(2**n)

    k = 1
    while 2 * (k + 1) <= n and coverage(k + 1) >= confidence:
        k += 1
    return ordered[k - 1], ordered[n - k], max(0.0, coverage(k))
