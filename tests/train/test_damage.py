"""Checkpoints with random damage or invalid values: they raise CheckpointError or give the exact run."""

import copy
import hashlib
import json
import os
import random
import warnings

import pytest
import torch
from test_checkpoint import assert_same, put

from gpu_vecenv.train import CheckpointError, NetworkConfig, PPOConfig, TrainConfig, Trainer, evaluate, load_checkpoint
from gpu_vecenv.train.run_folder.checkpoint_file import FORMAT, VERSION, save_checkpoint

CARTPOLE = TrainConfig(
    "WarpCartPole-v1", num_envs=3, total_steps=3 * 4 * 8, device="cpu",
    ppo=PPOConfig(num_steps=4, num_epochs=1, num_minibatches=2), network=NetworkConfig((4,)),
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A checkpoint file after two iterations, and its bytes."""
    path = tmp_path_factory.mktemp("damage") / "whole.pt"
    trainer = Trainer(CARTPOLE, quiet=True)
    trainer.train(iterations=2)
    return path, trainer.save(path).read_bytes()


def damaged(data, rng):
    """Apply one to three changes of kinds that disks, networks and editors make."""
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(data)), rng.choice((1, 2, 8, 512, 4096))
        other = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            del data[at : at + size]
        elif kind == 3:
            data[at : at + size] = bytes(len(data[at : at + size]))
        elif kind == 4:
            data[at : at + size] = data[other : other + size]
        else:
            data[at:at] = rng.randbytes(size)
        if not data:
            break
    return bytes(data)


def with_right_digest(content):
    return f"{FORMAT} checkpoint {VERSION} {hashlib.sha256(content).hexdigest()}\n".encode() + content


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_damaged_files_raise_errors_or_load_the_same(whole, tmp_path, count):
    (path, data), rng = whole, random.Random(count)
    want, damage = load_checkpoint(path), tmp_path / "damaged.pt"
    refused = 0
    for _ in range(count):
        damage.write_bytes(damaged(data, rng))
        try:
            assert_same(load_checkpoint(damage), want)
        except CheckpointError:
            refused += 1
    assert refused > 0.9 * count


@pytest.mark.parametrize("count", [60, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])])
def test_damage_with_a_matching_digest_raises_an_error_or_loads(whole, tmp_path, count):
    """Someone may write contents on purpose: the trainer loads them fully or raises CheckpointError."""
    (_, data), rng = whole, random.Random(count)
    content, forged = data.split(b"\n", 1)[1], tmp_path / "forged.pt"
    refused = 0
    for _ in range(count):
        forged.write_bytes(with_right_digest(damaged(content, rng)))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Trainer.resume(forged, quiet=True).close()
        except CheckpointError:
            refused += 1
    assert 0 < refused < count


def leaves(state, keys=()):
    for key, value in state.items():
        yield (*keys, key)
        if isinstance(value, dict):
            yield from leaves(value, (*keys, key))


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def endless():
    value = {}
    value["policies"] = value
    return value


INVALID_VALUES = [
    None, True, -5, 2**80, float("nan"), "x", [], [[1]], {"x": 1}, nested(100), endless(),
    torch.zeros(2, 3, 5), torch.zeros(7, dtype=torch.int16), torch.zeros(3).to_sparse(), torch.zeros(3, device="meta"),
    torch.zeros(3, dtype=torch.complex64),
]  # fmt: skip
"""Values that fit no part of a checkpoint."""


def all_invalid(state):
    return [(keys, value) for keys in leaves(state) for value in INVALID_VALUES]


@pytest.mark.parametrize("every", [47, pytest.param(1, marks=pytest.mark.slow)])
def test_invalid_values_raise_an_error_anywhere(whole, tmp_path, every):
    path, changed = whole[0], tmp_path / "changed.pt"
    cases = all_invalid(load_checkpoint(path))[::every]
    assert len(cases) > 20
    for keys, value in cases:
        state = load_checkpoint(path)
        put(state, keys, value)
        save_checkpoint(changed, state)
        with pytest.raises(CheckpointError, match="changed.pt: "):
            Trainer.resume(changed, quiet=True)
            pytest.fail(f"{keys} took {value!r}")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_missing_parts_raise_an_error(whole, tmp_path, every):
    path, changed = whole[0], tmp_path / "changed.pt"
    state = load_checkpoint(path)
    for keys in list(leaves(state))[::every]:
        cut = copy.deepcopy(state)
        inner = cut
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]
        save_checkpoint(changed, cut)
        with pytest.raises(CheckpointError, match="changed.pt: "):
            Trainer.resume(changed, quiet=True)
            pytest.fail(f"{keys} may be missing")


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ("iteration", True),
        ("iteration", -5),
        ("iteration", 2**63),
        pytest.param("iteration", 10**5000, id="an iteration too long to print"),
        ("collector env step_count", torch.full((3,), -7, dtype=torch.int32)),
        ("algorithms agent adam 0 step", torch.tensor(-3.0)),
        ("algorithms agent adam 0 step", torch.tensor(float("nan"))),
    ],
)
def test_values_out_of_range_raise_an_error(whole, tmp_path, keys, value):
    state = load_checkpoint(whole[0])
    put(state, [int(key) if key.isdigit() else key for key in keys.split()], value)
    save_checkpoint(tmp_path / "changed.pt", state)
    with pytest.raises(CheckpointError, match="changed.pt: "):
        Trainer.resume(tmp_path / "changed.pt", quiet=True)


NUMBERS = (True, -5, 0.5, 2**80, float("nan"), float("inf"), "x", "", [], {}, "a\0b")
OPTIONS = {
    **dict.fromkeys(("num_envs", "total_steps", "checkpoint_interval", "keep_checkpoints"), (*NUMBERS, 0)),
    **dict.fromkeys(("ppo num_steps", "ppo num_epochs", "ppo num_minibatches"), (*NUMBERS, 0, None)),
    **dict.fromkeys(("ppo gamma", "ppo gae_lambda"), (True, -5, 2, 10**400, float("nan"), "x", None, [])),
    **dict.fromkeys(("ppo learning_rate", "ppo clip_coef", "ppo max_grad_norm"), (True, -5, 0, float("inf"), float("nan"), "x")),
    **dict.fromkeys(("ppo value_coef", "ppo entropy_coef"), (True, float("inf"), float("nan"), 10**400, None, "x", [])),
    **dict.fromkeys(("ppo target_kl", "ppo entropy_coef_final"), (True, float("inf"), float("nan"), 10**400, "x", [])),
    "ppo entropy_schedule": (True, "x", [], {}, [5], [[5]], [[5, "x"]], [[0.5, 1]], [[0, 1]], [[5, 1], [5, 2]], [[5, None]]),
    **dict.fromkeys(("ppo clip_value", "ppo normalize_rewards"), (None, 1, "x", [])),
    "ppo learning_rate_schedule": (None, "x", [], 1),
    "network hidden_sizes": (None, 3, "x", [0], [True], [2**31], [65536, 65536], [4.5]),
    "policies": (5, [], {"catcher": 5}, {"catcher": {"network": {"hidden_sizes": [65536, 65536]}}}),
    "network activation": (None, "x", [], 1),
    "seed": (True, -1, 2**64, 0.5, None, "x", []),
    "env_id": (None, 5, "", "x", "a:b:c", ":WarpCartPole-v1", "WarpCartPole-v1:", "nowhere:Env-v0", "CartPole-v1", "a\ud800", []),
    "device": (None, 5, "", "tpu", []),
    "wandb": (5, "", [], "a\0b"),
    "out": (5, "", [], "a\0b", "a\ud800"),
    "env_kwargs": (None, 5, [], "x", {"x": 1}, {"num_envs": 2}, {"view": "worlds"}, {"wrappers": [1]}, {"gravity": "x"}),
    "policy_map": (5, [], "x", {"agent": 5}, {"agent": None}, {"x": "y"}, {"agent": "a/b"}, {}),
    "frozen": (5, None, "agent", [5], ["x"], ["agent"], {}),
    "load_policies": (5, None, [], {"agent": 5}),
    "ppo": (5, [], "x", {"x": 1}),
    "network": (5, [], "x", {"x": 1}),
    "x": (1,),
}
OPTIONS["num_envs"] = (*OPTIONS["num_envs"], 4, 10**12)
OPTIONS["ppo num_steps"] = (*OPTIONS["ppo num_steps"], 10**6)


@pytest.mark.parametrize("option", OPTIONS)
def test_invalid_options_in_a_checkpoint_raise_an_error(whole, tmp_path, monkeypatch, option):
    monkeypatch.chdir(tmp_path)
    state, changed = load_checkpoint(whole[0]), tmp_path / "changed.pt"
    for value in OPTIONS[option]:
        options = json.loads(state["config"])
        put(options, option.split(), value)
        save_checkpoint(changed, {**state, "config": json.dumps(options)})
        with pytest.raises(CheckpointError, match="changed.pt: "):
            Trainer.resume(changed, quiet=True)
            pytest.fail(f"{option} took {value!r}")
    assert os.listdir() == ["changed.pt"]


TEXTS = ["[" * 10**5, '{"env_kwargs":' * 10**5, "", "null", "5", '"x"', "[]", "{}", "1" * 5000, "NaN"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:20])
def test_texts_that_are_no_options_raise_an_error(whole, tmp_path, text):
    save_checkpoint(tmp_path / "changed.pt", {**load_checkpoint(whole[0]), "config": text})
    for use in (Trainer.resume, evaluate):
        with pytest.raises(CheckpointError, match="changed.pt: expected a run's options"):
            use(tmp_path / "changed.pt")


@pytest.mark.parametrize("option", ["num_envs", "network hidden_sizes", "env_kwargs", "policy_map", "env_id", "device"])
def test_evaluation_raises_an_error_for_invalid_options_too(whole, tmp_path, option):
    state, changed = load_checkpoint(whole[0]), tmp_path / "changed.pt"
    for value in OPTIONS[option]:
        if option == "device" and value == "tpu":
            continue  # evaluation does not use the run's device
        options = json.loads(state["config"])
        put(options, option.split(), value)
        save_checkpoint(changed, {**state, "config": json.dumps(options)})
        with pytest.raises(CheckpointError, match="changed.pt: "):
            evaluate(changed, episodes=2, device="cpu")
            pytest.fail(f"{option} took {value!r}")
