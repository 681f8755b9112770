"""Evaluating and watching: statistics of each world's first episode, compared with a plain loop over all results."""

import dataclasses
from pathlib import Path

import pytest
import torch

from gpu_vecenv.train import (
    CheckpointError,
    ConfigError,
    NetworkConfig,
    PPOConfig,
    TrainConfig,
    Trainer,
    UnfinishedError,
    evaluate,
    play,
)
from gpu_vecenv.train.runner import evaluation, measure

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


@pytest.fixture
def runs(config, tmp_path):
    """Checkpoints of two runs whose policies act differently."""
    paths = []
    for seed in (1, 2):
        ppo = PPOConfig(num_steps=10, learning_rate=0.1)
        trainer = Trainer(dataclasses.replace(config, ppo=ppo, seed=seed), quiet=True)
        trainer.train()
        paths.append(str(trainer.save(tmp_path / f"{seed}.pt")))
    return paths


@pytest.mark.slow
def test_policies_come_from_the_files_that_are_named(config, runs):
    first, second = (evaluate(run, 5, seed=3) for run in runs)
    assert first != second
    both = dict.fromkeys(("catcher", "runner"), runs[0])
    loaded = dataclasses.replace(config, load_policies=both)
    assert evaluate(loaded, 5, seed=3) == evaluate(runs[1], 5, seed=3, load_policies=both) == first
    assert evaluate(config, 5, seed=3, load_policies=both) == first != evaluate(config, 5, seed=3)
    states = [[state["x"].tolist() for state in play(target, seed=3)] for target in (loaded, runs[0], runs[1])]
    assert states[0] == states[1] != states[2]
    mixed = evaluate(runs[1], 5, seed=3, load_policies={"catcher": runs[0]})
    assert mixed not in (first, second)
    assert evaluate(loaded, 5, {"catcher": "random"}, seed=3) == evaluate(runs[0], 5, {"catcher": "random"}, seed=3)


def test_files_of_policies_that_play_nothing_raise_errors(config, runs):
    with pytest.raises(CheckpointError, match=r"none\.pt: expected a checkpoint file, got none"):
        evaluate(runs[0], 2, load_policies={"runner": "none.pt"})
    for policy_map, name in ((None, "stranger"), ({"runner": "random"}, "runner")):
        for target in (config, runs[0]):
            with pytest.raises(ConfigError, match=rf"load_policies: expected policies out of \['catcher', .*got '{name}'"):
                evaluate(target, 2, policy_map, load_policies={name: runs[1]})


@pytest.mark.slow
def test_a_run_that_began_with_loaded_policies_plays_what_it_learned(config, runs, tmp_path):
    started = dataclasses.replace(config, load_policies=dict.fromkeys(("catcher", "runner"), runs[0]), seed=7)
    trainer = Trainer(started, quiet=True)
    trainer.train()
    run = trainer.save(tmp_path / "later.pt")
    result = evaluate(run, 5, seed=3)
    assert result != evaluate(runs[0], 5, seed=3)
    for path in runs:
        Path(path).unlink()
    assert evaluate(run, 5, seed=3) == result


ENDLESS = TrainConfig(
    "WarpPendulum-v1", num_envs=4, total_steps=64, device="cpu", env_kwargs={"max_episode_steps": 0}, ppo=PPOConfig(num_steps=8),
    network=NetworkConfig((4,)), evaluation_interval=1, evaluation_episodes=2,
)  # fmt: skip


def test_episodes_without_an_end_raise_an_error_that_says_what_was_seen(monkeypatch):
    monkeypatch.setattr(measure, "MAX_STEPS", 25)
    said = r"expected episodes that end within {} steps, got 0 of {} that ended; mean return so far: agent -\d.*--max-steps"
    with pytest.raises(UnfinishedError, match=said.format(25, 3)):
        evaluate(ENDLESS, 3)
    with pytest.raises(UnfinishedError, match=said.format("1,030", 3)):
        evaluate(ENDLESS, 3, max_steps=1030)
    trainer = Trainer(ENDLESS, quiet=True)
    during_training = f"evaluation after iteration 1: {said.format(25, 2)}.*evaluation_interval=None"
    with pytest.raises(UnfinishedError, match=during_training):
        trainer.train()
    for bound, options in ((25, {}), (7, {"max_steps": 7})):
        states = play(ENDLESS, **options)
        assert [next(states)["t"] for _ in range(bound + 1)] == list(range(bound + 1))
        with pytest.raises(UnfinishedError, match=f"expected episodes that end within {bound} steps, got episode 1 that did not"):
            next(states)


def test_the_bound_is_that_of_the_time_limit_if_it_is_longer(monkeypatch):
    monkeypatch.setattr(measure, "MAX_STEPS", 5)
    limited = dataclasses.replace(ENDLESS, env_kwargs={"max_episode_steps": 37})
    assert evaluate(limited, 3).mean_length == evaluate(limited, 3, max_steps=37).mean_length == 37
    assert len(list(play(limited))) == 38
    with pytest.raises(UnfinishedError, match="within 36 steps, got 0 of 3"):
        evaluate(limited, 3, max_steps=36)


def test_the_mean_so_far_is_that_of_all_episodes(steps):
    """Worlds of CartPole at random, each step of which gives a reward of 1, end after some 10 to 60 steps."""
    config = TrainConfig("WarpCartPole-v1", device="cpu", env_kwargs={"max_episode_steps": 0})
    with pytest.raises(UnfinishedError) as raised:
        evaluate(config, 30, {"agent": "random"}, max_steps=15)
    lengths = [next((t for t, (_, ended, _) in enumerate(steps[:15], 1) if ended[world]), 99) for world in range(30)]
    mean = sum(min(length, 15) for length in lengths) / 30
    ended = sum(length <= 15 for length in lengths)
    assert 0 < ended < 30
    assert f"got {ended} of 30 that ended; mean return so far: agent {mean:.6g}. " in str(raised.value)
