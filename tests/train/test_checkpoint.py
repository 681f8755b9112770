"""Checkpoints: damage is found and named, a failed save destroys nothing, and a resumed run is exact."""

import dataclasses
import hashlib
import io
import os
import pickle
import re
import zipfile

import pytest
import torch
from tag_stand_in import TagStandIn
from torch import nn

from gpu_vecenv.train import CheckpointError, PolicyConfig, RunExistsError, TrainConfig, Trainer, load_checkpoint
from gpu_vecenv.train.run_folder.checkpoint_file import FORMAT, VERSION, save_checkpoint
from gpu_vecenv.train.run_folder.metrics import read_metrics


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
    ("policy_map", "settings"),
    [
        (None, {}), ({"catcher": "one", "runner": "one"}, {}),
        (None, {"learning_rate_schedule": "adaptive", "target_kl": 1.0}),
    ],
    ids=["separate", "shared", "adaptive"],
)  # fmt: skip
def test_an_interrupted_run_equals_an_uninterrupted_one(config, tmp_path, policy_map, settings):
    ppo = dataclasses.replace(config.ppo, **settings)
    config = dataclasses.replace(config, ppo=ppo, policy_map=policy_map, out=str(tmp_path / "run"))
    whole = Trainer(config, quiet=True)
    whole.train()
    whole.close()
    (tmp_path / "run").rename(tmp_path / "whole")
    first = Trainer(config, quiet=True)
    first.train(iterations=3)
    # In the middle of episodes, so that a lost env state or running return would be found.
    assert 0 < first.env.t[0] < 7
    first.close()
    second = Trainer.resume(tmp_path / "run", quiet=True)
    assert second.iteration == 3
    second.train()
    assert second.iteration == whole.iteration == 6
    assert_same(*(load_checkpoint(tmp_path / name) for name in ("whole", "run")))
    # The return of an episode that spans the interruption shows in the metrics only.
    lines = [read_metrics(tmp_path / name) for name in ("whole", "run")]
    for line in (*lines[0], *lines[1]):
        del line["steps_per_second"]
    assert len(lines[0]) == 6 and lines[0] == lines[1]
    if settings:  # the rate has risen before the interruption
        assert lines[0][2]["learning_rate/catcher"] > config.ppo.learning_rate


def test_a_run_changes_the_policies(config, tmp_path):
    """Checks the test above, which could not fail if training changed no weights."""
    trainer = Trainer(config, quiet=True)
    before = load_checkpoint(trainer.save(tmp_path / "a.pt"))
    trainer.train(iterations=1)
    after = load_checkpoint(trainer.save(tmp_path / "b.pt"))
    for name in ("catcher", "runner"):
        weights = [state["policies"][name]["network.actor_layers.0.weight"] for state in (before, after)]
        assert not torch.equal(*weights)


def test_a_directory_bit_in_the_archive_is_found(saved):
    """PyTorch reads a record with the DOS attribute of a folder as empty and leaves its tensor uninitialised."""
    whole = saved.read_bytes()
    entries = [match.start() for match in re.finditer(b"PK\x01\x02", whole)]
    assert len(entries) > 20
    for entry in entries:
        data = bytearray(whole)
        data[entry + 38] ^= 0x10
        saved.write_bytes(data)
        with pytest.raises(CheckpointError, match=f"{saved}: damaged, expected the SHA-256 in its first line"):
            load_checkpoint(saved)


@pytest.mark.parametrize(
    ("size", "said"),
    [(0, "expected a .* checkpoint"), (50, "expected a .* checkpoint"), (100, "damaged"), (5000, "damaged"), (-1, "damaged")],
)
def test_files_cut_short_are_found(saved, size, said):
    data = saved.read_bytes()
    saved.write_bytes(data[:size])
    with pytest.raises(CheckpointError, match=f"{saved}: {said}"):
        load_checkpoint(saved)


def test_records_compressed_afterwards_are_found(saved):
    header, content = saved.read_bytes().split(b"\n", 1)
    compressed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as new:
        for record in old.infolist():
            new.writestr(record.filename, old.read(record))
    saved.write_bytes(header + b"\n" + compressed.getvalue())
    with pytest.raises(CheckpointError, match=f"{saved}: damaged"):
        load_checkpoint(saved)


def test_a_missing_file_raises_an_error(tmp_path):
    with pytest.raises(CheckpointError, match="none.pt: expected a checkpoint file, got none"):
        load_checkpoint(tmp_path / "none.pt")
    with pytest.raises(CheckpointError, match="/checkpoint: expected a checkpoint file, got none"):
        load_checkpoint(tmp_path)
    for name in ("seed-0", "seed-1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").touch()
    with pytest.raises(CheckpointError, match="expected the folder of one run, such as .*/seed-0, got a folder of 2 runs"):
        load_checkpoint(tmp_path)


def test_files_of_other_kinds_and_versions_raise_errors(tmp_path, saved):
    path = tmp_path / "foreign.pt"
    torch.save({"format": FORMAT, "version": 1}, path)
    with pytest.raises(CheckpointError, match="of format version 3, got a file of format version 1 or another kind of file"):
        load_checkpoint(path)
    path.write_text("no checkpoint")
    with pytest.raises(CheckpointError, match="of format version 3, got another kind of file"):
        load_checkpoint(path)
    path.write_bytes(saved.read_bytes().replace(b"checkpoint 3 ", b"checkpoint 99 ", 1))
    with pytest.raises(CheckpointError, match="expected format version 3, got 99. To go on, finish the run with"):
        load_checkpoint(path)
    state = load_checkpoint(saved)
    del state["algorithms"]
    save_checkpoint(path, state)
    with pytest.raises(CheckpointError, match=r"got a file without \['algorithms'\]"):
        load_checkpoint(path)
    save_checkpoint(path, [state])
    with pytest.raises(CheckpointError, match="expected a dict, got list"):
        load_checkpoint(path)


class Bomb:
    """Object that runs code when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("bomb_went_off",)


def test_code_in_a_file_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "bomb.pt", {"config": Bomb()})
    with pytest.raises(CheckpointError, match="bomb.pt: expected tensors, .* only, got objects that could run code; not loaded$"):
        load_checkpoint(tmp_path / "bomb.pt")
    content = pickle.dumps(Bomb(), protocol=2)
    header = f"{FORMAT} checkpoint {VERSION} {hashlib.sha256(content).hexdigest()}\n"
    (tmp_path / "bomb.pt").write_bytes(header.encode() + content)
    with pytest.raises(CheckpointError, match="bomb.pt: expected tensors, .* only, got objects that could run code; not loaded$"):
        load_checkpoint(tmp_path / "bomb.pt")
    assert not (tmp_path / "bomb_went_off").exists()


def test_a_failed_save_keeps_the_old_checkpoint(saved, monkeypatch):
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
        (
            "policies catcher network.actor_layers.0.weight", torch.zeros(3, 3),
            "policies/catcher/network.actor_layers.0.weight: expected a tensor of float32",
        ),
        ("algorithms runner adam", None, "algorithms/runner/adam: expected a dict with the keys [0, 1, 2, 3"),
        ("collector roles", {"": None}, "collector/roles/: expected a dict with the keys ['obs'], got a NoneType"),
        ("collector alive", torch.zeros(4, 3), "collector/alive: expected a tensor of bool and shape (4, 5)"),
        ("algorithms nobody", {}, "algorithms: expected policies out of ['catcher', 'runner'], got ['nobody']"),
        ("episodes", {}, "episodes: expected a dict with the keys ['catcher', 'runner'], got a dict without"),
        ("config", '{"env_id": "A", "gama": 1}', "expected a run's options and state, got TrainConfig option"),
        ("config", "{}", "expected a run's options and state, got options: expected a mapping with an env_id"),
        ("iteration", "7", "expected iteration of type int, got str"),
        ("policies", [], "expected policies of type dict, got list"),
    ],
)
def test_damaged_contents_are_named(saved, keys, value, said):
    state = load_checkpoint(saved)
    put(state, keys.split(), value)
    save_checkpoint(saved, state)
    with pytest.raises(CheckpointError, match=re.escape(f"{saved}: {said}")):
        Trainer.resume(saved, quiet=True)


def test_an_env_made_for_a_damaged_checkpoint_is_closed(saved, monkeypatch):
    closed = []
    monkeypatch.setattr(TagStandIn, "close", lambda env: closed.append(env))
    save_checkpoint(saved, {**load_checkpoint(saved), "episodes": {}})
    with pytest.raises(CheckpointError):
        Trainer.resume(saved, quiet=True)
    assert len(closed) == 1


def test_resuming_on_another_kind_of_device_is_announced_and_works(saved, capsys):
    state = load_checkpoint(saved)
    save_checkpoint(saved, {**state, "config": state["config"].replace('"device": "cpu"', '"device": "cuda:0"')})
    trainer = Trainer.resume(saved, device="cpu")
    said = f"{saved}: moved from cuda:0 to cpu; the rest of the run is not bit-identical to an uninterrupted one\n"
    assert capsys.readouterr().out == said
    trainer.train(iterations=1)


def test_a_new_run_does_not_overwrite_another(config, tmp_path):
    config = dataclasses.replace(config, out=str(tmp_path / "run"))
    Trainer(config, quiet=True).train(iterations=1)
    with pytest.raises(RunExistsError, match=f"{re.escape(config.out)}: .*continue the run with --resume .*choose another --out"):
        Trainer(config, quiet=True)


class Tiny(nn.Module):
    """A network with fewer weights than the built-in one of the options."""

    def __init__(self):
        super().__init__()
        self.outputs, self.value = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, obs):
        return self.outputs(obs), self.value(obs).squeeze(-1)


@pytest.mark.parametrize("own", [{"networks": True}, {"policies": {"agent": PolicyConfig(network={"hidden_sizes": (2,)})}}])
def test_a_run_with_small_networks_can_be_resumed(own, tmp_path):
    options = {name: value for name, value in own.items() if name != "networks"}
    networks = [{"agent": Tiny()} if "networks" in own else None for _ in range(2)]
    config = TrainConfig("WarpCartPole-v1", num_envs=4, total_steps=256, device="cpu", **options)
    first = Trainer(config, quiet=True, networks=networks[0])
    first.train(iterations=1)
    second = Trainer.resume(first.save(tmp_path / "run.pt"), quiet=True, networks=networks[1])
    assert_same(second.policies["agent"].state_dict(), first.policies["agent"].state_dict())


def test_a_run_of_an_older_version_goes_on(config, tmp_path):
    """Its last episodes are those of agents, which were not stored by world."""
    trainer = Trainer(config, quiet=True)
    trainer.train(iterations=4)
    state = load_checkpoint(trainer.save(tmp_path / "run.pt"))
    for episodes in state["episodes"].values():
        assert episodes["num_recent"] > 0
        episodes["recent"] = episodes["recent"][:2] / episodes["recent"][2:].clamp(min=1)
    save_checkpoint(tmp_path / "old.pt", state)
    resumed = [Trainer.resume(tmp_path / name, quiet=True) for name in ("run.pt", "old.pt")]
    new, old = (each.train() for each in resumed)
    differ = {name.partition("/")[0] for name in new if new[name] != old[name] == old[name]} - {"steps_per_second"}
    assert differ <= {"recent_return", "recent_length"}
