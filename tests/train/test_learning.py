"""Learning, compared with random play over three seeds. Each test takes minutes."""

import dataclasses

import pytest

from gpu_vecenv.envs.catalysis.optimum import best_return, lowest_barrier
from gpu_vecenv.envs.catalysis.spec import SPEC
from gpu_vecenv.train import NetworkConfig, TrainConfig, Trainer, evaluate, play
from gpu_vecenv.train.config import SMALL_TAG

EPISODES = 256
EVALUATION_SEED = 1000
"""Seed of the evaluation's worlds; no training uses it."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.parametrize("seed", [0, 1, 2])]


def train(config, path):
    trainer = Trainer(config, quiet=True)
    trainer.train()
    trainer.save(path)
    trainer.close()
    return str(path)


def test_cartpole_is_solved(seed, tmp_path):
    checkpoint = train(TrainConfig("WarpCartPole-v1", seed=seed, device="cpu"), tmp_path / "cartpole.pt")
    result = evaluate(checkpoint, EPISODES, seed=EVALUATION_SEED)
    print(f"seed {seed}: {result}")
    assert result.mean_return["agent"] >= 475.0


def test_recall_is_solved_with_a_memory_and_not_without(seed, tmp_path):
    for memory, hidden in (("gru", ()), ("lstm", ()), (None, (64, 64))):
        config = TrainConfig("WarpRecall-v0", network=NetworkConfig(hidden, memory=memory), seed=seed, device="cpu")
        checkpoint = train(config, tmp_path / f"{memory}.pt")
        result = evaluate(checkpoint, 1024, seed=EVALUATION_SEED)
        print(f"seed {seed}, {memory}: {result}")
        share = result.mean_return["agent"]
        assert share >= 0.95 if memory else abs(share - 0.25) < 0.055  # four standard errors


def test_a_policy_finds_the_lowest_barrier_of_a_surface(seed, tmp_path):
    """The best return of the surface is that of the path with the lowest barrier."""
    checkpoint = train(TrainConfig("WarpCatalysis-v0", seed=seed, device="cpu"), tmp_path / "catalysis.pt")
    *_, last = play(checkpoint, deterministic=True, device="cpu")
    params = SPEC.resolve({})
    assert evaluate(checkpoint, 4, deterministic=True).mean_return["agent"] == pytest.approx(best_return(params).total, abs=1e-4)
    assert last["episode_barrier"] == pytest.approx(lowest_barrier(params), abs=1e-4)


def test_both_sides_of_tag_learn(seed, tmp_path):
    game = dataclasses.replace(SMALL_TAG, seed=seed, device="cpu")
    roles = {"tagger": "tagger", "runner": "random"}
    taggers = train(dataclasses.replace(game, policy_map=roles), tmp_path / "taggers.pt")
    trained = evaluate(taggers, EPISODES, seed=EVALUATION_SEED)
    random = evaluate(taggers, EPISODES, {"tagger": "random"}, seed=EVALUATION_SEED)
    print(f"seed {seed}: taggers {trained}, random {random}")
    assert trained.mean_exits["runner"] >= 2.0 * random.mean_exits["runner"]

    opponent = {"frozen": ("tagger",), "load_policies": {"tagger": taggers}}
    runners = train(dataclasses.replace(game, total_steps=200_000, **opponent), tmp_path / "runners.pt")
    escaped = evaluate(runners, EPISODES, seed=EVALUATION_SEED)
    caught = evaluate(runners, EPISODES, {"runner": "random"}, seed=EVALUATION_SEED)
    print(f"seed {seed}: runners {escaped}, random {caught}")
    assert escaped.mean_survival["runner"] > caught.mean_survival["runner"] + 5.0
