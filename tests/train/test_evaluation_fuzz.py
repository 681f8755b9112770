"""Evaluations of random settings, compared with a plain loop over all steps: absent agents, deaths, masks, bounds."""

import dataclasses
import math
import random

import ghosts  # noqa: F401  (registers Ghost-v0)
import numpy as np
import pytest
import role_envs  # noqa: F401  (registers Masked-v0, Pairs-v0 and Town-v0)
import torch

from gpu_vecenv.errors import GpuVecenvError
from gpu_vecenv.train import (
    AutoSizes,
    ConfigError,
    NetworkConfig,
    PolicyMapError,
    PPOConfig,
    TrainConfig,
    Trainer,
    UnfinishedError,
    evaluate,
    play,
)
from gpu_vecenv.train.runner import build, evaluation

SMALL = NetworkConfig(hidden_sizes=(4,))
UNREAD = {
    "num_envs": 3, "total_steps": 50, "out": "folder", "checkpoint_interval": 2, "frozen": ("red",), "ppo": PPOConfig(),
    "schedule_steps": 7, "stagger_starts": True, "evaluation_interval": 2, "evaluation_episodes": 9, "stop_at": 1.0,
    "patience": 2, "best_of": "red", "keep_checkpoints": 5, "wandb": "project",
    "kernels": "torch", "graph": False, "precision": "tf32", "shards": 2, "auto_sizes": AutoSizes(), "reward": "team",
    "algorithm": "mine", "algorithms": {"mine": {"rate": 0.5, "normalize_observations": True}},
}  # fmt: skip
"""Options of a run that change nothing in an evaluation, with values that a run takes."""


def by_world(env, array):
    """Copy results of a step to (N, A): of all rows, of all agents by world, of worlds, or one for all."""
    array = np.array(array.tolist() if isinstance(array, torch.Tensor) else array)
    if array.shape == (env.num_envs,) and env.num_envs != env.num_worlds:
        counts = env.role_counts.items()
        return np.concatenate([array[env.role_rows[role]].reshape(env.num_worlds, count) for role, count in counts], axis=1)
    by_world = array.reshape(env.num_worlds, -1) if array.shape else array
    return np.broadcast_to(by_world, (env.num_worlds, env.num_agents))


class Record:
    """The worlds of the env that was made last: who is in the game at the start, and the results of each step, (N, A)."""

    def watch(self, env):
        reset, step = env.reset, env.step

        def recorded_reset(**options):
            result = reset(**options)
            name = env.env_spec.alive
            self.start = by_world(env, True if name is None else env.get_state()[name] != 0)
            self.roles, self.steps = dict(env.role_counts), []
            return result

        def recorded_step(actions):
            _, reward, terminated, truncated, info = result = step(actions)
            arrays = (info.get("agent_reward", reward), terminated | truncated, info.get("agent_alive", True))
            name = env.env_spec.alive
            here = True if name is None else env.get_state()[name] != 0  # after the reset of a world whose episode ended
            self.steps.append([by_world(env, array) for array in (*arrays, here)])
            return result

        env.reset, env.step = recorded_reset, recorded_step
        return env

    def first_episodes(self):
        """Return for each world and agent: return, steps in the game, 1 if it left, and the length of the first episode.

        The length is infinity if the episode was not played to its end.
        """
        rewards, ends, alive, _ = (np.array(arrays) for arrays in zip(*self.steps, strict=True))
        numbers = np.zeros((4, *rewards.shape[1:]))
        for world, agent in np.ndindex(rewards.shape[1:]):
            here = self.start[world, agent]
            total, present, length = 0.0, 0, math.inf
            for t in range(len(rewards)):
                if here:
                    total, present = total + float(rewards[t, world, agent]), present + 1
                here = alive[t, world, agent]
                if ends[t, world, agent]:
                    length = t + 1
                    break
            numbers[:, world, agent] = total, present, present > 0 and not here, length
        return numbers


@pytest.fixture
def record(monkeypatch):
    """Record the envs of evaluations."""
    record, make_env = Record(), build.make_env
    monkeypatch.setattr(evaluation, "make_env", lambda *args, **place: record.watch(make_env(*args, **place)))
    return record


def assert_measured(result, record):
    """Assert that an evaluation has the means of the recorded worlds."""
    (total, present, left, length), first = record.first_episodes(), 0
    for role, count in record.roles.items():
        agents = slice(first, first + count)
        took_part = present[:, agents] > 0
        for got, values in ((result.mean_return, total), (result.mean_survival, present)):
            played = values[:, agents][took_part]
            want = played.mean() if played.size else math.nan
            assert got[role] == pytest.approx(want, rel=1e-9, abs=1e-9, nan_ok=True)
        assert result.mean_exits[role] == pytest.approx(left[:, agents].sum() / len(left))
        first += count
    assert result.mean_length == pytest.approx(length.mean())
    assert result.episodes == len(length)


def random_setting(rng):
    """Return a config, arguments of ``evaluate()`` or ``play()``, and the number of worlds."""
    env_id = rng.choice(["Ghost-v0"] * 5 + ["WarpTag-v0", "Town-v0", "Masked-v0", "WarpPendulum-v1"])
    limit = rng.choice([0, 1, 2, 3, 15, 16, 17, 33])
    chances = {name: rng.choice([0.0, 0.02, 0.3, 1.0]) for name in ("absent", "leave", "end")}
    red, blue = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])
    params = {
        "Ghost-v0": {"num_red": red, "num_blue": blue, "ghost": rng.choice([0.0, 1000.0]), **chances},
        "WarpTag-v0": {"num_taggers": red, "num_runners": blue, "tagging_distance": 0.2, "episode_length": limit or 9},
        "Town-v0": {"num_citizens": red, "rich": rng.choice([2.0, 12.0])},
    }.get(env_id, {})
    if env_id != "WarpTag-v0":
        params["max_episode_steps"] = limit
    roles = {"WarpTag-v0": ["tagger", "runner"], "Town-v0": ["citizen", "mayor"], "Masked-v0": ["left", "right"],
             "WarpPendulum-v1": ["agent"]}.get(env_id, ["red", "blue"])  # fmt: skip
    names = [rng.choice(["random", role]) for role in roles]
    if env_id in ("Ghost-v0", "Masked-v0") and rng.random() < 0.2:
        names = ["all"] * len(roles)
    policy_map = rng.choice([None, dict(zip(roles, names, strict=True))])
    config = TrainConfig(env_id, device="cpu", env_kwargs=params, policy_map=policy_map, network=SMALL, seed=rng.randrange(99))
    given = {"episodes": rng.randint(1, 6), "max_steps": rng.choice([5, 16, 17, 40, 50]), "deterministic": rng.random() < 0.3}
    if rng.random() < 0.3:
        given["policy_map"] = {rng.choice(roles): "random"}
    if rng.random() < 0.3:
        given["seed"] = rng.randrange(2**64)
    return config, given


def spoil(rng, given):
    """Return arguments with one that must be refused, and what its error says."""
    bad = [(ConfigError, f"'{name}'", {name: value}) for name, value in UNREAD.items()] + [
        (ConfigError, "'sede'. Did you mean 'seed'", {"sede": 3}),
        (ConfigError, "episodes", {"episodes": rng.choice([0, -3, 2.5, None, "4", True])}),
        (ConfigError, "max_steps", {"max_steps": rng.choice([0, -1, 1.5, "9", True])}),
        (ConfigError, "policy_map", {"policy_map": rng.choice([["red"], "red", 5])}),
        (PolicyMapError, "nobody", {"policy_map": {"nobody": "random"}}),
        (ConfigError, "load_policies", {"load_policies": {"stranger": "file.pt"}}),
        (ConfigError, "seed", {"seed": rng.choice([-1, 2**64, 0.5])}),
        (ConfigError, "threads", {"threads": 0}),
        (ConfigError, "task", {"task": "match 1"}),
    ]  # fmt: skip
    error, said, wrong = rng.choice(bad)
    return error, said, {**given, **wrong}


def check(record, rng):
    """Compare one random evaluation, or one played episode, with the plain loop."""
    config, given = random_setting(rng)
    use = evaluate if rng.random() < 0.85 else lambda *args, **options: list(play(*args, **options))
    if rng.random() < 0.15:
        error, said, given = spoil(rng, given)
        if use is not evaluate and "task" in given:
            return
        with pytest.raises(error) as raised:
            use(config, **given)
        assert said in str(raised.value)
        return
    most = given["max_steps"]
    try:
        result = use(config, **given)
    except GpuVecenvError as error:
        assert isinstance(error, UnfinishedError) and f"within {most} steps" in str(error), error
        if use is evaluate:
            ended = (record.first_episodes()[3, :, 0] <= most).sum()
            assert f"got {ended} of {given['episodes']} that ended" in str(error) and ended < given["episodes"]
        assert len(record.steps) >= most and (use is evaluate or not record.steps[-1][1].any())
        return
    if use is evaluate:
        assert record.first_episodes()[3].max() <= most
        assert_measured(result, record)
    else:
        assert sum(state["t"] == 0 for state in result) == given["episodes"]
        assert result[-1]["t"] == len(record.steps) and record.steps[-1][1].all()


def test_agents_that_are_out_do_not_count(record):
    """The reward of absent agents is 1000; that of an agent in the game is within 2 of 0."""
    params = {"max_episode_steps": 40, "absent": 0.5, "leave": 0.05, "end": 0.0}
    config = TrainConfig("Ghost-v0", device="cpu", env_kwargs=params, network=SMALL)
    result = evaluate(config, episodes=20)
    assert_measured(result, record)
    assert all(abs(value) < 2 * 40 for value in result.mean_return.values())
    assert all(0 < value < 30 for value in result.mean_survival.values()) and result.mean_length == 40
    alone = evaluate(config, episodes=20, env_kwargs={**params, "leave": 0.0})
    assert set(alone.mean_exits.values()) == {0.0} and set(alone.mean_survival.values()) == {40.0}


def test_a_role_that_is_absent_from_all_episodes_has_no_return(record):
    config = TrainConfig("Ghost-v0", device="cpu", env_kwargs={"max_episode_steps": 5, "absent": 1.0}, network=SMALL)
    result = evaluate(config, episodes=3)
    assert all(map(math.isnan, [*result.mean_return.values(), *result.mean_survival.values()]))
    assert set(result.mean_exits.values()) == {0.0} and result.mean_length <= 5


def test_training_counts_alike(monkeypatch):
    """Metrics of a policy of both roles over all episodes and over those of the last 100 worlds."""
    record, make_env = Record(), build.make_env
    monkeypatch.setattr("gpu_vecenv.train.runner.trainer.make_env", lambda *args, **place: record.watch(make_env(*args, **place)))
    params = {"num_red": 2, "num_blue": 3, "max_episode_steps": 6, "absent": 0.4, "leave": 0.2, "end": 0.1}
    config = TrainConfig(
        "Ghost-v0", num_envs=150, total_steps=150 * 6, device="cpu", env_kwargs=params, ppo=PPOConfig(num_steps=6), network=SMALL,
        policy_map={"red": "all", "blue": "all"},
    )  # fmt: skip
    metrics = Trainer(config, quiet=True).train()
    ended = every_episode(record)
    assert len(ended) > 150
    for worlds, names in ((ended, ("return", "episode_length")), (ended[-100:], ("recent_return", "recent_length"))):
        means = np.mean([agent for world in worlds for agent in world], axis=0)
        assert [metrics[f"{name}/all"] for name in names] == pytest.approx(means, rel=1e-5)


def every_episode(record):
    """Return and length of each agent that took part, for each world's episode that ended, in the order of time and world."""
    here, ended = record.start, []
    running = np.zeros((3, *here.shape))  # return, steps of the world, steps of the agent
    for reward, ends, _, here_next in record.steps:
        running += np.where(here, reward, 0.0), np.ones(here.shape), here
        for world in np.flatnonzero(ends[:, 0]):
            agents = [(total, length) for total, length, took_part in running[:, world].T if took_part]
            ended += [agents] if agents else []
            running[:, world] = 0.0
        here = here_next
    return ended


def test_every_option_of_a_run_is_read_or_refused():
    fields = {field.name for field in dataclasses.fields(TrainConfig)}
    assert fields == {*evaluation.OPTIONS, *UNREAD, "policy_map"}
    config = TrainConfig("WarpCartPole-v1", device="cpu", network=SMALL)
    for name, value in UNREAD.items():
        for use in (evaluate, lambda *args, **changes: next(play(*args, **changes))):
            with pytest.raises(ConfigError, match=f"evaluation option: expected one of env_id, .*got '{name}'"):
                use(config, **{name: value})


def test_random_evaluations_equal_a_plain_loop(record):
    for seed in range(40):
        check(record, random.Random(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 10_000, 250))
def test_ten_thousand_random_evaluations_equal_a_plain_loop(record, first):
    for seed in range(first, first + 250):
        try:
            check(record, random.Random(seed))
        except BaseException:
            print(f"seed {seed}")
            raise
