"""The TorchRL examples learn."""

import pytest

from examples import torchrl_mappo_tag, torchrl_ppo

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
works = lambda what: pytest.mark.works("TorchRL", what)  # noqa: E731


@works("PPO, which solves CartPole")
def test_ppo_solves_cartpole():
    result = torchrl_ppo.train(torchrl_ppo.Args(device="cpu", seed=1))
    assert result["mean_return"] >= 475 and result["rows_per_second"] > 0


@works("MAPPO, with both roles of Tag learning at once")
def test_mappo_beats_random_play():
    result = torchrl_mappo_tag.train(torchrl_mappo_tag.Args(device="cpu", seed=1))
    assert result["mean_return"] > 1.3 * result["random_return"] > 0
    assert result["runner_return"] > result["random_runner_return"]
    assert result["rows_per_second"] > 0
