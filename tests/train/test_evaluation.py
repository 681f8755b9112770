"""Evaluating and watching: statistics of each world's first episode, compared with a plain loop over all results."""

import dataclasses

import pytest
import torch

from gpu_vecenv.train import PPOConfig, TrainConfig, Trainer, evaluate, play
from gpu_vecenv.train.runner import evaluation

TAG = {"num_taggers": 3, "num_runners": 2, "tagging_distance": 0.1, "episode_length": 40, "step_penalty_for_tagger": -0.25,
       "step_reward_for_runner": 0.5}  # fmt: skip


@pytest.fixture
def steps(monkeypatch):
    """Reward, end of the world and alive agents after it, by row, for every step."""
    made, taken = evaluation.make_env, []

    def make_env(*args):
        env = made(*args)
        step = env.step

        def recorded(actions):
            obs, reward, terminated, truncated, info = step(actions)
            alive = info.get("agent_alive", torch.ones_like(terminated))
            taken.append([x.tolist() for x in (reward, terminated | truncated, alive)])
            return obs, reward, terminated, truncated, info

        env.step = recorded
        return env

    monkeypatch.setattr(evaluation, "make_env", make_env)
    return taken


def first_episode(steps, row):
    """Return, steps alive, exit (1 or 0) and length of the first episode of a row."""
    total, survival, alive = 0.0, 0, True
    for length, (reward, ended, alive_after) in enumerate(steps, start=1):
        total += reward[row]
        survival += alive
        alive = alive_after[row]
        if ended[row]:
            return total, survival, int(not alive), length
    raise AssertionError(f"row {row} was not played to its end")


def assert_measured(result, steps, role_rows, worlds):
    lengths = set()
    for role, rows in role_rows.items():
        episodes = [first_episode(steps, row) for row in rows]
        returns, survivals, exits, length = (sum(values) for values in zip(*episodes, strict=True))
        assert result.mean_return[role] == pytest.approx(returns / len(rows), rel=1e-6)
        assert result.mean_survival[role] == pytest.approx(survivals / len(rows))
        assert result.mean_exits[role] == pytest.approx(exits / worlds)
        assert result.mean_length == pytest.approx(length / len(rows))
        lengths |= {length for *_, length in episodes}
    assert result.episodes == worlds
    return lengths


def test_only_the_first_episode_of_each_world_counts(steps):
    config = TrainConfig("WarpTag-v0", env_kwargs=TAG, policy_map={"tagger": "random", "runner": "random"}, device="cpu")
    result = evaluate(config, episodes=20)
    lengths = assert_measured(result, steps, {"tagger": range(60), "runner": range(60, 100)}, 20)
    assert min(lengths) < 20 and max(lengths) == 40  # some worlds end long before others
    assert result.mean_survival["tagger"] == pytest.approx(result.mean_length)
    assert 0 == result.mean_exits["tagger"] < 0.2 < result.mean_exits["runner"] < 2


def test_a_run_can_be_evaluated_with_its_own_and_other_policies(config, steps, tmp_path):
    ppo = PPOConfig(num_steps=10, learning_rate=0.1, normalize_observations=False)
    trainer = Trainer(dataclasses.replace(config, ppo=ppo), quiet=True)
    trainer.train()
    run, results = trainer.save(tmp_path / "run.pt"), []
    for policy_map in ({}, {"catcher": "random"}):
        steps.clear()
        results.append(evaluate(run, episodes=5, policy_map=policy_map))
        assert_measured(results[-1], steps, {"catcher": range(10), "runner": range(10, 25)}, 5)
    assert results[0].mean_return["catcher"] > results[1].mean_return["catcher"] + 0.1


def test_each_watched_episode_starts_in_another_state(config):
    starts = [state["x"].tolist() for state in play(config, episodes=3, seed=3) if state["t"] == 0]
    assert len(starts) == len(set(map(tuple, starts))) == 3
