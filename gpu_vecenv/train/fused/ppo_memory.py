"""Bytes that PPO takes on its device beside policies and rollouts.

The memory of networks in an update is measured on the CPU with a few samples: it grows linearly with their number.
"""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from gpu_vecenv.backend.private import each_operation
from gpu_vecenv.train.algorithms.contract import Setup
from gpu_vecenv.train.algorithms.ppo.backend import MAX_CHUNK_ROWS
from gpu_vecenv.train.algorithms.ppo.loss import Minibatch, PPOLoss
from gpu_vecenv.train.algorithms.ppo.sequences import RecurrentBackend
from gpu_vecenv.train.config import PPOConfig, bootstraps
from gpu_vecenv.train.fused.act import SPLIT_ROWS
from gpu_vecenv.train.fused.eligibility import fused_sizes, require_host
from gpu_vecenv.train.fused.host_act import MOST_TEAMS
from gpu_vecenv.train.fused.host_layout import HostLayout
from gpu_vecenv.train.fused.host_update import num_blocks
from gpu_vecenv.train.fused.kernels import multiprocessors
from gpu_vecenv.train.fused.ppo import require_sequences, why_not_fused
from gpu_vecenv.train.fused.recurrent_plan import RecurrentSizes
from gpu_vecenv.train.fused.recurrent_update import stash_rows
from gpu_vecenv.train.fused.tile_plan import Sizes
from gpu_vecenv.train.fused.wide import stash_room
from gpu_vecenv.train.policies.actor_critic import ActorCritic
from gpu_vecenv.train.policies.contract import Inputs, Policy, apply
from gpu_vecenv.train.returns.normalize import RewardNorm
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.samples import Samples
from gpu_vecenv.train.storage.sizes import bytes_of

FEW = (512, 1024)
"""Samples of the two measurements of a network. With fewer, gradients of the weights may hide what samples take."""

FEW_STEPS = (16, 32)
"""Steps of the measurements of a run along longer sequences, which takes about as much memory for each further step."""


def ppo_memory(policy: Policy, options: PPOConfig, setup: Setup) -> tuple[int, int]:
    """Return bytes of optimiser, scale of rewards and the CPU's kernels, and the most bytes of an update beside its samples."""
    moments = 2 * sum(x.nbytes for x in policy.parameters() if x.requires_grad)
    if options.normalize_rewards:
        with torch.device("meta"):
            moments += sum(x.nbytes for x in RewardNorm(setup.rows.shape, options.gamma).buffers())
    require_sequences(policy, options, setup.rows)
    fused = not why_not_fused(policy, setup)
    if fused and setup.device.type == "cpu":
        kernels, update = _host_update(cast(ActorCritic, policy), setup.rows, options)
        return moments + kernels, update
    sizes = fused_sizes(policy, setup.device) if fused else None
    if isinstance(sizes, RecurrentSizes):
        return moments, _fused_by_sequences(setup.rows, options, sizes, setup.device)
    if policy.state_shape is not None:
        final = bootstraps(options.bootstrap_at_time_limit, setup.spec)
        return moments, _update_by_sequences(policy, setup.rows, options, final)
    return moments, _update(policy, setup.rows, options, None if isinstance(sizes, str) else sizes, setup.device)


def _transition_bytes(rows: PolicyRows, places: int) -> int:
    """Return the bytes of numbers of transitions in an update, of which so many places are shuffled."""
    # Advantage, target and value, and these beside the log-probability again; places that count, and their numbers.
    transitions = rows.rollout.num_steps * math.prod(rows.shape)
    return (3 + 4) * 4 * transitions + (0 if rows.rollout.alive_next is None else 8 * places)


def _update(policy: Policy, rows: PolicyRows, ppo: PPOConfig, sizes: Sizes | None, device: torch.device) -> int:
    """Return the most bytes that an update of a policy takes at a time, beside its samples."""
    steps, agents = rows.rollout.num_steps, math.prod(rows.shape[1:])
    samples = steps * rows.num_samples
    minibatch = -(-samples // ppo.num_minibatches)
    transition_bytes = _transition_bytes(rows, samples)
    if sizes is not None:
        in_order = 4 * samples * ppo.num_epochs * (1 + (3 * agents if sizes.shared else 0))  # worlds, and their rows
        masks = 4 * samples * agents * (sizes.mask_words + 1) if sizes.mask_words else 0
        # keys, places and samples
        arranged = 24 * samples * ppo.num_epochs if rows.group.effects and sizes.mask_words else 0
        kernels = _kernels(sizes, samples * agents, minibatch * agents, agents, device)
        return transition_bytes + in_order + masks + arranged + kernels
    chunk = min(samples + rows.num_samples, max(MAX_CHUNK_ROWS // agents, rows.num_samples))
    in_order = (8 + 1) * ppo.num_minibatches * minibatch
    learning = _grown(lambda count: _measured_step(policy, rows, ppo, count), minibatch)
    valuing = _grown(lambda count: _measured_values(policy, rows, count), chunk)
    return transition_bytes + in_order + max(learning, valuing)


def _fused_by_sequences(rows: PolicyRows, ppo: PPOConfig, sizes: RecurrentSizes, device: torch.device) -> int:
    """Return the most bytes that a fused update of a policy with a state takes at a time, beside its samples."""
    steps, length = rows.rollout.num_steps, ppo.sequence_length or rows.rollout.num_steps
    sequences = steps // length * rows.num_samples
    minibatch = -(-sequences // ppo.num_minibatches)
    starts = 4 * sequences * sizes.hidden[0]
    final_values = 4 * steps * rows.num_samples  # beside the values that _transition_bytes() counts
    stash = 2 * sizes.stash_columns * stash_rows(sizes, minibatch, length)
    in_order = 4 * sequences * ppo.num_epochs
    return _transition_bytes(rows, sequences) + starts + final_values + in_order + stash + _partial_sums(sizes, minibatch, device)


def _update_by_sequences(policy: Policy, rows: PolicyRows, ppo: PPOConfig, final: bool) -> int:
    """Return the most bytes that an update of a policy with a state takes at a time, beside its samples.

    Args:
        policy: the policy, on the CPU.
        rows: its rows.
        ppo: options of its algorithm.
        final: values of final observations are added at time limits.
    """
    steps, agents = rows.rollout.num_steps, math.prod(rows.shape[1:])
    length = ppo.sequence_length or steps
    sequences = steps // length * rows.num_samples
    minibatch = -(-sequences // ppo.num_minibatches)
    whole = RecurrentBackend(policy, dataclasses.replace(ppo, sequence_length=None), *[cast(Any, None)] * 3)  # takes no step

    def measured(measure: Callable[[int, int], int], steps: int, samples: int) -> int:
        def at(steps: int) -> int:
            return _grown(lambda count: measure(steps, count), samples, (-(-FEW[0] // steps), -(-FEW[1] // steps)))

        return _grown(at, steps, FEW_STEPS)

    starts = 4 * sequences * agents * math.prod(cast(tuple[int, ...], policy.state_shape))
    in_order = (8 + 1) * ppo.num_minibatches * minibatch
    learning = measured(lambda *size: _measured_sequences(whole, rows, *size), length, minibatch)
    chunk = min(steps, max(1, MAX_CHUNK_ROWS // (rows.num_samples * agents)))
    valuing = measured(lambda *size: _measured_run(whole, rows, final, *size), chunk, rows.num_samples)
    return _transition_bytes(rows, sequences) + starts + in_order + max(learning, valuing)


def _measured_sequences(backend: RecurrentBackend, rows: PolicyRows, steps: int, count: int) -> int:
    """Return the most bytes that the gradient of a minibatch of some sequences takes at a time, with the minibatch."""
    policy, samples = backend.policy, _samples(backend.policy, rows, steps, count)
    unit = torch.ones((), dtype=torch.float32, device="cpu")
    loss, peak = PPOLoss(backend.config, unit, unit), _Peak()
    backend.starts = cast(Tensor, samples.state)
    index = torch.arange(count, dtype=torch.int64, device="cpu")[None]
    loss_inputs = torch.zeros(4, steps * count, *rows.shape[1:], dtype=torch.float32, device="cpu")
    with each_operation(peak.run):
        used = torch.ones_like(index, dtype=torch.bool)
        for batch, evaluated in backend.minibatches(samples, index, used, loss_inputs, [None]):
            loss.backward(evaluated, batch, policy.name)
    for parameter in policy.parameters():
        parameter.grad = None
    return int(peak.most)


def _measured_run(backend: RecurrentBackend, rows: PolicyRows, final: bool, steps: int, count: int) -> int:
    """Return the most bytes that a run along some steps of some samples takes at a time."""
    samples, peak = _samples(backend.policy, rows, steps, count), _Peak()
    with each_operation(peak.run):
        backend.values(samples, final)
    return int(peak.most)


def _samples(policy: Policy, rows: PolicyRows, steps: int, count: int) -> Samples:
    """Return some steps of some samples that are all zeros."""
    inputs, _ = _inputs(policy, rows, (steps + 1) * count)
    state = torch.zeros(count, *rows.shape[1:], *cast(tuple[int, ...], policy.state_shape), dtype=torch.float32, device="cpu")

    def by_step(x: Tensor) -> Tensor:
        return x.view(steps + 1, count, *x.shape[1:])

    obs = apply(inputs.obs, by_step)
    reward = torch.zeros(steps, count, *rows.shape[1:], dtype=torch.float32, device="cpu")
    flags = torch.ones_like(reward, dtype=torch.bool)
    critic, present = (None if x is None else by_step(x) for x in (inputs.critic, inputs.present))
    final_critic, final_present = (None if x is None else x[1:] for x in (critic, present))
    return Samples(
        obs, _like(rows.spans[0].slabs.action, tuple(reward.shape)), reward, reward, flags, ~flags, ~flags, ~flags,
        None if inputs.mask is None else by_step(inputs.mask), apply(obs, lambda x: x[1:]), state=state,
        all_valid=rows.rollout.alive_next is None, critic=critic, present=present, final_critic=final_critic,
        final_present=final_present,
        agent=None if not rows.with_ids else torch.zeros(count, *rows.shape[1:], dtype=torch.int32, device="cpu"),
    )  # fmt: skip


def _partial_sums(sizes: Sizes, minibatch: int, device: torch.device) -> int:
    """Return the bytes of the gradients of all blocks."""
    tiles = -(-minibatch // sizes.tile_rows)
    blocks = tiles
    if device.type == "cuda":
        blocks = min(tiles, max(1, multiprocessors(device) * sizes.update_memory.resident // sizes.sharing))
    return 4 * blocks * (sizes.actor_columns + sizes.critic_columns)


def _host_update(policy: ActorCritic, rows: PolicyRows, ppo: PPOConfig) -> tuple[int, int]:
    """Return the bytes of the kernels of the CPU, which each policy keeps, and the most bytes of an update beside its samples."""
    samples = rows.rollout.num_steps * rows.num_samples
    layout = HostLayout(policy, require_host(policy, torch.device("cpu")))
    blocks = num_blocks(-(-samples // ppo.num_minibatches))
    floats = blocks * sum(layout.partial) + 2 * layout.packed + (blocks + MOST_TEAMS) * layout.room_floats + layout.size
    return 4 * floats, _transition_bytes(rows, samples) + 4 * samples * ppo.num_epochs


def _kernels(sizes: Sizes, rows: int, minibatch: int, agents: int, device: torch.device) -> int:
    """Return the bytes between the kernels of a fused update: gradients of blocks, and of split networks the units of rows.

    Args:
        sizes: sizes of the networks.
        rows: rows of a rollout.
        minibatch: rows of a minibatch.
        agents: rows of a sample.
        device: device of the update.
    """
    of_update = sizes.of_update
    partial = _partial_sums(of_update, minibatch, device)
    if not sizes.split:
        return partial
    room = stash_room(sizes, minibatch, agents)
    packed_heads = 2 * (sizes.packed_halves + of_update.packed_halves)
    between = 2 * of_update.stash_columns * room + 4 * SPLIT_ROWS * sizes.mask_words + packed_heads
    if not sizes.wide:
        return partial + between + 2 * SPLIT_ROWS * sizes.widths[0]
    acting, (of_worlds, of_rows) = sizes.stream(1).columns, sizes.part_columns
    packed = 2 * rows * of_rows + 2 * (rows // agents) * of_worlds
    sums = (4 * acting * SPLIT_ROWS + 6 * sizes.stream(2).columns * room) // agents if sizes.shared else 0  # of worlds
    return partial + between + packed + sums + 2 * SPLIT_ROWS * acting


def _grown(measure: Callable[[int], int], count: int, sizes: tuple[int, int] = FEW) -> int:
    """Return ``measure(count)``, for many samples from its results for a few, at two sizes."""
    few, more = sizes
    if count <= more:
        return measure(count)
    low, high = measure(few), measure(more)
    return high + (high - low) * (count - more) // (more - few)


def _measured_step(policy: Policy, rows: PolicyRows, ppo: PPOConfig, count: int) -> int:
    """Return the most bytes that the gradient of a minibatch takes at a time, with the minibatch."""
    loss = PPOLoss(ppo, torch.zeros((), dtype=torch.float32, device="cpu"), torch.ones((), dtype=torch.float32, device="cpu"))
    peak = _Peak()
    with each_operation(peak.run):
        inputs, lead = _inputs(policy, rows, count)
        action = _like(rows.spans[0].slabs.action, lead)
        log_prob, value, advantage, target = torch.zeros(4, *lead, dtype=torch.float32, device="cpu")
        place = torch.zeros(2, count, dtype=torch.int64, device="cpu")  # step and sample of each, which PPO keeps meanwhile
        valid = torch.ones(lead, dtype=torch.bool, device="cpu")
        batch = Minibatch(inputs, action, log_prob, value, advantage, target, valid)
        loss.backward(policy.evaluate(inputs, action), batch, policy.name)
        del place
    for parameter in policy.parameters():
        parameter.grad = None
    return int(peak.most)


def _measured_values(policy: Policy, rows: PolicyRows, count: int) -> int:
    """Return the most bytes that values of some samples take at a time, with their observations if these are copied for it."""
    span = rows.spans[0]
    are_views = len(rows.spans) > 1 or span.agents * span.num_worlds in (span.slabs.num_rows, 1)
    inputs, _ = _inputs(policy, rows, count)
    peak = _Peak()
    with torch.no_grad(), each_operation(peak.run):
        policy.value(inputs._replace(mask=None))
    return int(peak.most) + (0 if are_views else bytes_of(inputs.obs))


def _inputs(policy: Policy, rows: PolicyRows, count: int) -> tuple[Inputs, tuple[int, ...]]:
    """Return inputs of some samples that are all zeros, and the axes of their actions."""
    lead = (count, *rows.shape[1:])
    span = rows.spans[0]
    inputs = rows.inputs(span, 0)

    def like(array: Tensor, axes: tuple[int, ...], taken: int) -> Tensor:
        return torch.zeros(*axes, *array.shape[taken:], dtype=array.dtype, device="cpu")

    obs: Any = inputs.obs
    if isinstance(obs, dict):
        obs = {name: like(x, (count,), 1) if name == "shared" else like(x, lead, len(lead)) for name, x in obs.items()}
    else:
        obs = like(obs, lead, len(lead))
    mask = None if inputs.mask is None else like(inputs.mask, lead, len(lead)).logical_not_()
    critic = sum(rows.sources[name] for name in policy.critic_sources)
    state = policy.state_shape
    present = rows.present_agents
    return Inputs(
        obs,
        mask,
        torch.zeros(count, critic, dtype=torch.float32, device="cpu") if critic else None,
        None if state is None else torch.zeros(*lead, *state, dtype=torch.float32, device="cpu"),
        present=torch.ones(count, present, dtype=torch.bool, device="cpu") if present else None,
    ), lead


def _like(slab: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Return zeros like the rows of a slab (T, n, ...)."""
    return torch.zeros(*lead, *slab.shape[2:], dtype=slab.dtype, device="cpu")


class _Peak:
    """Counts the bytes that operations make and that are alive at the same time.

    Attributes:
        most: the most bytes so far.
    """

    def __init__(self) -> None:
        self.most: int = 0
        self._now: int = 0
        self._alive: set[int] = set()

    def run(self, operation: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Run an operation and count the memory of its results, unless they are views of its arguments."""
        before = {id(x.untyped_storage()) for x in _tensors((arguments, keywords))}
        results = operation(*arguments, **keywords)
        for x in _tensors(results):
            storage = x.untyped_storage()
            if id(storage) not in before | self._alive:  # torch keeps the object as long as the memory
                self._alive.add(id(storage))
                self._now += storage.nbytes()
                self.most = max(self.most, self._now)
                weakref.finalize(storage, self._drop, id(storage), storage.nbytes())
        return results

    def _drop(self, storage: int, size: int) -> None:
        self._alive.discard(storage)
        self._now -= size


def _tensors(tree: Any) -> list[Tensor]:
    """Return the tensors in arguments or results of an operation."""
    if isinstance(tree, (tuple, list, dict)):
        return [x for branch in (tree.values() if isinstance(tree, dict) else tree) for x in _tensors(branch)]
    return [tree] if isinstance(tree, Tensor) else []
