"""Learning, compared with random play over three seeds. Each test takes minutes."""

import dataclasses

import pytest

from gpu_vecenv.train import TrainConfig, Trainer, evaluate
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
