"""A policy trained on Simple Spread acts in mpe2."""

import numpy as np
import pytest

from gpu_vecenv.train import Run, TrainConfig, Trainer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

EPISODES = 300


def returns(env, choose):
    """Return the mean over agents of their returns, (episodes,), in mpe2."""
    found = []
    for episode in range(EPISODES):
        obs, total = env.reset(seed=episode)[0], 0.0
        while env.agents:
            actions = choose(np.stack([obs[name] for name in env.agents]))
            obs, rewards, *_ = env.step(dict(zip(env.agents, actions, strict=True)))
            total += sum(rewards.values()) / len(rewards)
        found.append(total)
    return np.array(found)


def test_a_policy_trained_on_spread_earns_the_same_in_mpe2(tmp_path):
    spread = pytest.importorskip("mpe2.simple_spread_v3").parallel_env()
    config = TrainConfig("WarpSimpleSpread-v3", total_steps=400_000, device="cpu", seed=1, out=str(tmp_path / "run"))
    Trainer(config, quiet=True).train()
    run, generator = Run(tmp_path / "run"), np.random.default_rng(0)
    policy = run.policy(device="cpu")
    trained = returns(spread, lambda obs: policy.act(obs)[0].tolist())
    random = returns(spread, lambda obs: generator.integers(0, 5, len(obs)).tolist())
    here = run.evaluate(2000).mean_return["agent"]
    error = trained.std() / EPISODES**0.5
    print(f"return of an agent: {trained.mean():.2f} ± {error:.2f} in mpe2, {here:.2f} here, {random.mean():.2f} at random")
    assert abs(trained.mean() - here) < 4 * error
    assert trained.mean() > random.mean() + 8 * error
