"""The single-file PPO examples."""

import dataclasses

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES

pytest.importorskip("tensorboard")
pytest.importorskip("tyro")
from examples import cleanrl_ppo, cleanrl_ppo_continuous_action  # noqa: E402
from tests.adapters.tensorboard_curves import curves  # noqa: E402

SMALL = {"num_envs": 4, "num_steps": 16, "num_epochs": 1, "num_minibatches": 2, "eval_episodes": 2}


def short(example, tmp_path, device, **options):
    return example.Args(device=device, run_dir=str(tmp_path), **{**SMALL, **options})


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("example", [cleanrl_ppo, cleanrl_ppo_continuous_action])
def test_an_example_runs_and_writes_its_curves(example, device, tmp_path):
    result = example.train(short(example, tmp_path, device, num_steps=240, total_steps=2 * 960))
    assert set(result) == {"mean_return", "rows_per_second"} and all(np.isfinite(list(result.values())))
    written = curves(tmp_path)
    assert {"charts/episodic_return", "charts/rows_per_second", "losses/value_loss"} <= set(written)
    assert all(len(values) == 2 and np.isfinite(values).all() for values in written.values())


@pytest.mark.works("CleanRL-style", "Tag, with one row for each agent and one policy for all roles")
def test_the_example_trains_on_rows_of_tag(tmp_path, monkeypatch):
    make_vec = gymnasium.make_vec
    monkeypatch.setattr(
        gymnasium, "make_vec", lambda *a, **k: make_vec(*a, **k, num_taggers=1, num_runners=3, episode_length=10)
    )
    result = cleanrl_ppo.train(short(cleanrl_ppo, tmp_path, "cpu", env_id="WarpTag-v0", total_steps=4 * 64))
    assert np.isfinite(result["mean_return"])
    assert curves(tmp_path)["charts/episodic_length"][-1] == 10


@pytest.mark.slow
@pytest.mark.works("CleanRL-style", "bootstrapping from the true last observation at time limits")
def test_values_are_bootstrapped_at_the_time_limit(tmp_path, monkeypatch):
    """With reward 1 a step and discount 1/2, every state has value 2; a first state would have 1.75 if the limit were an end."""
    make_vec, seen = gymnasium.make_vec, {}
    monkeypatch.setattr(gymnasium, "make_vec", lambda *a, **k: make_vec(*a, **k, max_episode_steps=3))
    monkeypatch.setattr(cleanrl_ppo, "evaluate", lambda agent, args: seen.update(agent=agent) or 0.0)
    args = cleanrl_ppo.Args(
        device="cpu", num_envs=32, num_steps=8, gamma=0.5, total_steps=32 * 8 * 30, learning_rate=1e-2, run_dir=str(tmp_path)
    )
    cleanrl_ppo.train(args)
    obs, _ = make_vec("WarpCartPole-v1", num_envs=64, device="cpu").reset(seed=5)
    with torch.no_grad():
        assert seen["agent"].value(obs).mean().item() == pytest.approx(2, abs=0.1)


@pytest.mark.works("CleanRL-style", "observations kept by reference for a whole rollout")
@pytest.mark.parametrize("device", DEVICES)
def test_observations_kept_by_reference_do_not_change(device):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=8, device=device, max_episode_steps=10)
    kept = [env.reset(seed=0)[0]]
    copies = [kept[0].clone()]
    for _ in range(30):
        kept.append(env.step(torch.ones(8, dtype=torch.int64, device=device))[0])
        copies.append(kept[-1].clone())
    assert torch.equal(torch.stack(kept), torch.stack(copies))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("example, least", [
    pytest.param(cleanrl_ppo, 475, marks=pytest.mark.works("CleanRL-style", "CartPole is solved")),
    pytest.param(cleanrl_ppo_continuous_action, -250, marks=pytest.mark.works("CleanRL-style", "Pendulum is swung up and held")),
])  # fmt: skip
def test_an_example_learns(example, least, device, tmp_path):
    result = example.train(dataclasses.replace(example.Args(), device=device, run_dir=str(tmp_path)))
    print(result)
    assert result["mean_return"] >= least
