"""Algorithms of SBX, which are SB3's in JAX, with ``Sb3VecEnv`` and by id."""

import copy

import pytest

from gpu_vecenv import RoleRows
from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from tests.adapters.played import learns_to_play
from tests.adapters.test_sb3 import make
from tests.roles.town import make_vec

sbx = pytest.importorskip("sbx")
jax = pytest.importorskip("jax")

CARTPOLE, PENDULUM = "WarpCartPole-v1", "WarpPendulum-v1"
ROLLOUT = {"n_steps": 16, "batch_size": 16, "n_epochs": 1}
OFF_POLICY = {"learning_starts": 16, "batch_size": 8, "buffer_size": 200, "policy_kwargs": {"net_arch": [16]}}
RUNS = {
    "PPO": (["cartpole", "pendulum", "tag"], ROLLOUT),
    "DQN": (["cartpole"], OFF_POLICY),
    **{name: (["pendulum"], OFF_POLICY) for name in ("SAC", "TD3", "DDPG", "TQC", "CrossQ")},
}
QUICK = (("PPO", "tag"), ("DQN", "cartpole"), ("SAC", "pendulum"))
"""Each kind of action: rows of several agents with several entries, discrete and continuous."""


def works(what):
    return pytest.mark.works("SBX", what)


def slow_unless(quick):
    """Marks of a case; each case compiles its algorithm, which takes seconds."""
    return [] if quick else [pytest.mark.slow]


def model_of(name, env, **options):
    """A new model; SBX writes into ``policy_kwargs``."""
    return getattr(sbx, name)("MlpPolicy", env, **copy.deepcopy({"seed": 0, **options}))


def trains(model, steps):
    """Return True if learning changes the parameters, which are JAX arrays."""
    states = [getattr(model.policy, name) for name in ("actor_state", "qf_state") if hasattr(model.policy, name)]
    before = jax.tree.leaves([state.params for state in states])
    model.learn(steps)
    states = [getattr(model.policy, name) for name in ("actor_state", "qf_state") if hasattr(model.policy, name)]
    after = jax.tree.leaves([state.params for state in states])
    return len(before) > 0 and any((a != b).any() for a, b in zip(before, after, strict=True))


@works("PPO, DQN, SAC, TD3, DDPG, TQC and CrossQ on `Sb3VecEnv`")
@pytest.mark.parametrize("name, env", [
    pytest.param(name, env, marks=slow_unless((name, env) in QUICK)) for name, (envs, _) in RUNS.items() for env in envs])
def test_algorithms_run_on_the_rows_of_an_env(name, env):
    rows = make(env)
    model = model_of(name, rows, **RUNS[name][1])
    assert trains(model, 120) and len(model.ep_info_buffer) > 0
    assert model.predict(rows.reset())[0].shape == (rows.num_envs, *rows.action_space.shape)


@works("the same algorithms by id, such as `PPO(\"MlpPolicy\", id)`")
@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_unless(name in ("PPO", "DQN"))) for name in RUNS])
def test_algorithms_take_an_id(name):
    envs, options = RUNS[name]
    env_id = CARTPOLE if "cartpole" in envs else PENDULUM
    assert trains(model_of(name, f"gpu_vecenv:{env_id}", **options), 40)


@works("PPO on the rows of a role")
def test_ppo_runs_on_the_rows_of_a_role():
    env = make_vec(num_worlds=3, num_citizens=4, max_episode_steps=8, device="cpu")
    assert trains(model_of("PPO", Sb3VecEnv(RoleRows(env, "mayor")), **ROLLOUT), 48)


NET = {"net_arch": [64, 64]}
LEARNING = {
    "PPO": (CARTPOLE, 8, 12_000, {"seed": 1, "n_steps": 64, "batch_size": 256, "learning_rate": 2e-3, "n_epochs": 6}),
    "DQN": (CARTPOLE, 8, 20_000, {
        "learning_starts": 1000, "batch_size": 64, "buffer_size": 20_000, "learning_rate": 1e-3, "train_freq": 4,
        "gradient_steps": 16, "target_update_interval": 200, "exploration_fraction": 0.3, "policy_kwargs": NET}),
    "SAC": (PENDULUM, 4, 4_000, {
        "learning_starts": 400, "batch_size": 128, "learning_rate": 2e-3, "gradient_steps": 4, "gamma": 0.95,
        "policy_kwargs": NET}),
}  # fmt: skip
"""Id, rows, steps and hyperparameters."""


@works("PPO and DQN learn CartPole, and SAC learns Pendulum, as Gymnasium's own envs confirm")
@pytest.mark.parametrize("name", [pytest.param(name, marks=slow_unless(name == "PPO")) for name in LEARNING])
def test_an_algorithm_learns(name):
    env_id, rows, steps, options = LEARNING[name]
    model = model_of(name, Sb3VecEnv(env_id, num_envs=rows, device="cpu"), **options)
    assert learns_to_play(model, env_id, steps)
