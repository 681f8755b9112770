"""Entry points of other libraries that take an id of this package as it is, without an adapter."""

import copy
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv.errors import UnknownParameterError
from tests.adapters.upstream_scripts import needs_cleanrl

ROOT = Path(__file__).resolve().parents[2]
CARTPOLE, PENDULUM = "gpu_vecenv:WarpCartPole-v1", "gpu_vecenv:WarpPendulum-v1"
SINGLES = [name for name, spec in gymnasium.registry.items() if name.startswith("Warp") and spec.max_episode_steps]
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")


def run_module(folder, *command):
    """Run a module or a script in a folder; return what it printed."""
    search = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", *map(str, command)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- TorchRL ------------------------------------------------------------------------------------------------------


@pytest.mark.works("TorchRL", "`GymEnv` by id")
@pytest.mark.parametrize("name", SINGLES)
def test_gym_env_of_torchrl_gives_the_results_of_gymnasium(name):
    pytest.importorskip("torchrl")
    from torchrl.envs import GymEnv

    env, single = GymEnv(f"gpu_vecenv:{name}"), gymnasium.make(name)
    single.reset(seed=3)
    env.set_seed(3)
    reset, (obs, _) = env.reset(), single.reset()
    np.testing.assert_array_equal(reset["observation"], obs)
    actions = env.rollout(8, auto_reset=False, tensordict=reset)
    for action, step in zip(actions["action"], actions["next"], strict=True):
        chosen = action.argmax().item() if action.dtype != torch.float32 else action.numpy()
        obs, reward, terminated, truncated, _ = single.step(chosen)
        np.testing.assert_array_equal(step["observation"], obs)
        assert (step["reward"].item(), step["terminated"].item(), step["truncated"].item()) == (
            np.float32(reward),
            terminated,
            truncated,
        )


@pytest.mark.works("TorchRL", "`GymEnv` by id: `frame_skip`, `from_pixels`")
def test_gym_env_of_torchrl_skips_frames_and_draws():
    pytest.importorskip("torchrl")
    from torchrl.envs import GymEnv

    env = GymEnv(PENDULUM, frame_skip=2, from_pixels=True, pixels_only=False)
    single = gymnasium.make(PENDULUM)
    env.set_seed(0)
    single.reset(seed=0)
    single.reset()
    steps = env.rollout(2)
    for action, step in zip(steps["action"], steps["next"], strict=True):
        rewards = [single.step(action.numpy())[1] for _ in range(2)]
        assert step["reward"].item() == pytest.approx(sum(rewards), rel=1e-6)
        assert step["pixels"].shape[-1] == 3


@pytest.mark.slow
@pytest.mark.works("TorchRL", "`GymEnv` by id with `num_envs`, in processes")
def test_gym_env_of_torchrl_with_several_envs(tmp_path):
    pytest.importorskip("torchrl")
    script = tmp_path / "script.py"
    script.write_text(
        "from torchrl.envs import GymEnv\n"
        'if __name__ == "__main__":\n'
        f'    env = GymEnv("{CARTPOLE}", num_envs=2)\n'
        '    print("shape", *env.rollout(5)["next", "reward"].shape)\n'
        "    env.close()\n"
    )
    assert "shape 2 5 1" in run_module(tmp_path, script)


def test_an_unknown_parameter_is_known_to_torchrl_and_lists_the_known_ones():
    pattern = r"^got an unexpected keyword argument 'frameskip': WarpCartPole-v1 has no .* It has: .*gravity.*max_episode_steps"
    with pytest.raises(UnknownParameterError, match=pattern) as raised:
        gymnasium.make(CARTPOLE, frameskip=1)
    assert isinstance(raised.value, TypeError)


# ---- Stable-Baselines3 --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.works("Stable-Baselines3", "`SubprocVecEnv` of `gymnasium.make` by id, and of envs with their state")
@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_processes_of_sb3_take_envs(method):
    from stable_baselines3.common.vec_env import SubprocVecEnv

    env = gymnasium.make(CARTPOLE)
    env.reset(seed=5)
    workers = SubprocVecEnv([partial(copy.copy, env), partial(gymnasium.make, CARTPOLE)], method)
    try:
        states = workers.env_method("get_wrapper_attr", "vector")
        np.testing.assert_array_equal(states[0].observe(), env.unwrapped.vector.observe())
        workers.seed(5)
        np.testing.assert_array_equal(workers.reset()[0], env.reset(seed=5)[0])
        workers.step_async(np.array([1, 0]))
        np.testing.assert_array_equal(workers.step_wait()[0][0], env.step(1)[0])
    finally:
        workers.close()

@pytest.mark.works("Stable-Baselines3", "`make_vec_env` and algorithms by id, such as `PPO(\"MlpPolicy\", id)`")
def test_algorithms_of_sb3_take_an_id():
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    PPO("MlpPolicy", CARTPOLE, n_steps=32, batch_size=32, n_epochs=1).learn(32)
    env = make_vec_env(CARTPOLE, n_envs=2, seed=4)
    single = gymnasium.make(CARTPOLE)
    np.testing.assert_array_equal(env.reset()[0], single.reset(seed=4)[0])


# ---- Tianshou -----------------------------------------------------------------------------------------------------


@pytest.mark.works("Tianshou", "`DummyVectorEnv` and `SubprocVectorEnv` of `gymnasium.make` by id")
@pytest.mark.parametrize("kind", ["DummyVectorEnv", pytest.param("SubprocVectorEnv", marks=pytest.mark.slow)])
def test_vector_envs_of_tianshou_give_the_results_of_gymnasium(kind):
    envs = pytest.importorskip("tianshou.env")
    workers = getattr(envs, kind)([partial(gymnasium.make, CARTPOLE)] * 3)
    singles = [gymnasium.make(CARTPOLE) for _ in range(3)]
    try:
        np.testing.assert_array_equal(workers.reset(seed=7)[0], [one.reset(seed=7)[0] for one in singles])
        for actions in ([0, 1, 1], [1, 1, 0]):
            theirs = workers.step(np.array(actions))
            ours = [one.step(action) for one, action in zip(singles, actions, strict=True)]
            for mine, other in zip(list(zip(*ours, strict=True))[:4], theirs[:4], strict=True):
                np.testing.assert_array_equal(mine, other)
    finally:
        workers.close()


@pytest.mark.slow
@pytest.mark.works("Tianshou", "DQN, which learns CartPole by id with `Collector` and `VectorReplayBuffer`")
def test_dqn_of_tianshou_learns_by_id():
    pytest.importorskip("tianshou.env")
    from tianshou.algorithm import DQN
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.data import Collector, VectorReplayBuffer
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OffPolicyTrainerParams
    from tianshou.utils.net.common import Net

    torch.manual_seed(0)
    single = gymnasium.make(CARTPOLE)
    network = Net(state_shape=(4,), action_shape=2, hidden_sizes=[64, 64])
    policy = DiscreteQLearningPolicy(model=network, action_space=single.action_space, eps_training=0.1)
    algorithm = DQN(
        policy=policy, optim=AdamOptimizerFactory(lr=1e-3), gamma=0.9, n_step_return_horizon=3, target_update_freq=320
    )
    envs = [DummyVectorEnv([partial(gymnasium.make, CARTPOLE)] * count) for count in (8, 4)]
    params = OffPolicyTrainerParams(
        training_collector=Collector(algorithm, envs[0], VectorReplayBuffer(20_000, 8), exploration_noise=True),
        test_collector=Collector(algorithm, envs[1]),
        max_epochs=4,
        epoch_num_steps=10_000,
        collection_step_num_env_steps=8,
        test_step_num_episodes=8,
        batch_size=64,
        update_step_num_gradient_steps_per_sample=0.125,
        verbose=False,
        show_progress=False,
        stop_fn=lambda mean: mean >= 100,
    )
    assert algorithm.run_training(params).best_reward >= 100  # random actions have about 22


# ---- CleanRL ------------------------------------------------------------------------------------------------------


@pytest.mark.works("CleanRL-style", "`make_env` of upstream's scripts with ids `gpu_vecenv:...`")
def test_the_vector_env_of_upstreams_scripts_takes_an_id(tmp_path):
    """The env of ppo.py: with and without a video of the first env."""

    def thunk(index):
        env = gymnasium.make(CARTPOLE, render_mode="rgb_array") if index == 0 else gymnasium.make(CARTPOLE)
        return gymnasium.wrappers.RecordEpisodeStatistics(env)

    envs = gymnasium.vector.SyncVectorEnv([partial(thunk, i) for i in range(2)])
    assert isinstance(envs.single_action_space, gymnasium.spaces.Discrete)
    obs, _ = envs.reset(seed=1)
    assert envs.envs[0].render().ndim == 3
    lengths = []
    for _ in range(60):
        obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
        assert obs.shape == (2, 4) and reward.tolist() in ([1, 1], [0, 1], [1, 0], [0, 0])
        lengths += info["episode"]["l"][info["_episode"]].tolist() if "episode" in info else []
    assert lengths and min(lengths) >= 5


SCRIPTS = {
    "ppo.py": (CARTPOLE, ["--total-timesteps", 1024]),
    "dqn.py": (CARTPOLE, ["--total-timesteps", 600, "--learning-starts", 200, "--buffer-size", 500]),
    "c51.py": (CARTPOLE, ["--total-timesteps", 600, "--learning-starts", 200, "--buffer-size", 500]),
}
OLD = {
    "ppo_continuous_action.py": "TransformObservation",
    "rpo_continuous_action.py": "TransformObservation",
    "sac_continuous_action.py": "final_observation",
    "td3_continuous_action.py": "final_observation",
    "ddpg_continuous_action.py": "final_observation",
}


def run_cleanrl(script, folder, *options):
    """Run an unchanged script of the repository that CLEANRL names."""
    path = Path(os.environ["CLEANRL"]).resolve() / "cleanrl" / script
    search = os.pathsep.join(filter(None, [str(path.parents[1]), str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-W", "ignore", path, "--no-cuda", *map(str, options)]
    env = {**os.environ, "PYTHONPATH": search}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.slow
@needs_cleanrl
@pytest.mark.works("CleanRL-style", "upstream's ppo.py, dqn.py and c51.py without changes, by `--env-id gpu_vecenv:...`")
@pytest.mark.parametrize("script", SCRIPTS)
def test_an_unchanged_script_of_cleanrl_runs_by_id(script, tmp_path):
    env_id, options = SCRIPTS[script]
    done = run_cleanrl(script, tmp_path, "--env-id", env_id, *options)
    assert done.returncode == 0 and "SPS: " in done.stdout, done.stderr


@pytest.mark.slow
@needs_cleanrl
@pytest.mark.limit("CleanRL-style", "upstream's continuous scripts: written for Gymnasium 0.29, they fail on 1 with any env")
@pytest.mark.parametrize("env_id", ["Pendulum-v1", PENDULUM])
@pytest.mark.parametrize("script", OLD)
def test_scripts_for_gymnasium_0_29_fail_with_any_env(script, env_id, tmp_path):
    options = [] if "final" not in OLD[script] else ["--learning-starts", 100, "--buffer-size", 300]
    done = run_cleanrl(script, tmp_path, "--env-id", env_id, "--total-timesteps", 4096 if not options else 300, *options)
    assert done.returncode != 0 and OLD[script] in done.stderr
