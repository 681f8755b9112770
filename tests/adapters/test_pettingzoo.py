"""``PettingZooEnv`` under PettingZoo's own tests, and compared with the vector env stepped directly."""

import importlib
import subprocess
import sys
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from pettingzoo.test import max_cycles_test, parallel_api_test, parallel_seed_test, render_test, state_test
from pettingzoo.utils import parallel_to_aec

import gpu_vecenv  # noqa: F401
from examples import pettingzoo_tag
from gpu_vecenv.adapters.pettingzoo import PettingZooEnv
from gpu_vecenv.errors import (
    ActionError,
    ArrayTypeError,
    ClosedError,
    MissingExtraError,
    ParameterError,
    SequenceError,
    ShapeError,
)
from tests.api.envs import ALIKE
from tests.devices import DEVICES

works, limit = (lambda what, mark=mark: mark("PettingZoo", what) for mark in (pytest.mark.works, pytest.mark.limit))

TAG = {"num_taggers": 2, "num_runners": 4, "episode_length": 20, "tagging_distance": 0.15}
ENVS = {
    "tag": ("WarpTag-v0", TAG),
    "tag without exits": ("WarpTag-v0", {**TAG, "runner_exits_game_after_tagged": False}),
    "continuous tag": ("WarpTag-v0", {**TAG, "continuous_actions": True}),
    "grid tag": ("WarpGridTag-v0", {"episode_length": 15, "grid_length": 5}),
    "cartpole": ("WarpCartPole-v1", {}),
    "acrobot": ("WarpAcrobot-v1", {"max_episode_steps": 30}),
    "mountain car": ("WarpMountainCar-v0", {"max_episode_steps": 30}),
    "continuous mountain car": ("WarpMountainCarContinuous-v0", {"max_episode_steps": 30}),
    "pendulum": ("WarpPendulum-v1", {"max_episode_steps": 30}),
    "robot warehouse": ("WarpRware-v2", {"max_steps": 15}),
    "recall": ("WarpRecall-v0", {"delay": 14}),
    "foraging": ("WarpForaging-v3", {"players": 3, "max_num_food": 2, "max_episode_steps": 20}),
    "spread": ("WarpSimpleSpread-v3", {"max_cycles": 15}),
    "catalysis": ("WarpCatalysis-v0", {"episode_length": 30}),
    "catalysis, two atoms": ("WarpCatalysis-v0", {"configuration": "two_atom_diffusion", "episode_length": 30}),
}


def make(name="tag", device="cpu", **options):
    env_id, params = ENVS[name]
    return PettingZooEnv(env_id, device=device, **{**params, **options})


def sample(env):
    return {agent: env.action_space(agent).sample() for agent in env.agents}


def seed_samples(env):
    for i, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(i)


def test_every_registered_id_is_tested():
    """Envs whose arrays are by role are tested with roles."""
    assert {env_id for env_id, _ in ENVS.values()} == set(ALIKE)


@works("every id passes parallel_api_test and parallel_seed_test")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENVS)
@pytest.mark.filterwarnings("error")
def test_upstreams_parallel_tests(name, device):
    parallel_api_test(make(name, device), num_cycles=60)
    parallel_seed_test(lambda: make(name, device))


@works("render_test")
@pytest.mark.parametrize("name", ["tag", "cartpole"])
def test_upstreams_render_test(name):
    def aec(render_mode):
        # The test makes an env in mode "human" only to read the list of modes.
        return parallel_to_aec(make(name, render_mode=None if render_mode == "human" else render_mode))

    assert make(name).metadata["render_modes"] == ["rgb_array"]
    render_test(aec)


@works("state_test, with a global state for central critics")
@pytest.mark.parametrize("name", ENVS)
def test_upstreams_state_test(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Environment's .* state space value is")  # speeds have no bounds
        state_test(parallel_to_aec(make(name)), make(name))


@works("max_cycles_test")
def test_upstreams_max_cycles_test():
    def parallel_env(max_cycles):
        return make("tag without exits", episode_length=max_cycles)

    max_cycles_test(SimpleNamespace(parallel_env=parallel_env, env=lambda max_cycles: parallel_to_aec(parallel_env(max_cycles))))


@works("agents that leave the game before it ends")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ENVS)
def test_episodes_equal_those_of_the_vector_env(name, device):
    """Several episodes in a row, compared with a vector env in same-step mode."""
    env, (env_id, params) = make(name, device), ENVS[name]
    seed_samples(env)
    plain = gymnasium.make_vec(env_id, num_envs=1, device="cpu", array="numpy", autoreset_mode="same_step", **params)
    agents = len(env.possible_agents)
    space = env.action_space(env.possible_agents[0])
    expected, _ = plain.reset(seed=7)
    assert env.agents == []
    for episode in range(4):
        obs, infos = env.reset(seed=7 if episode == 0 else None)
        assert list(obs) == env.agents == env.possible_agents and infos == {agent: {} for agent in env.agents}
        np.testing.assert_array_equal(np.stack(list(obs.values())), expected.reshape(agents, -1))
        in_game, over = list(env.agents), False
        while env.agents:
            assert not over
            actions = sample(env)
            joint = np.zeros((1, agents, *space.shape), space.dtype)
            for agent, action in actions.items():
                joint[0, env.possible_agents.index(agent)] = action
            expected, reward, terminated, truncated, info = plain.step(joint.reshape(plain.action_space.shape))
            over = bool(terminated[0] or truncated[0])
            seen = (info["final_obs"] if over else expected).reshape(agents, -1)
            alive = info.get("agent_alive", np.ones((1, agents), bool))[0]
            rewards = np.ravel(info.get("agent_reward", reward))
            obs, reward, ended, cut, infos = env.step(actions)
            assert list(obs) == list(reward) == list(ended) == list(cut) == list(infos) == in_game
            for agent in in_game:
                i = env.possible_agents.index(agent)
                np.testing.assert_array_equal(obs[agent], seen[i])
                assert obs[agent].dtype == np.float32 and obs[agent] in env.observation_space(agent)
                assert type(reward[agent]) is float and reward[agent] == rewards[i]
                assert ended[agent] is bool(terminated[0] or not alive[i])
                assert cut[agent] is bool(truncated[0] and alive[i])
            in_game = [agent for agent in in_game if not (ended[agent] or cut[agent])]
            assert env.agents == in_game
        assert over


def test_a_caught_runner_is_terminated_once_and_stays_out_until_the_reset():
    env = make(tagging_distance=0.3)
    seed_samples(env)
    env.reset(seed=1)
    left = []
    while env.agents:
        before = list(env.agents)
        _, rewards, terminated, truncated, _ = env.step(sample(env))
        gone = [agent for agent in before if agent not in env.agents]
        if env.agents:
            assert all(agent.startswith("runner") and terminated[agent] and not truncated[agent] for agent in gone)
            assert all(rewards[agent] == -10 for agent in gone)
            left += gone
    assert left and len(set(left)) == len(left)
    assert env.num_agents == 0 and env.max_num_agents == 6
    env.reset()
    assert env.agents == env.possible_agents == ["tagger_0", "tagger_1", "runner_0", "runner_1", "runner_2", "runner_3"]


def test_a_runner_caught_in_the_last_step_is_terminated_and_not_truncated():
    env = PettingZooEnv("WarpTag-v0", device="cpu", num_taggers=1, num_runners=2, episode_length=1, grid_length=10.0,
                        starting_location_x=[1, 1.1, 9], starting_location_y=[1, 1, 9], tagging_distance=0.05)  # fmt: skip
    env.reset(seed=0)
    _, rewards, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, np.array([0, 0])))
    assert rewards == {"tagger_0": 10.0, "runner_0": -10.0, "runner_1": 1.0}
    assert terminated == {"tagger_0": False, "runner_0": True, "runner_1": False}
    assert truncated == {"tagger_0": True, "runner_0": False, "runner_1": True}


@works("the same seed gives the same game, to its end")
def test_a_seed_repeats_a_whole_episode():
    """PettingZoo's own seed test stops after one step."""

    def episode(seed):
        env = make()
        seed_samples(env)
        steps = [env.reset(seed=seed)]
        while env.agents:
            steps.append(env.step(sample(env)))
        return steps

    once, again, other = episode(5), episode(5), episode(6)
    assert len(once) == len(again) > 3
    for left, right in zip(once, again, strict=True):
        for a, b in zip(left, right, strict=True):
            np.testing.assert_equal(a, b)
    assert not np.array_equal(once[0][0]["tagger_0"], other[0][0]["tagger_0"])


def test_returned_arrays_are_never_written_again():
    env = make()
    obs, _ = env.reset(seed=0)
    kept, copies = [], []
    while env.agents:
        kept.append(obs)
        copies.append({agent: values.copy() for agent, values in obs.items()})
        state, state_copy = env.state(), env.state().copy()
        obs, *_ = env.step(sample(env))
        np.testing.assert_array_equal(state, state_copy)
    for held, copy in zip(kept, copies, strict=True):
        np.testing.assert_equal(held, copy)


def test_each_agent_has_one_space_of_its_own():
    env = make()
    assert env.action_space("tagger_0") is env.action_space("tagger_0") is not env.action_space("tagger_1")
    assert env.observation_space("runner_0") is env.observation_space("runner_0")
    env.action_space("tagger_0").seed(0)
    env.action_space("tagger_1").seed(0)
    assert np.array_equal(env.action_space("tagger_0").sample(), env.action_space("tagger_1").sample())


def test_the_global_state_joins_the_state_fields_and_the_step():
    env = make()
    env.reset(seed=3)
    for _ in range(3):
        env.step(sample(env))
    state, fields = env.state(), env.vector_env.get_state()
    assert state.dtype == np.float32 and state in env.state_space and state[-1] == 3
    np.testing.assert_array_equal(state[:6], fields["loc_x"][0])
    np.testing.assert_array_equal(state[5 * 6 : 6 * 6], fields["alive"][0])
    assert state.shape == (7 * 6 + 1,)


def test_unknown_reset_options_are_ignored():
    env = make("cartpole")
    obs, _ = env.reset(seed=0, options={"low": 0.01, "high": 0.02, "something": 1})
    assert ((obs["agent_0"] >= 0.01) & (obs["agent_0"] <= 0.02)).all()
    with pytest.raises(ParameterError, match="low must not be above high"):
        env.reset(options={"low": 1.0, "high": 0.0})


@limit('render_mode="human": the adapter opens no window; use "rgb_array"')
def test_render_mode_human_raises_an_error():
    with pytest.raises(ParameterError, match="render_mode must be one of None, 'rgb_array', got 'human'"):
        make(render_mode="human")


def test_misuse_raises_typed_errors():
    env = make()
    with pytest.raises(SequenceError, match="call reset"):
        env.step({})
    env.reset(seed=0)
    good = sample(env)
    with pytest.raises(ParameterError, match=r"missing \['runner_3'\], unexpected \['runner_9'\]"):
        env.step({**{agent: action for agent, action in good.items() if agent != "runner_3"}, "runner_9": good["runner_3"]})
    with pytest.raises(ShapeError, match=r"\(2,\)"):
        env.step({**good, "runner_3": 0})
    with pytest.raises(ShapeError):
        env.step(dict.fromkeys(env.agents, 0))
    with pytest.raises(ArrayTypeError, match="int32 or int64"):
        env.step({**good, "runner_3": np.array([0.5, 1.0])})
    with pytest.raises(ArrayTypeError, match="must be numbers"):
        env.step(dict.fromkeys(env.agents, ["no", "op"]))
    with pytest.raises(ActionError, match="got 21"):
        env.step({**good, "runner_3": np.array([0, 21])})
    while env.agents:
        env.step(sample(env))
    with pytest.raises(SequenceError, match="no agent is in the game"):
        env.step(good)
    assert env.step({}) == ({}, {}, {}, {}, {})
    env.close()
    with pytest.raises(ClosedError):
        env.step({})
    with pytest.raises(ClosedError):
        env.reset()


def test_render_needs_its_render_mode():
    env, blind = make(render_mode="rgb_array"), make()
    env.reset()
    blind.reset()
    assert blind.render() is None
    assert env.render().dtype == np.uint8 and env.render().std() > 0


def test_an_env_of_another_package_raises_an_error(monkeypatch):
    class Other(VectorEnv):
        metadata = {"autoreset_mode": AutoresetMode.DISABLED}

        def __init__(self, **options):
            self.num_envs = 1

    monkeypatch.setitem(gymnasium.registry, "Other-v0", EnvSpec("Other-v0", vector_entry_point=Other))
    with pytest.raises(ParameterError, match="this package, got 'Other-v0'"):
        PettingZooEnv("Other-v0")


def test_without_pettingzoo_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.pettingzoo")
    with pytest.raises(MissingExtraError, match=r'PettingZoo: pip install "gpu-vecenv\[pettingzoo\]"'):
        importlib.import_module("gpu_vecenv.adapters.pettingzoo")


def test_importing_the_package_does_not_import_pettingzoo():
    code = "import sys, gpu_vecenv.adapters; sys.exit('pettingzoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@works("evaluation of policies in one world")
def test_the_example_catches_more_than_random_play():
    result = pettingzoo_tag.play(pettingzoo_tag.Args(episodes=8))
    assert result["mean_return"] > 2 * result["random_return"] >= 0
