"""Adapters on RICE-N, whose regions observe a part alike and have masks: the same results as those of the vector env."""

import gymnasium
import numpy as np
import pytest
import torch

import gpu_vecenv  # noqa: F401
from gpu_vecenv import RoleRows, whole_obs

N, STEPS = 27, 5
FORMS = ("parts", "whole")


def vector_env(num_worlds, observe="parts", array="numpy", **options):
    given = {"num_envs": num_worlds, "device": "cpu", "array": array, "negotiation_on": True, "observe": observe, **options}
    return gymnasium.make_vec("WarpRice-v0", **given).unwrapped


def rows(obs):
    """Observations of all regions; of parts, the shared one first."""
    return whole_obs(obs["region"]) if isinstance(obs, dict) else obs


def drawn(num_worlds):
    """Actions of some steps, in which proposals are made and accepted."""
    generator = np.random.default_rng(0)
    return generator.integers(0, [10] * 111 + [2] * N, (STEPS, num_worlds, N, 138)).astype(np.int32)


def given(actions, observe):
    return {"region": actions} if observe == "parts" else actions


@pytest.mark.parametrize("observe", FORMS)
def test_pettingzoo(observe):
    pytest.importorskip("pettingzoo")
    from gpu_vecenv.adapters.pettingzoo import PettingZooEnv

    env, plain = PettingZooEnv("WarpRice-v0", device="cpu", negotiation_on=True, observe=observe), vector_env(1, observe)
    seen, infos = env.reset(seed=3)
    obs, info = plain.reset(seed=3)
    assert env.possible_agents == [f"region_{i}" for i in range(N)]
    for actions in drawn(1):
        mask = info["action_mask"]["region"] if observe == "parts" else info["action_mask"]
        for i in range(N):
            assert seen[f"region_{i}"].tobytes() == rows(obs)[0, i].tobytes()
            entries = infos[f"region_{i}"]["action_mask"]
            assert len(entries) == 138 and entries[1].tolist() == mask[0, i].tolist()
        seen, rewards, *_, infos = env.step({f"region_{i}": actions[0, i] for i in range(N)})
        obs, _, _, _, info = plain.step(given(actions, observe))
        assert [rewards[f"region_{i}"] for i in range(N)] == info["agent_reward"][0].tolist()
    assert not mask.all()


@pytest.mark.parametrize("observe", FORMS)
def test_torchrl(observe):
    pytest.importorskip("torchrl")
    from gpu_vecenv.adapters.torchrl import TorchRLEnv

    env = TorchRLEnv("WarpRice-v0", 2, device="cpu", negotiation_on=True, observe=observe)
    plain = vector_env(2, observe, "torch", autoreset_mode="disabled")
    state = env.reset()
    plain.reset(seed=0)  # all starts are alike
    assert env.group_map == {"region": [f"region_{i}" for i in range(N)]}
    for actions in drawn(2):
        state["region", "action"] = torch.from_numpy(actions).long()
        state = env.step(state)["next"]
        obs, _, _, _, info = plain.step(given(torch.from_numpy(actions), observe))
        mask = info["action_mask"]["region"] if observe == "parts" else info["action_mask"]
        assert torch.equal(state["region", "observation"], rows(obs))
        assert torch.equal(state["region", "reward"].squeeze(-1), info["agent_reward"])
        assert torch.equal(state["region", "action_mask"][..., 10:20], mask)
    assert not mask.all()


def test_rows_of_the_role():
    env, plain = RoleRows(vector_env(2), "region"), vector_env(2)
    obs, info = env.reset(seed=0)
    expected, masks = plain.reset(seed=0)
    for actions in drawn(2):
        np.testing.assert_array_equal(obs, rows(expected).reshape(2 * N, -1))
        np.testing.assert_array_equal(info["action_mask"], masks["action_mask"]["region"].reshape(2 * N, -1))
        obs, reward, terminated, truncated, info = env.step(actions.reshape(2 * N, 138))
        expected, _, ended, cut, masks = plain.step({"region": actions})
        np.testing.assert_array_equal(reward, masks["agent_reward"].reshape(-1))
        np.testing.assert_array_equal([terminated, truncated], np.repeat([ended, cut], N, axis=1))
    assert obs.shape == (2 * N, 1207) and env.action_masks().shape == (2 * N, 1164)
