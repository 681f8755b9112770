"""Opponents, which act for a role in place of a policy of the run: policies of other runs, functions, and policies by name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpu_vecenv.spec.validation import abbreviated
from gpu_vecenv.train.config import PolicyConfig, ResolvedConfig, TrainConfig, resolve, resolve_new
from gpu_vecenv.train.config.algorithms import ALGORITHMS
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.policies.function import Function, scripted_of
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, saved_config
from gpu_vecenv.train.run_folder.checkpoints import CHECKPOINT_FOLDER
from gpu_vecenv.train.run_folder.source import FORM, PolicySource
from gpu_vecenv.train.runner.build import make_env
from gpu_vecenv.train.runner.resumed import Resumed
from gpu_vecenv.train.storage.policy_map import RANDOM, role_of, with_changes

Opponent = str | Function
"""An opponent of a role: ``random``, a scripted policy of the env or a policy of the run by its name, a policy of another run as
text of the form ``FORM``, or a function, see ``FunctionPolicy``."""


class SavedOptions(NamedTuple):
    """A policy of a checkpoint, and the options that its run had."""

    source: PolicySource
    """Run and file of its weights."""
    config: ResolvedConfig
    """Options of its run."""
    policy: str
    """Its name there."""

    @classmethod
    def of(cls, text: str, role: str) -> SavedOptions:
        """Read a policy; without a name in the text it is that of the role.

        Raises:
            CheckpointError: the checkpoint is unusable.
            ConfigError: the run has no such policy, or several for the role.
        """
        source = PolicySource.of(text)
        config = resolve(saved_config(source.file, state := load_checkpoint(source.file)))
        names = [name for name in state["policies"] if state["policies"][name]]
        name = source.policy or _of_role(config, role, text)
        if name not in names:
            raise ConfigError(f"{text}: expected one of the policies of that run, {names}, got {name!r}")
        return cls(source, config, name)

    @property
    def text(self) -> str:
        """The text that names this policy in ``load_policies``."""
        return f"{self.source.run}:{self.policy}" + ("@best" if self.source.which == "best" else "")

    def settings(self) -> PolicyConfig:
        """Return the settings that build the policy in another run."""
        algorithm, options = self.config.algorithm_of(self.policy), self.config.options_of(self.policy)
        read = {"normalize_observations": options.normalize_observations} if algorithm in ALGORITHMS else vars(options)
        return PolicyConfig(
            algorithm=algorithm,
            network=vars(self.config.network_of(self.policy)),
            module=self.config.settings_of(self.policy).module,
            **({"ppo": read} if algorithm == "ppo" else {"algorithms": {algorithm: read}}),
        )


def _of_role(config: ResolvedConfig, role: str, text: str) -> str:
    """Return the policy that acted for a role in its training."""
    policy_map = {role: role} if config.policy_map is None else config.policy_map
    names = list(dict.fromkeys(name for key, name in policy_map.items() if role_of(key) == role))
    if len(names) != 1:
        got = f"{names}" if names else "none"
        raise ConfigError(f"{text}: expected the name of a policy, {FORM}, as the run has for the role {role!r} {got}")
    return names[0]


def is_saved(text: str, names: Iterable[str]) -> bool:
    """True for text that stands for a policy of a checkpoint, and not for one of some names."""
    if text in names:
        return False
    return bool(set(text) & set("/@:")) or (Path(text) / CHECKPOINT_FOLDER).is_dir()


def first_run(opponents: Mapping[str, Opponent]) -> PolicySource | None:
    """Return the first policy of a checkpoint among opponents; None without one."""
    for value in opponents.values():
        if isinstance(value, str) and is_saved(value, ()):
            return PolicySource.of(value)
    return None


class Cast(NamedTuple):
    """Options of a run with its opponents among them."""

    config: TrainConfig
    """Policies of other runs have settings and ``load_policies`` here."""
    policy_map: dict[str, str]
    """Role to policy name, of the roles that opponents act for."""
    functions: dict[str, Function]
    """Policy name to its function."""


def cast(config: TrainConfig, opponents: Mapping[str, Opponent] | None, policy_map: Mapping[str, str]) -> Cast:
    """Return options in which opponents are policies.

    Args:
        config: options of a run.
        opponents: role, or a range of one, to what acts for it; see ``Opponent``.
        policy_map: role to policy name of the run.

    Raises:
        CheckpointError: a checkpoint is unusable.
        ConfigError: a run is of another env or has no such policy, or a value is of another type.
    """
    opponents = {} if opponents is None else opponents
    if not isinstance(opponents, Mapping) or not all(isinstance(key, str) for key in opponents):
        raise ConfigError(f"opponents: expected a mapping of roles to what acts for them, got {abbreviated(opponents)}")
    policies, files = dict(config.policies), dict(config.load_policies)
    roles = [role_of(key) for key in opponents]
    taken = {name for key, name in policy_map.items() if role_of(key) not in roles}
    taken |= {value for value in opponents.values() if isinstance(value, str)}
    changed, functions = dict[str, str](), dict[str, Function]()
    for key, value in opponents.items():
        role = role_of(key)
        if isinstance(value, str) and value and not is_saved(value, policy_map.values()):
            changed[key] = value
        elif isinstance(value, str) and value:
            saved = SavedOptions.of(value, role)
            _require_same_env(config.env_id, saved.config.env_id, value)
            name = changed[key] = _unused(role, taken)
            policies[name], files[name] = saved.settings(), saved.text
            taken.add(name)
        elif callable(value):
            name = changed[key] = _unused(_name_of(value), taken)
            functions[name] = value
            taken.add(name)
        else:
            raise ConfigError(f"who acts for {key!r}: expected a name, {FORM} or a function, got {abbreviated(value)}")
    return Cast(dataclasses.replace(config, policies=policies, load_policies=files), changed, functions)


def with_opponents(
    config: TrainConfig, opponents: Mapping[str, Opponent] | None
) -> tuple[TrainConfig, dict[str, Function]]:
    """Return options of a new run that trains against opponents, which do not learn, and the functions among them by policy.

    Args:
        config: options of the run.
        opponents: role to what acts for it; see ``Opponent``. A name must be ``random`` or that of a scripted policy.

    Raises:
        CheckpointError, ConfigError: see ``cast()``; a name stands for neither.
    """
    if opponents is None or opponents == {}:
        return config, {}
    small = dataclasses.replace(config, num_envs=1)
    with contextlib.closing(make_env(resolve_new(small), 1)) as env:
        policy_map = config.policy_map or {role: role for role in env.role_rows}
        known = [RANDOM, *scripted_of(env)]
    present = cast(config, opponents, policy_map)
    new_map = with_changes(policy_map, present.policy_map)
    before = {name for name in policy_map.values() if name not in new_map.values()}
    frozen = {name: None for name in config.frozen if name not in before}
    for role, name in present.policy_map.items():
        if name in present.functions or name in present.config.load_policies:
            frozen[name] = None
        elif name not in known:
            raise ConfigError(f"opponents[{role!r}]: expected {', '.join(known)}, {FORM} or a function, got {name!r}")
    policies = {name: each for name, each in present.config.policies.items() if name not in before}
    changes: dict[str, Any] = {"policies": policies, "policy_map": new_map, "frozen": tuple(frozen)}
    return dataclasses.replace(present.config, **changes), present.functions


def functions_again(resumed: Resumed, opponents: Mapping[str, Opponent] | None) -> dict[str, Function]:
    """Return the functions of a run that goes on, by the names that their policies had.

    Args:
        resumed: the run.
        opponents: role to its function, for each role that a function acted for.

    Raises:
        CheckpointError: a function is missing, or a value is something else.
    """
    config, opponents = resumed.config, {} if opponents is None else opponents
    policy_map = config.policy_map or {}
    missing = {name for name, state in resumed.state["policies"].items() if not state and name in config.frozen}
    functions: dict[str, Function] = {}
    for key, value in opponents.items():
        name = policy_map.get(key)
        if name is None or name not in missing or not callable(value):
            expected = [key for key, name in policy_map.items() if name in missing]
            text = f"functions for {expected}" if expected else "none"
            got = f"{abbreviated(value)} for {key!r}"
            raise CheckpointError(f"opponents: expected {text}, as in the run that is resumed, got {got}")
        functions[name] = value
    for name in sorted(missing - {*functions}):
        role = next(key for key, each in policy_map.items() if each == name)
        raise CheckpointError(f"opponents: expected the function {name!r} for {role!r} again, because a checkpoint holds no code")
    return functions


def _require_same_env(env_id: str, other: str, text: str) -> None:
    if env_id.rpartition(":")[2] != other.rpartition(":")[2]:
        raise ConfigError(f"{text}: expected a run of {env_id}, got one of {other}")


def _name_of(function: Function) -> str:
    """Return a policy's name for a function."""
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() else "function"


def _unused(name: str, taken: Iterable[str]) -> str:
    """Return a name that no other policy has."""
    number = 2
    unused = name
    while unused in taken:
        unused, number = f"{name}-{number}", number + 1
    return unused
