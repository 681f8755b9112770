"""rsl_rl's runner with the adapter: continuous actions only, inference mode, step counters that can be set."""

import dataclasses
import importlib
import sys

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.errors import MissingExtraError, ParameterError
from tests.devices import DEVICES

pytest.importorskip("rsl_rl")
pytest.importorskip("tyro")
from rsl_rl.runners import OnPolicyRunner  # noqa: E402

from examples import rsl_rl_ppo  # noqa: E402
from gpu_vecenv.adapters.rsl_rl import RslRlEnv  # noqa: E402

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 9, "tagging_distance": 0.3, "continuous_actions": True}
CONTINUOUS = [("WarpPendulum-v1", {}), ("WarpMountainCarContinuous-v0", {}), ("WarpTag-v0", TAG)]


def make(name="WarpPendulum-v1", num_worlds=4, device="cpu", **options):
    limit = {} if name == "WarpTag-v0" else {"max_episode_steps": 9}
    options = {"view": "agents", **limit, **options}
    return gymnasium.make_vec(name, num_worlds=num_worlds, device=device, **options)


def random_actions(env, steps):
    env.action_space.seed(0)
    return [torch.as_tensor(env.action_space.sample(), device=env.unwrapped.device) for _ in range(steps)]


def learn(env, steps, device="cpu", iterations=1, **options):
    """Make rollouts of ``steps`` steps; return the runner and the storage of the last rollout."""
    cfg = rsl_rl_ppo.configuration(rsl_rl_ppo.Args(num_steps=steps))
    cfg["algorithm"] |= {"num_learning_epochs": 1, "num_mini_batches": 1, "gamma": 0.5}
    runner = OnPolicyRunner(env, cfg, device=device)
    runner.learn(iterations, **options)
    return runner, runner.alg.storage


@pytest.mark.works("rsl_rl", "all continuous actions, on the env's device: Pendulum, MountainCarContinuous, rows of Tag")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, options", CONTINUOUS)
def test_rows_equal_those_of_the_vector_env(name, options, device):
    env, plain = RslRlEnv(make(name, device=device, **options), seed=6), make(name, device=device, **options)
    expected, _ = plain.reset(seed=6)
    assert (env.num_envs, env.num_actions, env.max_episode_length) == (len(expected), plain.single_action_space.shape[0], 9)
    ended = 0
    for action in random_actions(plain, 20):
        obs = env.get_observations()
        assert obs.batch_size == (env.num_envs,) and str(obs.device) == device
        assert torch.equal(obs["policy"], expected)
        with torch.inference_mode():
            obs, rewards, dones, extras = env.step(action)
        expected, reward, terminated, truncated, _ = plain.step(action)
        assert torch.equal(obs["policy"], expected) and torch.equal(rewards, reward)
        assert torch.equal(dones, terminated | truncated)
        assert torch.equal(extras["time_outs"], truncated & ~terminated)
        assert str(rewards.device) == str(dones.device) == device
        ended += int(dones.sum())
    assert ended >= 2 * env.num_envs
    env.close()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name, options", CONTINUOUS)
def test_the_runner_learns_and_continues(name, options, device):
    env = RslRlEnv(make(name, device=device, **options), seed=0)
    runner, storage = learn(env, 10, device, iterations=2, init_at_random_ep_len=True)
    runner.learn(1)
    for network in (runner.alg.actor, runner.alg.critic):
        assert all(torch.isfinite(weight).all() for weight in network.parameters())
    assert storage.observations["policy"].shape == (10, env.num_envs, *env.get_observations()["policy"].shape[1:])


@pytest.mark.works("rsl_rl", "rollouts in inference mode, with arrays that can be written outside of it")
def test_arrays_from_inference_mode_can_be_written_outside_it():
    with torch.inference_mode():
        env = RslRlEnv(make(), seed=0)
        first = env.get_observations()
        obs, rewards, *_ = env.step(torch.zeros(4, 1))
    for tensor in (first["policy"], obs["policy"], rewards):
        tensor.add_(1)
    env.step(torch.zeros(4, 1))
    env.episode_length_buf = torch.arange(4)


def test_the_storage_holds_the_observations_that_were_acted_on():
    """rsl_rl keeps a reference to an observation and copies it after the next step."""
    _, storage = learn(RslRlEnv(make(), seed=3), 12)
    plain = make()
    obs, _ = plain.reset(seed=3)
    for before, action in zip(storage.observations["policy"], storage.actions, strict=True):
        assert torch.equal(before, obs)
        obs, *_ = plain.step(action)


@pytest.mark.limit("rsl_rl", "copy=False: rsl_rl copies an observation after the next step has overwritten it")
def test_copy_false_raises_an_error():
    env = RslRlEnv(make(copy=False))
    with pytest.raises(ParameterError, match="expected an env with copy=True, got copy=False"):
        env.step(torch.zeros(4, 1))


@pytest.mark.works("rsl_rl", "bootstrapping at time limits")
@pytest.mark.limit("rsl_rl", "bootstrapping from the true last observation: rsl_rl uses the one before it")
def test_time_limits_add_the_value_before_the_step():
    _, storage = learn(RslRlEnv(make(), seed=3), 12)
    plain = make()
    plain.reset(seed=3)
    for t in range(12):
        _, reward, _, truncated, _ = plain.step(storage.actions[t])
        expected = reward + 0.5 * storage.values[t].flatten() * truncated
        torch.testing.assert_close(storage.rewards[t].flatten(), expected)
        assert bool(truncated.all()) == (t == 8)
    assert (storage.values[8].abs() > 1e-6).all()


@pytest.mark.parametrize("device", DEVICES)
def test_a_world_that_terminates_at_the_limit_is_not_timed_out(device):
    """Two cars in the last step before the limit; one of them reaches the flag."""
    inner = make("WarpMountainCarContinuous-v0", num_worlds=2, device=device)
    env = RslRlEnv(inner, seed=0)
    state = torch.tensor([[0.5, 0.06], [-0.5, 0.0]])
    inner.unwrapped.set_state({"state": state, "t": torch.full((2,), 8, dtype=torch.int32)})
    _, _, dones, extras = env.step(torch.zeros(2, 1, device=device))
    assert dones.tolist() == [True, True]
    assert extras["time_outs"].tolist() == [False, True]


# ---- step counters ------------------------------------------------------------------------------------------------


@pytest.mark.works("rsl_rl", "init_at_random_ep_len, which spreads the ends of episodes over time")
@pytest.mark.parametrize("device", DEVICES)
def test_step_counters_can_be_set(device):
    env = RslRlEnv(make(device=device), seed=0)
    assert env.episode_length_buf.tolist() == [0, 0, 0, 0]
    env.episode_length_buf = torch.tensor([8, 0, 7, 3], device=device)
    assert env.episode_length_buf.tolist() == [8, 0, 7, 3]
    ends = torch.stack([env.step(torch.zeros(4, 1, device=device))[2] for _ in range(9)])
    assert ends.int().argmax(0).tolist() == [0, 8, 1, 5]
    assert env.episode_length_buf.tolist() == [8, 0, 7, 3]


@pytest.mark.parametrize("device", DEVICES)
def test_the_agents_of_a_tag_world_share_a_step_counter(device):
    env = RslRlEnv(make("WarpTag-v0", num_worlds=2, device=device, **TAG), seed=0)
    taggers_then_runners = [4, 1, 8, 8, 4, 4, 4, 8, 8, 8]
    env.episode_length_buf = torch.tensor(taggers_then_runners, device=device)
    told = env.get_observations()["policy"][:, -1] * 9
    for steps in (env.episode_length_buf, told.round().int()):
        assert steps.tolist() == [4, 4, 8, 8, 4, 4, 4, 8, 8, 8]
    _, _, dones, _ = env.step(torch.zeros(10, 2, device=device))
    assert dones.tolist() == [False, False, True, True, False, False, False, True, True, True]


# ---- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.limit("rsl_rl", "discrete actions: rsl_rl's policies are Gaussian or Beta")
@pytest.mark.parametrize("name, space", [("WarpCartPole-v1", r"Discrete\(2\)"), ("WarpTag-v0", r"MultiDiscrete\(\[21 21\]\)")])
def test_discrete_actions_raise_an_error(name, space):
    with pytest.raises(ParameterError, match=f"the action space must be a Box, got {space}"):
        RslRlEnv(make(name))


@pytest.mark.parametrize("wrap, text", [
    (lambda: RslRlEnv(make(array="numpy")), "RslRlEnv needs an env with array='torch', got 'numpy'"),
    (lambda: RslRlEnv(make(autoreset_mode="disabled")), "needs an env with autoreset_mode='same_step', got 'disabled'"),
    (lambda: RslRlEnv(make("WarpTag-v0", view="worlds", **TAG)), "RslRlEnv needs an env with view='agents', got 'worlds'"),
    (lambda: RslRlEnv(make(max_episode_steps=None)), "needs a time limit, so max_episode_steps must be at least 1, got 0"),
    (lambda: RslRlEnv(gymnasium.make_vec("Pendulum-v1", num_envs=2)), "takes an env of this package, got SyncVectorEnv"),
])  # fmt: skip
def test_unsuitable_envs_raise_errors(wrap, text):
    with pytest.raises(ParameterError, match=text):
        wrap()


def test_without_rsl_rl_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rsl_rl.env", None)
    monkeypatch.delitem(sys.modules, "gpu_vecenv.adapters.rsl_rl")
    with pytest.raises(MissingExtraError, match=r"pip install \"gpu-vecenv\[rsl-rl\]\""):
        importlib.import_module("gpu_vecenv.adapters.rsl_rl")


# ---- the example --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_the_example_runs(device, tmp_path):
    args = rsl_rl_ppo.Args(num_envs=4, total_steps=4 * 32, num_steps=16, eval_episodes=2, device=device, run_dir=str(tmp_path))
    result = rsl_rl_ppo.train(args)
    assert set(result) == {"mean_return", "rows_per_second"} and all(np.isfinite(list(result.values())))
    assert list(tmp_path.rglob("events*"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.works("rsl_rl", "PPO swings up and holds the pendulum")
def test_the_example_learns(device, tmp_path):
    result = rsl_rl_ppo.train(dataclasses.replace(rsl_rl_ppo.Args(), device=device, run_dir=str(tmp_path)))
    print(result)
    assert result["mean_return"] >= -250
