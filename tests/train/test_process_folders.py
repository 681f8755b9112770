"""Runs in several processes write whole checkpoints, go on from them, stop together, and name a process that is lost."""

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import ranks
import torch
from process_cases import GHOSTS, SHARDED
from ranks import exits, in_processes, started

from gpu_vecenv.train import (
    Algorithm,
    AlgorithmConfig,
    ConfigError,
    DDPGConfig,
    LostRankError,
    NetworkConfig,
    SACConfig,
    TrainConfig,
    Trainer,
    evaluate,
    load_checkpoint,
    register_algorithm,
)
from gpu_vecenv.train.processes.signs import STALE_S, Signs
from gpu_vecenv.train.run_folder import tensorboard
from gpu_vecenv.train.run_folder.checkpoint import checkpoint_path
from gpu_vecenv.train.run_folder.metrics import read_metrics


@pytest.fixture(autouse=True)
def no_tensorboard(monkeypatch):
    """Importing it takes a second in each process."""
    monkeypatch.setattr(tensorboard, "is_installed", lambda: False)


SAC = TrainConfig(
    "WarpPendulum-v1", num_envs=8, total_steps=8 * 4 * 6, device="cpu", algorithm="sac", network=NetworkConfig((8,)),
    algorithms={"sac": SACConfig(num_steps=4, batch_size=16, replay_size=256, learning_starts=32, gradient_steps=2,
                                 priority_exponent=0.6, n_steps=2, bootstrap_at_time_limit=True)},
)  # fmt: skip
LONG = dataclasses.replace(GHOSTS, total_steps=8 * 6 * 6)
RUNS = {"ghosts": LONG, "memory": dataclasses.replace(LONG, network=NetworkConfig((), memory="gru", memory_size=8)), "sac": SAC}


def weights(trainer):
    policies = {name: {key: x.clone() for key, x in each.state_dict().items()} for name, each in trainer.policies.items()}
    return policies, trainer.parts.state_dict()["algorithms"]


def train(config, processes, iterations=None):
    with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
        trainer.train(iterations)
        return weights(trainer)


def resume(folder, processes, **changes):
    with contextlib.closing(Trainer.resume(folder, quiet=True, processes=processes, **changes)) as trainer:
        trainer.train()
        return weights(trainer)


def require_same(one, other, where=""):
    if isinstance(one, tuple):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name in one:
            require_same(one[name], other[name], f"{where}/{name}")
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other), where
    else:
        assert one == other, where


@pytest.mark.slow
def test_a_run_goes_on_in_as_many_processes_to_the_same_bits(tmp_path):
    def interrupted(processes):
        found = {}
        for name, config in RUNS.items():
            whole = train(config, processes)
            train(dataclasses.replace(config, out=str(tmp_path / name)), processes, 3)
            found[name] = whole, resume(tmp_path / name, processes)
        return found

    ranks = in_processes(2, interrupted, tmp_path / "ranks")
    for rank in ranks:
        for name, (whole, resumed) in rank.items():
            require_same(resumed, whole, name)
    for name in RUNS:
        require_same(ranks[0][name][0][0], ranks[1][name][0][0], name)
        assert [line["iteration"] for line in read_metrics(tmp_path / name)] == [1, 2, 3, 4, 5, 6]
        state = load_checkpoint(tmp_path / name)
        (of_second,) = state["processes"]
        assert any(path.startswith("collector/env/") for path in of_second)
        assert not any(path.startswith("policies/") for path in of_second)
    assert evaluate(tmp_path / "ghosts", 4, max_steps=400).episodes == 4


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_run_goes_on_in_another_number_of_processes(name, tmp_path, capsys):
    folder, config = tmp_path / "run", dataclasses.replace(RUNS[name], out=str(tmp_path / "run"))
    in_processes(4, lambda processes: train(config, processes, 3), tmp_path / "four")
    saved = load_checkpoint(folder)
    with contextlib.closing(Trainer.resume(folder)) as trainer:
        assert "moved from 4 to 1 processes" in capsys.readouterr().out
        assert trainer.iteration == 3
        for policy, state in saved["policies"].items():
            require_same(trainer.policies[policy].state_dict(), state)
        seen = trainer.parts.collector.rollout.groups[0].obs.own[-1].clone()
        trainer.train(1)
    with contextlib.closing(Trainer(dataclasses.replace(config, out=None), quiet=True)) as first:
        assert not torch.equal(seen, first.parts.collector.rollout.groups[0].obs.own[-1])  # episodes are not repeated
    ranks = in_processes(2, lambda processes: resume(folder, processes), tmp_path / "two")
    require_same(ranks[0][0], ranks[1][0])
    assert [line["iteration"] for line in read_metrics(folder)] == [1, 2, 3, 4, 5, 6]


def test_a_signal_to_one_process_ends_all_after_the_same_iteration(tmp_path):
    config = dataclasses.replace(LONG, total_steps=8 * 6 * 10_000, out=str(tmp_path / "run"))

    def act(processes):
        with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
            trainer.train()
            return trainer.iteration

    with started(2, act, tmp_path) as children:
        wait_for(lambda: (tmp_path / "run" / "metrics.jsonl").exists())
        os.kill(children[1], signal.SIGTERM)
        assert exits(children) == [0, 0]
    first, second = (torch.load(tmp_path / f"rank-{rank}.pt", weights_only=False) for rank in range(2))
    assert first == second == load_checkpoint(tmp_path / "run")["iteration"] < 10_000


def wait_for(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.in_ci
@pytest.mark.parametrize("lost", [0, 1])
def test_the_others_name_a_process_that_was_killed(lost, tmp_path):
    config = dataclasses.replace(LONG, num_envs=9, total_steps=9 * 6 * 10_000, out=str(tmp_path / "run"), checkpoint_interval=2)
    with started(3, lambda processes: train(config, processes), tmp_path) as children:
        wait_for(lambda: (tmp_path / "run" / "metrics.jsonl").exists())
        os.kill(children[lost], signal.SIGKILL)
        start = time.monotonic()
        found = exits(children)
        assert time.monotonic() - start < 60
    assert found == [-9 if rank == lost else 3 for rank in range(3)]
    for rank in {0, 1, 2} - {lost}:
        assert f"rank {lost} of 3 is lost" in (tmp_path / f"rank-{rank}.txt").read_text()
    load_checkpoint(checkpoint_path(tmp_path / "run"))


@pytest.mark.slow
def test_a_process_learns_who_is_gone_while_it_waits_for_the_device():
    """A sum of NCCL in a graph raises no error when another process ends, so the thread looks by itself."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True)
    store.set("place/1", json.dumps((socket.gethostname(), ended.pid)))
    store.set("sign/1", "7")
    signs, until = Signs(0, 2, store), time.monotonic() + STALE_S / 3
    with contextlib.closing(signs), pytest.raises(LostRankError, match="rank 1 of 2 is lost: its process ended"):
        while time.monotonic() < until:
            signs.require_all()
            time.sleep(0.1)


@pytest.mark.slow
def test_an_error_in_one_process_ends_the_others_with_its_text(tmp_path):
    def act(processes):
        with contextlib.closing(Trainer(LONG, quiet=True, processes=processes)) as trainer:
            trainer.train(2)
            if processes.rank == 1:
                raise OSError("no space left")
            trainer.train()

    with started(2, act, tmp_path) as children:
        assert exits(children) == [3, 3]
    assert "rank 1 of 2 is lost: OSError: no space left" in (tmp_path / "rank-0.txt").read_text()


def test_the_first_process_evaluates_for_all(tmp_path):
    config = dataclasses.replace(
        LONG, evaluation_interval=1, evaluation_episodes=2, patience=2, out=str(tmp_path / "run"), total_steps=8 * 6 * 50,
    )  # fmt: skip

    def act(processes):
        with contextlib.closing(Trainer(config, quiet=True, processes=processes)) as trainer:
            trainer.train()
            return trainer.iteration, trainer.best.state_dict(), trainer.finished, trainer.periodic_evaluation._players is None

    first, second = in_processes(2, act, tmp_path)
    assert first[:3] == second[:3] and first[0] < 50 and "without a better return" in first[2]
    assert (first[3], second[3]) == (False, True)
    lines = read_metrics(tmp_path / "run")
    assert len(lines) == first[0] and all("evaluation/red" in line for line in lines)
    assert len(load_checkpoint(tmp_path / "run" / "checkpoint" / "best.pt")["processes"]) == 1


@dataclasses.dataclass(frozen=True)
class IdleConfig(AlgorithmConfig):
    """Options of an algorithm that does nothing."""

    num_steps: int = 4
    normalize_observations: bool = False


class Idle(Algorithm):
    """Knows nothing of processes."""

    metric_names = ()

    def __init__(self, policy, options, setup):
        self.device = setup.device

    def update(self, samples, scalars):
        return torch.zeros(0, device=self.device)

    def state_dict(self):
        return {}

    def load_state_dict(self, state, where):
        pass


register_algorithm("idle", IdleConfig, Idle)

REFUSED = {
    "worlds": (dataclasses.replace(GHOSTS, num_envs=7), "num_envs: expected a multiple of 2, the number of processes, got 7"),
    "shards": (dataclasses.replace(GHOSTS, shards=3), "shards: expected a multiple of 2, the number of processes, got 3"),
    "worlds of shards": (dataclasses.replace(GHOSTS, num_envs=6, shards=4), "num_envs: expected a multiple of 4, the number of"),
    "device": (dataclasses.replace(GHOSTS, device="cuda:1"), "device: expected auto, cpu or cuda in a run of several processes"),
    "algorithm": (dataclasses.replace(GHOSTS, ppo=None, algorithm="idle"), "processes: expected an algorithm that sums over"),
    "batch": (
        dataclasses.replace(SAC, algorithm="ddpg", algorithms={"ddpg": DDPGConfig(batch_size=15)}),
        "batch_size: expected a multiple of 2, the number of processes, got 15",
    ),
    "shards of a buffer": (dataclasses.replace(SAC, shards=4), "shards: expected None or the number of processes for the policy"),
}


def test_runs_that_processes_cannot_have_are_refused_by_name(tmp_path):
    def errors(processes):
        found = {}
        for name, (config, _) in REFUSED.items():
            try:
                Trainer(config, quiet=True, processes=processes)
            except ConfigError as error:
                found[name] = str(error)
        return found

    for found in in_processes(2, errors, tmp_path):
        for name, (_, text) in REFUSED.items():
            assert text in found[name]
    with pytest.raises(ConfigError, match="num_envs: expected a multiple of 3, the number of shards, got 8"):
        Trainer(dataclasses.replace(SHARDED, shards=3), quiet=True)


@pytest.mark.slow
def test_processes_that_start_again_have_words_of_their_own(tmp_path):
    """torchrun keeps its store at a restart."""
    from datetime import timedelta

    import torch.distributed as dist

    kept = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
        patched.setattr(ranks, "free_port", lambda: kept.port)
        for start in range(3):

            def act(processes, start=start):
                time.sleep(0.3 * processes.is_first)  # the other one would read the old word meanwhile
                return processes.from_first(lambda: start)

            assert in_processes(2, act, tmp_path / str(start)) == [start, start]
