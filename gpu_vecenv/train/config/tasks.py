"""Tasks of ``gpu-vecenv reproduce``: envs, algorithms, and the protocol of their results."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_vecenv.train.config.presets import PRESETS
from gpu_vecenv.train.config.run import TrainConfig, resolve
from gpu_vecenv.train.errors import ConfigError

EVALUATIONS = 10
"""Evaluations in a training, after equal numbers of iterations; the last one is at its end."""

EVALUATION_SEED = 1_000_000
"""The evaluation after a training has worlds of this seed plus that of the run; no run trains in them.

Evaluations in a training have seeds of their own, see ``evaluation_seed()``."""


@dataclass(frozen=True)
class Task:
    """An env, and how each algorithm trains and is evaluated on it. Options that are left out are those of the env's preset."""

    suite: str
    """Group of tasks: ``mpe``, ``foraging``, ``warehouse``, ``tag``, ``classic`` or ``real-world``."""
    env_id: str
    """Registered env id."""
    algorithms: Mapping[str, Mapping[str, Any]]
    """Name of an algorithm to the fields of its ``TrainConfig``; the first one is the default."""
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Env parameters that differ from those of the preset."""
    total_steps: int | None = None
    """Steps of a run, summed over worlds; None: those of the preset."""
    episodes: int = 64
    """Episodes of an evaluation in a training. The evaluation after it has ten times as many."""
    deterministic: bool = False
    """After the training, take the likeliest actions instead of draws."""

    def config(self, algorithm: str | None = None, total_steps: int | None = None) -> TrainConfig:
        """Return the options of a run.

        Args:
            algorithm: its name; None: the first one.
            total_steps: steps of a run; None: those of the task.

        Returns:
            Options whose steps are rounded up, so that evaluations are equally far apart.

        Raises:
            ConfigError: the task has no such algorithm.
        """
        changes = self.algorithms[self.algorithm(algorithm)]
        config = TrainConfig(self.env_id, env_kwargs=dict(self.env_kwargs), **{"total_steps": self.total_steps, **changes})
        if total_steps is not None:
            config = dataclasses.replace(config, total_steps=total_steps)
        resolved = resolve(config)
        rollout = resolved.num_envs * resolved.num_steps([""])  # every policy has the steps of the run
        interval = -(-resolved.total_steps // (rollout * EVALUATIONS))
        return dataclasses.replace(
            config,
            total_steps=interval * EVALUATIONS * rollout,
            evaluation_interval=interval,
            evaluation_episodes=self.episodes,
        )

    def algorithm(self, name: str | None) -> str:
        """Return the name of an algorithm: the one given, or the first of the task.

        Raises:
            ConfigError: the task has no such algorithm.
        """
        if name is None:
            return next(iter(self.algorithms))
        if name not in self.algorithms:
            raise ConfigError(f"--algorithm: expected one of {', '.join(self.algorithms)} for {self.env_id}, got {name}")
        return name


def _ppo(critic: str | tuple[str, ...] = "observations") -> dict[str, dict[str, Any]]:
    """Return IPPO, MAPPO and their recurrent forms, which differ in the critic's inputs and in the memory.

    Args:
        critic: inputs of the critic of MAPPO, see ``NetworkConfig.critic``.
    """
    # After a time limit the state is that of the next episode.
    central: dict[str, Any] = {} if isinstance(critic, str) else {"ppo": {"bootstrap_at_time_limit": False}}
    return {
        "ippo": {},
        "mappo": {**central, "network": {"critic": critic}},
        "ippo-gru": {"network": {"memory": "gru"}},
        "mappo-gru": {**central, "network": {"critic": critic, "memory": "gru"}},
    }


_PQN = {"algorithm": "pqn"}

_RICE: dict[str, Any] = {"num_envs": 256, "total_steps": 256 * 20 * 150}

_CATALYSIS: dict[str, Any] = {
    "num_envs": 4_096,
    "total_steps": 400_000_000,
    "ppo": {"learning_rate": 1e-3, "entropy_coef_final": 0.01},
}

# Also on a GPU, Tag is trained as a laptop trains it, so that ten seeds take minutes.
_OF_CPU = PRESETS["WarpTag-v0"].on("cpu")
_TAG: dict[str, Any] = {
    "num_envs": _OF_CPU.num_envs,
    "total_steps": _OF_CPU.total_steps,
    "ppo": {name: getattr(_OF_CPU.ppo, name) for name in ("num_steps", "num_minibatches", "learning_rate")},
}

# Roles have policies of their own, so a critic that sees all agents of several roles reads the state.
_PLACES = ("agent_pos", "agent_vel", "landmark_pos")

TASKS: dict[str, Task] = {
    "WarpSimpleSpread-v3": Task("mpe", "WarpSimpleSpread-v3", {**_ppo(), "pqn-vdn": _PQN}),
    "WarpSimpleReference-v3": Task("mpe", "WarpSimpleReference-v3", {**_ppo(), "pqn-vdn": _PQN}),
    # The good agent is a team of one.
    "WarpSimpleTag-v3": Task("mpe", "WarpSimpleTag-v3", {**_ppo(_PLACES), "pqn-vdn": _PQN}),
    # Each role is a team of one, so VDN would be PQN of single agents.
    "WarpSimpleSpeakerListener-v4": Task("mpe", "WarpSimpleSpeakerListener-v4", _ppo((*_PLACES, "comm", "goal"))),
    # Each role is a team of one.
    "WarpSimpleCrypto-v3": Task("mpe", "WarpSimpleCrypto-v3", {"ippo": {}}),
    "WarpForaging-8x8-2p-2f-coop-v3": Task("foraging", "WarpForaging-8x8-2p-2f-coop-v3", {**_ppo(), "pqn-vdn": _PQN}),
    # Mava's figure is of this one, in which players see two cells far.
    "WarpForaging-2s-8x8-2p-2f-coop-v3": Task("foraging", "WarpForaging-2s-8x8-2p-2f-coop-v3", _ppo()),
    "WarpRware-tiny-4ag-v2": Task("warehouse", "WarpRware-tiny-4ag-v2", {**_ppo(), "pqn-vdn": _PQN}),
    # benchmarks/findings_*.py train with these options, and play in more ways.
    "WarpRice-v0": Task("real-world", "WarpRice-v0", {"ippo": _RICE}, episodes=16),
    # A period of a negotiation has three steps, and the same discount as one without.
    "WarpRice-v0 with negotiation": Task(
        "real-world",
        "WarpRice-v0",
        {"ippo": {**_RICE, "ppo": {"gamma": PRESETS["WarpRice-v0"].ppo.gamma ** (1 / 3)}, "stagger_starts": True}},
        env_kwargs={"negotiation_on": True},
        episodes=16,
    ),
    "WarpCovid-v0": Task("real-world", "WarpCovid-v0", {"ippo": {"num_envs": 256, "total_steps": 256 * 180 * 150}}, episodes=8),
    "WarpCatalysis-v0": Task("real-world", "WarpCatalysis-v0", {"ppo": _CATALYSIS}, deterministic=True),
    "WarpTag-v0": Task(
        "tag", "WarpTag-v0", {"ippo": _TAG, "mappo": {**_TAG, "network": {"critic": "observations"}}, "pqn": _PQN}
    ),
    "WarpGridTag-v0": Task("tag", "WarpGridTag-v0", {"ippo": {}, "mappo": {"network": {"critic": "observations"}}, "pqn": _PQN}),
    **{
        env_id: Task("classic", env_id, {"ppo": {}, **{name: {"algorithm": name} for name in PRESETS[env_id].algorithms}})
        for env_id in (
            "WarpCartPole-v1",
            "WarpAcrobot-v1",
            "WarpMountainCar-v0",
            "WarpMountainCarContinuous-v0",
            "WarpPendulum-v1",
        )
    },
}
"""Tasks by id: that of the env, with a word behind it where an env has several tasks."""


def task_of(name: str) -> Task:
    """Return a task by its id.

    Raises:
        ConfigError: there is no such task.
    """
    if name not in TASKS:
        close = difflib.get_close_matches(name, TASKS, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"expected a task of gpu-vecenv reproduce --list, got {name!r}{hint}")
    return TASKS[name]
