"""Rollouts in one launch against actions and steps in turn: all arrays and the state have the same bits."""

import dataclasses
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from fused_runs import fused as fused_run
from gymnasium.spaces import Box, MultiDiscrete
from reference import slow

from gpu_vecenv import TIME_LIMIT, EnvSpec, Field, Metric, Role
from gpu_vecenv.train import NetworkConfig, PPOConfig, TrainConfig, Trainer
from gpu_vecenv.train.fused.act import FusedPolicy
from gpu_vecenv.train.fused.eligibility import require_fused
from gpu_vecenv.train.fused.recurrent_act import FusedRecurrentPolicy
from gpu_vecenv.train.fused.rollout import whole_rollout
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from tests.devices import DEVICES

WIDE = EnvSpec(
    name="Wide-v0",
    kernel=Path(__file__).with_name("wide.cu"),
    roles=(Role("agent", 1),),
    params=(TIME_LIMIT,),
    state=(Field("x", "float32", (), "moves by the first entry"), Field("y", "float32", (), "turns round in each step")),
    observation=lambda params: Box(-np.inf, np.inf, (40,), np.float32),
    action=lambda params: MultiDiscrete([9, 2]),
    metrics=(Metric("speed", "mean", "y"), Metric("highest", "max", "positive x")),
    rewards={"x": "x after the step"},
)
gymnasium.register("Wide-v0", vector_entry_point=partial(GpuVectorEnv, WIDE))

WORLDS = 77
PPO = PPOConfig(num_steps=40, bootstrap_at_time_limit=True)
CASES = {
    "WarpCartPole-v1": {"length": np.linspace(0.3, 0.8, WORLDS).astype(np.float32).tolist(), "max_episode_steps": 20},
    "WarpAcrobot-v1": {"max_episode_steps": 15},
    "WarpMountainCar-v0": {"max_episode_steps": 15},
    "WarpMountainCarContinuous-v0": {"max_episode_steps": 15},
    "WarpPendulum-v1": {"max_episode_steps": 15},
    "WarpRecall-v0": {"delay": 14},
    "Wide-v0": {"max_episode_steps": 15},
}


def rollouts(env_id, device, whole, num_envs=WORLDS, env_kwargs=None, network=None):
    """Return the slabs and the state after two rollouts, the second from where the first ended. Networks are feed-forward."""
    network = network or NetworkConfig()
    config = TrainConfig(
        env_id, num_envs=num_envs, device=device, ppo=PPO, env_kwargs=env_kwargs or {}, network=network, total_steps=10**6
    )
    trainer = Trainer(dataclasses.replace(config, kernels="torch", graph=False), quiet=True)
    collector, policy = trainer.parts.collector, trainer.policies["agent"]
    device = torch.device(trainer.env.device)
    seen = 3.0 * torch.randn(1, 9, trainer.env.single_observation_space.shape[-1])
    policy.observe(seen.to(device), torch.ones(1, 9, dtype=torch.bool, device=device))
    kind = FusedPolicy if policy.state_shape is None else FusedRecurrentPolicy
    fused, states = kind(policy, require_fused(policy, device), device), trainer.parts.rows["agent"].states
    collector.step_views = [(fused, views) for _, views in collector.step_views]
    collector.fill_rollout = whole_rollout(trainer.env, trainer.parts.rollout, fused, states) if whole else None
    collector.collect()
    first = trainer.parts.rollout.groups[0].log_prob.clone()
    collector.collect()
    state = dict(trainer.env.get_state())
    return first, trainer.parts.rollout, state if states is None else {**state, "policy": states.now, "first": states.first}


def require_equal(one, other):
    """Compare what ``rollouts()`` returned."""
    (first, rollout, state), (other_first, other_rollout, other_state) = one, other
    ended = rollout.terminated | rollout.truncated
    assert ended.any()
    slabs, others = rollout.groups[0], other_rollout.groups[0]
    pairs = [(first, other_first), (slabs.final_obs.own[ended], others.final_obs.own[ended])]
    pairs += [(slabs.obs.own, others.obs.own), (slabs.action, others.action), (slabs.log_prob, others.log_prob)]
    pairs += [(getattr(rollout, name), getattr(other_rollout, name)) for name in ("reward", "terminated", "truncated")]
    pairs += [(torch.as_tensor(values), torch.as_tensor(other_state[name])) for name, values in state.items()]
    for values, expected in pairs:
        torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)


def given_for(env_id, worlds):
    """Return the env's parameters; those by world are for ``WORLDS`` worlds alone."""
    return {name: value for name, value in CASES[env_id].items() if worlds == WORLDS or not isinstance(value, list)}


@pytest.mark.parametrize("env_id", slow(["WarpCartPole-v1", "WarpMountainCarContinuous-v0", "Wide-v0"], "Wide-v0"))
def test_one_launch_has_the_bits_of_single_steps(env_id):
    torch.manual_seed(0)
    one = rollouts(env_id, "cpu", False, env_kwargs=CASES[env_id])
    torch.manual_seed(0)
    require_equal(rollouts(env_id, "cpu", True, env_kwargs=CASES[env_id]), one)


@pytest.mark.parametrize("device", DEVICES)
def test_one_launch_has_the_bits_of_single_steps_without_velocities(device):
    hidden, runs = {"observe_velocity": False, "max_episode_steps": 20}, []
    for whole in (False, True):
        torch.manual_seed(0)
        runs.append(rollouts("WarpCartPole-v1", device, whole, env_kwargs=hidden))
    require_equal(*runs)


@pytest.mark.slow
def test_one_launch_gives_the_metrics_of_the_actions_that_it_took():
    """Compared with a rollout of the actions from the same state."""
    trainer = Trainer(TrainConfig("Wide-v0", num_envs=WORLDS, device="cpu", ppo=PPO, env_kwargs=CASES["Wide-v0"]), quiet=True)
    env, twin = trainer.env, gymnasium.make_vec("Wide-v0", num_envs=WORLDS, device="cpu", **CASES["Wide-v0"]).unwrapped
    policy, device = trainer.policies["agent"], torch.device(env.device)
    fused = FusedPolicy(policy, require_fused(policy, device), device)
    twin.reset(seed=0)
    twin.set_state(env.get_state())
    env.rewind()
    whole_rollout(env, trainer.parts.rollout, fused)()
    info = twin.rollout(trainer.parts.rollout.groups[0].action)[-1]
    ended, outputs = info["_episode"], env.worlds.outputs
    assert ended.sum() > WORLDS
    env.rewind()
    arrays = outputs.for_rollout(PPO.num_steps, False).arrays
    for name, expected in info["episode"].items():
        found = arrays[outputs.results.indices[f"episode_{name}"]]
        torch.testing.assert_close(found[ended], expected[ended], rtol=0, atol=0, equal_nan=True)


NETWORKS = [((64,), "tanh"), ((64, 64), "tanh"), ((24, 128, 40), "elu")]


@pytest.mark.parametrize("network", slow(NETWORKS, *NETWORKS[1:]), ids=str)
@pytest.mark.parametrize("env_id", slow(["WarpCartPole-v1", "Wide-v0"], "Wide-v0"))
def test_a_crew_has_the_bits_of_single_steps(env_id, network):
    given, sizes = given_for(env_id, 13), NetworkConfig(network[0], activation=network[1])
    torch.manual_seed(0)
    one = rollouts(env_id, "cpu", False, 13, given, sizes)
    torch.manual_seed(0)
    other = rollouts(env_id, "cpu", True, 13, given, sizes)
    require_equal(other, one)


UNITS = {"WarpCartPole-v1": 64, "WarpPendulum-v1": 37, "Wide-v0": 96}


@pytest.mark.parametrize("env_id", slow(UNITS, "WarpPendulum-v1", "Wide-v0"))
def test_one_launch_with_a_memory_has_the_bits_of_single_steps(env_id):
    """States, too; those of episodes that ended are forgotten, as are all of Pendulum, whose last step ends its episodes."""
    given, network = given_for(env_id, 21) | {"max_episode_steps": 20}, NetworkConfig((), memory="gru", memory_size=UNITS[env_id])
    torch.manual_seed(0)
    one = rollouts(env_id, "cpu", False, 21, given, network)
    torch.manual_seed(0)
    require_equal(rollouts(env_id, "cpu", True, 21, given, network), one)
    assert (one[2]["policy"].abs().max() > 0.1) == (env_id != "WarpPendulum-v1")


@pytest.mark.gpu
@pytest.mark.parametrize("worlds", [WORLDS, 5000])
@pytest.mark.parametrize("env_id", CASES)
def test_one_launch_with_a_memory_has_the_bits_of_single_steps_on_a_gpu(env_id, worlds):
    units = 64 if worlds == WORLDS else 96 if env_id == "Wide-v0" else 128  # 128 units and 40 features exceed shared memory
    given, network = given_for(env_id, worlds), NetworkConfig((), memory="gru", memory_size=units)
    torch.manual_seed(0)
    one = rollouts(env_id, "cuda:0", False, worlds, given, network)
    torch.manual_seed(0)
    require_equal(rollouts(env_id, "cuda:0", True, worlds, given, network), one)


@pytest.mark.gpu
@pytest.mark.parametrize("worlds", [WORLDS, 1999, 5000, 40_000])
@pytest.mark.parametrize("env_id", CASES)
def test_one_launch_has_the_bits_of_single_steps_on_a_gpu(env_id, worlds):
    given = given_for(env_id, worlds)
    networks = {1999: NetworkConfig((24, 128, 40)), 5000: NetworkConfig((64, 32), activation="elu")}
    network = networks.get(worlds)
    torch.manual_seed(0)
    one = rollouts(env_id, "cuda:0", False, worlds, given, network)
    torch.manual_seed(0)
    require_equal(rollouts(env_id, "cuda:0", True, worlds, given, network), one)


def test_envs_and_actors_that_need_a_launch_in_each_step_have_none():
    found = []
    for env_id in ("WarpCartPole-v1", "WarpTag-v0"):
        config = TrainConfig(env_id, num_envs=2, device="cpu", ppo=PPO)
        found += [Trainer(each, quiet=True).parts.collector.fill_rollout for each in (config, fused_run(config))]
    cartpole, fused_cartpole, *tag = found
    assert cartpole is None and fused_cartpole is not None and tag == [None, None]
