"""Returns and lengths of finished episodes, by kernels with the same bits on every device and for any number of threads.

The kernels are in ``kernels/returns/episodes.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import EPISODES, PLACES
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.returns.scan import EpisodeSumsCall

WINDOW = 100
"""Number of last episodes to average over."""


class EpisodeStats(nn.Module):
    """Sums the rewards of each row of one policy, and averages the sums when episodes end.

    An episode counts once for each row whose agent took part in it. The return of an agent that leaves early ends there; its
    episode ends with that of its world. The last episodes are those of whole worlds, with all agents of the policy in the world.
    The sums and the last episodes are buffers, so that a checkpoint loses nothing.
    """

    totals: Tensor
    recent: Tensor
    num_recent: Tensor
    agents: Tensor
    _calls: _Calls | None

    def __init__(
        self, shape: int | tuple[int, ...], window: int = WINDOW, agents: Sequence[int] | None = None,
        processes: Processes | None = None,
    ):  # fmt: skip
        """Start with empty episodes.

        Args:
            shape: shape of the rewards of one step: (n,) or n for n rows, or (N, a) for a rows of each world.
            window: number of last episodes to average over; those in which no agent of the policy took part do not count.
            agents: agents of a world in each part of the rows. The rows of a part are ordered by world, then by agent; parts
                follow each other. None: one part, in which a world has one row, or a rows.
            processes: processes whose episodes are averaged, by ``Processes.sum_then()``; each one keeps an equal part of the
                last episodes.
        """
        super().__init__()
        self.processes, self._calls = processes, None
        window = window if processes is None else -(-window // processes.count)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        agents = (math.prod(shape[1:]),) if agents is None else agents
        worlds = math.prod(shape) // sum(agents)
        first = [worlds * before for before in itertools.accumulate(agents[:-1], initial=0)]
        places = [(row + agent, count) for row, count in zip(first, agents, strict=True) for agent in range(count)]
        # Three sums of each row's episode so far: return, steps, and steps that the agent took part in.
        self.register_buffer("totals", torch.zeros(3, *shape, dtype=torch.float32, device="cpu"))
        # For each of the last episodes: return and length, both summed over the agents that took part, and their number.
        self.register_buffer("recent", torch.zeros(3, window, dtype=torch.float32, device="cpu"))
        self.register_buffer("num_recent", torch.zeros((), dtype=torch.int64, device="cpu"))
        # For each agent of a world: its row in the first world, and the number of rows from a world to the next.
        self.register_buffer("agents", torch.tensor(places, dtype=torch.int32, device="cpu").reshape(-1, 2), persistent=False)
        self.worlds, self.agents_of_world = worlds, len(places)

    @torch.no_grad()
    def update(self, reward: Tensor, finished: Tensor, valid: Tensor) -> Tensor:
        """Add a rollout.

        Args:
            reward: float32 (T, ...).
            finished: bool (T, ...), the episode of the row's world ended in the step; equal for all rows of a world.
            valid: bool (T, ...), the agent took part in the step; rewards of other steps may hold anything.

        Returns:
            float32 (4,): mean return of an agent and mean length in steps of the world's episode, over the episodes that ended in
            the rollout, then over the last episodes of worlds, which ended in this rollout or before. Returns are undiscounted.
            A mean of nothing is NaN.

        Raises:
            ShapeError, ArrayTypeError, DeviceError: an array does not fit.
        """
        arrays = (reward, finished, valid, self.totals, self.recent)
        calls = self._calls
        if calls is None or not all(x is y for x, y in zip(calls.arrays, arrays, strict=True)):
            calls = _Calls(self, *arrays)
            self._calls = calls if calls.stays else None
        means = torch.empty(4, dtype=torch.float32, device=self.recent.device)
        totals = calls.launch(means)
        if self.processes is not None:
            sums = torch.cat((totals.sum(1), self.recent.double().sum(1)))  # entries without an episode are zeros
            self.processes.sum_then(sums, lambda of_all: means.copy_(_means(of_all)))
        return means


class _Calls:
    """Kernels of ``EpisodeStats.update()`` for arrays that stay where they are, as those of a run do.

    Attributes:
        arrays: reward, flags and sums.
        stays: the calls serve later rollouts in the same arrays, too.
    """

    def __init__(
        self, stats: EpisodeStats, reward: Tensor, finished: Tensor, valid: Tensor, totals: Tensor, recent: Tensor
    ) -> None:
        """Check the arrays, and allocate what the kernels write."""
        self.arrays = (reward, finished, valid, totals, recent)
        self._sums = EpisodeSumsCall(reward, valid, finished, totals)
        counted, device = self._sums.finished, self._sums.finished.device
        size = len(counted) * stats.worlds
        self._tiles, self._work = -(-size // PLACES), counted.numel()
        self._totals = torch.empty(3, self._tiles, dtype=torch.float64, device=device)
        listed = torch.empty(3, self._tiles * PLACES, dtype=torch.float32, device=device)
        counts = torch.empty(self._tiles, dtype=torch.int32, device=device)
        ended = counted if stats.agents_of_world == 1 else finished.contiguous()
        self._call = Call(
            EPISODES, device, size=size, rows=stats.worlds * stats.agents_of_world, tiles=self._tiles, window=recent.shape[1],
            worlds=stats.worlds, agents_of_world=stats.agents_of_world, ended=ended, agents=stats.agents, recent=recent,
            num_recent=stats.num_recent,
        )  # fmt: skip
        self._written = {"sums": self._sums.sums, "counted": counted, "listed": listed, "counts": counts, "totals": self._totals}
        for name, array in self._written.items():
            setattr(self._call.args, name, array.data_ptr())
        # Copies of arrays with gaps would be those of one rollout. A GPU works meanwhile, and its memory is free for the update.
        self.stays = device.type == "cpu" and all(x.is_contiguous() for x in self.arrays)

    def launch(self, means: Tensor) -> Tensor:
        """Add a rollout. Write ``means``, and return the sums over the episodes that ended in it, float64 (3, tiles)."""
        self._sums.launch()
        self._call.args.means = means.data_ptr()
        self._call.launch("gv_list", self._tiles, self._work)
        self._call.launch("gv_take", 1)
        return self._totals


def _means(sums: Tensor) -> Tensor:
    """Return what ``EpisodeStats.update()`` returns, for sums of returns, lengths and agents, (6,)."""
    sums = sums.view(2, 3)
    return (sums[:, :2] / sums[:, 2:]).flatten()


def renew_form(saved: object) -> None:
    """Give a saved state of an older version the present form: its last episodes are those of one agent each, not of a world."""
    if isinstance(saved, dict):
        recent = saved.get("recent")
        if isinstance(recent, Tensor) and recent.dim() == 2 and len(recent) == 2:
            saved["recent"] = torch.cat((recent, torch.ones_like(recent[:1])))
