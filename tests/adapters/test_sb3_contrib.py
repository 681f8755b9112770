"""Algorithms of sb3-contrib with ``Sb3VecEnv`` and by id. MaskablePPO has a file of its own, test_sb3_masks.py."""

import numpy as np
import pytest

from gpu_vecenv.adapters.sb3 import Sb3VecEnv
from tests.adapters.played import learns_to_play
from tests.adapters.test_sb3 import make
from tests.adapters.test_sb3_algorithms import learns_something

pytest.importorskip("sb3_contrib")
from sb3_contrib import ARS, QRDQN, TQC, TRPO, CrossQ, RecurrentPPO  # noqa: E402
from sb3_contrib.common.vec_env import AsyncEval  # noqa: E402

CARTPOLE, PENDULUM = "WarpCartPole-v1", "WarpPendulum-v1"
OFF_POLICY = {"learning_starts": 16, "batch_size": 8, "buffer_size": 200}
ROLLOUT = {"n_steps": 16, "batch_size": 16}
LSTM = {"lstm_hidden_size": 8}
SEARCH = {"n_delta": 2}
RUNS = {
    "RecurrentPPO": (RecurrentPPO, "MlpLstmPolicy", ["cartpole", "pendulum", "tag"], {**ROLLOUT, "policy_kwargs": LSTM}),
    "TRPO": (TRPO, "MlpPolicy", ["cartpole", "pendulum", "tag"], ROLLOUT),
    "QRDQN": (QRDQN, "MlpPolicy", ["cartpole", "acrobot"], OFF_POLICY),
    "TQC": (TQC, "MlpPolicy", ["pendulum", "mountain car"], OFF_POLICY),
    "CrossQ": (CrossQ, "MlpPolicy", ["pendulum", "mountain car"], OFF_POLICY),
    "ARS": (ARS, "LinearPolicy", ["cartpole", "pendulum"], SEARCH),
}
CASES = [(name, env) for name, (_, _, envs, _) in RUNS.items() for env in envs]
NET = {"net_arch": [64, 64]}


def works(what):
    return pytest.mark.works("sb3-contrib", what)


@works("RecurrentPPO, TRPO, QRDQN, TQC, CrossQ and ARS on `Sb3VecEnv`")
@pytest.mark.slow
@pytest.mark.parametrize("name, env", CASES)
def test_algorithms_run_on_the_rows_of_an_env(name, env):
    algorithm, policy, _, options = RUNS[name]
    model = algorithm(policy, make(env), device="cpu", **options)
    assert learns_something(model, 240)
    assert model.predict(make(env).reset())[0].shape[0] == model.n_envs


@works("the same algorithms by id, such as `TRPO(\"MlpPolicy\", id)`")
@pytest.mark.parametrize("name", RUNS)
def test_algorithms_take_an_id(name):
    algorithm, policy, envs, options = RUNS[name]
    env_id = f"gpu_vecenv:{CARTPOLE if 'cartpole' in envs else PENDULUM}"
    model = algorithm(policy, env_id, device="cpu", **options)
    before = [p.clone() for p in model.policy.parameters()]
    model.learn(60)
    assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))


def test_the_memory_of_recurrent_ppo_starts_anew_with_each_episode():
    """Rows of the rollout that start an episode are those after a done of the env."""
    env = make("cartpole", max_episode_steps=5)
    model = RecurrentPPO("MlpLstmPolicy", env, n_steps=20, batch_size=80, policy_kwargs=LSTM, device="cpu", seed=0)
    _, callback = model._setup_learn(80)
    model.collect_rollouts(env, callback, model.rollout_buffer, 20)
    starts = model.rollout_buffer.episode_starts
    np.testing.assert_array_equal(starts, np.repeat((np.arange(20) % 5 == 0)[:, None], 4, 1))  # no pole falls in five steps


@works("ARS with `AsyncEval`, with an env in each process")
@pytest.mark.slow
def test_ars_evaluates_in_processes():
    model = ARS("LinearPolicy", make("cartpole"), device="cpu", **SEARCH)
    workers = AsyncEval([lambda: make("cartpole") for _ in range(2)], model.policy)
    before = model.weights.clone()
    model.learn(100, async_eval=workers)
    assert (model.weights != before).any() and len(model.ep_info_buffer) > 0


LEARNING = {
    "ARS": (CARTPOLE, 8, 60_000, {"learning_rate": 0.05, "delta_std": 0.1, "n_eval_episodes": 8}),
    "TRPO": (CARTPOLE, 16, 16_000, {"n_steps": 64, "batch_size": 256}),
    "RecurrentPPO": (CARTPOLE, 16, 8_000, {
        "n_steps": 64, "batch_size": 256, "n_epochs": 4, "learning_rate": 2e-3, "policy_kwargs": {"lstm_hidden_size": 32}}),
    "QRDQN": (CARTPOLE, 8, 16_000, {
        "learning_starts": 1000, "batch_size": 64, "buffer_size": 20_000, "learning_rate": 1e-3, "train_freq": 4,
        "gradient_steps": 16, "target_update_interval": 200, "exploration_fraction": 0.3,
        "policy_kwargs": {"n_quantiles": 10, **NET}}),
    "CrossQ": (PENDULUM, 4, 3_000, {
        "learning_starts": 400, "batch_size": 64, "gradient_steps": 3, "gamma": 0.95, "policy_kwargs": NET}),
}  # fmt: skip
"""Id, rows, steps and hyperparameters."""
SEEDS = {"TRPO": 1}


@pytest.mark.slow
@works("ARS, TRPO, RecurrentPPO and QRDQN learn CartPole, and CrossQ learns Pendulum, as Gymnasium's own envs confirm")
@pytest.mark.parametrize("name", LEARNING)
def test_an_algorithm_learns(name):
    algorithm, policy, *_ = RUNS[name]
    env_id, rows, steps, options = LEARNING[name]
    model = algorithm(policy, Sb3VecEnv(env_id, num_envs=rows, device="cpu"), seed=SEEDS.get(name, 0), device="cpu", **options)
    assert learns_to_play(model, env_id, steps)
