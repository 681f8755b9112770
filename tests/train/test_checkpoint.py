"""Checkpoints: damage is found and named, saving cannot destroy, going on is exact."""

import dataclasses
import os
import pickle
import re
import struct
import zipfile

import pytest
import torch
from tag_stand_in import TagStandIn

from gpu_vecenv.train import CheckpointError, RunExistsError, Trainer, load_checkpoint
from gpu_vecenv.train.checkpoint import FORMAT, save_checkpoint
from gpu_vecenv.train.logger import read_metrics


@pytest.fixture
def saved(config, tmp_path):
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=1)
    return trainer.save(tmp_path / "run.pt")


def flatten(x, prefix=""):
    if isinstance(x, dict):
        return {k: v for key in x for k, v in flatten(x[key], f"{prefix}/{key}").items()}
    if isinstance(x, list):
        return {k: v for i, item in enumerate(x) for k, v in flatten(item, f"{prefix}/{i}").items()}
    return {prefix: x}


def assert_same(a, b):
    a, b = flatten(a), flatten(b)
    assert a.keys() == b.keys()
    for name, x in a.items():
        same = torch.equal(x, b[name]) if isinstance(x, torch.Tensor) else x == b[name]
        assert same, name


@pytest.mark.parametrize(
    "policy_map", [None, {"catcher": "one", "runner": "one"}], ids=["separate", "shared"]
)
def test_interrupted_equals_uninterrupted(config, tmp_path, policy_map):
    config = dataclasses.replace(config, policy_map=policy_map, out=str(tmp_path / "run"))
    whole = Trainer(config, quiet=True)
    whole.train()
    (tmp_path / "run").rename(tmp_path / "whole")
    first = Trainer(config, quiet=True)
    first.train(iterations=3)
    # In the middle of episodes, or the test would not see a forgotten env state or running return.
    assert 0 < first.env.t[0] < 7
    second = Trainer.resume(tmp_path / "run", quiet=True)
    assert second.iteration == 3
    second.train()
    assert second.iteration == whole.iteration == 6
    assert_same(*(load_checkpoint(tmp_path / name) for name in ("whole", "run")))
    # The return of an episode that was cut in two shows in the metrics and nowhere else.
    lines = [read_metrics(tmp_path / name) for name in ("whole", "run")]
    for line in (*lines[0], *lines[1]):
        del line["steps_per_second"]
    assert len(lines[0]) == 6 and lines[0] == lines[1]


def test_a_run_really_changes_the_policies(config, tmp_path):
    """Guards the test above: comparing two runs that do nothing would prove nothing."""
    trainer = Trainer(config, quiet=True)
    before = load_checkpoint(trainer.save(tmp_path / "a.pt"))
    trainer.train(iterations=1)
    after = load_checkpoint(trainer.save(tmp_path / "b.pt"))
    for name in ("catcher", "runner"):
        weights = [state["policies"][name]["actor.0.weight"] for state in (before, after)]
        assert not torch.equal(*weights)


def test_one_flipped_bit_in_any_record_is_noticed(saved):
    with zipfile.ZipFile(saved) as archive:
        records = [record for record in archive.infolist() if record.file_size]
    whole = saved.read_bytes()
    assert len(records) > 20
    for record in records:
        # A local header is 30 bytes, then the name and an extra field whose lengths it holds.
        name, extra = struct.unpack_from("<HH", whole, record.header_offset + 26)
        data = bytearray(whole)
        data[record.header_offset + 30 + name + extra + record.file_size // 2] ^= 1
        saved.write_bytes(data)
        with pytest.raises(
            CheckpointError, match=f"{saved}: damaged, the checksum of {record.filename} does not"
        ):
            load_checkpoint(saved)


@pytest.mark.parametrize("size", [0, 100, 5000, -1])
def test_cut_files_are_noticed(saved, size):
    data = saved.read_bytes()
    saved.write_bytes(data[:size])
    with pytest.raises(CheckpointError, match=f"{saved}: expected a checkpoint, got an unreadable file"):
        load_checkpoint(saved)


def test_missing_file(tmp_path):
    with pytest.raises(CheckpointError, match="none.pt: expected a checkpoint file, got none"):
        load_checkpoint(tmp_path / "none.pt")
    with pytest.raises(CheckpointError, match="latest.pt: expected a checkpoint file, got none"):
        load_checkpoint(tmp_path)


def test_foreign_files(tmp_path, saved):
    path = tmp_path / "foreign.pt"
    torch.save({"weights": torch.zeros(3)}, path)
    with pytest.raises(
        CheckpointError, match=f"expected a {FORMAT} checkpoint, got a file of something else"
    ):
        load_checkpoint(path)
    state = load_checkpoint(saved)
    torch.save({**state, "version": 99}, path)
    with pytest.raises(CheckpointError, match="expected format version 1, got 99"):
        load_checkpoint(path)
    del state["learners"]
    torch.save(state, path)
    with pytest.raises(CheckpointError, match=r"got a file without \['learners'\]"):
        load_checkpoint(path)


class Bomb:
    """Runs code when unpickled in the ordinary way."""

    def __reduce__(self):
        return os.mkdir, ("bomb_went_off",)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (torch.save, "expected tensors, .* only, got objects that could run code; not loaded$"),
        (lambda x, path: path.write_bytes(pickle.dumps(x)), "unreadable file"),
    ],
)
def test_code_in_a_file_is_not_run(tmp_path, monkeypatch, write, said):
    monkeypatch.chdir(tmp_path)
    write({"format": FORMAT, "version": 1, "config": Bomb()}, tmp_path / "bomb.pt")
    with pytest.raises(CheckpointError, match=f"bomb.pt: .*{said}"):
        load_checkpoint(tmp_path / "bomb.pt")
    assert not (tmp_path / "bomb_went_off").exists()


def test_a_failed_save_keeps_the_last_good_one(saved, monkeypatch):
    good = saved.read_bytes()

    def full_disk(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_checkpoint(saved, {"config": "{}"})
    assert saved.read_bytes() == good
    assert os.listdir(saved.parent) == [saved.name]


def put(state, keys, value):
    """Set ``state[keys[0]][keys[1]]...`` to ``value``."""
    for key in keys[:-1]:
        state = state[key]
    state[keys[-1]] = value


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        ("policies catcher actor.0.weight", torch.zeros(3, 3), "expected the state of this run's env and policies"),
        ("policies catcher", 3, "expected the state of this run's env and policies"),
        ("learners runner optimizer param_groups", [], "expected the state of this run's env and policies"),
        ("learners runner optimizer", None, "expected the state of this run's env and policies"),
        ("collector obs", None, "expected the state of this run's env and policies"),
        ("collector generator", torch.zeros(3, dtype=torch.uint8), "expected the state of this run's env"),
        ("episodes", {}, "expected the state of this run's env and policies"),
        ("config", "{", "expected a run's options"),
        ("config", "[]", "expected a run's options"),
        ("config", '{"env_id": "A", "gama": 1}', "expected a run's options, got TrainConfig option"),
        ("config", "{}", "expected a run's options"),
        ("config", 7, "expected config of type str, got int"),
        ("iteration", "7", "expected iteration of type int, got str"),
        ("policies", [], "expected policies of type dict, got list"),
    ],
)
def test_damaged_contents_are_named(saved, keys, value, said, monkeypatch):
    closed = []
    monkeypatch.setattr(TagStandIn, "close", lambda env: closed.append(env))
    state = load_checkpoint(saved)
    put(state, keys.split(), value)
    save_checkpoint(saved, state)
    with pytest.raises(CheckpointError, match=re.escape(f"{saved}: {said}")):
        Trainer.resume(saved, quiet=True)
    assert len(closed) == ("state of" in said)


def test_going_on_on_another_kind_of_device(saved, capsys):
    """As if the run had been on a GPU, whose generators have a state of another size."""
    state = load_checkpoint(saved)
    state["collector"].update(generator_device="cuda", generator=torch.zeros(16, dtype=torch.uint8))
    save_checkpoint(saved, state)
    draws = []
    for iteration in (1, 1, 2):
        save_checkpoint(saved, {**state, "iteration": iteration})
        trainer = Trainer.resume(saved)
        said = f"{saved}: from cuda to cpu, so the continuation is not bit-identical\n"
        assert capsys.readouterr().out == said
        draws.append(torch.rand(5, generator=trainer.generator))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert not torch.equal(draws[0], torch.rand(5, generator=torch.Generator().manual_seed(0)))
    trainer.train(iterations=1)


def test_a_new_run_does_not_overwrite_another(config, tmp_path):
    config = dataclasses.replace(config, out=str(tmp_path / "run"))
    Trainer(config, quiet=True).train(iterations=1)
    with pytest.raises(RunExistsError, match=f"{re.escape(config.out)}: .*go on with --resume .*choose another --out"):
        Trainer(config, quiet=True)
