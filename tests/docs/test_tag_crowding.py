"""The measure of how runners of Tag spread over the square."""

import sys
from pathlib import Path

import numpy as np
import torch

from gpu_vecenv.train import TrainConfig, Trainer, evaluate

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import tag_crowding  # noqa: E402


def test_the_fullest_cell_is_that_of_a_histogram():
    rng = np.random.default_rng(0)
    x, y, free = rng.uniform(0, 20, (6, 30)), rng.uniform(0, 20, (6, 30)) ** 2 / 20, rng.random((6, 30)) < 0.6
    x[0], free[1] = 20, False  # at the edge, which belongs to the last cell; a world without runners
    shares = tag_crowding.fullest_share(*map(torch.as_tensor, (x, y, free)), side=20.0)
    for world in range(6):
        counts = np.histogram2d(x[world][free[world]], y[world][free[world]], bins=5, range=[(0, 20), (0, 20)])[0]
        expected = counts.max() / counts.sum() if counts.any() else np.nan
        np.testing.assert_allclose(shares[world], expected, rtol=1e-6)


def test_matches_count_caught_runners(tmp_path):
    game = {"num_taggers": 2, "num_runners": 6, "episode_length": 40, "grid_length": 4.0}
    run = str(tmp_path / "run")
    trainer = Trainer(TrainConfig("WarpTag-v0", 2, 24, device="cpu", env_kwargs=game, ppo={"num_steps": 12}, out=run), quiet=True)
    trainer.train()
    result = tag_crowding.match(run, "chase", "random", worlds=3, device="cpu")
    trainer.close()
    assert result.caught == evaluate(run, 3, {"tagger": "chase", "runner": "random"}, device="cpu").mean_exits["runner"] > 0
    assert 1 / 6 <= result.share <= 1
    assert "| run | chase | random |" in tag_crowding.table({"run": [result]})
