"""Checkpoints with a right digest and one random value: they raise typed errors, or go on from exactly what they hold."""

import copy
import dataclasses
import json
import random

import pytest
import torch
from test_checkpoint import put

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.train import CheckpointError, NetworkConfig, PPOConfig, TrainConfig, Trainer, evaluate, load_checkpoint
from gpu_vecenv.train.run_folder.checkpoint_file import save_checkpoint

SMALL = {"ppo": PPOConfig(num_steps=8, num_epochs=1, num_minibatches=1), "network": NetworkConfig((8,)), "device": "cpu"}
ADAPTIVE = dataclasses.replace(SMALL["ppo"], learning_rate_schedule="adaptive", target_kl=0.01)
TAG = {"num_taggers": 2, "num_runners": 3, "num_other_agents_observed": 2, "episode_length": 10}
RUNS = (
    TrainConfig("WarpCartPole-v1", num_envs=4, total_steps=4 * 8 * 2, **SMALL),
    TrainConfig("WarpTag-v0", num_envs=2, total_steps=2 * 8 * 2, env_kwargs=TAG, **{**SMALL, "ppo": ADAPTIVE}),
)


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The checkpoints of two short runs."""
    states = []
    for config in RUNS:
        trainer = Trainer(config, quiet=True)
        trainer.train()
        states.append(load_checkpoint(trainer.save(tmp_path_factory.mktemp("states") / "whole.pt")))
        trainer.close()
    return states


def test_a_damaged_name_of_the_algorithm_is_an_error(states, tmp_path):
    state, path = copy.deepcopy(states[0]), tmp_path / "damaged.pt"
    state["config"] = json.dumps(json.loads(state["config"]) | {"algorithm": "../../x"})
    save_checkpoint(path, state)
    with pytest.raises(GpuVecenvError, match="algorithm|normalize_observations"):
        evaluate(path, episodes=2)


def leaves(value, keys=()):
    """Paths of all values inside dicts and lists."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, x in inside:
        yield (*keys, key)
        yield from leaves(x, (*keys, key))


def at(value, keys):
    for key in keys:
        value = value[key]
    return value


ANY = [
    None, 0, -1, 2**31, 2**63, 10**30, 1.5, float("nan"), float("inf"), "x", "", True, [], {}, [1, 2], {"a": 1}, {1: 2}, (), b"x",
    torch.zeros(()), torch.zeros(0), torch.zeros(3), torch.full((4,), float("nan")), torch.zeros(4, dtype=torch.int64),
    torch.zeros(2, device="meta"), torch.zeros(4).to_sparse(), torch.zeros(1).expand(1000),
]  # fmt: skip
OPTIONS = [
    None, 0, -1, 1, 2, 2**31, 2**62, 10**30, 1.5, "x", "cpu", "random", True, False, [], {}, [1], {"a": 1}, {"agent": "random"},
    {"tagger": "a", "runner": "a"}, [0], [10**9], "WarpPendulum-v1", "WarpTag-v0", "../../x", [8, 8], float("nan"),
]  # fmt: skip


def other_value(value, rng):
    """A value in place of another: any, or one of its kind with other numbers."""
    others = list(ANY)
    if isinstance(value, torch.Tensor):
        others += [value.flatten(), value[..., None], value.tolist(), value.double(), value.float()]
        others += [value[:0], torch.cat([value, value])] if value.dim() else []
        numbers = [0, 1]
        if value.is_floating_point():
            numbers += [3e38, -3e38, 1e-45, 1e10, float("nan"), float("inf")]
        elif value.dtype != torch.bool:
            numbers += [127, torch.iinfo(value.dtype).min, torch.iinfo(value.dtype).max]
        others += [torch.full_like(value, number) for number in numbers] * 3
    elif isinstance(value, dict) and value:
        name = rng.choice(list(value))
        others += [{k: x for k, x in value.items() if k != name}, {**value, "extra": 1}, dict(reversed(value.items()))] * 3
    elif isinstance(value, int | float) and not isinstance(value, bool):
        others += [value + 1, value - 1, -value, value * 1e9] * 2
    return rng.choice(others)


def equal(a, b):
    """True for values that are the same to the last bit; NaN equals NaN."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a.nan_to_num(7.25), b.nan_to_num(7.25))
    return type(a) is type(b) and repr(a) == repr(b)


def changed(state, rng):
    """Return a copy of a checkpoint's content with one other value, in its options or elsewhere; and a text that names it."""
    state = copy.deepcopy(state)
    if rng.random() < 0.3:
        options = json.loads(state["config"])
        keys, value = rng.choice(list(leaves(options))), rng.choice(OPTIONS)
        put(options, keys, value)
        state["config"] = json.dumps(options)
    else:
        keys = rng.choice([keys for keys in leaves(state) if keys != ("config",)])
        value = other_value(at(state, keys), rng)
        put(state, keys, value)
    return state, f"{keys} = {value!r}"[:300]


def resumed(path):
    """Resume and train an iteration; return the state that the trainer had before it, and the one that it should have."""
    held = load_checkpoint(path)
    trainer = Trainer.resume(path, quiet=True, out=None, total_steps=10**6)
    try:
        before = load_checkpoint(trainer.save(path.with_name("again.pt")))
        trainer.train(1)
    finally:
        trainer.close()
    for name, algorithm in held["algorithms"].items():
        if trainer.config.options_of(name).learning_rate_schedule != "adaptive":  # only this one has a factor
            algorithm["factor"] = torch.ones(())
    return before, held


@pytest.mark.parametrize("count", [20, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
def test_random_states_raise_typed_errors_or_are_taken_unchanged(states, tmp_path, count):
    rng, path = random.Random(count), tmp_path / "changed.pt"
    refused = 0
    for _ in range(count):
        state, what = changed(rng.choice(states), rng)
        save_checkpoint(path, state)
        for use in (resumed, lambda path: evaluate(path, episodes=2)):
            try:
                result = use(path)
            except GpuVecenvError as error:
                refused += isinstance(error, CheckpointError)
                continue
            except Exception as error:
                raise AssertionError(what) from error
            if use is resumed:
                before, held = result
                assert all(equal(before[key], held[key]) for key in held if key != "config"), what
    assert 0.4 * count < refused < 1.6 * count
