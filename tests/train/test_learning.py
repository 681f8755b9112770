"""Learning, measured against random play over three seeds. Minutes a test."""

import pytest

from gpu_vecenv.train import TrainConfig, Trainer, evaluate
from gpu_vecenv.train.presets import SMALL_TAG

EPISODES = 256
OPEN_SEED = 1000
"""Worlds of the evaluation start from a seed that no training used."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.parametrize("seed", [0, 1, 2])]


def train(config, path):
    trainer = Trainer(config, quiet=True)
    trainer.train()
    trainer.save(path)
    trainer.close()
    return str(path)


def test_cartpole_is_solved(seed, tmp_path):
    checkpoint = train(TrainConfig("WarpCartPole-v1", seed=seed, device="cpu"), tmp_path / "cartpole.pt")
    result = evaluate(checkpoint, EPISODES, seed=OPEN_SEED)
    print(f"seed {seed}: {result}")
    assert result.mean_return["agent"] >= 475.0


def test_both_sides_of_tag_learn(seed, tmp_path):
    def config(steps, runner, **options):
        roles = {"tagger": "tagger", "runner": runner}
        return TrainConfig(
            "WarpTag-v0", 64, steps, seed, "cpu", env_kwargs=SMALL_TAG, policy_map=roles, **options
        )

    taggers = train(config(400_000, "random"), tmp_path / "taggers.pt")
    trained = evaluate(taggers, EPISODES, seed=OPEN_SEED)
    random = evaluate(taggers, EPISODES, {"tagger": "random"}, seed=OPEN_SEED)
    print(f"seed {seed}: taggers {trained}, random {random}")
    assert trained.mean_exits["runner"] >= 2.0 * random.mean_exits["runner"]

    fixed = {"frozen": ("tagger",), "load_policies": {"tagger": taggers}}
    runners = train(config(200_000, "runner", **fixed), tmp_path / "runners.pt")
    escaped = evaluate(runners, EPISODES, seed=OPEN_SEED)
    caught = evaluate(runners, EPISODES, {"runner": "random"}, seed=OPEN_SEED)
    print(f"seed {seed}: runners {escaped}, random {caught}")
    assert escaped.mean_survival["runner"] > caught.mean_survival["runner"] + 5.0
