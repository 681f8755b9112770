"""Calls of adapters that cannot be made raise typed errors by name, and the env goes on."""

import gymnasium
import numpy as np
import pytest
import torch

from gpu_vecenv.errors import (
    ArrayTypeError,
    ParameterError,
    SequenceError,
    ShapeError,
    UnknownAttributeError,
    UnknownParameterError,
)

CARTPOLE = "WarpCartPole-v1"
TAG = {"num_taggers": 1, "num_runners": 2, "episode_length": 5}


@pytest.fixture(scope="module")
def rows():
    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    env = Sb3VecEnv(CARTPOLE, num_worlds=3, device="cpu")
    yield env
    env.close()


SB3 = {
    "options 5": (lambda env: env.set_options(5), ArrayTypeError, "options must be a mapping with names as keys, got int"),
    "options str": (lambda env: env.set_options("low"), ArrayTypeError, "options must be a mapping"),
    "options of no row": (lambda env: env.set_options([]), ShapeError, "one mapping, or 3 for as many rows, got 0"),
    "options of a row": (lambda env: env.set_options([5, 5, 5]), ArrayTypeError, "options must be a mapping"),
    "unknown method": (lambda env: env.env_method("nope"), UnknownAttributeError, "WarpCartPole-v1 has no method 'nope'"),
    "no method": (lambda env: env.env_method("num_envs"), UnknownAttributeError, "has no method 'num_envs'"),
    "private method": (lambda env: env.env_method("__class__"), UnknownAttributeError, "has no method '__class__'"),
    "method 5": (lambda env: env.env_method(5), UnknownAttributeError, "has no method 5"),
    "wrapper 5": (lambda env: env.env_is_wrapped(5), ArrayTypeError, "wrapper_class must be a class, got 5"),
    "row 99": (lambda env: env.get_attr("params", [99]), ParameterError, r"numbers of 3 rows or None, got \[99\]"),
    "row x": (lambda env: env.get_attr("params", "x"), ParameterError, "numbers of 3 rows or None, got 'x'"),
    "rows None": (lambda env: env.env_is_wrapped(gymnasium.Wrapper, [None]), ParameterError, "numbers of 3 rows"),
    "step_wait": (lambda env: env.step_wait(), SequenceError, r"call step_async\(\) before step_wait\(\)"),
    "step_async twice": (
        lambda env: (env.step_async([0, 0, 0]), env.step_async([1, 1, 1])), SequenceError, r"step_async\(\) was called twice"),
    "reset between": (
        lambda env: (env.step_async([0, 0, 0]), env.reset(), env.step_wait()), SequenceError, r"call step_async\(\) before"),
}  # fmt: skip


@pytest.mark.parametrize("name", SB3)
def test_a_call_of_sb3_that_cannot_be_made_is_refused(rows, name):
    call, error, message = SB3[name]
    rows.reset()
    with pytest.raises(error, match=message):
        call(rows)
    rows.reset()
    for _ in range(2):
        assert rows.step(np.zeros(3, int))[1].tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", [np.array, torch.tensor])
def test_actions_changed_between_step_async_and_step_wait_do_not_count(rows, kind):
    seen = []
    for change in (False, True):
        rows.seed(3)
        rows.reset()
        actions = kind([0, 1, 0])
        rows.step_async(actions)
        if change:
            actions[:] = 1 - actions
        seen.append(rows.step_wait()[0])
    np.testing.assert_array_equal(*seen)


@pytest.mark.parametrize("options, message", [({"role": ["x"]}, r"there is no role \['x'\]; the roles are"),
                                              ({"role": "tagger", "others": 5}, "others must be a mapping"),
                                              ({"others": 5}, "others must be a mapping")])  # fmt: skip
def test_roles_and_policies_of_sb3_that_are_none_are_refused(options, message):
    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    with pytest.raises((ParameterError, ArrayTypeError), match=message):
        Sb3VecEnv("WarpTag-v0", num_worlds=1, device="cpu", **TAG, **options)


def test_a_rollout_buffer_that_is_no_class_is_refused():
    from gpu_vecenv.adapters.sb3_gpu import GpuPPO

    with pytest.raises(ParameterError, match="rollout_buffer_class must be a GpuRolloutBuffer, got 5"):
        GpuPPO("MlpPolicy", gymnasium.make_vec(CARTPOLE, 2, device="cpu"), rollout_buffer_class=5)


PETTINGZOO = {
    "space of observations": (lambda env: env.observation_space("x"), ParameterError, "there is no agent 'x'; the agents are"),
    "space of actions": (lambda env: env.action_space(["x"]), ParameterError, r"there is no agent \['x'\]"),
    "options": (lambda env: env.reset(options=5), ArrayTypeError, "options must be a mapping with names as keys, got int"),
}


@pytest.mark.parametrize("name", PETTINGZOO)
def test_a_call_of_pettingzoo_that_cannot_be_made_is_refused(name):
    pytest.importorskip("pettingzoo")
    from gpu_vecenv.adapters.pettingzoo import PettingZooEnv

    call, error, message = PETTINGZOO[name]
    env = PettingZooEnv("WarpTag-v0", device="cpu", **TAG)
    with pytest.raises(error, match=message):
        call(env)
    env.reset(seed=0, options={"an option of another env": 1})


def torchrl_reset(mask):
    from tensordict import TensorDict

    return lambda env: env.reset(TensorDict({"_reset": mask}, [3]))


TORCHRL = {
    "mask of integers": (torchrl_reset(torch.zeros(3, 1).int()), ArrayTypeError, "_reset must be bool, got torch.int32"),
    "mask of pairs": (torchrl_reset(torch.zeros(3, 2, dtype=torch.bool)), ShapeError, r"_reset must have the shape \(3, 1\)"),
    "seed of reset": (lambda env: env.reset(seed=5), UnknownParameterError, r"TorchRLEnv takes no keywords, got seed=5"),
    "no action": (lambda env: env.step(env.reset()), ParameterError, "a step needs the entry 'action', got none"),
}  # fmt: skip


@pytest.mark.parametrize("name", TORCHRL)
def test_a_call_of_torchrl_that_cannot_be_made_is_refused(name):
    pytest.importorskip("torchrl")
    from gpu_vecenv.adapters.torchrl import TorchRLEnv

    call, error, message = TORCHRL[name]
    env = TorchRLEnv(CARTPOLE, num_worlds=3, device="cpu")
    env.reset()
    with pytest.raises(error, match=message):
        call(env)
    assert env.rollout(3).shape == (3, 3)


@pytest.mark.parametrize("option", ["categorical_actions", "grouped"])
def test_options_of_torchrl_are_true_or_false(option):
    pytest.importorskip("torchrl")
    from gpu_vecenv.adapters.torchrl import TorchRLEnv

    with pytest.raises(ParameterError, match=f"{option} must be one of True, False, got 5"):
        TorchRLEnv(CARTPOLE, device="cpu", **{option: 5})


def test_values_that_rl_games_cannot_take_are_refused():
    pytest.importorskip("rl_games")
    from gpu_vecenv.adapters.rl_games import create_env, register

    with pytest.raises(ParameterError, match=r"register\(\) takes an id of an env of this package, got int"):
        register(5)
    env = create_env(CARTPOLE, 3, device="cpu")
    env.reset()
    for actions in ([0, 0], torch.zeros(3, 2, dtype=torch.int64), None):
        with pytest.raises((ShapeError, ArrayTypeError), match="actions must"):
            env.step(actions)


def test_values_that_rsl_rl_cannot_take_are_refused():
    pytest.importorskip("rsl_rl")
    from gpu_vecenv.adapters.rsl_rl import RslRlEnv

    env = RslRlEnv(gymnasium.make_vec("WarpPendulum-v1", 3, device="cpu"))
    short = torch.zeros(2, dtype=torch.int32)
    for steps, error in (([1, 2, 3], ArrayTypeError), (torch.zeros(3), ArrayTypeError), (short, ShapeError)):
        with pytest.raises(error, match="episode_length_buf must"):
            env.episode_length_buf = steps


def test_values_that_skrl_cannot_take_are_refused():
    pytest.importorskip("skrl")
    from gpu_vecenv.adapters.skrl import SkrlMultiAgentEnv, with_final_observations

    with pytest.raises(ParameterError, match="agent_class must be a class of an agent of skrl, got 5"):
        with_final_observations(5)
    env = SkrlMultiAgentEnv(gymnasium.make_vec("WarpTag-v0", 3, device="cpu", **TAG))
    env.reset()
    for actions in (None, {}, {"tagger_0": torch.zeros(3, 2)}):
        with pytest.raises(ParameterError, match="actions must be a dict with the keys tagger_0, runner_0, runner_1, got"):
            env.step(actions)


@pytest.mark.parametrize("given, options, message", [
    (5, {}, "BenchMARLTask takes an id of an env of this package, got int"),
    ("WarpTag-v0", {"max_steps": 0}, "max_steps must be an integer from 1 or None, got 0"),
    ("WarpTag-v0", {"max_steps": "x"}, "max_steps must be an integer from 1 or None, got 'x'"),
    ("WarpTag-v0", {"state": 5}, "state must be one of True, False, got 5"),
])  # fmt: skip
def test_values_that_benchmarl_cannot_take_are_refused(given, options, message):
    pytest.importorskip("benchmarl")
    from gpu_vecenv.adapters.benchmarl import BenchMARLTask

    with pytest.raises(ParameterError, match=message):
        BenchMARLTask(given, **options)
