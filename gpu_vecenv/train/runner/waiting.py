"""Runs that have not begun, in a queue for each of the devices that they are spread over."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import TypeVar

from gpu_vecenv.backend.select import choose_device
from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config.checks import is_name, require
from gpu_vecenv.train.errors import ConfigError

AT_ONCE = 16
"""Runs at a time by default."""

MAX_AT_ONCE = 32
"""Most runs at a time on a device: torch has this many CUDA streams of one, and each run needs its own."""

Run = TypeVar("Run", bound=Hashable)


def spread(number: int, devices: Sequence[str]) -> str:
    """Return the device of a run, by its number among all runs: they take the devices in turn."""
    return devices[number % len(devices)]


def require_devices(devices: object, at_once: int) -> None:
    """Check devices that runs are spread over.

    Raises:
        ConfigError: ``devices`` is no list of names, or a device would have more runs at a time than it has streams.
        DeviceError, ParameterError: a device does not exist or does not work.
    """
    good = isinstance(devices, list | tuple) and len(devices) > 0 and all(map(is_name, devices))
    require(good, "devices", "a list of devices, such as ['cuda:0', 'cuda:1']", devices)
    assert isinstance(devices, list | tuple)
    chosen = [choose_device(device) for device in devices]
    for device in chosen:
        if at_once * chosen.count(device) > MAX_AT_ONCE:
            raise ConfigError(
                f"at_once: expected at most {MAX_AT_ONCE} runs at a time on a device, got {at_once} for each of "
                f"{abbreviated(list(devices))}"
            )


class Waiting(Collection[Run]):
    """Runs in a queue for each device; they begin in order."""

    def __init__(self, runs: Sequence[Run], queues: int, at_once: int) -> None:
        """Put the runs into the queues in turn.

        Args:
            runs: the runs.
            queues: number of queues.
            at_once: most runs of a queue that are active at a time.
        """
        self._at_once = at_once
        self._queues = [deque(runs[first::queues]) for first in range(queues)]
        self._queue_of = {run: number % queues for number, run in enumerate(runs)}

    def __len__(self) -> int:
        """Runs that have not begun."""
        return sum(map(len, self._queues))

    def __iter__(self) -> Iterator[Run]:
        """Iterate over the runs that have not begun."""
        return (run for queue in self._queues for run in queue)

    def __contains__(self, run: object) -> bool:
        """Return True if a run has not begun."""
        return any(run == each for each in self)

    def take(self, active: Collection[Run]) -> Run | None:
        """Return the next run to begin, of the device with the fewest active ones; None if all have as many as they may."""
        counts = [0] * len(self._queues)
        for run in active:
            counts[self._queue_of[run]] += 1
        free = [number for number, queue in enumerate(self._queues) if queue and counts[number] < self._at_once]
        return self._queues[min(free, key=lambda number: counts[number])].popleft() if free else None
