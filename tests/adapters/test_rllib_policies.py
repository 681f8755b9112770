"""RLlib's PPO with a policy for each role of Tag, through ``ParallelPettingZooEnv``."""

import numpy as np
import pytest

from gpu_vecenv.adapters.pettingzoo import PettingZooEnv
from tests.adapters.rllib_runs import as_stored, ppo, seen_samples, session

pytest.importorskip("ray.rllib")

works, limit = (lambda what, mark=mark: mark("RLlib", what) for mark in (pytest.mark.works, pytest.mark.limit))
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.*already in registry:UserWarning")
ray_session = pytest.fixture(scope="module", autouse=True)(session)

TAG = {"num_taggers": 1, "num_runners": 3, "episode_length": 12, "grid_length": 6, "tagging_distance": 0.2, "device": "cpu"}
"""A game in which random taggers tag some runners before its end."""
SEED = 11

_chunks: dict[str, list[dict]] = {}
_ended: list[tuple[int, str]] = []


def keep_chunks(*, samples, **_):
    """Callback ``on_sample_end``: copy the chunks of all episodes before the learner adds steps to them."""
    for chunk in samples:
        agents = {agent: as_stored(part) for agent, part in chunk.agent_episodes.items()}
        _chunks.setdefault(chunk.id_, []).append(agents)


def keep_end(*, episode, env_index, **_):
    """Callback ``on_episode_end``: note that an env has finished this episode."""
    _ended.append((env_index, episode.id_))


def joined(chunks):
    """The whole episode of each agent, from its chunks in order."""
    whole = {}
    for agent in chunks[0]:
        parts = [chunk[agent] for chunk in chunks if agent in chunk]
        ends = [index for index, part in enumerate(parts) if part.terminated or part.truncated]
        parts = parts[: ends[0] + 1]  # where an agent left at a cut, the next chunk holds its last observation once more
        last = whole[agent] = parts[-1]
        last.obs = np.concatenate([*(part.obs[:-1] for part in parts[:-1]), last.obs])
        for name in ("actions", "rewards"):
            setattr(last, name, np.concatenate([getattr(part, name) for part in parts if len(part.actions)]))
    return whole


def keep_truncations(*, episode, **_):
    """Callback ``on_episode_end`` of the page: an agent that the time limit stopped is not terminated."""
    for agent in episode.agent_episodes.values():
        agent.is_terminated = agent.is_terminated and not agent.is_truncated


def two_policies(steps=250):
    from ray import tune
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv

    tune.register_env("tag", lambda context: ParallelPettingZooEnv(PettingZooEnv("gpu_vecenv:WarpTag-v0", **context)))
    config = ppo(steps).environment("tag", env_config=TAG).env_runners(num_envs_per_env_runner=2).debugging(seed=SEED)
    return config.multi_agent(
        policies={"tagger", "runner"}, policy_mapping_fn=lambda agent, episode, **kwargs: agent.split("_")[0]
    )


def replayed(env, obs, episode):
    """Play the actions that RLlib stored; return the results in RLlib's form: episodes by agent."""
    stored = {agent: ([obs[agent]], [], [], []) for agent in env.agents}
    for step in range(TAG["episode_length"]):
        if not env.agents:
            break
        actions = {agent: episode[agent].actions[step] for agent in env.agents}
        obs, rewards, terminated, truncated, _ = env.step(actions)
        for agent in actions:
            stored[agent][1].append(rewards[agent])
            stored[agent][2].append(terminated[agent])
            stored[agent][3].append(truncated[agent])
            if agent in obs:
                stored[agent][0].append(obs[agent])
    assert not env.agents
    return stored


@works("PPO with a policy for each role of Tag, through `ParallelPettingZooEnv(PettingZooEnv(...))`; agents that leave the game")
def test_two_policies_train_on_the_episodes_of_the_env():
    algo = two_policies().callbacks(on_sample_end=keep_chunks, on_episode_end=keep_end).build_algo()
    modules = {role: algo.get_module(role) for role in ("tagger", "runner")}
    before = {role: [value.detach().clone() for value in module.state_dict().values()] for role, module in modules.items()}
    envs = [PettingZooEnv("WarpTag-v0", **TAG) for _ in range(2)]
    seeds = [algo.env_runner._seed + index for index in range(2)]
    starts = [env.reset(seed=seed)[0] for env, seed in zip(envs, seeds, strict=True)]
    left = 0
    for _ in range(2):
        _ended.clear()
        result = algo.train()["env_runners"]
        returns = {agent: [] for agent in envs[0].possible_agents}
        for number, name in _ended:
            episode = joined(_chunks.pop(name))
            mine = replayed(envs[number], starts[number], episode)
            starts[number] = envs[number].reset()[0]
            for agent, (obs, rewards, terminated, truncated) in mine.items():
                part = episode[agent]
                left += len(rewards) < TAG["episode_length"]
                np.testing.assert_array_equal(part.obs, obs)
                np.testing.assert_allclose(part.rewards, rewards)
                assert not any(terminated[:-1]) and not any(truncated[:-1])
                assert (part.terminated or part.truncated) and (terminated[-1] or truncated[-1])
                returns[agent].append(sum(rewards))
        assert result["num_episodes"] == len(_ended) >= 16
        for agent, values in returns.items():
            assert result["agent_episode_returns_mean"][agent] == pytest.approx(np.mean(values), abs=1e-4)
        total = np.sum(list(returns.values()), axis=0)
        assert result["episode_return_mean"] == pytest.approx(total.mean(), abs=1e-4)
        runners = sum(np.mean(values) for agent, values in returns.items() if agent.startswith("runner"))
        assert result["module_episode_returns_mean"]["runner"] == pytest.approx(runners, abs=1e-4)
    assert left >= 5  # runners that were tagged before the end
    for role, module in modules.items():
        after = list(algo.get_module(role).state_dict().values())
        assert all(value.isfinite().all() for value in after)
        assert any(not value.equal(old) for value, old in zip(after, before[role], strict=True)), module
    algo.stop()


def ends_at_the_limit(algo):
    """Episodes of agents that the time limit stopped, as they come to the learner; after the training step."""
    with seen_samples() as episodes:
        algo.train()
    algo.stop()
    ends = [one for one in episodes if one.terminated or one.truncated]
    assert any(one.start + len(one.actions) < TAG["episode_length"] for one in ends)
    for one in ends:  # agents that left were terminated in each case
        assert one.terminated or one.start + len(one.actions) == TAG["episode_length"]
    return [one for one in ends if one.truncated]


@limit("bootstrapping at time limits with several agents: RLlib marks all agents as terminated; the page has a callback")
def test_rllib_marks_agents_at_the_time_limit_as_terminated():
    ends = ends_at_the_limit(two_policies().build_algo())
    assert len(ends) >= 16 and all(one.terminated for one in ends)


@works("bootstrapping at time limits with several agents, with the page's callback")
def test_the_callback_keeps_truncations():
    ends = ends_at_the_limit(two_policies().callbacks(on_episode_end=keep_truncations).build_algo())
    assert len(ends) >= 16 and not any(one.terminated for one in ends)
