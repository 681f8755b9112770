"""Functions that make envs by PettingZoo's convention: ``parallel_env``, ``env`` and ``raw_env``."""

import pickle
from functools import partial

import numpy as np
import pytest

pytest.importorskip("pettingzoo")
from pettingzoo.test import api_test, parallel_api_test  # noqa: E402

from gpu_vecenv.adapters import pettingzoo as adapter  # noqa: E402

SMALL = {"device": "cpu", "num_taggers": 1, "num_runners": 2, "episode_length": 12}
GRID = {"device": "cpu", "episode_length": 12}


@pytest.mark.works("PettingZoo", "`parallel_env(id, ...)`, which can be pickled")
@pytest.mark.parametrize(
    "make", [partial(adapter.parallel_env, **SMALL), partial(adapter.parallel_env, "WarpGridTag-v0", **GRID)]
)
def test_parallel_env_passes_pettingzoos_test_and_can_be_pickled(make):
    parallel_api_test(make(), num_cycles=40)
    env, copied = pickle.loads(pickle.dumps(make))(), pickle.loads(pickle.dumps(make()))
    first, _ = env.reset(seed=3)
    second, _ = copied.reset(seed=3)
    for agent in env.agents:
        np.testing.assert_array_equal(first[agent], second[agent])


@pytest.mark.works("PettingZoo", "`env()` and `raw_env()`: the AEC form, by PettingZoo's own conversion")
@pytest.mark.parametrize("make", [adapter.env, adapter.raw_env])
def test_aec_env_passes_pettingzoos_test(make):
    api_test(make("WarpTag-v0", **SMALL), num_cycles=40)


def test_an_aec_game_is_the_parallel_game():
    parallel, aec = adapter.parallel_env("WarpTag-v0", **SMALL), adapter.env("WarpTag-v0", **SMALL)
    parallel.reset(seed=5)
    aec.reset(seed=5)
    for _ in range(5):
        actions = {agent: np.zeros(2, np.int64) for agent in parallel.agents}
        observations, *_ = parallel.step(actions)
        for agent in list(actions):
            aec.step(actions[agent])
        for agent in parallel.agents:
            np.testing.assert_array_equal(aec.observe(agent), observations[agent])
