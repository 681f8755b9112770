"""A run's checkpoints: the newest ones, the best one, going on from any, and starts from a reset pool."""

import copy
import dataclasses
import functools
import math
import os
import re

import gymnasium
import pytest
import torch
from test_checkpoint import assert_same
from ways import WAYS

from gpu_vecenv import Field, GpuVectorEnv
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.errors import SequenceError
from gpu_vecenv.train import CheckpointError, ConfigError, RunExistsError, TrainConfig, Trainer, evaluate, load_checkpoint
from gpu_vecenv.train.config import NetworkConfig, PPOConfig
from gpu_vecenv.train.run_folder import checkpoint
from gpu_vecenv.train.run_folder.best import BestReturn
from gpu_vecenv.train.run_folder.checkpoints import Checkpoints, numbered, run_of
from gpu_vecenv.train.run_folder.metrics import read_metrics


def names(run):
    return sorted(path.name for path in (run / "checkpoint").iterdir())


def iterations(*numbers):
    return [f"iteration-{number:08}.pt" for number in numbers]


def lines(run):
    return [{name: x for name, x in line.items() if name != "steps_per_second"} for line in read_metrics(run)]


def trained(config, run, iterations=None, **changes):
    trainer = Trainer(dataclasses.replace(config, out=str(run), checkpoint_interval=1, **changes), quiet=True)
    trainer.train(iterations)
    trainer.close()
    return run


@pytest.mark.parametrize("keep", [1, 2, 100])
def test_the_newest_checkpoints_are_kept(config, tmp_path, keep):
    run = trained(config, tmp_path / "run", keep_checkpoints=keep)
    assert names(run) == iterations(*range(7)[-keep:])
    assert load_checkpoint(run)["iteration"] == 6


def test_pruning_counts_iterations_and_not_times_or_names(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    for number in (2, 2 * 10**8, 9, 10**9):
        (tmp_path / "checkpoint" / f"iteration-{number:08}.pt").touch()
    for name in ("iteration-7.pt", "iteration-00000007.mp4", "best.pt", "mine.pt"):
        (tmp_path / "checkpoint" / name).touch()
    others = ["best.pt", "iteration-00000007.mp4", "iteration-7.pt", "mine.pt"]
    checkpoints = Checkpoints(tmp_path, keep=2)
    assert checkpoints.newest().name == "iteration-1000000000.pt"
    checkpoints.prune()
    assert names(tmp_path) == sorted([*others, *iterations(2 * 10**8, 10**9)])
    checkpoints.remove_after(2 * 10**8)
    assert names(tmp_path) == sorted([*others, *iterations(2 * 10**8)])
    assert Checkpoints(tmp_path / "none", 1).newest() is None


def test_the_best_is_kept_besides_the_newest(config, tmp_path):
    config = dataclasses.replace(config, out=str(tmp_path / "run"), keep_checkpoints=1, checkpoint_interval=1)
    trainer = Trainer(config, quiet=True)
    checkpoints = Checkpoints(tmp_path / "run", 1)
    for mean_return in (1.0, 3.0, 2.0, math.nan):
        trainer.train(iterations=1)
        if trainer.best.update(mean_return):
            assert checkpoints.save_best(trainer.state_dict()) == tmp_path / "run" / "checkpoint" / "best.pt"
    trainer.close()
    assert names(tmp_path / "run") == ["best.pt", *iterations(4)]
    best = load_checkpoint(tmp_path / "run" / "checkpoint" / "best.pt")
    assert best["iteration"] == 2 and best["best"] == {"return": 3.0, "evaluations_since": 0}
    # A resumed run knows the best of the evaluations before, from the newest checkpoint that holds them.
    trainer = Trainer.resume(tmp_path / "run" / "checkpoint" / "best.pt", quiet=True)
    assert (trainer.iteration, trainer.best.value, trainer.best.evaluations_since) == (2, 3.0, 0)
    trainer.train(iterations=1)
    assert names(tmp_path / "run") == ["best.pt", *iterations(3)]


def test_only_a_higher_return_is_better():
    best, seen = BestReturn(), []
    for value in (math.nan, -5.0, -5.0, -7.0, -4.5, math.nan, -4.5, -4.0):
        seen.append((best.update(value), best.value, best.evaluations_since))
    assert seen == [
        (False, -math.inf, 1), (True, -5.0, 0), (False, -5.0, 1), (False, -5.0, 2), (True, -4.5, 0), (False, -4.5, 1),
        (False, -4.5, 2), (True, -4.0, 0),
    ]  # fmt: skip
    copy = BestReturn()
    copy.load_state_dict(best.state_dict(), "here")
    assert copy.state_dict() == best.state_dict() == {"return": -4.0, "evaluations_since": 0}


@pytest.mark.parametrize(
    "bad", [{"return": math.nan}, {"return": 1}, {"evaluations_since": -1}, {"evaluations_since": True}, {"x": 1}], ids=str
)
def test_a_damaged_best_return_raises_an_error(bad):
    with pytest.raises(CheckpointError, match="^here: expected "):
        BestReturn().load_state_dict({"return": 1.0, "evaluations_since": 2, **bad}, "here")


def test_a_damaged_newest_checkpoint_names_the_next_intact_one(config, tmp_path):
    whole, run = trained(config, tmp_path / "whole"), trained(config, tmp_path / "run", 4)
    newest, second, third = numbered(run)
    for path in (newest, second):
        path.write_bytes(path.read_bytes()[:-7])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != ".lock"}
    said = f"{newest}: damaged, .*; the next older intact checkpoint is {third}: resume from this file"
    for use in (Trainer.resume, load_checkpoint):
        with pytest.raises(CheckpointError, match=said):
            use(run)
    assert all(path.read_bytes() == content for path, content in before.items())
    Trainer.resume(third, quiet=True).train()
    assert names(run) == names(whole)
    assert_same({**load_checkpoint(run), "config": 0}, {**load_checkpoint(whole), "config": 0})
    assert lines(run) == lines(whole)
    for path in numbered(run):
        path.write_bytes(b"")
    with pytest.raises(CheckpointError) as raised:
        load_checkpoint(run)
    assert "intact" not in str(raised.value)


def test_going_on_from_an_older_checkpoint_removes_what_came_after_it(config, tmp_path):
    whole, run = trained(config, tmp_path / "whole"), trained(config, tmp_path / "run", 5)
    trainer = Trainer.resume(run / "checkpoint" / "iteration-00000003.pt", quiet=True)
    assert names(run) == iterations(3, 4, 5)  # nothing changes before the run goes on
    trainer.train(iterations=0)
    assert names(run) == iterations(3)
    assert [line["iteration"] for line in lines(run)] == [1, 2, 3]
    trainer.train()
    assert names(run) == names(whole)
    assert lines(run) == lines(whole)


def test_a_checkpoint_file_of_a_moved_run_continues_the_run_at_its_new_place(config, tmp_path, monkeypatch):
    run = trained(config, tmp_path / "run", 3)
    os.rename(run, tmp_path / "moved")
    monkeypatch.chdir(tmp_path / "moved")
    Trainer.resume("checkpoint/iteration-00000002.pt", quiet=True).train(iterations=1)
    assert not run.exists()
    assert names(tmp_path / "moved") == iterations(1, 2, 3)


def test_only_files_of_a_run_have_a_run(tmp_path):
    folder = tmp_path / "run" / "checkpoint"
    assert [run_of(folder / name) for name in ("best.pt", "iteration-00000003.pt")] == [tmp_path / "run"] * 2
    others = [folder / "mine.pt", tmp_path / "best.pt", tmp_path / "iteration-00000003.pt", folder / "iteration-3.pt"]
    assert [run_of(path) for path in others] == [None] * 4


def test_a_run_of_format_version_2_is_not_touched_and_the_error_says_how_to_go_on(config, tmp_path):
    old = tmp_path / "run" / "checkpoint" / "latest.pt"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"gpu_vecenv.train checkpoint 2 " + b"0" * 64 + b"\n")
    said = f"{old}: expected .*version 3, got .*To go on, finish the run with the version of gpu_vecenv that wrote it, or start"
    for use in (Trainer.resume, load_checkpoint):
        for path in (tmp_path / "run", old):
            with pytest.raises(CheckpointError, match=said):
                use(path)
    with pytest.raises(RunExistsError):
        Trainer(dataclasses.replace(config, out=str(tmp_path / "run")), quiet=True)
    assert names(tmp_path / "run") == ["latest.pt"]


def test_a_reader_is_not_misled_by_a_trainer_that_removes_old_checkpoints(config, tmp_path, monkeypatch):
    run = trained(config, tmp_path / "run", 2, keep_checkpoints=1)
    checkpoints, read, calls = Checkpoints(run, 1), checkpoint.read_checkpoint, []

    def save_first(path, device):
        calls.append(path.name)
        if len(calls) == 1:
            checkpoints.save({**read(path), "iteration": 3})
        return read(path, device)

    monkeypatch.setattr(checkpoint, "read_checkpoint", save_first)
    assert load_checkpoint(run)["iteration"] == 3
    assert calls == iterations(2, 3)


POOL = torch.linspace(-0.5, 0.5, 15).reshape(3, 5)


def test_a_resumed_run_draws_starts_from_the_same_pool(config, tmp_path):
    whole = Trainer(dataclasses.replace(config, out=str(tmp_path / "whole")), quiet=True)
    whole.env.set_reset_pool({"x": POOL})
    whole.train()
    first = Trainer(dataclasses.replace(config, out=str(tmp_path / "run")), quiet=True)
    first.env.set_reset_pool({"x": POOL})
    first.train(iterations=2)
    first.close()
    second = Trainer.resume(tmp_path / "run", quiet=True)
    assert torch.equal(second.env.pool["x"], POOL)
    second.train()
    assert_same({**load_checkpoint(tmp_path / "run"), "config": 0}, {**load_checkpoint(tmp_path / "whole"), "config": 0})


def test_a_pool_of_kernels_is_in_the_checkpoint(tmp_path):
    config = TrainConfig("WarpCartPole-v1", 4, 4 * 8 * 10, device="cpu", env_kwargs={"max_episode_steps": 5},
                         ppo=PPOConfig(num_steps=8, num_minibatches=2))  # fmt: skip
    states = []
    for stop in (None, 3):
        trainer = Trainer(config, quiet=True)
        trainer.env.set_reset_pool(trainer.env.draw_start_states(6, seed=11))
        trainer.train(stop)
        if stop:
            trainer = Trainer.resume(trainer.save(tmp_path / "a.pt"), quiet=True)
            assert len(trainer.env.get_reset_pool()["state"]) == 6
            trainer.train()
        assert trainer.env.get_state("pool_entry")["pool_entry"].min() >= 0
        states.append({key: value for key, value in trainer.state_dict().items() if key != "config"})
    assert_same(*states)
    without = Trainer.resume(Trainer(config, quiet=True).save(tmp_path / "b.pt"), quiet=True)
    assert without.env.get_reset_pool() == {}


def test_a_run_goes_on_from_its_own_state_with_the_same_bits(config):
    whole, run = Trainer(config, quiet=True), Trainer(config, quiet=True)
    run.train(2)
    state = copy.deepcopy(run.state_dict())
    run.train(3)
    run.load_state_dict(state, "memory")
    assert run.iteration == 2
    run.train(), whole.train()
    assert_same(run.state_dict(), whole.state_dict())


RUNS = {
    "ppo": TrainConfig("WarpCartPole-v1", ppo=PPOConfig(num_steps=8, num_minibatches=2)),
    "memory": TrainConfig("WarpCartPole-v1", ppo=PPOConfig(num_steps=8, sequence_length=8), network=NetworkConfig(memory="gru")),
    "sac": TrainConfig("WarpPendulum-v1", algorithm="sac", algorithms={"sac": {"learning_starts": 16, "batch_size": 8}}),
    "td3": TrainConfig("WarpPendulum-v1", algorithm="td3", algorithms={"td3": {"learning_starts": 16, "batch_size": 8}}),
    "pqn": TrainConfig("WarpCartPole-v1", algorithm="pqn", algorithms={"pqn": {"num_steps": 8, "num_minibatches": 2}}),
}
RUNS = {name: dataclasses.replace(run, num_envs=8, total_steps=8 * 8 * 20, device="cpu") for name, run in RUNS.items()}


def tensors(state, path=()):
    """Return the tensors of a nested mapping by path."""
    if isinstance(state, torch.Tensor):
        return {path: state}
    items = state.items() if isinstance(state, dict) else ()
    return {place: x for name, value in items for place, x in tensors(value, (*path, name)).items()}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_state_is_taken_in_place(run):
    """CUDA graphs of a run hold the addresses of its tensors. Some tensors of ``state_dict()`` are copies."""
    trainer = Trainer(run, quiet=True)
    trainer.train(4)
    before, again = (tensors(trainer.state_dict()) for _ in range(2))
    live = {path for path, x in before.items() if x.data_ptr() == again[path].data_ptr() and x.numel()}
    assert {path[0] for path in live} >= {"policies", "algorithms", "episodes"}
    trainer.load_state_dict(copy.deepcopy(trainer.state_dict()), "memory")
    after = tensors(trainer.state_dict())
    assert [path for path in live if after[path].data_ptr() != before[path].data_ptr()] == []


@pytest.mark.gpu
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("run", RUNS)
def test_a_captured_run_goes_on_from_its_state_with_the_same_bits(run, way):
    if way == "fused" and run not in ("ppo", "memory"):
        pytest.skip("has no fused kernels")
    config = dataclasses.replace(RUNS[run], device="cuda:0", **WAYS[way])
    whole, other = Trainer(config, quiet=True), Trainer(config, quiet=True)
    other.train(7)
    state = copy.deepcopy(other.state_dict())
    other.train(5)
    other.load_state_dict(state, "memory")
    other.train(), whole.train()
    assert_same(other.state_dict(), whole.state_dict())


def test_a_damaged_state_is_refused(config, tmp_path):
    run = Trainer(config, quiet=True)
    run.train(1)
    state = run.state_dict()
    for damage in ({"config": 3}, {"iteration": -1}, {"policies": {}}):
        with pytest.raises(CheckpointError, match=re.escape("a.ckpt: ")):
            run.load_state_dict(state | damage, tmp_path / "a.ckpt")
    missing = {name: value for name, value in state.items() if name != "best"}
    with pytest.raises(CheckpointError, match="expected keys"):
        run.load_state_dict(missing, "a.ckpt")
    run.launch()
    with pytest.raises(SequenceError, match="expected no iteration in flight"):
        run.load_state_dict(state, "a.ckpt")


def test_a_state_of_a_run_with_other_options_is_refused(config):
    run = Trainer(config, quiet=True)
    with pytest.raises(ConfigError, match=r"seed: expected \d+, as in the run that is resumed, got \d+"):
        Trainer(dataclasses.replace(config, seed=config.seed + 1), quiet=True).load_state_dict(run.state_dict(), "memory")


@pytest.mark.parametrize(
    "pool", [{"x": POOL}, {"state": torch.zeros(3, 5)}, {"state": torch.zeros(0, 4)}, {"state": torch.zeros(3, 4).to_sparse()},
             {"state": None}, {"state": torch.zeros(3, 4, device="meta")}],
)  # fmt: skip
def test_a_damaged_pool_raises_an_error(tmp_path, pool):
    trainer = Trainer(TrainConfig("WarpCartPole-v1", 2, 64, device="cpu"), quiet=True)
    trainer.state_dict, state = lambda: {**state, "reset_pool": pool}, trainer.state_dict()
    with pytest.raises(CheckpointError, match=re.escape(f"{tmp_path}/a.pt: ")):
        Trainer.resume(trainer.save(tmp_path / "a.pt"), quiet=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "now", "difference"),
    [((), ("mark",), r"without \['mark'\]"), (("mark",), (), r"with \['mark'\]"),
     (("mark",), ("sign",), r"without \['sign'\] and with \['mark'\]")],
)  # fmt: skip
def test_a_run_of_an_env_with_other_state_fields_is_not_resumed_and_the_error_names_them(tmp_path, before, now, difference):
    def register(fields):
        spec = dataclasses.replace(SPEC, state=(*SPEC.state, *(Field(name, "uint16", (), "unused") for name in fields)))
        gymnasium.register("Changed-v0", vector_entry_point=functools.partial(GpuVectorEnv, spec))

    config = TrainConfig("Changed-v0", 2, 2 * 4 * 3, device="cpu", ppo=PPOConfig(num_steps=4, num_minibatches=1))
    register(before)
    try:
        run = trained(config, tmp_path / "run", 1)
        del gymnasium.registry["Changed-v0"]
        register(now)
        expected = rf"000001.pt: expected the state fields of the env, \[.*\], got a file {difference}: "
        with pytest.raises(CheckpointError, match=expected):
            Trainer.resume(run, quiet=True)
        assert evaluate(run, episodes=2).episodes == 2  # policies do not depend on the state
    finally:
        del gymnasium.registry["Changed-v0"]
