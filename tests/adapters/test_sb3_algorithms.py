"""Stable-Baselines3's algorithms, wrappers, evaluation and env checker with these environments."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecCheckNan, VecFrameStack, VecMonitor, VecNormalize, VecVideoRecorder

from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from tests.adapters.test_sb3 import TAG, limit, make, works
from tests.devices import DEVICES

SINGLE = ["WarpCartPole-v1", "WarpAcrobot-v1", "WarpMountainCar-v0", "WarpMountainCarContinuous-v0", "WarpPendulum-v1"]
OFF_POLICY = {"learning_starts": 16, "batch_size": 8, "buffer_size": 200}


def learns_something(model, steps):
    """Return True if learning changes the parameters and counts episodes."""
    before = [p.clone() for p in model.policy.parameters()]
    model.learn(steps)
    moved = any(not torch.equal(a, b) for a, b in zip(before, model.policy.parameters(), strict=True))
    return moved and len(model.ep_info_buffer) > 0


@works("PPO")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["cartpole", "pendulum", "tag", "grid tag"])
def test_ppo_learns(name, device):
    assert learns_something(PPO("MlpPolicy", make(name, device), n_steps=16, batch_size=32, n_epochs=1, device=device), 160)


@works("A2C")
def test_a2c_learns():
    assert learns_something(A2C("MlpPolicy", make("cartpole"), device="cpu"), 80)


@works("DQN, with Discrete actions")
@pytest.mark.parametrize("name, params", [("cartpole", {}), ("tag", {"flatten_actions": True, "num_acceleration_levels": 2})])
def test_dqn_learns(name, params):
    assert learns_something(DQN("MlpPolicy", make(name, **params), device="cpu", **OFF_POLICY), 240)


@works("SAC, TD3 and DDPG, with Box actions")
@pytest.mark.parametrize("algorithm", [SAC, TD3, DDPG])
@pytest.mark.parametrize("env_id", ["WarpPendulum-v1", "WarpMountainCarContinuous-v0"])
def test_off_policy_algorithms_learn_with_box_actions(algorithm, env_id):
    env = Sb3VecEnv(env_id, num_envs=2, device="cpu", max_episode_steps=10)
    assert learns_something(algorithm("MlpPolicy", env, device="cpu", **OFF_POLICY), 60)


@limit("DQN with MultiDiscrete actions: it supports Discrete only; use flatten_actions=True for Tag")
def test_dqn_on_two_choices_raises_an_error():
    with pytest.raises(AssertionError, match="action spaces"):
        DQN("MlpPolicy", make("tag"), device="cpu")


@limit("a Gymnasium vector env passed to SB3: SB3 needs a VecEnv; use Sb3VecEnv")
def test_a_vector_env_without_the_adapter_raises_an_error():
    with pytest.raises(ValueError, match="not a Gymnasium environment"):
        PPO("MlpPolicy", gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu"), device="cpu")


def test_the_replay_buffer_holds_the_ends_of_episodes():
    env = make("cartpole", max_episode_steps=5)
    model = DQN("MlpPolicy", env, device="cpu", learning_starts=1000, buffer_size=400, seed=0).learn(160)
    buffer, steps = model.replay_buffer, 40
    every_fifth = np.arange(1, steps + 1) % 5 == 0  # a pole does not fall in five steps
    np.testing.assert_array_equal(buffer.dones[:steps], np.repeat(every_fifth[:, None], 4, 1))
    np.testing.assert_array_equal(buffer.timeouts[:steps], buffer.dones[:steps])
    going = buffer.dones[: steps - 1].astype(bool)
    following, reached = buffer.observations[1:steps], buffer.next_observations[: steps - 1]
    np.testing.assert_array_equal(reached[~going], following[~going])
    moved = np.abs(reached - buffer.observations[: steps - 1])[going].max(-1)
    assert (moved > 0).all() and (moved < 0.6).all()  # within the episode, one step of physics away
    assert not np.array_equal(reached[going], following[going])  # the next row is a start of an episode


@works("PPO and A2C bootstrap from terminal_observation at time limits, and not at terminations")
@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_returns_are_bootstrapped_at_time_limits_and_not_at_terminations(algorithm):
    """The critic is constant, c, and lambda is 1: a return is the discounted rewards, plus discounted c after a time limit."""
    gamma, c = 0.9, 40.0

    def returns(env):
        model = algorithm("MlpPolicy", env, n_steps=30, gamma=gamma, gae_lambda=1.0, device="cpu", seed=1)
        torch.nn.init.zeros_(model.policy.value_net.weight)
        torch.nn.init.constant_(model.policy.value_net.bias, c)
        _, callback = model._setup_learn(1000)
        model.collect_rollouts(env, callback, model.rollout_buffer, 30)
        return model.rollout_buffer

    cut = returns(Sb3VecEnv("WarpMountainCar-v0", num_envs=32, device="cpu", max_episode_steps=5))
    left = 5 - np.arange(30) % 5
    expected = -(1 - gamma**left) / (1 - gamma) + gamma**left * c
    np.testing.assert_allclose(cut.returns, np.stack([expected] * 32, 1), rtol=1e-5)

    fallen = returns(Sb3VecEnv("WarpCartPole-v1", num_envs=32, device="cpu"))
    ended = [row for row in range(32) if fallen.episode_starts[1:, row].any()]
    assert len(ended) > 5
    for row in ended:
        left = np.flatnonzero(fallen.episode_starts[:, row])[1]
        np.testing.assert_allclose(fallen.returns[0, row], (1 - gamma**left) / (1 - gamma), rtol=1e-5)


@works("check_env on the single-agent ids")
@pytest.mark.parametrize("env_id", SINGLE)
def test_sb3s_env_checker_passes(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="We recommend you to use a symmetric and normalized Box")
        check_env(gymnasium.make(env_id))


@works("single-agent ids by name, with one world for each env: make_vec_env and PPO(..., id)")
def test_single_agent_ids_work_by_name():
    assert learns_something(PPO("MlpPolicy", "WarpCartPole-v1", n_steps=64, n_epochs=1, device="cpu"), 64)
    assert make_vec_env("WarpCartPole-v1", n_envs=3).reset().shape == (3, 4)


@works("evaluate_policy and EvalCallback, with true episode returns")
def test_evaluation(tmp_path):
    model = PPO("MlpPolicy", make("cartpole"), n_steps=16, batch_size=32, n_epochs=1, device="cpu", seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        returns, lengths = evaluate_policy(model, make("cartpole"), n_eval_episodes=9, return_episode_rewards=True)
    assert len(returns) == 9 and returns == lengths and 8 <= min(returns) and max(returns) <= 14
    callback = EvalCallback(make("cartpole"), n_eval_episodes=4, eval_freq=16, log_path=str(tmp_path), verbose=0)
    model.learn(64, callback=callback)
    assert np.load(tmp_path / "evaluations.npz")["results"].shape == (1, 4)


@works("VecNormalize, also under evaluate_policy")
def test_vec_normalize():
    env = VecNormalize(make("cartpole"), gamma=0.99)
    assert learns_something(PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, device="cpu"), 640)
    obs = env.reset()
    np.testing.assert_allclose(env.unnormalize_obs(obs), env.get_original_obs(), atol=1e-5)
    seen = []
    for _ in range(30):
        *_, infos = env.step(np.zeros(4, int))
        seen += [info["terminal_observation"] for info in infos if info]
    leaning = np.abs(env.unnormalize_obs(np.array(seen))[:, 2])
    assert len(seen) > 3 and (leaning > 0.2).all()  # pushed one way, every pole ends past its limit of 0.2095 rad
    env.training = False
    model = PPO("MlpPolicy", env, device="cpu")
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=4, return_episode_rewards=True)
    assert returns == lengths  # returns of raw rewards, not of normalised ones


@works("VecMonitor, with its log file")
def test_vec_monitor(tmp_path):
    with pytest.warns(UserWarning, match="statistics will be"):  # Sb3VecEnv keeps statistics too
        env = VecMonitor(make("cartpole"), str(tmp_path / "monitor.csv"))
    ours = make("cartpole")
    env.seed(0)
    ours.seed(0)
    env.reset()
    ours.reset()
    episodes = 0
    for _ in range(40):
        actions = np.random.default_rng(0).integers(2, size=4)
        theirs, mine = env.step(actions)[-1], ours.step(actions)[-1]
        for a, b in zip(theirs, mine, strict=True):
            assert ("episode" in a) == ("episode" in b)
            if "episode" in a:
                episodes += 1
                assert (a["episode"]["r"], a["episode"]["l"]) == (b["episode"]["r"], b["episode"]["l"])
    env.close()
    head, columns, *rows = (tmp_path / "monitor.csv").read_text().splitlines()
    assert '"env_id": "WarpCartPole-v1"' in head and columns == "r,l,t" and len(rows) == episodes > 4


@works("VecFrameStack")
def test_vec_frame_stack():
    env, plain = VecFrameStack(make("cartpole"), n_stack=3), make("cartpole")
    env.seed(0)
    plain.seed(0)
    stacked, last = env.reset(), plain.reset()
    np.testing.assert_array_equal(stacked, np.concatenate([np.zeros((4, 8)), last], 1))
    ends = 0
    for _ in range(30):
        before = stacked
        stacked, _, dones, infos = env.step(np.ones(4, int))
        last, *_, plain_infos = plain.step(np.ones(4, int))
        for row in range(4):
            older = np.zeros(8) if dones[row] else before[row, 4:]
            np.testing.assert_array_equal(stacked[row], np.concatenate([older, last[row]]))
            if dones[row]:
                ends += 1
                np.testing.assert_array_equal(
                    infos[row]["terminal_observation"],
                    np.concatenate([before[row, 4:], plain_infos[row]["terminal_observation"]]),
                )
    assert ends > 4


@works("VecCheckNan")
def test_vec_check_nan():
    env = VecCheckNan(make("tag"), raise_exception=True)
    assert learns_something(PPO("MlpPolicy", env, n_steps=16, batch_size=32, n_epochs=1, device="cpu"), 320)
    pendulum = VecCheckNan(make("pendulum"), raise_exception=True)
    pendulum.reset()
    with pytest.raises(ValueError, match="found nan"):
        pendulum.step(np.full((4, 1), np.nan, np.float32))


@works("agent_alive of the last step, read through wrappers")
def test_agent_alive_is_readable_through_a_wrapper():
    env = VecNormalize(Sb3VecEnv("WarpTag-v0", num_worlds=3, device="cpu", **TAG))
    env.reset()
    env.step(np.zeros((15, 2), int))
    assert env.agent_alive.shape == (15,) and env.agent_alive.dtype == bool


@works("VecVideoRecorder")
def test_video(tmp_path):
    pytest.importorskip("moviepy")
    env = make("cartpole", num_worlds=1, render_mode="rgb_array")
    recorder = VecVideoRecorder(env, str(tmp_path), record_video_trigger=lambda step: step == 0, video_length=5)
    recorder.reset()
    for _ in range(7):
        recorder.step(np.zeros(1, int))
    recorder.close()
    assert [path.stat().st_size > 0 for path in tmp_path.glob("*.mp4")] == [True]
