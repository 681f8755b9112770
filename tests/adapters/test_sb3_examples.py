"""The examples with Stable-Baselines3: short runs, and slow tests of learning."""

import pytest

pytest.importorskip("tyro")
from examples import sb3_ppo, sb3_tag  # noqa: E402
from tests.adapters.test_sb3 import works  # noqa: E402
from tests.devices import DEVICES  # noqa: E402

PATHS = pytest.mark.parametrize("gpu_rollout", [False, True], ids=["host", "device"])


@PATHS
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("example", [sb3_ppo, sb3_tag])
def test_an_example_runs(example, device, gpu_rollout):
    evaluation = {"eval_episodes": 4} if example is sb3_ppo else {}
    args = example.Args(num_envs=2, total_steps=100, n_steps=8, n_epochs=1, device=device, gpu_rollout=gpu_rollout, **evaluation)
    result = example.train(args)
    assert result["rows_per_second"] > 0 and set(result) >= {"mean_return", "rows_per_second"}


@pytest.mark.slow
@pytest.mark.timeout(600)
@PATHS
@pytest.mark.parametrize("device", DEVICES)
def test_cartpole_is_solved(device, gpu_rollout):
    assert sb3_ppo.train(sb3_ppo.Args(device=device, gpu_rollout=gpu_rollout))["mean_return"] >= 475


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
def test_the_pendulum_is_held_up(device):
    args = sb3_ppo.Args("WarpPendulum-v1", 16, device=device, n_steps=128, num_minibatches=16, learning_rate=2e-3, gamma=0.9)
    assert sb3_ppo.train(args)["mean_return"] > -250


@works("taggers that learn beat taggers that play at random")
@pytest.mark.slow
@pytest.mark.timeout(600)
@PATHS
@pytest.mark.parametrize("device", DEVICES)
def test_taggers_beat_random_play(device, gpu_rollout):
    result = sb3_tag.train(sb3_tag.Args(device=device, gpu_rollout=gpu_rollout))
    assert result["mean_return"] > 1.5 * result["random_return"] > 5
