"""``Sb3VecEnv`` as the ``vec_env_cls`` of SB3's ``make_vec_env``: functions that make one env each become one env."""

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor

from gpu_vecenv import SingleEnv
from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from gpu_vecenv.errors import ParameterError, UnknownParameterError
from tests.roles import harvest

CARTPOLE = "gpu_vecenv:WarpCartPole-v1"


def make(n_envs=4, device="cpu", **options):
    return make_vec_env(CARTPOLE, n_envs, vec_env_cls=Sb3VecEnv, vec_env_kwargs={"device": device}, **options)


@pytest.mark.works("Stable-Baselines3", "`make_vec_env(id, n, vec_env_cls=Sb3VecEnv)`")
def test_rows_are_those_of_the_adapter_with_the_parameters_of_the_functions():
    env = make(seed=3, env_kwargs={"gravity": 30.0, "max_episode_steps": 12})
    plain = Sb3VecEnv(CARTPOLE, num_envs=4, device="cpu", gravity=30.0, max_episode_steps=12)
    assert isinstance(env, Sb3VecEnv) and (env.num_envs, env.spec.id) == (4, "WarpCartPole-v1")
    plain.seed(3)
    np.testing.assert_array_equal(env.reset(), plain.reset())
    timeouts = 0
    for action in np.random.default_rng(0).integers(2, size=(40, 4)):
        (*arrays, infos), (*expected, theirs) = env.step(action), plain.step(action)
        for ours, other in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(ours, other)
        assert [info.get("TimeLimit.truncated") for info in infos] == [info.get("TimeLimit.truncated") for info in theirs]
        timeouts += sum(info.get("TimeLimit.truncated", False) for info in infos)
    assert timeouts and env.get_images()[0].shape == (480, 720, 3)  # make_vec_env asks for rgb_array
    PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, device="cpu").learn(64)


@pytest.mark.parametrize("limit, own, expected", [(None, 0, 500), (7, 0, 7), (-1, 0, 0), (-1, 9, 9), (7, 9, 7), (12, 9, 9)])
def test_the_time_limit_is_the_shortest_one(limit, own, expected):
    def function():
        env = gymnasium.make(CARTPOLE, max_episode_steps=limit)
        env.unwrapped.vector = SingleEnv(env.unwrapped.vector.env_spec, max_episode_steps=own).vector
        return env

    assert Sb3VecEnv([function] * 2, device="cpu").get_attr("params")[0]["max_episode_steps"] == expected


def test_the_log_of_monitor_has_every_episode(tmp_path):
    env = make(seed=1, monitor_dir=str(tmp_path))
    env.reset()
    episodes = []
    for _ in range(40):
        episodes += [info["episode"] for info in env.step(np.ones(4, int))[3] if info]
    env.close()
    (log,) = tmp_path.iterdir()
    head, columns, *rows = log.read_text().splitlines()
    assert log.name == "0.monitor.csv" and '"env_id": "WarpCartPole-v1"' in head and columns == "r,l,t"
    assert len(episodes) > 8 and rows == [f"{one['r']},{one['l']},{one['t']}" for one in episodes]


def test_only_the_first_function_is_called():
    def never():
        raise AssertionError("called")

    assert Sb3VecEnv([lambda: gymnasium.make(CARTPOLE), never, never], device="cpu").num_envs == 3


def test_functions_may_make_an_env_without_an_id_or_wrappers():
    spec = gymnasium.make(CARTPOLE).unwrapped.vector.env_spec
    env = Sb3VecEnv([lambda: Monitor(SingleEnv(spec, gravity=5.0))] * 2, device="cpu")
    assert env.get_attr("params")[0]["gravity"] == 5 and env.reset().shape == (2, 4)


@pytest.mark.parametrize("made, message", [
    (lambda: gymnasium.make("CartPole-v1"), "an env of this package with one agent, got <.*TimeLimit<.*CartPole"),
    (lambda: SingleEnv(harvest.SPEC), "with one agent, got <SingleEnv"),
    (lambda: gymnasium.wrappers.RescaleObservation(gymnasium.make("WarpPendulum-v1"), 0, 1),
     "without the wrappers of single envs, got <RescaleObservation"),
    (lambda: gymnasium.make("WarpCartPole-v1", render_mode="human"), "without the wrappers of single envs, got .*HumanRendering"),
])  # fmt: skip
def test_envs_that_are_no_worlds_raise_errors(made, message):
    pytest.importorskip("pygame")
    with pytest.raises(ParameterError, match=message):
        Sb3VecEnv([made] * 2)


def test_other_lists_and_unknown_options_raise_errors():
    functions = [lambda: gymnasium.make(CARTPOLE)]
    for given in ([], [gymnasium.make(CARTPOLE)], gymnasium.make(CARTPOLE)):
        with pytest.raises(ParameterError, match="a list of functions that make envs, got"):
            Sb3VecEnv(given)
    with pytest.raises(ParameterError, match="num_envs and keywords of make_vec need an id as env, got list"):
        Sb3VecEnv(functions, num_envs=2)
    with pytest.raises(UnknownParameterError, match="mass"):
        Sb3VecEnv(functions, device="cpu", mass=1.0)
