"""The state of a run on its device: env, rollout, policies, algorithms and statistics, built from options."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Container, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.spec.env_spec import EnvSpec
from gpu_vecenv.train.algorithms.contract import Algorithm, Setup
from gpu_vecenv.train.algorithms.shards import Shards
from gpu_vecenv.train.config import AlgorithmConfig, ResolvedConfig
from gpu_vecenv.train.config.algorithms import ALGORITHMS, Storage, registered
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.policies.build import make_policy
from gpu_vecenv.train.policies.contract import Actor, Policy, fields_of
from gpu_vecenv.train.policies.function import Function, fixed_policies, scripted_of
from gpu_vecenv.train.policies.networks import WorldSpec
from gpu_vecenv.train.policies.random import RandomPolicy
from gpu_vecenv.train.processes.group import Processes, rank_and_count
from gpu_vecenv.train.returns.episodes import EpisodeStats, renew_form
from gpu_vecenv.train.returns.normalize import share_statistics
from gpu_vecenv.train.run_folder.checkpoint import require_same_parts
from gpu_vecenv.train.runner.collector import Collector, whole_rollout
from gpu_vecenv.train.runner.iteration import Iteration, require_gradients
from gpu_vecenv.train.runner.schedule_table import ScheduleTable
from gpu_vecenv.train.runner.shaping import WHY_STEPS, RolloutShaping, shapings_of
from gpu_vecenv.train.runner.spread import require_spread, spread_of
from gpu_vecenv.train.storage.policy_map import Members, assign_members, is_random, trainable_policies
from gpu_vecenv.train.storage.policy_rows import PolicyRows, policy_rows
from gpu_vecenv.train.storage.rollout import Rollout
from gpu_vecenv.vector.env.reward import RewardFunction

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def members_of_policies(env: GpuVectorEnv, policy_map: Mapping[str, str] | None) -> dict[str, list[Members]]:
    """Return the agents of each policy of a run.

    Raises:
        PolicyMapError: roles and policies do not fit together.
    """
    counts = {role: (rows.stop - rows.start) // env.num_worlds for role, rows in env.role_rows.items()}
    return assign_members(counts, policy_map, env.layout.groups)


def learning_policies(env: GpuVectorEnv, config: ResolvedConfig) -> list[str]:
    """Return the names of the policies of a run that learn.

    Raises:
        PolicyMapError: roles and policies do not fit together, or no policy learns.
    """
    return trainable_policies(list(members_of_policies(env, config.policy_map)), config.frozen, scripted_of(env))


def policies_with_networks(
    env: GpuVectorEnv, policy_map: Mapping[str, str] | None, functions: Container[str] = ()
) -> list[str]:
    """Return the names of the policies of a run that have a network.

    Args:
        env: the env.
        policy_map: see ``TrainConfig``.
        functions: names of the policies that are functions.

    Raises:
        PolicyMapError: roles and policies do not fit together.
    """
    scripted = scripted_of(env)
    names = members_of_policies(env, policy_map)
    return [name for name in names if not is_random(name) and name not in scripted and name not in functions]


def rows_of_policies(env: GpuVectorEnv, rollout: Rollout, policy_map: Mapping[str, str] | None) -> dict[str, PolicyRows]:
    """Return the rows of each policy of a run.

    Raises:
        PolicyMapError: roles and policies do not fit together.
    """
    members = members_of_policies(env, policy_map)
    return policy_rows(rollout, env.layout.groups, dict(env.role_rows), env.num_worlds, members)


def setup_of(
    config: ResolvedConfig, name: str, rows: PolicyRows, spec: EnvSpec, device: torch.device, shares_gpu: bool = False,
    processes: Processes | None = None, shards: Shards | None = None,
) -> Setup:  # fmt: skip
    """Return what the run gives the algorithm of a policy."""
    return Setup(
        rows, config.network_of(name), spec, device, seed_of(config.seed, name), config.schedule_steps,
        wants_fused(config), shares_gpu, processes, shards,
    )  # fmt: skip


def make_policies(
    rows: Mapping[str, PolicyRows],
    config: ResolvedConfig,
    device: torch.device,
    networks: Mapping[str, nn.Module] | None = None,
    learn: Collection[str] = (),
    fixed: Mapping[str, Policy] | None = None,
) -> dict[str, Policy]:
    """Build new policies on a device.

    Args:
        rows: rows of each policy.
        config: resolved options.
        device: device of the policies.
        networks: policy name to the user's network; others are built from the options.
        learn: names of the policies that learn by gradients.
        fixed: policies without weights by name, see ``fixed_policies()``.

    Raises:
        ConfigError: a network does not fit the spaces or does not learn, or ``networks`` names a policy that has no network.
    """
    networks = {} if networks is None else networks
    if not isinstance(networks, Mapping):
        raise ConfigError(f"networks: expected a mapping from policies to networks, got {type(networks).__name__}")
    fixed = {} if fixed is None else fixed
    require_policies("networks", networks, [name for name in rows if not is_random(name) and name not in fixed])
    for name, module in networks.items():
        if module is None:
            raise ConfigError(f"networks: expected a torch.nn.Module for the policy {name!r}, got None")
    policies: dict[str, Policy] = {}
    for name, rows_of_policy in rows.items():
        if is_random(name):
            policies[name] = RandomPolicy(rows_of_policy.group)
            continue
        if name in fixed:
            policies[name] = fixed[name]
            continue
        user_module: Any = networks[name] if name in networks else config.settings_of(name).module
        network = config.network_of(name)
        rows_of_policy.with_ids = network.agent_ids
        world = WorldSpec(rows_of_policy.num_agents, rows_of_policy.spans[0].agents, rows_of_policy.sources)
        options, algorithm = config.options_of(name), ALGORITHMS.get(config.algorithm_of(name))
        if algorithm is None and not hasattr(options, "normalize_observations"):
            expected = "expected a registered algorithm, or its option normalize_observations"
            raise ConfigError(f"policy {name!r}: {expected}, got {config.algorithm_of(name)!r} with {vars(options)}")
        make = None if algorithm is None else algorithm.part("policy")
        policy_options = options.normalize_observations if make is None else options
        parts = (name, rows_of_policy.group, config.seed, network, policy_options, user_module, name in learn, world)
        policies[name] = (make or make_policy)(*parts)
        _require_returned(policies[name], Policy, "policy", config.algorithm_of(name))
        rows_of_policy.keep_states(policies[name].state_shape)
    return {name: policy.to(device) for name, policy in policies.items()}


def _require_returned(value: object, kind: type, function: str, algorithm: str) -> None:
    """Raise ConfigError unless a function of a registered algorithm has returned what it must."""
    if not isinstance(value, kind):
        got = type(value).__name__
        raise ConfigError(f"algorithm {algorithm!r}: expected {function}() to return {kind.__name__}, got {got}")


def allocate_rollout(
    env: GpuVectorEnv, num_steps: int, storage: Mapping[str, Storage], shaped: bool = False
) -> Rollout:
    """Allocate the slabs of T steps, with what the algorithms of a run read; see ``Rollout.allocate()``."""
    final = [demands for demands in storage.values() if demands.final_obs]
    return Rollout.allocate(env, num_steps, bool(final), any(demands.next_masks for demands in final), shaped=shaped)


def store_demands(rows: Mapping[str, PolicyRows], policies: Mapping[str, Policy], storage: Mapping[str, Storage]) -> None:
    """Give the samples of policies that learn the inputs of their critics and the final observations that algorithms read.

    Args:
        rows: rows of each policy.
        policies: policies by name.
        storage: demands of the algorithms of those that learn.

    Raises:
        ConfigError: an algorithm reads final observations, but not fields of the env's state, which the policy's critic reads.
        PolicyMapError: see ``PolicyRows.read_critic()``.
    """
    for name, demands in storage.items():
        sources = policies[name].critic_sources
        if fields_of(sources) and demands.final_obs:
            raise ConfigError(
                f"policy {name!r}: its critic reads the env's state, which is that of the next episode after a time limit; "
                f"expected {demands.without_final_obs}"
            )
        rows[name].with_final_obs, rows[name].with_next_masks = demands.final_obs, demands.next_masks
        rows[name].read_critic(sources)


class RunState:
    """All that the iterations of a run work on.

    Attributes:
        rollout: the slabs.
        collector: the loop that fills them.
        policies: policies by name.
        actors: what acts for each policy in rollouts: the policy, or kernels with its weights.
        evaluation_actors: what acts for each policy in evaluations.
        rows: rows of each policy.
        algorithms: those of the policies that learn.
        num_steps: T, steps of a rollout.
        functions: policy name to the function that acts as this policy.
        fixed: policies without weights, other than random ones, by name.
        reward: function that changes the rewards that policies learn from; None: none.
        why_steps: why policies act step by step that could fill a rollout in one launch; empty if they do not.
        not_fused: policy name to the reason why it does without fused kernels, although the run wants them.
        episodes: statistics of each policy's episodes.
        schedules: settings of the iterations.
        iteration: the work of an iteration.
        spread: worlds and shards of this process.
    """

    def __init__(
        self,
        env: GpuVectorEnv,
        config: ResolvedConfig,
        networks: Mapping[str, nn.Module] | None = None,
        shares_gpu: bool = False,
        processes: Processes | None = None,
        functions: Mapping[str, Function] | None = None,
        reward: RewardFunction | None = None,
    ):
        """Build everything but the env.

        Args:
            env: vector env, see ``make_env()``.
            config: resolved options.
            networks: policy name to the user's network.
            shares_gpu: other runs use the GPU at the same time.
            processes: processes of the run, each with worlds of its own; None: this one alone.
            functions: policy name to the function that acts as this policy.
            reward: function that changes the rewards that policies learn from.

        Raises:
            ConfigError, PolicyMapError: options do not fit the env.
        """
        require_gradients()
        self.processes, self.spread = processes, spread_of(config, *rank_and_count(processes))
        device = torch.device(env.device)
        learn = learning_policies(env, config)
        # Rows of one step tell the sizes, so that nothing large is allocated for options that do not fit.
        rows = rows_of_policies(env, Rollout.allocate(env, 1, with_final_obs=False), config.policy_map)
        require_policies("policies", config.policies, rows)
        self.functions = dict(functions or {})
        chosen = {name: registered(config.algorithm_of(name)) for name in learn}
        options: dict[str, AlgorithmConfig] = {name: config.options_of(name) for name in learn}
        self.num_steps = config.num_steps(learn)
        for name, each in options.items():
            each.require_samples(rows[name].num_samples, name)
        storage = {name: each.storage(env.env_spec) for name, each in options.items()}
        self.reward, shapings = reward, shapings_of(config.reward, reward, env)
        self.rollout = rollout = allocate_rollout(env, self.num_steps, storage, shaped=bool(shapings))
        self.rows = rows_of_policies(env, rollout, config.policy_map)
        by_gradients = [name for name, each in options.items() if each.needs_gradients]
        self.fixed = fixed_policies(env, self.rows, self.functions)
        self.policies = make_policies(self.rows, config, device, networks, by_gradients, self.fixed)
        if processes is not None:
            for policy in self.policies.values():
                share_statistics(policy, processes)
                processes.copy_from_first([*policy.parameters(), *policy.buffers()])
        store_demands(self.rows, self.policies, storage)
        self.algorithms: dict[str, Algorithm] = {}
        for name, each in options.items():
            each.require_samples(self.rows[name].num_samples, name)  # again, as a critic may have made them worlds
            shards = self.spread.shards_of(self.rows[name])
            setup = setup_of(config, name, self.rows[name], env.env_spec, device, shares_gpu, processes, shards)
            algorithm = chosen[name].part("make")(self.policies[name], each, setup)
            _require_returned(algorithm, Algorithm, "make", config.algorithm_of(name))
            self.algorithms[name] = algorithm
        require_spread(self.algorithms, self.spread, processes)
        reasons = {name: algorithm.not_fused for name, algorithm in self.algorithms.items() if wants_fused(config)}
        self.not_fused = {name: reason for name, reason in reasons.items() if reason}
        self.actors = self._in_place({name: algorithm.actor() for name, algorithm in self.algorithms.items()})
        players = {name: algorithm.evaluation_actor() for name, algorithm in self.algorithms.items()}
        self.evaluation_actors = self._in_place(players)
        fill_rollout = whole_rollout(env, rollout, self.actors, self.rows)
        self.why_steps = WHY_STEPS if shapings and fill_rollout is not None else ""
        shaping = RolloutShaping(shapings, env, rollout) if shapings else None
        self.collector = Collector(env, rollout, self.actors, self.rows, None if shapings else fill_rollout, shaping)
        self.episodes = {
            name: EpisodeStats(rows.shape, agents=[span.agents for span in rows.spans], processes=processes).to(device)
            for name, rows in self.rows.items()
        }
        self.schedules = ScheduleTable(self.algorithms, config.num_envs * self.num_steps, device)
        parts = (self.collector, self.policies, self.rows, self.algorithms, self.schedules, self.episodes)
        self.iteration = Iteration(*parts, config.precision, processes)

    def _in_place(self, actors: Mapping[str, Actor | None]) -> dict[str, Actor]:
        """Return the policies, with actors in place of some."""
        return {**self.policies, **{name: actor for name, actor in actors.items() if actor is not None}}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a run on its device, after whole iterations."""
        return {
            "policies": {name: policy.state_dict() for name, policy in self.policies.items()},
            "algorithms": {name: algorithm.state_dict() for name, algorithm in self.algorithms.items()},
            "collector": self.collector.state_dict(),
            "episodes": {name: episodes.state_dict() for name, episodes in self.episodes.items()},
            "reset_pool": self.collector.env.get_reset_pool(),
            **self._changes(),
        }

    def _changes(self) -> dict[str, Any]:
        """Return what a run changed in its env: parameters, and the name of the function that changes rewards."""
        params = self.collector.env.changed_params
        as_plain = {
            name: torch.as_tensor(value, device="cpu") if isinstance(value, np.ndarray) else value
            for name, value in params.items()
        }
        return {
            **({"params": as_plain} if params else {}),
            **({} if self.reward is None else {"reward": getattr(self.reward, "__name__", type(self.reward).__name__)}),
        }

    def load_state_dict(self, state: Mapping[str, Any], path: Path, before: ResolvedConfig) -> None:
        """Restore what ``state_dict()`` returned, after a reset of the env.

        Args:
            state: the state.
            path: the checkpoint file, which errors name.
            before: options of the run that wrote the state.

        Raises:
            CheckpointError: the state has another form.
        """
        for episodes in state["episodes"].values():
            renew_form(episodes)
        self._take_changes(state, path)
        require_same_parts(state, self.state_dict(), path)
        try:
            for name, policy in self.policies.items():
                policy.load_state_dict(state["policies"][name])
            for name, algorithm in self.algorithms.items():
                algorithm.load_state_dict(state["algorithms"].get(name), f"{path}: algorithms/{name}")
                algorithm.options_changed(before.options_of(name))
            for name, statistics in self.episodes.items():
                statistics.load_state_dict(state["episodes"][name])
            # Before the state of the env: without a pool, a state that is set may hold no entries of one.
            self.collector.env.set_reset_pool(state["reset_pool"] or None)
            self.collector.load_state_dict(state["collector"])
        except CheckpointError:
            raise
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
            raise CheckpointError(
                f"{path}: expected the state of this run's env and policies, got {type(error).__name__}: {error}"
            ) from error


    def _take_changes(self, state: Mapping[str, Any], path: Path) -> None:
        """Give the env the parameters of a checkpoint, and check that rewards are changed as in its run.

        Raises:
            CheckpointError: the run had a function for rewards and this one has none, or the other way round, or parameters
                that the env does not take.
        """
        name = state.get("reward")
        if (name is None) != (self.reward is None):
            expected = "no function for rewards" if name is None else f"the function {name!r} for rewards again (reward=)"
            raise CheckpointError(f"{path}: expected {expected}, as in the run that is resumed, because it holds no code")
        try:
            self.collector.env.set_params(**state.get("params", {}))
        except (GpuVecenvError, TypeError) as error:
            raise CheckpointError(f"{path}: expected parameters that the env takes, got {error}") from error


def wants_fused(config: ResolvedConfig) -> bool:
    """Return True if policies that fit shall have fused kernels.

    With ``auto`` another precision excludes them, because their operands have 16 bits, or on the CPU 32.
    """
    return config.kernels == "fused" or (config.kernels == "auto" and config.precision == "float32")


def seed_of(seed: int, name: str) -> int:
    """Return an int64 seed that depends on the run's seed and the policy's name, for the order of its minibatches."""
    return int.from_bytes(hashlib.sha256(f"minibatches/{seed}/{name}".encode()).digest()[:8], "little", signed=True)


def require_policies(option: str, names: Mapping[str, object], policies: Iterable[str]) -> None:
    """Raise ConfigError for a name that is no policy of the run."""
    for name in names:
        if name not in policies:
            raise ConfigError(f"{option}: expected policies out of {list(policies)}, got {name!r}")
