"""Runs of RLlib in this process: its session, a small PPO, and the episodes that its learner gets."""

import contextlib
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import pytest


@dataclass
class Episode:
    """An episode of one agent, or a part of one, as RLlib stores it.

    Attributes:
        start: steps of the episode before this part.
        agent: name of the agent, None in single-agent envs.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool
    truncated: bool
    start: int
    agent: str | None


_seen: list[list[Episode]] = []


def session(tmp_path_factory):
    """Start RLlib's processes before the tests of a module and end them afterwards, with all their files."""
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.rllib")
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # the path of a socket in it has 107 characters at most
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path_factory.mktemp("results")))
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=folder, configure_logging=False)
        assert processes(folder)
        yield
        ray.shutdown()
    deadline = time.monotonic() + 20
    while processes(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)
    assert processes(folder) == []


def processes(folder):
    """Command lines of the processes that Ray started for a session; each names the folder of the session."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # the process has ended
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if folder in line]


def ppo(steps):
    """A PPO configuration that samples ``steps`` in each iteration, in this process."""
    from ray.rllib.algorithms.ppo import PPOConfig

    config = PPOConfig().env_runners(num_env_runners=0).callbacks(on_sample_end=_keep)
    return config.training(train_batch_size=steps, minibatch_size=min(steps, 128), num_epochs=1)


def registered(name, env_id):
    """Register a function that makes a vector env for RLlib; return its name."""
    from ray import tune

    tune.register_env(name, lambda context: gymnasium.make_vec(env_id, **context))
    return name


@contextlib.contextmanager
def seen_samples():
    """A list to which the episodes of all samples in the block are added, as they come to the learner."""
    _seen.append([])
    try:
        yield _seen[-1]
    finally:
        _seen.pop()


def _keep(*, samples, **_):
    """Callback ``on_sample_end``: copy what RLlib stored, because its learner changes it."""
    if _seen:
        for sample in samples:
            for part in getattr(sample, "agent_episodes", {None: sample}).values():
                _seen[-1].append(as_stored(part))


def as_stored(part):
    """Copy an episode of one agent."""
    return Episode(
        np.array(part.get_observations()),
        np.array(part.get_actions()),
        np.array(part.get_rewards()),
        bool(part.is_terminated),
        bool(part.is_truncated),
        int(part.t_started),
        part.agent_id,
    )
