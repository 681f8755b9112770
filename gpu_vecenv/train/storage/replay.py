"""Replay buffer: transitions of earlier rollouts, from which off-policy algorithms learn."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gpu_vecenv.backend.programs import Call
from gpu_vecenv.backend.trainer_programs import NOISE
from gpu_vecenv.train.config.checks import require
from gpu_vecenv.train.errors import CheckpointError
from gpu_vecenv.train.policies.contract import Inputs, Observation, wide
from gpu_vecenv.train.run_folder.checkpoint import require_same_form
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.samples import Samples
from gpu_vecenv.train.storage.sizes import bytes_of

EPSILON = 1e-6
"""Added to the absolute error of a transition, so that its priority is above 0."""
VALID, END, LIMIT, WORLD_END = 1, 2, 4, 8
"""Bits of a transition: it counts, it ends the agent's episode, a value is added after it, it ends the world's episode."""


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
    that is terminal they are zeros. Masks of final observations allow all choices, because the env gives none."""
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
    """

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
            seed: any integer, of which 64 bits count.
            device: device of the arrays.
            n_steps: n, steps whose rewards are summed, at most.
            priority_exponent: alpha, by which transitions of larger error are sampled more often; None samples all equally often.

        Raises:
            ConfigError: the buffer is too small for a rollout and n - 1 further steps, or a number is out of range.
        """
        require(isinstance(batch_size, int) and batch_size > 0, "batch_size", "an integer of 1 or more", batch_size)
        require(isinstance(n_steps, int) and n_steps > 0, "n_steps", "an integer of 1 or more", n_steps)
        require(0 <= gamma <= 1, "gamma", "a number from 0 to 1", gamma)
        require(priority_exponent is None or priority_exponent >= 0, "priority_exponent", "0 or more, or None", priority_exponent)
        self.slots, least = math.ceil(size / rows.num_samples), rows.rollout.num_steps + n_steps - 1
        require(
            self.slots >= least, "replay_size", f"at least {least * rows.num_samples:,} transitions, {least} steps of "
            f"{rows.num_samples:,} samples", size,
        )  # fmt: skip
        self.batch_size, self.n_steps, self.exponent = batch_size, n_steps, priority_exponent
        self.gammas = [gamma**i for i in range(n_steps + 1)]
        self.seed, self.device = int(seed) % 2**64, torch.device(device)
        self.num_samples, self.with_final_obs = rows.num_samples, rows.with_final_obs
        self.by_world, self.all_valid = len(rows.shape) > 1, rows.rollout.alive_next is None
        self.agent = torch.cat(rows.agents) if rows.with_ids else None
        self.ring = dict(_ring(rows, self.slots + 1, self.device))
        places = (self.slots + 1) * rows.num_samples
        self.priority = None if priority_exponent is None else torch.zeros(places, dtype=torch.float32, device=device)
        self.largest = torch.ones((), dtype=torch.float32, device=device)
        self.steps, self.draws, self.filled = torch.zeros(3, dtype=torch.int64, device=device).unbind()

    def add(self, samples: Samples) -> None:
        """Copy the T steps of a rollout, which overwrite the oldest ones."""
        steps, total = samples.num_steps, self.slots + 1
        slot = (self.steps + torch.arange(steps + 1, device=self.device)) % total
        flags = samples.valid * VALID + samples.episode_end * END + samples.ended * WORLD_END
        if self.with_final_obs:
            flags += samples.timed_out * LIMIT
        for name, value in {**_arrays(samples), "flags": flags.to(torch.uint8)}.items():
            self.ring[name].index_copy_(0, slot[: len(value)], value)
        if self.priority is not None:
            self.priority.view(total, -1).index_fill_(0, slot[:steps], 0.0)
            self.priority.view(total, -1).index_copy_(0, slot[:steps], self.largest.expand(steps, self.num_samples))
        self.steps += steps
        self.filled.copy_(self._can_be_sampled().sum())

    def sample(self, importance_exponent: Tensor | float | None = None) -> Batch:
        """Return transitions that are drawn independently of each other, others at each call.

        Args:
            importance_exponent: beta of the importance weights, for a buffer with priorities alone.

        Raises:
            ConfigError: the exponent is missing, or has no effect.
        """
        require(
            (importance_exponent is None) == (self.priority is None), "importance_exponent",
            "None without priority_exponent" if self.priority is None else "a number", importance_exponent,
        )  # fmt: skip
        weight = torch.ones(self.batch_size, dtype=torch.float32, device=self.device)
        sampled = self._can_be_sampled().flatten()
        mass = sampled.double() if self.priority is None else torch.where(sampled, self.priority, 0).double()
        ends = mass.cumsum(0)
        words = self._words()
        target = ends[-1] * words.double() * 2.0**-31
        place = torch.searchsorted(ends, target, right=True).clamp_(max=len(ends) - 1)
        if self.priority is not None:
            share = mass[place] / ends[-1]
            weight = (self.filled * share) ** -torch.as_tensor(importance_exponent, device=self.device, dtype=torch.float64)
            weight = torch.where(self.filled > 0, weight / weight.max(), 1.0).float()
        return self._batch(place, weight, self.filled > 0)

    def set_priorities(self, batch: Batch, error: Tensor) -> None:
        """Set the priorities of a batch by its errors. A transition that is in the batch twice gets the larger one.

        Args:
            batch: what ``sample()`` returned, with no ``add()`` since.
            error: float32 (b,), absolute errors.

        Raises:
            ConfigError: the buffer has no priorities.
        """
        require(self.priority is not None, "set_priorities", "a buffer with priority_exponent", None)
        assert self.priority is not None and self.exponent is not None
        new = (error.detach().abs() + EPSILON) ** self.exponent
        self.priority.scatter_reduce_(0, batch.place, new, "amax", include_self=False)
        self.largest.copy_(torch.maximum(self.largest, new.max()))

    def state_dict(self, with_transitions: bool = True) -> dict[str, Any]:
        """Return the buffer, without a copy.

        Args:
            with_transitions: False leaves out the transitions, so a run that goes on begins with an empty buffer.
        """
        state: dict[str, Any] = {"draws": self.draws, "largest": self.largest}
        return state | (self._transitions() if with_transitions else {})

    def load_state_dict(self, state: dict[str, Any], where: str) -> None:
        """Restore what ``state_dict()`` returned; ``where`` names the state in errors.

        Raises:
            CheckpointError: the state has another form.
        """
        kept = isinstance(state, dict) and "ring" in state
        require_same_form(state, self.state_dict(with_transitions=kept), where)
        if kept and int(state["steps"]) < 0:
            raise CheckpointError(f"{where}/steps: expected 0 or more, got {int(state['steps'])}")
        self.draws.copy_(state["draws"])
        self.largest.copy_(state["largest"])
        for name, value in self._transitions().items():
            if isinstance(value, Mapping):
                for part, array in value.items():
                    array.copy_(state[name][part]) if kept else array.zero_()
            else:
                value.copy_(state[name]) if kept else value.zero_()
        self.filled.copy_(self._can_be_sampled().sum())
        if not kept:
            warnings.warn(f"{where}: the checkpoint holds no transitions, so the replay buffer is empty", stacklevel=2)

    def _transitions(self) -> dict[str, Any]:
        priority = {} if self.priority is None else {"priority": self.priority}
        return {"steps": self.steps, "ring": self.ring, **priority}

    def _words(self) -> Tensor:
        """Return random integers below 2^31 - 1, int64 (b,), and count the draw."""
        high = torch.full((), 2**31 - 1, dtype=torch.int64, device=self.device)
        out = torch.empty(self.batch_size, 1, dtype=torch.int64, device=self.device)
        call = Call(
            NOISE, self.draws.device, count=self.draws, high=high, rows=self.batch_size, entries=1, seed=self.seed ^ 1 << 63,
            out=out,
        )  # fmt: skip
        call.launch("gv_noise_integers", -(-out.numel() // NOISE.macros["TILE"]), out.numel())
        self.draws += 1
        return out.squeeze(1)

    def _can_be_sampled(self) -> Tensor:
        """Return which transitions can be sampled, bool (S + 1, B): those that count and whose n steps are known."""
        slot = torch.arange(self.slots + 1, device=self.device)
        age = (self.steps - 1 - slot) % (self.slots + 1)
        known = (age < self.steps) & (age < self.slots) & (age >= self.n_steps - 1)
        valid = self.ring["flags"].bitwise_and(VALID) != 0
        return known.unsqueeze(1) & (valid.any(-1) if self.by_world else valid)

    def _batch(self, place: Tensor, weight: Tensor, any_filled: Tensor) -> Batch:
        """Return the transitions at some places."""
        ring, total = self.ring, self.slots + 1
        first, sample = place // self.num_samples, place % self.num_samples
        valid = (ring["flags"][first, sample].bitwise_and(VALID) != 0) & wide(any_filled, ring["flags"][first, sample])
        goes_on, world_goes_on = valid, torch.ones_like(valid)
        reward = torch.zeros_like(valid, dtype=torch.float32)
        discount = torch.where(valid, self.gammas[self.n_steps], 0.0)
        steps, limit = torch.zeros_like(first), torch.zeros_like(valid)
        for i in range(self.n_steps):
            at = (first + i) % total, sample
            flags = ring["flags"][at]
            end, at_limit, world_end = (flags.bitwise_and(bit) != 0 for bit in (END, LIMIT, WORLD_END))
            reward = torch.where(goes_on, reward + self.gammas[i] * ring["reward"][at], reward)
            discount = torch.where(goes_on & end, torch.where(at_limit, self.gammas[i + 1], 0.0), discount)
            limit = limit | (goes_on & at_limit)
            steps += (world_goes_on.any(-1) if self.by_world else world_goes_on).long()
            goes_on, world_goes_on = goes_on & ~end, world_goes_on & ~world_end
        of_world = limit.any(-1) if self.by_world else limit
        last, later = ((first + steps + k) % total for k in (-1, 0))
        action = ring["action"][first, sample]
        return Batch(
            self._inputs((first, sample), valid),
            torch.where(wide(valid, action), action, 0),
            reward,
            self._inputs((later, sample), discount != 0, (of_world, (last, sample))),
            discount,
            valid,
            weight,
            place,
        )

    def _inputs(
        self, at: tuple[Tensor, Tensor], counts: Tensor, final: tuple[Tensor, tuple[Tensor, Tensor]] | None = None
    ) -> Inputs:
        """Return the inputs at slots and samples.

        Args:
            at: slots and samples.
            counts: bool (b[, a]), agents that count.
            final: where to take final observations in place of those, bool (b,), and their slots and samples.
        """
        of_sample = counts.any(-1) if self.by_world else counts

        def taken(name: str) -> Tensor:
            found = self.ring[name][at]
            if final is not None and self.with_final_obs and name != "critic":
                found = torch.where(wide(final[0], found), self.ring[f"final_{name}"][final[1]], found)
            return torch.where(wide(counts if name == "own" else of_sample, found), found, 0)

        obs: Observation = taken("obs") if "obs" in self.ring else {name: taken(name) for name in ("shared", "own")
                                                                    if name in self.ring}  # fmt: skip
        mask = None
        if "mask" in self.ring:
            mask = self.ring["mask"][at] | ~counts.unsqueeze(-1)
            if final is not None:
                mask = mask | wide(final[0], mask)
        critic = taken("critic") if "critic" in self.ring else None
        return Inputs(obs, mask, critic, agent=None if self.agent is None else self.agent[at[1]])


def replay_bytes(rows: PolicyRows, size: int, n_steps: int = 1, priority_exponent: float | None = None) -> int:
    """Return the bytes of a ``Replay``, which are not allocated."""
    replay = Replay(rows, size, 1, 1.0, 0, "meta", n_steps, priority_exponent)
    return bytes_of(replay.state_dict())


def _ring(rows: PolicyRows, slots: int, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Return empty arrays by name, each (slots, B, ...)."""
    inputs, agents, slabs = rows.inputs(rows.spans[0], 0), rows.shape[1:], rows.spans[0].slabs

    def array(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(slots, rows.num_samples, *shape, dtype=dtype, device=device)

    for name, obs in (inputs.obs if isinstance(inputs.obs, dict) else {"obs": inputs.obs}).items():
        yield name, array(obs.shape[1:])
        if rows.with_final_obs:
            yield f"final_{name}", array(obs.shape[1:])
    yield "action", array((*agents, *slabs.action.shape[2:]), slabs.action.dtype)
    yield "reward", array(agents)
    yield "flags", array(agents, torch.uint8)
    if inputs.mask is not None:
        yield "mask", array(inputs.mask.shape[1:], torch.bool)
    if rows.critic_sources:
        yield "critic", array((sum(rows.sources[name] for name in rows.critic_sources),))


def _arrays(samples: Samples) -> dict[str, Tensor]:
    """Return the arrays of samples by their names in the ring, but for the flags."""
    def parts(obs: Observation | None, prefix: str) -> dict[str, Tensor]:
        if obs is None:
            return {}
        return {prefix + name: part for name, part in (obs if isinstance(obs, dict) else {"obs": obs}).items()}

    found = {**parts(samples.obs, ""), **parts(samples.final_obs, "final_"), "action": samples.action, "reward": samples.reward}
    found |= {} if samples.mask is None else {"mask": samples.mask}
    return found | ({} if samples.critic is None else {"critic": samples.critic})
