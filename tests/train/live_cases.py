"""Live runs for tests, and excerpts as a page reads them."""

import json
from typing import NamedTuple

import numpy as np

import gpu_vecenv  # noqa: F401
import tests.roles  # noqa: F401
from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.runner import live
from gpu_vecenv.train.runner.trainer import Trainer
from gpu_vecenv.web.live import Wish

WORLDS = (4, 0, 5)
"""Worlds that tests show, not in their order."""

RUNS = {
    "cartpole, gravity by world": ("WarpCartPole-v1", {"gravity": np.linspace(5, 15, 8).tolist(), "max_episode_steps": 20}, {}),
    "small tag": ("WarpTag-v0", {"num_taggers": 2, "num_runners": 4, "tagging_distance": 0.2, "episode_length": 30}, {}),
    "harvest": ("Harvest-v0", {"max_episode_steps": 9, "map": (np.arange(8) % 3).tolist(), "regrowth": 0.3}, {}),
    "covid": ("WarpCovid-v0", {"episode_length": 9, "action_cooldown": 3, "subsidy_interval": 4}, {}),
    "whisper": ("Whisper-v0", {"max_episode_steps": 9, "quiet": 1}, {}),
    "choir": ("Choir-v0", {"max_episode_steps": 9, "whole": True}, {}),
    "recall, with memory": ("WarpRecall-v0", {"delay": 5}, {"network": {"memory": "gru"}}),
    "pendulum": ("WarpPendulum-v1", {"max_episode_steps": 20}, {}),
    "pendulum by SAC": ("WarpPendulum-v1", {}, {"algorithm": "sac", "sac": {"batch_size": 16, "learning_starts": 16}}),
    "grid tag by PQN": ("WarpGridTag-v0", {"grid_length": 6, "episode_length": 20}, {"algorithm": "pqn"}),
}  # fmt: skip
"""Id, parameters and options of runs."""


class Server:
    """In place of a ``LiveServer``: a page that always waits, without a socket."""

    address = "http://127.0.0.1:1/token/"
    about = None

    def __init__(self, about, kernels, metrics, port):
        Server.about = about
        self.wish, self.given, self.metrics = None, [], metrics

    def give(self, wish, message):
        self.given.append((wish, message))

    def close(self):
        pass


def config_of(case, device="cpu", **changes):
    env_id, params, options = RUNS[case]
    ppo = {} if "algorithm" in options else {"ppo": {"num_steps": 8, "num_minibatches": 2, "num_epochs": 2}}
    shared = {"env_id": env_id, "env_kwargs": params, "num_envs": 8, "total_steps": 10**7, "device": device, "seed": 3}
    return TrainConfig.from_options({**shared, **ppo, **options, **changes})


def live_trainer(monkeypatch, config, agent=None, **options):
    """A trainer whose page shows ``WORLDS``, and follows an agent of the first of them."""
    monkeypatch.setattr(live, "LiveServer", Server)
    monkeypatch.setattr(live, "wasm_module", lambda spec: b"")
    monkeypatch.setattr(live, "SHARE", float("inf"))
    trainer = Trainer(config, quiet=True, **options)
    trainer.serve_live_page()
    trainer.pipeline.live.server.wish = Wish(WORLDS, None if agent is None else (WORLDS[0], agent))
    return trainer


class Rollout(NamedTuple):
    iteration: int
    start: dict
    actions: list
    end: dict
    decisions: dict | None


class Recorded(NamedTuple):
    head: dict
    pool: dict
    rollouts: list


def recorded(trainer, message, plan=0, pool=0):
    """A message as a page reads it, by the shapes of the env of the run."""
    data = message(plan, pool)
    length = int.from_bytes(data[:4], "little")
    head, at, parts = json.loads(data[4 : 4 + length]), 4 + length, []
    for size in head["bytes"]:
        parts.append(data[at : at + size])
        at += size
    assert at == len(data)
    layout, k = trainer.env.worlds.view.layout, len(WORLDS)
    fields = {field.name: field for field in layout.state}
    entries = {}
    for name in head.get("newPool", []):
        form = layout.state_shape(fields[name], 1)[1:]
        entries[name] = np.frombuffer(parts.pop(0), fields[name].dtype).reshape(-1, *form)
    rollouts = []
    for of_rollout in head["rollouts"]:
        start, actions, end = (parts.pop(0) for _ in range(3))
        states = [_state(layout, data, k) for data in (start, end)]
        decisions = of_rollout.get("decisions")
        if decisions:
            numbers = np.frombuffer(parts.pop(0), np.float32).reshape(of_rollout["steps"], -1)
            decisions = {**decisions, "numbers": numbers}
        grouped = _actions(trainer, actions, of_rollout["steps"], k)
        rollouts.append(Rollout(of_rollout["iteration"], states[0], grouped, states[1], decisions))
    assert not parts
    return Recorded(head, entries, rollouts)


def _state(layout, data, k):
    state, at = {}, 0
    for field in layout.state:
        shape = layout.state_shape(field, k)
        size = np.dtype(field.dtype).itemsize * int(np.prod(shape))
        state[field.name] = np.frombuffer(data[at : at + size], field.dtype).reshape(shape)
        at += size
    return state


def _actions(trainer, data, steps, k):
    """Actions of each group, (T, rows of the worlds[, entries])."""
    groups, at = [], 0
    layout = trainer.env.worlds.view.layout
    for group in layout.groups:
        rows = k * (group.count if group.role else layout.num_agents)
        shape = (steps, rows, *(group.action.shape or ()))
        size = 4 * int(np.prod(shape))
        groups.append(np.frombuffer(data[at : at + size], np.float32 if group.continuous else np.int32).reshape(shape))
        at += size
    assert at == len(data)
    return groups
