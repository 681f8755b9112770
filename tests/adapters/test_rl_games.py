"""rl_games' trainers with the adapter: order of rows, time limits, action spaces."""

import dataclasses
import importlib
import sys

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Discrete, Tuple

from gpu_vecenv.errors import MissingExtraError, ParameterError
from tests.devices import DEVICES

pytest.importorskip("rl_games")
pytest.importorskip("tyro")
from rl_games.common import vecenv  # noqa: E402
from rl_games.common.algo_observer import DefaultAlgoObserver  # noqa: E402
from rl_games.torch_runner import Runner  # noqa: E402

from examples import rl_games_ppo  # noqa: E402
from gpu_vecenv.adapters.rl_games import RlGamesEnv, create_env, register  # noqa: E402

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 6, "tagging_distance": 0.3}
SPACES = {"discrete_a2c": {"discrete": {}}, "multi_discrete_a2c": {"multi_discrete": {}}}
GAUSSIAN = {
    "mu_activation": "None",
    "sigma_activation": "None",
    "mu_init": {"name": "default"},
    "sigma_init": {"name": "const_initializer", "val": 0},
    "fixed_sigma": True,
}


class Observer(DefaultAlgoObserver):
    """Keeps a copy of the last rollout's buffer."""

    def after_steps(self):
        self.stored = {name: tensor.clone() for name, tensor in self.algo.experience_buffer.tensor_dict.items()}


def run(env_id, tmp_path, device="cpu", model="discrete_a2c", epochs=1, num_actors=4, horizon=12, agents=1, env=None, **config):
    """Train for some epochs; return the agent and the buffer of its last rollout."""
    register(env_id)
    params = rl_games_ppo.configuration(
        rl_games_ppo.Args(num_envs=num_actors, num_steps=horizon, device=device, run_dir=str(tmp_path))
    )["params"]
    rows = num_actors * horizon * agents
    params["config"] |= {"env_name": env_id, "max_epochs": epochs, "minibatch_size": rows, "mini_epochs": 1, **config}
    params["config"]["env_config"] |= env or {}
    params["model"]["name"] = model
    if model == "continuous_a2c_logstd":
        params["algo"]["name"] = "a2c_continuous"
        params["config"]["bounds_loss_coef"] = 0.001
        params["network"]["space"] = {"continuous": GAUSSIAN}
    else:
        params["network"]["space"] = SPACES[model]
    observer = Observer()
    runner = Runner(observer)
    runner.load({"params": params})
    runner.run({"train": True, "play": False})
    return observer.algo, observer.stored


# ---- rows ---------------------------------------------------------------------------------------------------------


@pytest.mark.works("rl_games", "Tag with rows ordered by world and then by agent, as rl_games expects")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{}, {"flatten_actions": True}, {"continuous_actions": True}], ids=str)
def test_rows_are_ordered_by_world_and_then_by_agent(options, device):
    """Compared with the agents view, whose rows are ordered by role first."""
    worlds, taggers, runners = 3, 2, 3
    order = [
        w * taggers + i if i < taggers else worlds * taggers + w * runners + (i - taggers)
        for w in range(worlds)
        for i in range(taggers + runners)
    ]
    env = create_env("WarpTag-v0", worlds, seed=4, device=device, **TAG, **options)
    plain = gymnasium.make_vec("WarpTag-v0", num_worlds=worlds, view="agents", device=device, **TAG, **options)
    expected, _ = plain.reset(seed=4)
    obs = env.reset()
    plain.action_space.seed(0)
    for _ in range(8):
        assert torch.equal(obs["obs"], expected[order])
        assert torch.equal(obs["states"], expected[order].reshape(worlds, -1))
        action = torch.as_tensor(plain.action_space.sample(), device=device)
        obs, reward, done, infos = env.step(action[order])
        expected, rewards, terminated, truncated, _ = plain.step(action)
        assert torch.equal(reward, rewards[order])
        assert torch.equal(done, (terminated | truncated)[order])
        assert torch.equal(infos["time_outs"], (truncated & ~terminated)[order])
        assert torch.equal(done[:: env.get_number_of_agents()].repeat_interleave(5), done)
        assert str(obs["obs"].device) == str(reward.device) == device
    env.close()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["WarpCartPole-v1", "WarpPendulum-v1"])
def test_results_with_one_agent_equal_those_of_the_vector_env(name, device):
    options = {"device": device, "max_episode_steps": 12}
    env, plain = create_env(name, 256, seed=4, **options), gymnasium.make_vec(name, num_envs=256, **options)
    assert torch.equal(env.reset(), plain.reset(seed=4)[0])
    plain.action_space.seed(0)
    both = 0
    for _ in range(30):
        action = torch.as_tensor(plain.action_space.sample(), device=device)
        obs, reward, done, infos = env.step(action)
        expected = plain.step(action)
        assert torch.equal(obs, expected[0]) and torch.equal(reward, expected[1])
        assert torch.equal(done, expected[2] | expected[3])
        assert torch.equal(infos["time_outs"], expected[3] & ~expected[2])
        both += int((expected[2] & expected[3]).sum())
    assert both > 0 or name == "WarpPendulum-v1"  # a fall in the last step before the limit is no time-out
    assert not torch.equal(env.reset(), plain.reset(seed=4)[0])  # the seed is used by the first reset only


def test_env_info_describes_spaces_and_agents():
    tag, cartpole = create_env("WarpTag-v0", 2, device="cpu", **TAG), create_env("WarpCartPole-v1", 2, device="cpu")
    info = tag.get_env_info()
    assert info["action_space"] == Tuple([Discrete(21), Discrete(21)])
    features = info["observation_space"].shape[0]
    assert tag.reset()["obs"].shape == (10, features) and info["state_space"].shape == (5 * features,)
    assert (info["agents"], info["value_size"], info["autoreset_mode"]) == (5, 1, "same_step")
    assert cartpole.get_env_info()["agents"] == cartpole.get_number_of_agents() == 1
    assert cartpole.get_env_info()["action_space"] == Discrete(2)
    assert cartpole.reset().shape == (2, 4)
    assert cartpole.render() is None


# ---- training -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("env_id, model, agents, env", [
    pytest.param("WarpTag-v0", "multi_discrete_a2c", 5, TAG,
                 marks=pytest.mark.works("rl_games", "Tag with actions of two entries as a Tuple, and one policy for all roles")),
    pytest.param("WarpTag-v0", "discrete_a2c", 5, {**TAG, "flatten_actions": True},
                 marks=pytest.mark.works("rl_games", "Tag with flatten_actions=True")),
    pytest.param("WarpPendulum-v1", "continuous_a2c_logstd", 1, {},
                 marks=pytest.mark.works("rl_games", "continuous actions")),
])  # fmt: skip
def test_every_kind_of_action_space_trains(env_id, model, agents, env, device, tmp_path):
    agent, stored = run(env_id, tmp_path, device, model, epochs=2, agents=agents, env=env)
    assert agent.is_tensor_obses and stored["obses"].shape[:2] == (12, 4 * agents)
    assert str(agent.obs["obs"].device) == device
    assert all(torch.isfinite(weight).all() for weight in agent.model.parameters())


@pytest.mark.works("rl_games", "Tag with central_value_config, whose input is all observations of a world")
def test_a_central_value_trains(tmp_path):
    network = {"name": "actor_critic", "central_value": True, "mlp": {"units": [16], "activation": "tanh"}}
    network["mlp"] |= {"initializer": {"name": "default"}, "regularizer": {"name": "None"}}
    central = {
        "network": network, "minibatch_size": 48, "mini_epochs": 1, "learning_rate": 1e-3, "lr_schedule": None,
        "kl_threshold": 0.01, "clip_value": False, "normalize_input": True, "truncate_grads": True, "grad_norm": 1.0,
    }  # fmt: skip
    agent, stored = run("WarpTag-v0", tmp_path, model="multi_discrete_a2c", agents=5, env=TAG, central_value_config=central)
    assert stored["states"].shape == (12, 4, 5 * stored["obses"].shape[-1])
    assert torch.equal(stored["states"], stored["obses"].reshape(12, 4, -1))
    assert all(torch.isfinite(weight).all() for weight in agent.central_value_net.parameters())


@pytest.mark.works("rl_games", "copy=False, because rl_games copies observations before the next step")
def test_copy_false_stores_the_same_rollout(tmp_path):
    (_, fresh), (_, persistent) = (
        run("WarpCartPole-v1", tmp_path, env={"copy": copy, "max_episode_steps": 5}) for copy in (True, False)
    )
    for name, tensor in fresh.items():
        assert torch.equal(tensor, persistent[name]), name


@pytest.mark.works("rl_games", "bootstrapping at time limits")
@pytest.mark.limit("rl_games", "bootstrapping from the true last observation: rl_games uses the one before it")
def test_time_limits_add_the_value_before_the_step(tmp_path):
    _, stored = run("WarpCartPole-v1", tmp_path, env={"max_episode_steps": 4}, gamma=0.5)
    time_out = torch.zeros(12, dtype=torch.bool)
    time_out[3::4] = True
    expected = 1 + 0.5 * stored["values"] * time_out.view(12, 1, 1)
    torch.testing.assert_close(stored["rewards"], expected)
    assert (stored["values"][time_out].abs() > 1e-6).all()


@pytest.mark.works("rl_games", "rl_games' player")
@pytest.mark.parametrize("use_vecenv", [False, True])
def test_the_player_plays_a_checkpoint(use_vecenv, tmp_path, capsys):
    run("WarpCartPole-v1", tmp_path, env={"max_episode_steps": 20})
    (checkpoint,) = tmp_path.rglob("*.pth")
    runner = Runner()
    config = rl_games_ppo.configuration(rl_games_ppo.Args(device="cpu", run_dir=str(tmp_path)))
    config["params"]["config"] |= {"device_name": "cpu", "num_actors": 1}
    config["params"]["config"]["player"] = {"games_num": 3, "deterministic": True, "use_vecenv": use_vecenv}
    runner.load(config)
    capsys.readouterr()
    runner.run({"train": False, "play": True, "checkpoint": str(checkpoint)})
    assert capsys.readouterr().out.count("\nreward: ") == 3


# ---- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, text", [
    (lambda: RlGamesEnv(gymnasium.make_vec("WarpCartPole-v1", device="cpu", array="numpy")), "array='torch', got 'numpy'"),
    (lambda: create_env("WarpCartPole-v1", device="cpu", autoreset_mode="next_step"), "mode='same_step', got 'next_step'"),
    (lambda: RlGamesEnv(gymnasium.make_vec("WarpTag-v0", num_envs=105, device="cpu", view="agents")),
     "RlGamesEnv needs an env with view='worlds', got 'agents'"),
    (lambda: RlGamesEnv(gymnasium.make_vec("CartPole-v1", num_envs=2)), "takes an env of this package, got CartPoleVectorEnv"),
])  # fmt: skip
def test_unsuitable_envs_raise_errors(make, text):
    with pytest.raises(ParameterError, match=text):
        make()


@pytest.mark.limit("rl_games", "MultiDiscrete: rl_games supports Discrete, Tuple and Box, so the adapter makes a Tuple")
def test_rl_games_does_not_know_multi_discrete(tmp_path, monkeypatch):
    monkeypatch.setattr("gpu_vecenv.adapters.rl_games._without_multi_discrete", lambda space: space)
    with pytest.raises(ValueError, match="Unsupported action space type.*MultiDiscrete"):
        run("WarpTag-v0", tmp_path, model="multi_discrete_a2c", agents=5, env=TAG)


def test_rl_games_makes_registered_ids():
    register("WarpCartPole-v1")
    env = vecenv.create_vec_env("WarpCartPole-v1", 3, device="cpu", seed=1)
    assert isinstance(env, RlGamesEnv) and env.reset().shape == (3, 4)


def test_without_rl_games_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rl_games.common", None)
    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.rl_games")
    with pytest.raises(MissingExtraError, match=r"pip install \"gpu-vecenv\[rl-games\]\""):
        importlib.import_module("gpu_vecenv.adapters.rl_games")


# ---- the example --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_the_example_runs(device, tmp_path):
    args = rl_games_ppo.Args(num_envs=4, total_steps=4 * 64, num_steps=32, eval_episodes=2, device=device, run_dir=str(tmp_path))
    result = rl_games_ppo.train(args)
    assert set(result) == {"mean_return", "rows_per_second"} and all(np.isfinite(list(result.values())))
    assert list(tmp_path.rglob("events*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.works("rl_games", "PPO solves CartPole")
def test_the_example_learns(device, tmp_path):
    result = rl_games_ppo.train(dataclasses.replace(rl_games_ppo.Args(), device=device, run_dir=str(tmp_path)))
    print(result)
    assert result["mean_return"] >= 475
