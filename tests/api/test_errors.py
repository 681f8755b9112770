"""Errors for bad input, recognised by their text. After an error the env steps as if the call had not been made."""

import dataclasses
import sys

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv
from gpu_vecenv import errors
from gpu_vecenv.backend import compiler, select
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.spec.fields import Field
from gpu_vecenv.vector.env.graph import capture_steps
from tests.api.envs import assert_same, host_info, make, random_actions


@pytest.mark.parametrize("name, options, error, text", [
    ("WarpTag-v7", {}, gymnasium.error.VersionNotFound, "WarpTag"),
    ("WarpTug-v0", {}, gymnasium.error.NameNotFound, "Did you mean: `WarpTag`"),
    ("WarpTag-v0", {"num_taggerz": 2}, errors.UnknownParameterError,
     "got an unexpected keyword argument 'num_taggerz': WarpTag-v0 has no parameter of this name. Did you mean 'num_taggers'"),
    ("WarpCartPole-v1", {"gravty": 2}, errors.UnknownParameterError, "'gravty': WarpCartPole-v1 has no parameter"),
    ("WarpCartPole-v1", {"num_env": 2}, errors.UnknownParameterError, r"this name\. Did you mean 'num_envs'\? It has: sutton"),
    ("WarpTag-v0", {"auto_reset_mode": "same_step"}, errors.UnknownParameterError, "Did you mean 'autoreset_mode'"),
    ("WarpTag-v0", {"max_episode_steps": 10}, errors.UnknownParameterError, "keyword argument 'max_episode_steps'"),
    ("WarpTag-v0", {"seed": 10}, errors.UnknownParameterError, "keyword argument 'seed'"),
    ("WarpTag-v0", {"view": "rows"}, errors.ParameterError, "view must be one of 'worlds', 'agents', got 'rows'"),
    ("WarpTag-v0", {"array": "list"}, errors.ParameterError, "array must be one of 'torch', 'cupy', 'numpy', 'jax', got 'list'"),
    ("WarpTag-v0", {"autoreset_mode": "later"}, errors.ParameterError, "autoreset_mode must be one of .*same_step.*got 'later'"),
    ("WarpTag-v0", {"device": "gpu"}, errors.ParameterError, 'device must be "auto", "cpu", "cuda" or "cuda:N", got \'gpu\''),
    ("WarpTag-v0", {"render_mode": "human"}, errors.ParameterError, "render_mode must be one of None, 'rgb_array', got 'human'"),
    ("WarpTag-v0", {"copy": "no"}, errors.ParameterError, "copy must be one of True, False, got 'no'"),
    ("WarpTag-v0", {"first_world": -1}, errors.ParameterError, "first_world must be an integer from 0 to 2147483647, got -1"),
    ("WarpTag-v0", {"first_world": 2**31, "num_envs": 1}, errors.ParameterError, "first_world must be an integer from 0"),
    ("WarpTag-v0", {"num_envs": 0}, errors.ParameterError, "num_envs must be an integer from 1 to 2147483647, got 0"),
    ("WarpTag-v0", {"num_envs": 2**31}, errors.ParameterError, "from 1 to 2147483647, got 2147483648"),
    ("WarpTag-v0", {"num_worlds": 2**40, "view": "agents"}, errors.ParameterError, "num_worlds must be an integer from 1 to"),
    ("WarpTag-v0", {"num_envs": 2**38, "view": "agents"}, errors.ParameterError, "from 1 to 225485782935, got"),
    ("WarpTag-v0", {"array": "cupy"}, errors.DeviceError, 'array="cupy" needs a CUDA device, and this env runs on the CPU'),
    ("WarpCartPole-v1", {"max_episode_steps": -1}, errors.ParameterError, "max_episode_steps must be at least 0, got -1"),
    ("WarpCartPole-v1", {"sutton_barto_reward": "x"}, errors.ParameterError, "sutton_barto_reward must be True or False"),
])  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_invalid_options_of_make_vec_raise_errors(name, options, error, text):
    with pytest.raises(error, match=text):
        gymnasium.make_vec(name, **{"device": "cpu", **options})


@pytest.mark.parametrize("dtype", ["bool", "float16", "int8"])
def test_state_fields_of_unsupported_dtypes_raise_errors(dtype):
    match = f"WarpCartPole-v1: state field 'mark': dtype must be one of .*, uint64, got '{dtype}'"
    with pytest.raises(errors.SpecError, match=match):
        dataclasses.replace(SPEC, state=(*SPEC.state, Field("mark", dtype, (), "a flag")))


def test_errors_subclass_built_in_errors():
    kinds = (ValueError, TypeError, RuntimeError, ImportError, MemoryError, OSError, AttributeError, ArithmeticError)
    for kind in vars(errors).values():
        if isinstance(kind, type) and kind is not errors.GpuVecenvError:
            assert issubclass(kind, errors.GpuVecenvError) and issubclass(kind, kinds), kind


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
def test_cuda_without_a_gpu_raises_an_error(device, monkeypatch):
    monkeypatch.setattr(select, "cuda_devices", lambda: 0)
    with pytest.raises(errors.DeviceError, match=rf"device='{device}' was asked for, but torch sees no usable GPU.*doctor"):
        make("tag", device=device)
    assert make("tag", device="auto").unwrapped.device == "cpu"


def test_a_missing_compiler_raises_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("GPU_VECENV_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiler, "PREBUILT", tmp_path)
    monkeypatch.setitem(sys.modules, "ziglang", None)
    with pytest.raises(errors.CompileError, match="no C.. compiler was found. Install g.. or clang.. "):
        make("tag")
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    with pytest.raises(errors.CompileError, match="could not run 'no-such-compiler'"):
        make("tag")
    assert not list(tmp_path.glob("*.so"))


def out_of_range(action):
    action = action.copy()
    action[1, 4, 1] = 21
    return action


@pytest.mark.parametrize("bad, error, text", [
    (lambda a: a[:2], errors.ShapeError, r"actions must have shape \(3, 6, 2\), got \(2, 6, 2\)"),
    (lambda a: a[..., 0], errors.ShapeError, r"actions must have shape \(3, 6, 2\), got \(3, 6\)"),
    (lambda a: a.astype(np.float32), errors.ArrayTypeError, "actions must be uint8, int8, int16, int32 or int64, got float32"),
    (lambda a: a.astype(np.uint16), errors.ArrayTypeError, "actions must be uint8, int8, int16, int32 or int64, got uint16"),
    (lambda a: torch.as_tensor(a, device="meta"), errors.DeviceError, "actions must hold values, got a tensor on .*meta"),
    (out_of_range, errors.ActionError, r"actions must lie in 0..20 and 0..20, got 21 at \[1, 4, 1\]"),
    (lambda a: -1 - a, errors.ActionError, "actions must lie in 0..20 and 0..20, got -"),
    (lambda a: None, errors.ShapeError, r"actions must have shape \(3, 6, 2\), got \(\)"),
    (lambda a: [[1, 2], [3]], errors.ShapeError, r"actions must have shape \(3, 6, 2\), got lists of unequal lengths"),
])  # fmt: skip
def test_invalid_actions_raise_errors_and_step_nothing(bad, error, text):
    env, twin = make("tag"), make("tag")
    env.reset(seed=0)
    twin.reset(seed=0)
    for action in random_actions(env, 6):
        before = env.get_state()
        with pytest.raises(error, match=text):
            env.step(bad(action))
        assert_same(env.get_state(), before)
        *out, info = env.step(action)
        *expected, expected_info = twin.step(action)
        assert_same(out, expected)
        assert_same(host_info(info), host_info(expected_info))


def test_the_agents_view_takes_one_action_a_row():
    env = make("tag", view="agents")
    env.reset(seed=0)
    with pytest.raises(errors.ShapeError, match=r"actions must have shape \(18, 2\), got \(3, 6, 2\)"):
        env.step(np.zeros((3, 6, 2), int))


def test_discrete_actions_out_of_range_raise_an_error():
    env = make("cartpole")
    env.reset(seed=0)
    with pytest.raises(errors.ActionError, match=r"actions must lie in 0..1, got 2 at \[2\]"):
        env.step(np.array([0, 1, 2]))
    assert not env.get_state()["t"].any()
    env.unwrapped.check()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("given", [np.asarray, torch.as_tensor, lambda a: np.repeat(a, 2)[::2],
                                   lambda a: torch.as_tensor(np.repeat(a, 2))[::2]])  # fmt: skip
def test_one_invalid_action_among_many_raises_an_error(given, dtype):
    """Checked for NumPy arrays and tensors, contiguous or not."""
    env = make("cartpole", num_worlds=100)
    env.reset(seed=0)
    for place, bad in ((0, 2), (57, -1), (99, 2**31 - 1)):
        actions = np.arange(100, dtype=dtype) % 2
        env.step(given(actions))
        before = env.get_state()
        actions[place] = bad
        with pytest.raises(errors.ActionError, match=rf"actions must lie in 0..1, got {bad} at \[{place}\]"):
            env.step(given(actions))
        assert_same(env.get_state(), before)


def test_calls_before_the_first_reset_raise_an_error():
    env = make("cartpole", render_mode="rgb_array")
    for call in ("step", "get_state", "set_state", "observe", "render"):
        with pytest.raises(errors.SequenceError, match=rf"call reset\(\) before {call}\(\)"):
            method = getattr(env.unwrapped, call)
            method({}) if call in ("step", "set_state") else method()


def test_calls_after_close_raise_an_error():
    env = make("cartpole", render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    env.close()
    env.close()
    assert env.unwrapped.closed
    for call in ("reset", "step", "get_state", "set_state", "observe", "render", "check", "bind"):
        with pytest.raises(errors.ClosedError, match="WarpCartPole-v1 was closed; make a new env"):
            method = getattr(env.unwrapped, call)
            method({}) if call in ("step", "set_state") else method()
    assert np.isfinite(obs).all()  # a returned array stays valid


def test_an_env_that_could_not_be_made_counts_as_closed():
    from gpu_vecenv.envs.tag.spec import SPEC
    from gpu_vecenv.vector.env.vector_env import GpuVectorEnv

    env = GpuVectorEnv.__new__(GpuVectorEnv)
    with pytest.raises(errors.ParameterError):
        env.__init__(SPEC, view="rows")
    assert env.closed
    env.close()


def test_the_single_env_raises_the_same_errors():
    env = gymnasium.make("WarpCartPole-v1").unwrapped
    with pytest.raises(errors.SequenceError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(errors.ActionError, match="0..1, got 3"):
        env.step(3)
    with pytest.raises(errors.UnknownParameterError, match="keyword argument 'num_wheels'"):
        gymnasium.make("WarpCartPole-v1", num_wheels=4)
    for name in ("WarpTag-v0", "WarpGridTag-v0"):
        with pytest.raises(errors.SeveralAgentsError, match=f'several agents.*use gymnasium.make_vec."{name}".'):
            gymnasium.make(name, num_taggers=2, render_mode="rgb_array")
    assert gpu_vecenv.__version__


@pytest.mark.parametrize("call", [
    lambda env: env.reset(seed=1), lambda env: env.set_state({"t": [1, 2, 3]}), lambda env: env.set_reset_pool(None),
    lambda env: env.copy_worlds([0], [1], diverge=True), lambda env: env.check(),
])  # fmt: skip
def test_calls_that_wait_are_refused_while_a_graph_is_captured(call, monkeypatch):
    """The back end is made to report a capture. State and random generator of the env do not change."""
    env, twin = make("cartpole", num_worlds=3).unwrapped, make("cartpole", num_worlds=3).unwrapped
    for one in (env, twin):
        one.reset(seed=0)
    monkeypatch.setattr(env.worlds.backend, "may_wait", lambda: False)
    with pytest.raises(errors.SequenceError, match="waits for the device, which a CUDA graph cannot do; call it before or after"):
        call(env)
    monkeypatch.undo()
    assert_same(env.get_state(), twin.get_state())
    assert env.np_random.random() == twin.np_random.random()


def test_capturing_a_graph_on_the_cpu_raises_an_error():
    env = make("cartpole", array="torch")
    env.reset(seed=0)
    with pytest.raises(errors.DeviceError, match="a CUDA graph needs an env on a GPU, and this one is on cpu"):
        capture_steps(env, 4)
