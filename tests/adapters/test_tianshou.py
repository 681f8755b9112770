"""Tianshou's wrapper of PettingZoo envs around the AEC form of Tag."""

import numpy as np
import pytest

pytest.importorskip("tianshou.env")
pytest.importorskip("pettingzoo")


def make(wrap):
    from gpu_vecenv.adapters import pettingzoo

    small = {"num_taggers": 1, "num_runners": 2, "episode_length": 12, "flatten_actions": True}
    return wrap(pettingzoo.env("WarpTag-v0", device="cpu", **small))


@pytest.mark.works("Tianshou", "its `PettingZooEnv` around `env()` of the PettingZoo adapter, in a `DummyVectorEnv` (runs)")
def test_the_wrapper_of_pettingzoo_plays_a_game_of_tag():
    from tianshou.env import DummyVectorEnv, PettingZooEnv

    env = make(PettingZooEnv)
    obs, _ = env.reset()
    turns, over = [obs["agent_id"]], False
    while not over and len(turns) < 100:
        obs, _, terminated, truncated, _ = env.step(0)
        over = terminated or truncated
        turns.append(obs["agent_id"])
    assert over and turns[:4] == ["tagger_0", "runner_0", "runner_1", "tagger_0"]
    workers = DummyVectorEnv([lambda: make(PettingZooEnv)] * 2)
    workers.reset()
    assert workers.step(np.zeros(2, int))[1].shape == (2, 3)
    workers.close()
