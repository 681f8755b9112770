"""Bytes that a run takes on its device, counted from its options before anything large is made.

Arrays of the rollout are made on torch's device "meta", which has shapes and no memory. Networks are made on the CPU. An
algorithm is registered with a function that counts its bytes.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from gymnasium.vector import AutoresetMode

from gpu_vecenv.backend.host_memory import is_out_of_memory
from gpu_vecenv.errors import GpuVecenvError, OutOfMemoryError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.train.config import AlgorithmConfig, ResolvedConfig
from gpu_vecenv.train.config.algorithms import registered
from gpu_vecenv.train.config.off_policy import OffPolicyConfig
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.policies.function import fixed_policies
from gpu_vecenv.train.returns.choices import may_lack_choice
from gpu_vecenv.train.returns.episodes import EpisodeStats
from gpu_vecenv.train.runner.measure import piece_steps
from gpu_vecenv.train.runner.run_state import (
    allocate_rollout,
    learning_policies,
    make_policies,
    rows_of_policies,
    setup_of,
    store_demands,
)
from gpu_vecenv.train.storage.policy_rows import PolicyRows
from gpu_vecenv.train.storage.replay import replay_bytes
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.train.storage.sizes import bytes_of
from gpu_vecenv.vector.outputs.memory_needs import memory_needs
from gpu_vecenv.vector.outputs.views import View

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


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


def training_needs(
    config: ResolvedConfig, layout: Layout, device: torch.device, num_worlds: int | None = None
) -> dict[str, int]:
    """Return the bytes that a run takes on its device, by purpose.

    CUDA, torch and compiled kernels take more, the same for every run. Networks of ``Trainer(networks=...)`` are counted as the
    built-in ones.

    Args:
        config: options of the run.
        layout: layout of its env, of which any number of worlds may have been made.
        device: device of the run.
        num_worlds: worlds of one process; None: all of the run.

    Raises:
        ConfigError, PolicyMapError: options do not fit the env.
    """
    env = PlannedEnv(layout, num_worlds or config.num_envs)
    planned = cast("GpuVectorEnv", env)  # the functions below read no other attributes
    learn = learning_policies(planned, config)
    options = {name: config.options_of(name) for name in learn}
    storage = {name: each.storage(layout.spec) for name, each in options.items()}
    rollout = allocate_rollout(planned, config.num_steps(learn), storage, config.reward == "team")
    rows = rows_of_policies(planned, rollout, config.policy_map)
    policies = make_policies(rows, config, torch.device("cpu"), fixed=fixed_policies(planned, rows))
    store_demands(rows, policies, storage)
    updates, lasting, replay = [0], 0, 0
    for name in learn:
        count = registered(config.algorithm_of(name)).part("memory")
        setup = setup_of(config, name, rows[name], layout.spec, device)
        of_algorithm, update = (0, 0) if count is None else count(policies[name], options[name], setup)
        buffer = _replay(rows[name], options[name])
        lasting, replay = lasting + of_algorithm - buffer, replay + buffer
        updates.append(update)
    needs = {
        "env": env.own_bytes(),
        "rollout": bytes_of(rollout),
        "networks, optimisers, statistics": sum(
            _lasting(policies[name], rows[name]) for name in policies
        ) + lasting,
        **({"replay buffers": replay} if replay else {}),
        "samples and update, at most": max(updates) + sum(_copied(policy_rows) for policy_rows in rows.values()),
    }  # fmt: skip
    if config.evaluation_interval is not None:
        played = PlannedEnv(layout, config.evaluation_episodes)
        played_env = cast("GpuVectorEnv", played)
        episodes = Rollout.allocate(played_env, piece_steps(played_env), with_final_obs=False)
        needs["evaluation"] = played.own_bytes() + bytes_of(episodes)
    return needs


def _replay(rows: PolicyRows, options: AlgorithmConfig) -> int:
    """Return the bytes of a policy's replay buffer, which its algorithm counts among those that last; 0 without one."""
    if not isinstance(options, OffPolicyConfig):
        return 0
    return replay_bytes(rows, options.replay_size, options.n_steps, options.priority_exponent)


def _lasting(policy: Policy, rows: PolicyRows) -> int:
    """Return the bytes of a policy and of what belongs to it, but for its algorithm."""
    with torch.device("meta"):
        modules = (policy, EpisodeStats(rows.shape))
    state = sum(x.nbytes for module in modules for x in (*module.parameters(), *module.buffers()))
    state += 0 if rows.states is None else rows.states.now.nbytes + rows.states.first.nbytes
    return state + math.prod(rows.shape) * (4 + 4 + 4)  # world, agent, and entropy of its last action


def _copied(rows: PolicyRows) -> int:
    """Return the bytes of a policy's samples that are no views of the rollout."""
    masks = (4 + may_lack_choice(rows.group)) * rows.rollout.num_steps * math.prod(rows.shape) + rows.copied_critic
    if len(rows.spans) == 1 and rows.spans[0].agents * rows.spans[0].num_worlds == _length(rows.spans[0].rows):
        return masks
    return masks + sum(
        (bytes_of(span.slabs) // span.slabs.num_rows + 4 * rows.rollout.num_steps) * span.agents * span.num_worlds
        for span in rows.spans
    )  # fmt: skip


def _length(rows: slice) -> int:
    return int(rows.stop - rows.start)


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
    num_steps = config.num_steps(learning_policies(env, config))
    rollout = Rollout.allocate(env, num_steps, with_final_obs=False, device=torch.device("meta"))
    if free is not None and bytes_of(rollout) > free:
        raise OutOfMemoryError(_text(config, env, free))


def _text(config: ResolvedConfig, env: GpuVectorEnv, free: int | None) -> str:
    needs = training_needs(config, env.layout, torch.device(env.device), env.num_worlds)
    listed = ", ".join(f"{what} {size / 1e6:,.1f}" for what, size in needs.items())
    room = "" if free is None else f", and {(free + needs['env']) / 1e6:,.1f} MB were free"
    learn = learning_policies(env, config)
    advice = {each.format(config.algorithm_of(name)): None for name in learn for each in config.options_of(name).saving_memory}
    steps = config.num_steps(learn)
    return (
        f"{config.env_id}: training with {env.num_worlds:,} worlds and {steps:,} steps in a rollout needs about "
        f"{sum(needs.values()) / 1e6:,.1f} MB on {env.device} ({listed}){room}; take fewer num_envs, {' or '.join(advice)}. "
        f"gpu-vecenv memory {config.env_id} --train prints this for other options."
    )
