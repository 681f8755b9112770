"""``GpuPPO``, compared with Stable-Baselines3's own PPO, buffer and callbacks."""

import contextlib

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecMonitor

import gpu_vecenv.adapters.sb3_gpu as sb3_gpu
from gpu_vecenv.adapters.sb3 import DeviceStep, Sb3VecEnv
from gpu_vecenv.adapters.sb3_gpu import GpuPPO, GpuRolloutBuffer
from gpu_vecenv.errors import DeviceError, ParameterError
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.adapters.test_sb3 import limit, make, works
from tests.devices import DEVICES

SMALL = {"n_steps": 24, "batch_size": 48, "n_epochs": 1, "seed": 3, "stats_window_size": 5}


def rollout(model):
    """Make one rollout without an update and return its buffer."""
    _, callback = model._setup_learn(10_000)
    model.collect_rollouts(model.env, callback, model.rollout_buffer, model.n_steps)
    return model.rollout_buffer


# ---- the same numbers as SB3 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_advantages_and_returns_equal_those_of_sb3s_buffer(device):
    """Random data with terminations and truncations in any step, the first and the last included."""
    steps, rows, gamma = 17, 40, 0.97
    space, choices = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Discrete(4)
    theirs = RolloutBuffer(steps, space, choices, "cpu", gae_lambda=0.9, gamma=gamma, n_envs=rows)
    ours = GpuRolloutBuffer(steps, space, choices, device, gae_lambda=0.9, gamma=gamma, n_envs=rows)
    rng = np.random.default_rng(0)
    starts = np.ones(rows, bool)
    for _ in range(steps):
        obs, final_obs = rng.normal(size=(2, rows, 3)).astype(np.float32)
        reward, value, log_prob = rng.normal(size=(3, rows)).astype(np.float32)
        terminated, truncated = rng.random((2, rows)) < 0.2
        action, to = rng.integers(4, size=rows), torch.tensor
        ours.add_decision(to(obs), to(action), to(value)[:, None], to(log_prob))
        ours.add_outcome(DeviceStep(*(to(a, device=device) for a in (
            obs, reward, terminated, truncated, final_obs, np.zeros(rows, np.float32), np.zeros(rows, np.int32)))))  # fmt: skip
        bootstrapped = np.where(truncated & ~terminated, reward + np.float32(gamma) * final_obs.sum(1), reward)
        theirs.add(obs, action[:, None], bootstrapped, starts, to(value), to(log_prob))
        starts = terminated | truncated
    last = rng.normal(size=rows).astype(np.float32)
    theirs.compute_returns_and_advantage(torch.tensor(last), starts)
    ours.compute_returns_and_advantage(torch.tensor(last, device=device), lambda obs: obs.sum(1, keepdim=True))
    np.testing.assert_allclose(ours.advantage.cpu(), theirs.advantages, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.returns, theirs.returns, rtol=1e-5, atol=1e-6)
    assert ours.full and theirs.full

    everything, expected = next(ours.get()), next(theirs.get())
    for a, b in zip(by_log_prob(everything), by_log_prob(expected), strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    batches = list(ours.get(100))
    assert [len(batch.actions) for batch in batches] == [100] * 6 + [80]
    assert sorted(torch.cat([b.old_log_prob for b in batches]).tolist()) == sorted(ours.log_prob.flatten().tolist())


def by_log_prob(samples):
    """Fields of a minibatch, with rows sorted by log probability, on the CPU."""
    order = samples.old_log_prob.argsort()
    return [field[order].cpu() for field in samples if isinstance(field, torch.Tensor)]


@pytest.mark.parametrize("name, options", [
    ("cartpole", {}), ("mountain car", {}), ("pendulum", {"use_sde": True, "sde_sample_freq": 5}),
    ("pendulum", {"use_sde": True, "policy_kwargs": {"squash_output": True}}), ("tag", {}), ("tag", {"role": "runner"}),
])  # fmt: skip
def test_a_rollout_equals_that_of_ppo(name, options):
    options = dict(options)
    role = {"role": options.pop("role")} if "role" in options else {}
    theirs = PPO("MlpPolicy", make(name, **role), device="cpu", **SMALL, **options)
    a = rollout(theirs)
    ours = GpuPPO("MlpPolicy", make(name, **role), device="cpu", **SMALL, **options)
    b = rollout(ours)
    np.testing.assert_array_equal(b.obs, a.observations)
    np.testing.assert_array_equal(b.action, a.actions)
    np.testing.assert_array_equal(b.done[:-1], a.episode_starts[1:])
    for mine, expected in ((b.value, a.values), (b.log_prob, a.log_probs), (b.reward, a.rewards),
                           (b.advantage, a.advantages), (b.returns, a.returns)):  # fmt: skip
        np.testing.assert_allclose(mine, expected, rtol=1e-4, atol=1e-5)
    assert b.timed_out.any() and ours.num_timesteps == theirs.num_timesteps == 24 * ours.n_envs
    counted = [(episode["r"], episode["l"]) for episode in ours.ep_info_buffer]
    assert counted == [(episode["r"], episode["l"]) for episode in theirs.ep_info_buffer] != []


@works("GpuPPO: PPO whose rollouts stay on the GPU, with SB3's own update")
@pytest.mark.parametrize("name", ["cartpole", "pendulum", "tag"])
def test_an_update_equals_that_of_ppo(name):
    """One minibatch of all rows, as both draw rows in different orders. SGD, as Adam enlarges rounding differences."""
    options = {**SMALL, "batch_size": 24 * 20, "n_epochs": 3, "policy_kwargs": {"optimizer_class": torch.optim.SGD}}
    options["policy_kwargs"]["optimizer_kwargs"] = {"momentum": 0.5}
    options["learning_rate"] = 0.05
    num_worlds = {"tag": 4}.get(name, 20)
    theirs = PPO("MlpPolicy", make(name, num_worlds=num_worlds), device="cpu", **options).learn(24 * 20)
    ours = GpuPPO("MlpPolicy", make(name, num_worlds=num_worlds), device="cpu", **options).learn(24 * 20)
    for a, b in zip(theirs.policy.parameters(), ours.policy.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    logged, expected = ours.logger.name_to_value, theirs.logger.name_to_value
    assert logged.keys() == expected.keys() >= {"train/explained_variance", "train/approx_kl"}
    for key in ("train/explained_variance", "train/value_loss", "train/entropy_loss"):
        assert logged[key] == pytest.approx(expected[key], rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_no_observation_is_lost_with_an_env_that_reuses_its_arrays(device):
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device=device, copy=False)
    plain = gymnasium.make_vec("WarpCartPole-v1", num_envs=4, device="cpu", array="numpy")
    buffer = rollout(GpuPPO("MlpPolicy", env, **SMALL))
    obs, _ = plain.reset(seed=3)
    for t in range(24):
        np.testing.assert_array_equal(buffer.obs[t].cpu(), obs)
        obs, *_ = plain.step(buffer.action[t, :, 0].cpu().numpy())


@pytest.mark.parametrize("device", DEVICES)
def test_a_time_limit_is_bootstrapped_and_a_termination_is_not(device):
    """The critic is constant, c, and lambda is 1, so that returns have a formula."""
    gamma, c = 0.9, 40.0

    def fill(env):
        model = GpuPPO("MlpPolicy", env, n_steps=30, batch_size=60, gamma=gamma, gae_lambda=1.0, seed=1)
        torch.nn.init.zeros_(model.policy.value_net.weight)
        torch.nn.init.constant_(model.policy.value_net.bias, c)
        return rollout(model)

    cut = fill(Sb3VecEnv("WarpMountainCar-v0", num_envs=2, device=device, max_episode_steps=5))
    left = 5 - np.arange(30) % 5
    expected = -(1 - gamma**left) / (1 - gamma) + gamma**left * c
    np.testing.assert_allclose(cut.returns, np.stack([expected] * 2, 1), rtol=1e-5)
    fallen = fill(Sb3VecEnv("WarpCartPole-v1", num_envs=20, device=device))
    ended = fallen.done.cpu().numpy()
    assert ended.any(0).sum() > 3
    left = ended.argmax(0)[ended.any(0)] + 1
    np.testing.assert_allclose(fallen.returns[0, ended.any(0)], (1 - gamma**left) / (1 - gamma), rtol=1e-5)


# ---- no reads on the host -----------------------------------------------------------------------------------------

TO_HOST = ("numpy", "cpu", "tolist", "item", "nonzero", "__array__", "__bool__", "__float__", "__int__", "__index__")


class Watch(BaseCallback):
    """Turns a check on at the start of a rollout and off in its last step, from the second rollout on."""

    def __init__(self, turn):
        super().__init__()
        self.turn, self.rollouts, self.watched = turn, 0, 0

    def _on_rollout_start(self):
        self.rollouts += 1
        self.left = self.model.n_steps
        if self.rollouts > 1:
            self.turn(True)

    def _on_step(self):
        self.left -= 1
        self.watched += self.rollouts > 1
        if not self.left:
            self.turn(False)
        return True


def forbid_reads(monkeypatch):
    """Stand-in for the GPU's own check: reads of tensors raise an error, except inside the env, which runs on the host."""
    on = [False]

    def guard(name):
        read = getattr(torch.Tensor, name)

        def guarded(*args, **kwargs):
            if on[0]:
                raise RuntimeError(f"Tensor.{name} in a rollout")
            return read(*args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, guarded, raising=False)

    for name in TO_HOST:
        guard(name)
    step = GpuVectorEnv.step

    def free_step(env, actions):
        before, on[0] = on[0], False
        try:
            return step(env, actions)
        finally:
            on[0] = before

    monkeypatch.setattr(GpuVectorEnv, "step", free_step)
    return lambda value: on.__setitem__(0, value)


RUNS = pytest.mark.parametrize("name, options, env_options", [
    ("cartpole", {}, {}), ("pendulum", {}, {}), ("pendulum", {"use_sde": True, "sde_sample_freq": 4}, {}),
    ("pendulum", {"use_sde": True, "policy_kwargs": {"squash_output": True}}, {}), ("tag", {}, {"role": "tagger"}),
    ("tag", {}, {"role": "runner", "continuous_actions": True}),
])  # fmt: skip


@RUNS
def test_a_rollout_reads_no_tensor_on_the_host(name, options, env_options, monkeypatch):
    model = GpuPPO("MlpPolicy", make(name, **env_options), device="cpu", **SMALL, **options)
    watch = Watch(forbid_reads(monkeypatch))
    model.learn(24 * model.n_envs * 3, callback=watch)
    assert watch.watched == 2 * 24


@pytest.mark.parametrize("break_it", ["validate", "PPO"])
def test_the_check_finds_a_read_of_a_tensor(break_it, monkeypatch):
    # Other libraries turn torch's argument checks off for the whole process when they are imported.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    if break_it == "validate":
        monkeypatch.setattr(sb3_gpu, "_unchecked_distributions", contextlib.nullcontext)
    model = (PPO if break_it == "PPO" else GpuPPO)("MlpPolicy", make("cartpole"), device="cpu", **SMALL)
    with pytest.raises(RuntimeError, match="in a rollout"):
        model.learn(24 * 4 * 2, callback=Watch(forbid_reads(monkeypatch)))


@pytest.mark.gpu
@RUNS
def test_a_rollout_never_waits_for_the_gpu(name, options, env_options):
    model = GpuPPO("MlpPolicy", make(name, "cuda:0", **env_options), **SMALL, **options)
    watch = Watch(lambda on: torch.cuda.set_sync_debug_mode("error" if on else "default"))
    try:
        model.learn(24 * model.n_envs * 3, callback=watch)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert watch.watched == 2 * 24 and model.policy.device == torch.device("cuda:0")


@pytest.mark.gpu
def test_the_check_finds_a_wait_for_the_gpu():
    model = PPO("MlpPolicy", make("cartpole", "cuda:0"), device="cuda:0", **SMALL)
    try:
        with pytest.raises(RuntimeError, match="synchroniz"):
            model.learn(24 * 4 * 2, callback=Watch(lambda on: torch.cuda.set_sync_debug_mode("error" if on else "default")))
    finally:
        torch.cuda.set_sync_debug_mode("default")


# ---- the rest of SB3 ----------------------------------------------------------------------------------------------


@works("GpuPPO: save, load, predict, evaluate_policy, set_env, a second learn()")
@pytest.mark.parametrize("device", DEVICES)
def test_a_saved_model_predicts_and_learns_as_before(device, tmp_path):
    model = GpuPPO("MlpPolicy", make("cartpole", device), **SMALL).learn(200)
    model.save(tmp_path / "model")
    obs = make("cartpole", device).reset()
    expected, _ = model.predict(obs, deterministic=True)
    for_predict = GpuPPO.load(tmp_path / "model", device="cpu")
    np.testing.assert_array_equal(for_predict.predict(obs, deterministic=True)[0], expected)
    loaded = GpuPPO.load(tmp_path / "model", env=make("cartpole", device, num_worlds=7))
    assert loaded.n_envs == 7 and loaded.device.type == torch.device(device).type and isinstance(loaded.env, Sb3VecEnv)
    steps = loaded.num_timesteps
    loaded.learn(200, reset_num_timesteps=False)
    assert loaded.num_timesteps == steps + 2 * 24 * 7 and len(loaded.ep_info_buffer) > 0
    loaded.set_env(make("cartpole", device, num_worlds=7))
    loaded.learn(24 * 7)
    returns, lengths = evaluate_policy(loaded, make("cartpole", device), n_eval_episodes=5, return_episode_rewards=True)
    assert returns == lengths and len(returns) == 5
    plain = PPO.load(tmp_path / "model", device="cpu", custom_objects={"rollout_buffer_class": RolloutBuffer})
    np.testing.assert_array_equal(plain.predict(obs, deterministic=True)[0], expected)


@pytest.mark.parametrize(("asked", "given"), [({}, torch.device("cpu")), ({"device": "cuda:7"}, "cuda:7")], ids=["auto", "asked"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_a_model_is_loaded_to_the_device_of_its_env(monkeypatch, asked, given, wrapped):
    """SB3 itself would choose the current GPU, which may differ from the env's."""
    env = make("cartpole", "cpu") if wrapped else gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu")
    monkeypatch.setattr(PPO, "load", classmethod(lambda cls, path, env, device, **rest: (path, type(env), device, rest)))
    assert GpuPPO.load("model", env, **asked, force_reset=False) == ("model", Sb3VecEnv, given, {"force_reset": False})


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_a_loaded_model_learns_on_a_gpu_that_is_not_the_current_one(tmp_path):
    GpuPPO("MlpPolicy", make("cartpole", "cuda:1"), **SMALL).learn(200).save(tmp_path / "model")
    loaded = GpuPPO.load(tmp_path / "model", make("cartpole", "cuda:1"))
    assert loaded.learn(200, reset_num_timesteps=False).device == torch.device("cuda:1")


def test_learning_in_two_calls_equals_learning_in_one():
    once = GpuPPO("MlpPolicy", make("cartpole"), device="cpu", **SMALL).learn(24 * 4 * 2)
    twice = GpuPPO("MlpPolicy", make("cartpole"), device="cpu", **SMALL).learn(24 * 4)
    twice.learn(24 * 4, reset_num_timesteps=False)
    np.testing.assert_array_equal(once.rollout_buffer.obs, twice.rollout_buffer.obs)
    assert once.num_timesteps == twice.num_timesteps == 24 * 4 * 2


class Recorder(BaseCallback):
    """Records some ``locals`` of each step; stops after ``limit`` steps."""

    def __init__(self, limit):
        super().__init__()
        self.limit, self.seen = limit, []

    def _on_step(self):
        self.seen.append({name: self.locals[name] for name in ("obs_tensor", "actions", "rewards", "dones", "new_obs", "values")})
        return self.n_calls < self.limit


@works("GpuPPO: callbacks, with tensors on the device in locals")
@pytest.mark.parametrize("device", DEVICES)
def test_callbacks_get_tensors_and_can_stop_training(device, tmp_path):
    model = GpuPPO("MlpPolicy", make("cartpole", device), **SMALL)
    look = Recorder(limit=60)
    evaluation = EvalCallback(make("cartpole", device), n_eval_episodes=2, eval_freq=30, verbose=0)
    model.learn(10_000, callback=[look, CheckpointCallback(25, str(tmp_path)), evaluation])
    assert np.isfinite(evaluation.best_mean_reward)
    assert look.n_calls == 60 and model.num_timesteps == 60 * 4
    assert {path.name for path in tmp_path.glob("*.zip")} == {"rl_model_100_steps.zip", "rl_model_200_steps.zip"}
    for before, after in zip(look.seen, look.seen[1:], strict=False):
        assert torch.equal(before["new_obs"], after["obs_tensor"])
        assert before["rewards"].shape == before["dones"].shape == (4,)
        assert all(str(tensor.device) == device for tensor in before.values())


@limit("GpuPPO with callbacks that read NumPy arrays or infos from locals each step, as StopTrainingOnMaxEpisodes does")
def test_a_callback_that_reads_numpy_arrays_raises_an_error():
    with pytest.raises((TypeError, AttributeError, RuntimeError)):
        GpuPPO("MlpPolicy", make("cartpole"), device="cpu", **SMALL).learn(1000, callback=StopTrainingOnMaxEpisodes(5))


@limit("GpuPPO with VecNormalize and other wrappers: they work on NumPy arrays")
def test_wrappers_raise_an_error():
    with pytest.warns(UserWarning), pytest.raises(ParameterError, match="bare Sb3VecEnv.*VecMonitor"):
        GpuPPO("MlpPolicy", VecMonitor(make("cartpole")), device="cpu")
    with pytest.raises(ParameterError, match="bare Sb3VecEnv"):
        GpuPPO("MlpPolicy", "WarpCartPole-v1", device="cpu")
    with pytest.raises(ParameterError, match="GpuRolloutBuffer, got RolloutBuffer"):
        GpuPPO("MlpPolicy", make("cartpole"), device="cpu", rollout_buffer_class=RolloutBuffer)


@pytest.mark.gpu
def test_policy_and_env_must_share_a_device():
    with pytest.raises(DeviceError, match="cuda:0.*cpu"):
        GpuPPO("MlpPolicy", make("cartpole", "cuda:0"), device="cpu", **SMALL).learn(100)
    assert GpuPPO("MlpPolicy", make("cartpole", "cpu"), **SMALL).device == torch.device("cpu")
