"""Makes the env and the policies that a config describes."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

import gpu_vecenv  # noqa: F401  (registers the env ids)
from gpu_vecenv.errors import GpuVecenvError, RoleSpacesError
from gpu_vecenv.registration import IDS
from gpu_vecenv.train.config import TrainConfig
from gpu_vecenv.train.errors import CheckpointError, ConfigError
from gpu_vecenv.train.policies.contract import Policy
from gpu_vecenv.train.run_folder.checkpoint import load_checkpoint, require_same_form
from gpu_vecenv.train.run_folder.source import PolicySource
from gpu_vecenv.train.runner.wrappers import through_wrappers
from gpu_vecenv.variants import VARIANTS

if TYPE_CHECKING:
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def import_modules(names: Iterable[str]) -> None:
    """Import modules that register envs.

    Raises:
        ConfigError: the module, or one that it imports, is missing. Other errors of the import are not changed.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except (ModuleNotFoundError, TypeError, ValueError) as error:
            raise ConfigError(f"expected a module that can be imported, got {name!r}: {error}") from error


def make_env(
    config: TrainConfig,
    num_worlds: int | None = None,
    autoreset_mode: str = "same_step",
    first_world: int = 0,
) -> GpuVectorEnv:
    """Make the env of a run, in the agents view; in the worlds view if its roles have spaces of their own.

    Args:
        config: a resolved config.
        num_worlds: number of worlds, which take values by world of the config in turn; None means ``config.num_envs``, and then
            there must be one for each.
        autoreset_mode: ``same_step``, ``next_step`` or ``disabled``.
        first_world: number of the first world among those of the run.

    Returns:
        The env, or a ``WrappedEnv`` in its place if the id makes an env with wrappers.

    Raises:
        ConfigError: the id is unknown or makes no ``GpuVectorEnv``, ``env_kwargs`` holds an argument of ``make_vec``, or the env
            has wrappers that the trainer cannot train through.
    """
    params = config.env_kwargs
    if num_worlds is not None:
        params = in_turn(config.env_id, params, range(first_world, first_world + num_worlds))
    options: dict[str, Any] = {
        "num_worlds": config.num_envs if num_worlds is None else num_worlds,
        "device": config.device,
        "array": "torch",
        "autoreset_mode": autoreset_mode,
        **({"first_world": first_world} if first_world else {}),
    }
    env = _in_its_view(config.env_id, params, options)
    with close_on_error(env):
        return through_wrappers(env, config.env_id)


def _in_its_view(env_id: str, params: Mapping[str, Any], options: Mapping[str, Any]) -> VectorEnv:
    """Return the env of ``make_wrapped()`` in the agents view; in the worlds view if its roles have spaces of their own."""
    try:
        return make_wrapped(env_id, params, {**options, "view": "agents"})
    except RoleSpacesError:
        return make_wrapped(env_id, params, {**options, "view": "worlds"})


def in_turn(env_id: str, params: Mapping[str, Any], worlds: range) -> dict[str, Any]:
    """Return parameters for some worlds: world i takes value i of those by world, and they begin again behind the last one.

    Raises:
        ConfigError: see ``make_vec()``.
    """
    arrays = {name: value for name, value in params.items() if np.ndim(value) == 1 and len(value) > 0}
    if not arrays:
        return dict(params)
    remaining = {name: value for name, value in params.items() if name not in arrays}
    with contextlib.closing(_in_its_view(env_id, remaining, {"num_worlds": 1, "array": "torch"})) as env:  # for its spec
        spec = cast("GpuVectorEnv", env.unwrapped).env_spec
    by_world = {param.name for param in spec.params if param.per_world}
    return {**params, **{name: np.take(arrays[name], worlds, mode="wrap").tolist() for name in arrays if name in by_world}}


def make_vec(env_id: str, env_kwargs: Mapping[str, Any], options: Mapping[str, Any]) -> GpuVectorEnv:
    """Call ``gymnasium.make_vec`` with an id and parameters from a user.

    Args:
        env_id: a registered id, or ``MODULE:ID``; importing the module registers the id.
        env_kwargs: the user's parameters of the env.
        options: further arguments of ``make_vec``.

    Returns:
        The env inside all wrappers.

    Raises:
        ConfigError: the id is unknown or makes no ``GpuVectorEnv``, or ``env_kwargs`` holds an argument of ``make_vec``.
    """
    return cast("GpuVectorEnv", make_wrapped(env_id, env_kwargs, options).unwrapped)


def make_wrapped(env_id: str, env_kwargs: Mapping[str, Any], options: Mapping[str, Any]) -> VectorEnv:
    """Return the env of ``make_vec()`` inside all its wrappers."""
    reserved = [name for name in env_kwargs if name in {*options, *RESERVED_KEYWORDS}]
    if reserved:
        raise ConfigError(f"env_kwargs: expected parameters of the env, got {reserved}, which are arguments of make_vec")
    module, colon, name = env_id.rpartition(":")
    if colon and not all(part.isidentifier() for part in module.split(".")):
        raise ConfigError(_unknown(env_id))
    try:
        return gymnasium.make_vec(env_id, **options, **env_kwargs)
    except GpuVecenvError:
        raise
    except ModuleNotFoundError as error:
        raise ConfigError(f"{_unknown(env_id)} {error}") from error
    except (gymnasium.error.Error, TypeError) as error:
        if name in IDS or name in VARIANTS:
            raise
        # Gymnasium's own envs raise a TypeError for the options of this package.
        raise ConfigError(_unknown(env_id)) from error


RESERVED_KEYWORDS = ("self", "env_spec", *inspect.signature(gymnasium.make_vec).parameters)
"""Arguments of ``make_vec`` and of an env's class that are no parameters of the env."""


def _unknown(env_id: str) -> str:
    """Return the error text for an id that is no env of this package, with the closest id."""
    text = f"env_id: expected one of {', '.join(IDS)}, or an env built like them, got {env_id!r}."
    module, _, name = env_id.rpartition(":")
    close = difflib.get_close_matches(name, [*IDS, *VARIANTS], n=1, cutoff=0.7)
    text += f" Did you mean {close[0]!r}?" if close else ""
    if name and not module and name not in gymnasium.registry:
        text += f" An env of another package is named with the module that registers it, MODULE:{name}, such as harvest:{name}."
    return text


class Closable(Protocol):
    """An env, or an object that owns one."""

    def close(self) -> Any:
        """Release what the object owns."""


@contextlib.contextmanager
def close_on_error(owned: Closable) -> Iterator[None]:
    """Close ``owned`` if the block raises."""
    try:
        yield
    except BaseException:
        owned.close()
        raise


def load_policy(
    policies: dict[str, Policy], name: str, path: str | Path, acts_only: bool = False, scripted: Sequence[str] = ()
) -> None:
    """Load the weights of the policy ``name`` from a checkpoint.

    Args:
        policies: policies by name.
        name: the policy.
        path: the checkpoint, or text that names a policy in it, see ``PolicySource``; by default the policy of this name.
        acts_only: its values are not read. A critic whose inputs have another size is left out, because the number of agents may
            differ from that in training.
        scripted: scripted policies of the env, which the error about an unknown name lists.

    Raises:
        ConfigError: ``policies`` holds no such policy.
        CheckpointError: the checkpoint holds no such policy, one of another shape, or one that was a function.
    """
    if name not in policies:
        raise ConfigError(f"load_policies: expected policies out of {list(policies)}, got {name!r}")
    source = PolicySource.of(path)
    saved = load_checkpoint(source.run if source.which == "newest" else source.file)["policies"]
    saved_name = source.policy or name
    if saved_name not in saved:
        also = f" and the scripted {scripted}" if scripted else ""
        raise CheckpointError(f"{path}: expected a policy named {saved_name!r}, got policies {list(saved)}{also}")
    expected, state = policies[name].state_dict(), saved[saved_name]
    if state == {} and expected:
        raise CheckpointError(
            f"{path}: expected the weights of the policy {name!r}, which acted by a function in that run; give the function "
            "again by opponents, or another policy for its role"
        )
    if acts_only and isinstance(state, dict):
        of_critic = policies[name].critic_state().items()
        resized = {key: x for key, x in of_critic if getattr(state.get(key), "shape", x.shape) != x.shape}
        state = {**state, **resized}
    require_same_form(state, expected, f"{path}: policy {name!r}")
    policies[name].load_state_dict(state)
