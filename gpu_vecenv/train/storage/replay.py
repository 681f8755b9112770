"""Replay buffer: transitions of earlier rollouts, from which off-policy algorithms learn.

The kernels of draws are ``kernels/learner/replay_sample.cu``. A CUDA graph can record a call if another call was made before.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.memory import TorchMemory
from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import BATCH_PART, MAX_RING_PARTS, REPLAY_SAMPLE
from gpu_vecenv.errors import OutOfMemoryError
from gpu_vecenv.train.config.checks import MAX_INT, require
from gpu_vecenv.train.errors import ConfigError
from gpu_vecenv.train.policies.contract import Inputs, Observation
from gpu_vecenv.train.processes.group import Processes
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.replay_ring import Ring, newest_steps
from gpu_vecenv.train.storage.samples import Samples
from gpu_vecenv.train.storage.sizes import bytes_of

TILE = REPLAY_SAMPLE.macros["TILE"]
EPSILON = 1e-6
"""Added to the absolute error of a transition, so that its priority is above 0."""


class Batch(NamedTuple):
    """b transitions. A transition of a world has ``a`` agents; numbers of agents that do not count are zeros."""

    inputs: Inputs
    """Inputs before the step, without a state."""
    action: Tensor
    """int32 or float32, ``(b[, a][, k])``, in the env's units."""
    reward: Tensor
    """float32 (b[, a]), the sum of gamma^i r_{t+i} over the m <= n steps up to the end of the episode."""
    next_inputs: Inputs
    """Inputs m steps later: final observations at a time limit that is bootstrapped, else those before step t + m. After an end
    that is terminal they are zeros, and masks allow all choices; so do masks of ends without ``Storage.next_masks``."""
    discount: Tensor
    """float32 (b[, a]), gamma^m; 0 where the end is terminal."""
    valid: Tensor
    """bool (b[, a]), False for agents out of the game, and everywhere if the buffer has no transition to sample."""
    weight: Tensor
    """float32 (b,), importance weights of prioritised sampling; 1 without priorities."""
    place: Tensor
    """int64 (b,), place of each transition in the buffer, for ``Replay.set_priorities()``."""


class Replay:
    """The last transitions of a policy, on the device.

    Attributes:
        filled: int64 (), transitions that can be sampled, on the device.
        processes: processes of the run, each of which has a buffer and draws an equal part of each batch; None: this one alone.
        keeps_batch: ``sample()`` writes to the arrays of its last batch, which costs the host less.
    """

    processes: Processes | None = None
    keeps_batch = False

    def __init__(
        self, rows: PolicyRows, size: int, batch_size: int, gamma: float, seed: int, device: torch.device | str,
        n_steps: int = 1, priority_exponent: float | None = None,
    ):  # fmt: skip
        """Allocate an empty buffer.

        Args:
            rows: rows of the policy.
            size: transitions to keep, rounded up to whole steps of all samples: of rows, or of worlds if samples are worlds.
            batch_size: b, transitions that ``sample()`` returns.
            gamma: discount of a step.
            seed: any integer, of which 64 bits count, such as ``Setup.seed``.
            device: device of the arrays.
            n_steps: n, steps whose rewards are summed, at most.
            priority_exponent: alpha, by which transitions of larger error are sampled more often; None samples all equally often.

        Raises:
            ConfigError: a number is out of range, or the buffer too small for a rollout and the steps that are not sampled yet.
            OutOfMemoryError: the buffer needs more bytes than are free.
        """
        _require_integer("batch_size", batch_size)
        _require_integer("n_steps", n_steps)
        require(0 <= gamma <= 1, "gamma", "a number from 0 to 1", gamma)
        ok = priority_exponent is None or priority_exponent >= 0
        require(ok, "priority_exponent", "a number of 0 or more, or None", priority_exponent)
        slots, least = math.ceil(size / rows.num_samples), rows.rollout.num_steps + newest_steps(rows, n_steps)
        require(
            slots >= least, "replay_size", f"at least {least * rows.num_samples:,} transitions, {least} steps of "
            f"{rows.num_samples:,} samples", size,
        )  # fmt: skip
        _require_room(replay_bytes(rows, size, n_steps, priority_exponent), size, torch.device(device))
        self.batch_size, self.exponent = batch_size, priority_exponent
        self.ring = Ring(rows, slots, n_steps, priority_exponent is not None, torch.device(device))
        self.seed, self.device, self.filled = int(seed) % 2**64, self.ring.device, self.ring.filled
        self.agent = torch.cat(rows.agents) if rows.with_ids else None
        self._gammas = torch.tensor([gamma**i for i in range(n_steps + 1)], dtype=torch.float32, device=device)
        self._draws = torch.zeros((), dtype=torch.int64, device=device)
        self._drawn: _Drawn | None = None

    def add(self, samples: Samples) -> None:
        """Copy the T steps of a rollout, which overwrite the oldest ones.

        Raises:
            ShapeError, ArrayTypeError: the samples have another form.
        """
        self.ring.add(samples)

    def sample(self, importance_exponent: Tensor | float | None = None) -> Batch:
        """Return transitions that are drawn independently of each other, others at each call.

        Args:
            importance_exponent: beta of the importance weights, a number or float32 () on the device; None without priorities.

        Raises:
            ConfigError: the exponent is missing, or has no effect.
        """
        beta = self._importance_exponent(importance_exponent)
        drawn = self._drawn or _Drawn(self)
        self._drawn = drawn if self.keeps_batch else None
        drawn.draw(beta)
        if beta is None and self.agent is None:
            return drawn.batch
        weight, inputs, next_inputs = drawn.batch.weight, drawn.batch.inputs, drawn.batch.next_inputs
        if beta is not None:
            weight = weight / weight.max() if self.processes is None else self._weights_of_all(weight, beta, self.processes)
        if self.agent is not None:
            agent = self.agent[drawn.batch.place % self.ring.samples]
            inputs, next_inputs = inputs._replace(agent=agent), next_inputs._replace(agent=agent)
        return drawn.batch._replace(weight=weight, inputs=inputs, next_inputs=next_inputs)

    def skip(self, batches: int) -> None:
        """Leave batches out: the next call of ``sample()`` returns what it would return after so many calls."""
        self._draws += batches

    def set_priorities(self, batch: Batch, error: Tensor) -> None:
        """Set the priorities of a batch by its errors. A transition that is in the batch twice gets the larger one.

        Args:
            batch: what ``sample()`` returned, with no ``add()`` since.
            error: float32 (b,), errors of either sign. One that is not finite gives the largest priority so far, and that of a
                transition without an agent that counts changes nothing.

        Raises:
            ConfigError: the buffer has no priorities.
            ShapeError, ArrayTypeError, DeviceError: ``error`` has another form.
        """
        if self.exponent is None:
            raise ConfigError("set_priorities: expected a buffer with priority_exponent, got one that samples all equally often")
        priority = torch.empty(self.batch_size, dtype=torch.float32, device=self.device)
        call = Call(
            REPLAY_SAMPLE, self.device, rows=self.batch_size, ring=self.ring.struct, error=error.detach().contiguous(),
            largest=self.ring.largest, place=batch.place, valid=batch.valid, priorities=priority, epsilon=EPSILON,
            exponent=self.exponent,
        )  # fmt: skip
        call.launch("gv_replay_priorities", -(-self.batch_size // TILE), self.batch_size)
        self.ring.set_priorities(batch.place, priority)
        if self.processes is not None:
            self.processes.largest(self.ring.largest)

    def _weights_of_all(self, weight: Tensor, beta: Tensor, processes: Processes) -> Tensor:
        """Return the importance weights of a part of a batch, float32 (b,); the largest one of the whole batch is 1.

        A process that holds more transitions than the mean of all draws each of them less often.
        """
        filled = self.filled.float()
        more = filled * processes.count / processes.sum(filled.clone())
        weight = torch.where(filled > 0, weight * more.clamp(min=1e-6) ** beta, 0.0)
        return weight / processes.largest(weight.max())

    def state_dict(self, with_transitions: bool = True) -> dict[str, Any]:
        """Return the buffer, without a copy.

        Args:
            with_transitions: False leaves them out, so a run that goes on begins with an empty buffer.
        """
        return {"draws": self._draws} | ({"ring": self.ring.state_dict()} if with_transitions else {})

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned. Without transitions the buffer is empty, and a warning says so.

        Args:
            state: the state.
            where: name of the state in errors.

        Raises:
            CheckpointError: the state has another form.
        """
        has_transitions = isinstance(state, dict) and "ring" in state
        require_same_form(state, self.state_dict(with_transitions=has_transitions), where)
        if has_transitions:
            self.ring.load_state_dict(state["ring"], f"{where}/ring")
        else:
            self.ring.clear()
            warnings.warn(f"{where}: the checkpoint holds no transitions, so the replay buffer begins empty", stacklevel=2)
        self._draws.copy_(state["draws"])

    def _importance_exponent(self, value: Tensor | float | None) -> Tensor | None:
        """Return the exponent on the device."""
        if (value is None) != (self.exponent is None):
            expected = "None without priority_exponent" if self.exponent is None else "a number with priority_exponent"
            raise ConfigError(f"importance_exponent: expected {expected}, got {value}")
        if value is None or isinstance(value, Tensor):
            return value
        return torch.full((), value, dtype=torch.float32, device=self.device)


class _Drawn:
    """Arrays of a batch, and the calls that fill them.

    Attributes:
        batch: the batch, with weights that are not divided yet and without the numbers of agents.
    """

    def __init__(self, replay: Replay) -> None:
        """Allocate the arrays."""
        self._size, device, ring = replay.batch_size, replay.device, replay.ring
        agents = ring.arrays["flags"].shape[2:]

        def out(dtype: torch.dtype, *shape: int) -> Tensor:
            return torch.empty(self._size, *shape, dtype=dtype, device=device)

        place, weight, ahead = out(torch.int64), out(torch.float32), out(torch.int64, *agents)
        valid, reward, discount = out(torch.bool, *agents), out(torch.float32, *agents), out(torch.float32, *agents)
        gathered, parts, self._tiles = self._parts(ring)
        self._call = Call(
            REPLAY_SAMPLE, device, rows=self._size, ring=ring.struct, draws=replay._draws, filled=replay.filled,
            gammas=replay._gammas, place=place, weight=weight, valid=valid, reward=reward, discount=discount,
            ahead=ahead, seed=replay.seed, parts=parts,
        )  # fmt: skip
        self._rows = valid.numel()
        inputs, next_inputs = (self._inputs(gathered, prefix) for prefix in ("", "next_"))
        self.batch = Batch(inputs, gathered["action"], reward, next_inputs, discount, valid, weight, place)

    def draw(self, beta: Tensor | None) -> None:
        """Draw transitions; ``beta`` is the exponent of importance weights."""
        self._call.set(beta=beta)
        self._call.launch("gv_replay_draw", -(-self._size // TILE), self._size)
        self._call.launch("gv_replay_follow", -(-self._rows // TILE), self._rows)
        self._call.launch("gv_replay_gather", self._tiles, self._tiles * TILE)

    def _parts(self, ring: Ring) -> tuple[dict[str, Tensor], Any, int]:
        """Return arrays for the inputs and actions of a batch, by name, what a kernel gathers in them, and its tiles."""
        arrays: dict[str, Tensor] = {}
        parts, tiles = (BATCH_PART.form * MAX_RING_PARTS)(), 0
        observed = [(prefix, name) for prefix in ("", "next_") for name in ring.arrays if name in GATHERED]
        for part, (prefix, name) in zip(parts, [("", "action"), *observed], strict=False):
            array = ring.arrays[name]
            gathered = torch.empty(self._size, *array.shape[2:], dtype=array.dtype, device=array.device)
            arrays[prefix + name], of_agent = gathered, name not in ("shared", "critic")
            final = ring.arrays.get(f"final_{name}")
            part.ring, part.to = array.data_ptr(), gathered.data_ptr()
            part.final_ring = None if final is None else final.data_ptr()
            part.bytes, part.by_agent, part.is_next = array.element_size(), of_agent, prefix != ""
            part.width = array[0, 0].numel() // (ring.agents if of_agent else 1)
            tiles += -(-gathered.numel() // TILE)
            part.otherwise, part.end_tile = name == "mask", tiles
        return arrays, parts, tiles

    @staticmethod
    def _inputs(gathered: dict[str, Tensor], prefix: str) -> Inputs:
        parts = {name: gathered[prefix + name] for name in ("shared", "own") if prefix + name in gathered}
        obs: Observation = parts or gathered[f"{prefix}obs"]
        return Inputs(obs, gathered.get(f"{prefix}mask"), gathered.get(f"{prefix}critic"))


GATHERED = ("obs", "shared", "own", "mask", "critic")
"""Arrays of inputs."""


def _require_integer(name: str, value: object) -> None:
    """Raise ConfigError unless a value is an integer from 1 on that kernels can read."""
    ok = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_INT
    require(ok, name, f"an integer from 1 to {MAX_INT:,}", value)


def _require_room(needed: int, size: int, device: torch.device) -> None:
    """Raise OutOfMemoryError if a buffer does not fit: a host may promise memory that it does not have, and end the process."""
    free = TorchMemory(str(device)).free_bytes()
    if free is not None and needed > free:
        raise OutOfMemoryError(
            f"replay_size: {size:,} transitions need {needed / 1e6:,.1f} MB on {device}, and {free / 1e6:,.1f} MB are free."
        )


def replay_bytes(rows: PolicyRows, size: int, n_steps: int = 1, priority_exponent: float | None = None) -> int:
    """Return the bytes of a ``Replay``, without allocating it."""
    ring = Ring(rows, math.ceil(size / rows.num_samples), n_steps, priority_exponent is not None, torch.device("meta"))
    return bytes_of([*ring.arrays.values(), *(x for x in (ring.priority, ring.masses, ring.counts) if x is not None)])
