"""The world in which a number of a run became infinite or NaN first: its role, its step, and a file for ``gpu-vecenv replay``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_vecenv.errors import GpuVecenvError, NonFiniteError
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.runner.record import actions_by_world
from gpu_vecenv.train.storage.policy_map import Members
from gpu_vecenv.train.storage.policy_rows import policy_rows
from gpu_vecenv.train.storage.wrapped_env import as_wrapped
from gpu_vecenv.vector.env.stepping import by_world
from gpu_vecenv.vector.env.world_file import Place, describe_place, replay_command, write_world

if TYPE_CHECKING:
    from gpu_vecenv.train.runner.trainer import Trainer
    from gpu_vecenv.train.storage.rollout import Rollout
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv


def with_world(trainer: Trainer, error: NonFiniteError, later: int) -> NonFiniteError:
    """Return an error of an iteration with the world that caused it, if an observation or a reward did.

    A second run repeats the iterations since the newest checkpoint, one at a time and without callbacks, because a rollout has
    neither the states before its steps nor, with later iterations in flight, its own numbers.

    Args:
        trainer: the run.
        error: the error.
        later: iterations that were in flight behind it.
    """
    if not later and _first_place(trainer) is None:
        return error
    reason = _why_not(trainer)
    if reason:
        return _longer(error, f"no file of the world, because {reason}")
    path = checkpoint_path(str(trainer.config.out))
    try:
        with contextlib.closing(trainer.repeated_from(path)) as again:
            while again.iteration <= trainer.iteration:
                state = {name: x.cpu().numpy().copy() for name, x in again.env.get_state().items()}
                again.launch()
                try:
                    again.finish_alone()
                except NonFiniteError as same:
                    return _written(again, same, state, Path(str(trainer.config.out)))
    except (GpuVecenvError, OSError) as problem:
        return _longer(error, f"no file of the world, because {problem}")
    return _longer(error, f"no file of the world, because all numbers are finite if the run is repeated from {path}")


def _why_not(trainer: Trainer) -> str:
    """Return why a run writes no file of a world; empty if it does."""
    if trainer.config.out is None:
        return "the run has no folder with checkpoints to go back to (out)"
    if trainer.processes is not None:
        return "the run has several processes; resume it in one of them"
    return "the env has wrappers; register it alone" if as_wrapped(trainer.env) else ""


def _written(trainer: Trainer, error: NonFiniteError, state: dict[str, np.ndarray], folder: Path) -> NonFiniteError:
    """Write the world of an iteration that has failed again to a file in the folder of the run."""
    place = _first_place(trainer)
    if place is None:
        return error
    env, rollout = trainer.env, trainer.parts.rollout
    actions = {}
    for index, (group, slabs) in enumerate(zip(env.layout.groups, rollout.groups, strict=True)):
        rows = slabs.action[: place.step + 1].cpu().numpy()
        actions[group.role if env.layout.by_role else ""] = actions_by_world(env, index, rows)
    text = f"{trainer.config.env_id}, iteration {trainer.iteration + 1}: {describe_place(place, state)}"
    file, wrong = write_world(env, place.world, state, actions, text, folder / "nonfinite.npz")
    if wrong is None:
        file.unlink()
        return _longer(error, "no file of the world, because the env's own numbers are finite if its steps are made again")
    again = replay_command(env, file, trainer.config.env_id.rpartition(":")[0])
    longer = _longer(error, f"{describe_place(place, state)}; {again} makes its steps again")
    longer.file = str(file)
    return longer


def _longer(error: NonFiniteError, text: str) -> NonFiniteError:
    return NonFiniteError(f"{error}; {text}")


def _first_place(trainer: Trainer) -> Place | None:
    """Return the first number of the present rollout that is not finite, of agents in the game; None without one."""
    env, rollout = trainer.env, trainer.parts.rollout
    valid = by_world(_valid(env, rollout), env.role_counts, env.num_worlds)
    rewards = rollout.reward if rollout.env_reward is None else rollout.env_reward
    reward = by_world(_host(rewards), env.role_counts, env.num_worlds)
    places = [_place(~np.isfinite(reward) & valid, reward, "reward", env)]
    agent = 0
    for group, slabs in zip(env.layout.groups, rollout.groups, strict=True):
        count = group.count
        shown = valid[..., agent : agent + count]
        own_part = _host(slabs.obs.own).reshape(rollout.num_steps + 1, slabs.num_rows, -1)
        own_part = np.moveaxis(own_part, 1, -1)  # (T + 1, features, rows)
        counts = {group.role: count} if group.role else env.role_counts
        own_part = by_world(own_part, counts, env.num_worlds)
        own_part = np.moveaxis(own_part, 1, -1)  # (T + 1, N, agents, features)
        places.append(_observed(own_part, shown, agent, env))
        if slabs.obs.shared is not None:
            shared_part = _host(slabs.obs.shared).reshape(rollout.num_steps + 1, env.num_worlds, 1, -1)
            places.append(_observed(shared_part, shown.any(-1, keepdims=True), agent, env))
        agent += count
    return min((place for place in places if place is not None), key=lambda place: place.step, default=None)


def _valid(env: GpuVectorEnv, rollout: Rollout) -> np.ndarray:
    """Return which transitions count, bool (T, R): those of agents in the game."""
    everyone = {role: [Members(role, 0, count)] for role, count in env.role_counts.items() if count}
    rows = policy_rows(rollout, env.layout.groups, dict(env.role_rows), env.num_worlds, everyone)
    return np.concatenate([_host(of_role.masks().valid.flatten(1)) for of_role in rows.values()], axis=1)


def _observed(obs: np.ndarray, valid: np.ndarray, first_agent: int, env: Any) -> Place | None:
    """Return the first place of observations (T + 1, N, a, F), of which slot t is what step t - 1 gave."""
    bad = ~np.isfinite(obs[:-1]) & valid[..., None]
    place = _place(bad, obs[:-1], "observation", env, first_agent)
    return None if place is None else place._replace(step=place.step - 1)


def _place(bad: np.ndarray, values: np.ndarray, what: str, env: Any, first_agent: int = 0) -> Place | None:
    if not bad.any():
        return None
    step, world, agent, *feature = np.argwhere(bad)[0].tolist()
    value, number, before = values[(step, world, agent, *feature)], first_agent + agent, 0
    for role, count in env.role_counts.items():
        if number < before + count:
            entry = f"[{feature[0]}]" if feature else ""
            return Place(step, world, f"{what}{entry} of agent {number} ({role} {number - before}) is {value}")
        before += count
    raise AssertionError(f"{number} is no agent")


def _host(x: Any) -> np.ndarray:
    values: np.ndarray = x.cpu().numpy()
    return values
