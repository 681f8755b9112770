"""Ids and keywords that an adapter or a single env cannot take raise errors that say what to give instead."""

import re
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import VectorWrapper

from gpu_vecenv import EpisodeStatistics, GpuVectorEnv
from gpu_vecenv.adapters.checks import made_by_id
from gpu_vecenv.errors import ClosedError, ParameterError, ShapeError, UnknownIdError, UnknownParameterError

NAME = "WarpCartPole-v1"


def sb3(env_id=NAME, **options):
    return pytest.importorskip("gpu_vecenv.adapters.sb3").Sb3VecEnv(env_id, **options)


def sb3_by_functions(**options):
    from stable_baselines3.common.env_util import make_vec_env

    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    return make_vec_env(f"gpu_vecenv:{NAME}", n_envs=2, vec_env_cls=Sb3VecEnv, vec_env_kwargs={"device": "cpu", **options})


def pettingzoo(env_id=NAME, **options):
    pytest.importorskip("pettingzoo")
    return pytest.importorskip("gpu_vecenv.adapters.pettingzoo").PettingZooEnv(env_id, **options)


def torchrl(env_id=NAME, **options):
    pytest.importorskip("torchrl")
    return pytest.importorskip("gpu_vecenv.adapters.torchrl").TorchRLEnv(env_id, **options)


def rl_games(env_id=NAME, **options):
    pytest.importorskip("rl_games")
    return pytest.importorskip("gpu_vecenv.adapters.rl_games").create_env(env_id, **options)


SET = {
    sb3: ("Sb3VecEnv", {"array": "torch", "view": "agents"}),
    sb3_by_functions: ("Sb3VecEnv", {"array": "torch", "view": "agents", "num_worlds": 2}),
    pettingzoo: ("PettingZooEnv", {
        "array": "numpy", "view": "worlds", "num_worlds": 1, "num_envs": 1, "autoreset_mode": "disabled", "copy": True,
    }),
    torchrl: ("TorchRLEnv", {"array": "torch", "view": "worlds", "autoreset_mode": "disabled", "copy": True}),
    rl_games: (r"create_env\(\)", {"array": "torch", "view": "worlds", "num_worlds": 1}),
    partial(gymnasium.make, NAME): (f"{NAME} as a single env", {
        "array": "numpy", "view": "worlds", "num_worlds": 1, "num_envs": 1, "autoreset_mode": "disabled", "copy": True,
        "device": "cpu",
    }),
}  # fmt: skip
CASES = [(make, owner, name, value) for make, (owner, fixed) in SET.items() for name, value in fixed.items()]


@pytest.mark.parametrize("make, owner, name, value", CASES)
def test_keywords_that_are_set_already_are_refused(make, owner, name, value):
    end = ", or use gymnasium.make_vec" if "single" in owner else ""
    for given in (value, "another"):
        with pytest.raises(ParameterError, match=rf"^{owner} needs {name}={value!r} and sets it itself; leave out {name}{end}\."):
            make(**{name: given})


def test_torchrl_names_the_number_of_worlds():
    with pytest.raises(ParameterError, match="TorchRLEnv takes num_worlds, the number of worlds, and no num_envs"):
        torchrl(num_envs=4)


def test_other_keywords_go_through():
    assert pettingzoo(device="cpu", gravity=5.0).vector_env.params["gravity"] == 5
    assert gymnasium.make(NAME, gravity=5.0, debug=True, render_scale=0.5).unwrapped.vector.debug
    assert sb3(num_worlds=3, device="cpu", copy=False).num_envs == 3
    with pytest.raises(UnknownParameterError, match="got an unexpected keyword argument 'frameskip'"):
        torchrl(frameskip=1)


@pytest.mark.parametrize("make, owner", [(sb3, "Sb3VecEnv"), (pettingzoo, "PettingZooEnv"), (torchrl, "TorchRLEnv"),
                                         (rl_games, r"create_env\(\)")])  # fmt: skip
@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "CartPole", "gpu_vecenv:CartPole-v1"])
def test_ids_of_other_packages_are_refused(make, owner, env_id):
    """CartPole has a vector env in Gymnasium, Pendulum has none."""
    with pytest.raises(ParameterError, match=rf"{owner} takes an id of an env of this package, got '(CartPole|Pendulum)-v1'\."):
        make(env_id)


@pytest.mark.parametrize("make, owner", [(pettingzoo, "PettingZooEnv"), (torchrl, "TorchRLEnv"), (rl_games, r"create_env\(\)")])
def test_values_that_are_no_ids_are_refused(make, owner):
    for given in (None, 3, gymnasium.make_vec(NAME, device="cpu")):
        with pytest.raises(ParameterError, match=f"{owner} takes an id of an env of this package, got {type(given).__name__}"):
            make(given)


@pytest.mark.parametrize("env_id, message", [
    ("WarpCarPole-v1", "Did you mean: `WarpCartPole`"), ("WarpCartPole-v99", "v99"), ("x" * 900, "xxx"), ("", "Malformed"),
    ("no_such_module:WarpCartPole-v1", "No module named 'no_such_module'"), (":x", "x"), ("nowhere/WarpCartPole-v1", "nowhere"),
])  # fmt: skip
@pytest.mark.parametrize("make, owner", [(sb3, "Sb3VecEnv"), (pettingzoo, "PettingZooEnv"), (torchrl, "TorchRLEnv"),
                                         (rl_games, r"create_env\(\)")])  # fmt: skip
def test_ids_that_do_not_exist_raise_a_typed_error_with_gymnasium_s_text(make, owner, env_id, message):
    got = f"takes an id of an env of this package, got {re.escape(repr(env_id)[:97])}.*: .*{message}"
    with pytest.raises(UnknownIdError, match=f"(?s)^{owner} {got}") as raised:
        make(env_id)
    assert isinstance(raised.value, ParameterError) and isinstance(raised.value, gymnasium.error.UnregisteredEnv)


class Counted(GpuVectorEnv):
    pass


class Mine(VectorWrapper):
    def __init__(self, **options):
        super().__init__(gymnasium.make_vec(NAME, **options))


@pytest.mark.parametrize("entry", [
    lambda **options: EpisodeStatistics(gymnasium.make_vec(NAME, **options)),
    Mine,
    partial(Counted, gymnasium.make(NAME).unwrapped.vector.env_spec),
    "gpu_vecenv.envs.cartpole:make_vec",
], ids=["function", "wrapper", "subclass", "text"])  # fmt: skip
def test_ids_of_one_s_own_are_made(entry, monkeypatch):
    registered = gymnasium.envs.registration.EnvSpec("Own-v0", vector_entry_point=entry)
    monkeypatch.setitem(gymnasium.registry, "Own-v0", registered)
    for env_id in ("Own-v0", registered):
        env = made_by_id(env_id, "Adapter", {"array": "numpy"}, {"device": "cpu", "num_envs": 2})
        assert env.num_envs == 2 and env.unwrapped.array == "numpy"


@pytest.mark.filterwarnings("ignore:.*Using the latest versioned environment")
def test_an_id_without_a_version_is_the_newest():
    assert sb3("WarpCartPole", num_envs=2, device="cpu").num_envs == 2


@pytest.mark.parametrize("library, name", [
    ("skrl", "SkrlEnv"), ("skrl", "SkrlMultiAgentEnv"), ("rsl_rl", "RslRlEnv"), ("rl_games", "RlGamesEnv"),
])  # fmt: skip
def test_adapters_of_made_envs_refuse_ids_and_other_values(library, name):
    pytest.importorskip(library)
    adapter = getattr(pytest.importorskip(f"gpu_vecenv.adapters.{library}"), name)
    with pytest.raises(ParameterError, match=rf"^{name} takes an env .*, got '{NAME}'; make one with gymnasium.make_vec"):
        adapter(NAME)
    for given, kind in ((None, "NoneType"), (3, "int"), (gymnasium.make(NAME), "SingleEnv")):
        with pytest.raises(ParameterError, match=f"^{name} takes an env of this package, got {kind}"):
            adapter(given)


@pytest.mark.parametrize("make", [sb3, torchrl])
@pytest.mark.parametrize("seed", [-1, 2**64, 2**70, 1.5, "a", True])
def test_seeds_out_of_range_are_refused_when_they_are_set(make, seed):
    env = make(num_worlds=2, device="cpu")
    with pytest.raises(ParameterError, match=rf"a seed must be an integer from 0 to 2\*\*64 - 1, got {seed!r}"):
        getattr(env, "set_seed", getattr(env, "seed", None))(seed)


@pytest.mark.parametrize("make", [sb3, torchrl])
@pytest.mark.parametrize("seed", [0, 2**64 - 1, np.int64(7)])
def test_seeds_are_those_of_the_vector_env(make, seed):
    env = make(num_worlds=2, device="cpu")
    getattr(env, "set_seed", getattr(env, "seed", None))(seed)
    obs = env.reset()
    expected, _ = gymnasium.make_vec(NAME, num_envs=2, device="cpu", array="numpy").reset(seed=int(seed))
    np.testing.assert_array_equal(obs if isinstance(obs, np.ndarray) else obs["observation"], expected)


def test_a_closed_pettingzoo_env_says_so():
    env = pettingzoo("WarpTag-v0", num_taggers=2, num_runners=2, device="cpu")
    env.reset()
    env.close()
    for actions in ({}, dict.fromkeys(env.agents, [0, 0])):
        with pytest.raises(ClosedError, match="WarpTag-v0 was closed"):
            env.step(actions)


@pytest.mark.parametrize("shape, message", [
    ((3, 1), r"actions must have 4 rows, got the shape \(3, 1\)"),
    ((4, 2), r"actions must have the shape \(4,\) or \(4, 1\), got \(4, 2\)"),
    ((2, 2), r"actions must have 4 rows, got the shape \(2, 2\)"),
])  # fmt: skip
def test_skrl_actions_of_a_wrong_shape_are_refused(shape, message):
    pytest.importorskip("skrl")
    from gpu_vecenv.adapters.skrl import SkrlEnv

    env = SkrlEnv(gymnasium.make_vec(NAME, num_envs=4, device="cpu"))
    env.reset()
    with pytest.raises(ShapeError, match=message):
        env.step(torch.zeros(shape, dtype=torch.int64))
    assert env.step(torch.zeros(4, dtype=torch.int64))[0].shape == env.step(torch.zeros(4, 1, dtype=torch.int64))[0].shape
