"""AgileRL's own entry points with vector envs of this package."""

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401

pytest.importorskip("agilerl", reason="AgileRL needs an environment of its own: docs/adapters/agilerl.md")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.works("AgileRL", "`train_on_policy` with PPO on a vector env of `gymnasium.make_vec` (runs)")
def test_train_on_policy_runs():
    from agilerl.algorithms import PPO
    from agilerl.training.train_on_policy import train_on_policy

    kind = {"array": "numpy", "autoreset_mode": "next_step"}
    env = gymnasium.make_vec("gpu_vecenv:WarpCartPole-v1", num_envs=4, device="cpu", **kind)
    agent = PPO(env.single_observation_space, env.single_action_space, num_envs=4, learn_step=64)
    before = [p.detach().clone().numpy() for p in agent.actor.parameters()]
    settings = {"max_steps": 512, "evo_steps": 256, "eval_steps": 20, "verbose": False}
    agents, fitness = train_on_policy(env, "WarpCartPole-v1", "PPO", [agent], **settings)
    after = [p.detach().numpy() for p in agents[0].actor.parameters()]
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert 0 < np.ravel(fitness)[-1] <= 20
    env.close()
