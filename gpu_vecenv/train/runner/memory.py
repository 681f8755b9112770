"""Bytes that a run takes on its device, counted from its options before anything large is made.

Arrays of the rollout are made on torch's device "meta", which has shapes and no memory. Networks are made on the CPU, and what
they take in an update is measured with a few samples: it grows linearly with their number.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

from gpu_vecenv.backend.host_memory import is_out_of_memory
from gpu_vecenv.backend.private import each_operation
from gpu_vecenv.errors import GpuVecenvError, OutOfMemoryError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.algorithms.loss import Minibatch, PPOLoss
from gpu_vecenv.train.algorithms.ppo import MAX_CHUNK_ROWS
from gpu_vecenv.train.config import PPOConfig, ResolvedConfig, bootstraps
from gpu_vecenv.train.fused.act import SPLIT_ROWS
from gpu_vecenv.train.fused.applies import fused_sizes
from gpu_vecenv.train.fused.program import Sizes
from gpu_vecenv.train.fused.split import ROOM
from gpu_vecenv.train.policies.contract import Inputs, Policy
from gpu_vecenv.train.returns.choices import may_lack_choice
from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.returns.normalize import RewardNorm
from gpu_vecenv.train.runner.measure import piece_steps
from gpu_vecenv.train.runner.parts import make_policies, may_be_fused, read_critics, rows_of_policies
from gpu_vecenv.train.storage.policy_map import trainable_policies
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.vector.outputs.memory_needs import memory_needs
from gpu_vecenv.vector.outputs.views import View

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

FEW = (512, 1024)
"""Samples of the two measurements of a network. With fewer, gradients of the weights may hide what samples take."""


@dataclass(frozen=True)
class PlannedEnv:
    """Sizes and spaces of an env that is not made, from which the arrays of a run follow."""

    layout: Layout
    num_worlds: int
    device: str = "meta"

    @property
    def num_agents(self) -> int:
        """Agents of a world."""
        return self.layout.num_agents

    @property
    def env_spec(self) -> EnvSpec:
        """Description of the env."""
        return self.layout.spec

    @property
    def role_rows(self) -> dict[str, slice]:
        """Rows of each role."""
        return View(self.layout, self.num_worlds, True).role_rows

    def own_bytes(self) -> int:
        """Return the bytes of the env itself, whose results are written to a rollout."""
        view = View(self.layout, self.num_worlds, not self.layout.by_role)
        return sum(memory_needs(view, AutoresetMode.SAME_STEP, copy=False).values())


def training_needs(config: ResolvedConfig, layout: Layout, device: torch.device) -> dict[str, int]:
    """Return the bytes that a run takes on its device, by purpose.

    CUDA, torch and compiled kernels take more, the same for every run. Networks of ``Trainer(networks=...)`` are counted as the
    built-in ones, and an algorithm of the user as PPO.

    Args:
        config: options of the run.
        layout: layout of its env, of which any number of worlds may have been made.
        device: device of the run.

    Raises:
        ConfigError, PolicyMapError: options do not fit the env.
    """
    env = PlannedEnv(layout, config.num_envs)
    planned = cast("GpuVectorEnv", env)  # the functions below read no other attributes
    bare = rows_of_policies(planned, Rollout.allocate(planned, 1, with_final_obs=False), config.policy_map)
    learn = trainable_policies(list(bare), config.frozen)
    settings = {name: config.ppo_of(name) for name in learn}
    settings = {name: dataclasses.replace(ppo, bootstrap_at_time_limit=bootstraps(ppo, layout.spec))
                for name, ppo in settings.items()}  # fmt: skip
    rollout = Rollout.allocate(planned, config.ppo.num_steps, any(ppo.bootstrap_at_time_limit for ppo in settings.values()))
    rows = rows_of_policies(planned, rollout, config.policy_map)
    policies = make_policies(rows, config, torch.device("cpu"))
    read_critics(rows, policies, settings)
    updates = {name: _update(policies[name], rows[name], ppo, _sizes(config, policies[name], rows[name], device), device)
               for name, ppo in settings.items()}  # fmt: skip
    updates = {name: max(size, _observed(rows[name], settings[name])) for name, size in updates.items()}
    needs = {
        "env": env.own_bytes(),
        "rollout": _bytes(rollout),
        "networks, optimisers, statistics": sum(
            _lasting(policies[name], rows[name], settings.get(name)) for name in policies
        ),
        "samples and update, at most": max(updates.values()) + sum(_copied(own) for own in rows.values()),
    }  # fmt: skip
    if config.evaluation_interval is not None:
        played = PlannedEnv(layout, config.evaluation_episodes)
        own = cast("GpuVectorEnv", played)
        needs["evaluation"] = played.own_bytes() + _bytes(Rollout.allocate(own, piece_steps(own), with_final_obs=False))
    return needs


def _bytes(value: object) -> int:
    """Return the bytes of all tensors in a tensor, or in nested dataclasses, sequences and mappings."""
    if isinstance(value, Tensor):
        return value.nbytes
    if dataclasses.is_dataclass(value):
        value = [getattr(value, each.name) for each in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    return sum(map(_bytes, value)) if isinstance(value, Sequence) and not isinstance(value, str) else 0


def _lasting(policy: Policy, rows: PolicyRows, ppo: PPOConfig | None) -> int:
    """Return the bytes of a policy and of what belongs to it; ``ppo`` is None if it does not learn."""
    with torch.device("meta"):
        modules: list[torch.nn.Module] = [policy, EpisodeStats(rows.shape)]
        if ppo is not None and ppo.normalize_rewards:
            modules.append(RewardNorm(rows.shape, ppo.gamma))
    state = sum(x.nbytes for module in modules for x in (*module.parameters(), *module.buffers()))
    moments = 0 if ppo is None else 2 * sum(x.nbytes for x in policy.parameters() if x.requires_grad)
    state += 0 if rows.states is None else rows.states.now.nbytes + rows.states.first.nbytes
    return state + moments + math.prod(rows.shape) * (4 + 4 + 4)  # world, agent, and entropy of its last action


def _copied(rows: PolicyRows) -> int:
    """Return the bytes of a policy's samples that are no views of the rollout."""
    masks = (4 + may_lack_choice(rows.group)) * rows.rollout.num_steps * math.prod(rows.shape)
    if len(rows.parts) == 1 and rows.parts[0].agents * rows.parts[0].num_worlds == _length(rows.parts[0].rows):
        return masks
    return masks + sum(
        (_bytes(part.slabs) // part.slabs.num_rows + 4 * rows.rollout.num_steps) * part.agents * part.num_worlds
        for part in rows.parts
    )  # fmt: skip


def _observed(rows: PolicyRows, ppo: PPOConfig) -> int:
    """Return the bytes of the observations that running statistics copy: those of some rows of slabs with other rows beside."""
    part = rows.parts[0]
    if not ppo.normalize_observations or len(rows.parts) > 1 or part.agents * part.num_worlds == part.slabs.num_rows:
        return 0
    steps = rows.rollout.num_steps
    return _bytes(part.slabs.obs) // part.slabs.num_rows * part.agents * part.num_worlds * steps // (steps + 1)


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)


def _sizes(config: ResolvedConfig, policy: Policy, rows: PolicyRows, device: torch.device) -> Sizes | None:
    """Return the sizes of a policy that learns by fused kernels; None for another."""
    if not may_be_fused(config, device) or rows.form != "rows":
        return None
    sizes = fused_sizes(policy, device)
    return None if isinstance(sizes, str) else sizes


def _update(policy: Policy, rows: PolicyRows, ppo: PPOConfig, sizes: Sizes | None, device: torch.device) -> int:
    """Return the most bytes that an update of a policy takes at a time, beside its samples."""
    steps, agents = rows.rollout.num_steps, math.prod(rows.shape[1:])
    samples = steps * rows.num_samples
    minibatch = -(-samples // ppo.num_minibatches)
    # Advantage, target and value, and these beside the log-probability again; transitions that count, and their numbers.
    numbers = (3 + 4) * 4 * samples * agents + (0 if rows.rollout.alive_next is None else 8 * samples)
    if sizes is not None:
        return numbers + 4 * samples * ppo.num_epochs + _kernels(sizes, minibatch, device)
    chunk = min(samples + rows.num_samples, max(MAX_CHUNK_ROWS // agents, rows.num_samples))
    in_order = (8 + 1) * ppo.num_minibatches * minibatch
    learning = _grown(lambda count: _measured_step(policy, rows, ppo, count), minibatch)
    valuing = _grown(lambda count: _measured_values(policy, rows, count), chunk)
    return numbers + in_order + max(learning, valuing)


def _kernels(sizes: Sizes, minibatch: int, device: torch.device) -> int:
    """Return the bytes between the kernels of a fused update: gradients of blocks, and of split networks the units of rows."""
    tiles = -(-minibatch // sizes.rows)
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else tiles
    blocks = min(tiles, max(1, multiprocessors * sizes.update_memory.resident // 2))
    partial = 4 * blocks * (sizes.actor_columns + sizes.critic_columns)
    if not sizes.split:
        return partial
    units = 2 * SPLIT_ROWS * sizes.widths[0]
    return partial + units + 2 * sizes.stash_columns * min(tiles * sizes.rows, ROOM["cuda"])


def _grown(measure: Callable[[int], int], count: int) -> int:
    """Return ``measure(count)``, for many samples from its results for a few."""
    few, more = FEW
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
        action = _like(rows.parts[0].slabs.action, lead)
        log_prob, value, advantage, target = torch.zeros(4, *lead, dtype=torch.float32, device="cpu")
        place = torch.zeros(2, count, dtype=torch.int64, device="cpu")  # step and sample of each, which PPO keeps meanwhile
        valid = torch.ones(lead, dtype=torch.bool, device="cpu")
        loss.backward(policy, Minibatch(inputs, action, log_prob, value, advantage, target, valid))
        del place
    for parameter in policy.parameters():
        parameter.grad = None
    return int(peak.most)


def _measured_values(policy: Policy, rows: PolicyRows, count: int) -> int:
    """Return the most bytes that values of some samples take at a time, with their observations if these are copied for it."""
    own = rows.parts[0]
    are_views = len(rows.parts) > 1 or own.agents * own.num_worlds in (own.slabs.num_rows, 1)
    inputs, _ = _inputs(policy, rows, count)
    peak = _Peak()
    with torch.no_grad(), each_operation(peak.run):
        policy.value(inputs._replace(mask=None))
    return int(peak.most) + (0 if are_views else _bytes(inputs.obs))


def _inputs(policy: Policy, rows: PolicyRows, count: int) -> tuple[Inputs, tuple[int, ...]]:
    """Return inputs of some samples that are all zeros, and the axes of their actions."""
    lead = (count, *rows.shape[1:])
    part = rows.parts[0]
    inputs = rows.inputs(part, 0)

    def like(array: Tensor, axes: tuple[int, ...], taken: int) -> Tensor:
        return torch.zeros(*axes, *array.shape[taken:], dtype=array.dtype, device="cpu")

    obs: Any = inputs.obs
    if isinstance(obs, dict):
        obs = {name: like(x, (count,), 1) if name == "shared" else like(x, lead, len(lead)) for name, x in obs.items()}
    else:
        obs = like(obs, lead, len(lead))
    mask = None if inputs.mask is None else like(inputs.mask, lead, len(lead)).logical_not_()
    critic = sum(rows.rollout.sources[name] for name in policy.critic_sources)
    state = policy.state_shape
    return Inputs(
        obs,
        mask,
        torch.zeros(count, critic, dtype=torch.float32, device="cpu") if critic else None,
        None if state is None else torch.zeros(*lead, *state, dtype=torch.float32, device="cpu"),
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


@contextlib.contextmanager
def memory_in_errors(config: ResolvedConfig, env: GpuVectorEnv, free: int | None) -> Iterator[None]:
    """Raise OutOfMemoryError, which says what the run needs, if torch runs out of memory in the block.

    Args:
        config: options of the run.
        env: its env.
        free: bytes that were free after the env was made; None if unknown.
    """
    try:
        yield
    except GpuVecenvError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemoryError(_text(config, env, free)) from error


def require_rollout_room(config: ResolvedConfig, env: GpuVectorEnv, free: int | None) -> None:
    """Check that the rollout of a run fits, before it is made.

    Raises:
        OutOfMemoryError: it needs more than ``free`` bytes; the message says what the run needs.
    """
    rollout = Rollout.allocate(env, config.ppo.num_steps, with_final_obs=False, device=torch.device("meta"))
    if free is not None and _bytes(rollout) > free:
        raise OutOfMemoryError(_text(config, env, free))


def _text(config: ResolvedConfig, env: GpuVectorEnv, free: int | None) -> str:
    needs = training_needs(config, env.layout, torch.device(env.device))
    listed = ", ".join(f"{what} {size / 1e6:,.1f}" for what, size in needs.items())
    room = "" if free is None else f", and {(free + needs['env']) / 1e6:,.1f} MB were free"
    return (
        f"{config.env_id}: training with {config.num_envs:,} worlds and {config.ppo.num_steps:,} steps in a rollout needs about "
        f"{sum(needs.values()) / 1e6:,.1f} MB on {env.device} ({listed}){room}; take fewer num_envs, a smaller ppo.num_steps or "
        f"more ppo.num_minibatches. gpu-vecenv memory {config.env_id} --train prints this for other options."
    )
