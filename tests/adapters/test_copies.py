"""Pickles and copies of adapters: the original and its copy give the same results."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from tests.devices import DEVICES

TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 6, "tagging_distance": 0.3}
COPIERS = [copy.deepcopy, copy.copy, lambda env: pickle.loads(pickle.dumps(env))]


def vector(env_id, device, **options):
    return gymnasium.make_vec(env_id, num_worlds=3, device=device, **options)


def sb3(device):
    from gpu_vecenv.adapters.sb3 import Sb3VecEnv

    env = Sb3VecEnv("WarpTag-v0", num_worlds=3, role="runner", device=device, **TAG)
    env.seed(1)
    env.reset()
    return env, lambda env: env.step(np.ones((env.num_envs, 2), int))[:3]


def torchrl(device):
    pytest.importorskip("torchrl")
    from gpu_vecenv.adapters.torchrl import TorchRLEnv

    env = TorchRLEnv("WarpTag-v0", 3, device=device, **TAG)
    env.set_seed(1)
    start = env.reset()

    def step(env):
        counts = {role: TAG[f"num_{role}s"] for role in ("tagger", "runner")}
        actions = {(role, "action"): torch.ones(3, n, 2, dtype=torch.long, device=device) for role, n in counts.items()}
        return [value.cpu() for value in env.step(start.clone().update(actions))["next"].flatten_keys().values()]

    return env, step


def pettingzoo(device):
    pytest.importorskip("pettingzoo")
    from gpu_vecenv.adapters.pettingzoo import PettingZooEnv

    env = PettingZooEnv("WarpTag-v0", device=device, **TAG)
    env.reset(seed=1)
    return env, lambda env: [np.stack(list(part.values())) for part in env.step(dict.fromkeys(env.agents, np.ones(2, int)))[:4]]


def skrl(device):
    pytest.importorskip("skrl")
    from gpu_vecenv.adapters.skrl import SkrlEnv

    env = SkrlEnv(vector("WarpTag-v0", device, view="agents", **TAG))
    env.reset()
    return env, lambda env: [part.cpu() for part in env.step(torch.ones(15, 2, dtype=torch.long, device=device))[:4]]


def skrl_by_agent(device):
    pytest.importorskip("skrl")
    from gpu_vecenv.adapters.skrl import SkrlMultiAgentEnv

    env = SkrlMultiAgentEnv(vector("WarpTag-v0", device, **TAG))
    env.reset()
    actions = {agent: torch.ones(3, 2, dtype=torch.long, device=device) for agent in env.possible_agents}
    return env, lambda env: [value.cpu() for part in env.step(actions)[:4] for value in part.values()]


def rl_games(device):
    pytest.importorskip("rl_games")
    from gpu_vecenv.adapters.rl_games import RlGamesEnv

    env = RlGamesEnv(vector("WarpCartPole-v1", device), seed=1)
    env.reset()
    return env, lambda env: [part.cpu() for part in env.step(torch.ones(3, dtype=torch.long, device=device))[:3]]


def rsl_rl(device):
    pytest.importorskip("rsl_rl")
    from gpu_vecenv.adapters.rsl_rl import RslRlEnv

    env = RslRlEnv(vector("WarpPendulum-v1", device), seed=1)
    return env, lambda env: [part.cpu() for part in env.step(torch.ones(3, 1, device=device))[1:3]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("copier", COPIERS, ids=["deepcopy", "copy", "pickle"])
@pytest.mark.parametrize("adapter", [sb3, torchrl, pettingzoo, skrl, skrl_by_agent, rl_games, rsl_rl])
def test_a_copy_of_an_adapter_continues_as_the_original_does(adapter, copier, device):
    env, step = adapter(device)
    step(env)
    again = copier(env)
    for _ in range(4):
        for mine, theirs in zip(step(env), step(again), strict=True):
            np.testing.assert_array_equal(mine, theirs)
