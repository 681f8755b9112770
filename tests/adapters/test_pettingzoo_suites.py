"""Envs of papers as ``PettingZooEnv`` under PettingZoo's own tests, in the selection by which mpe2 tests its scenarios."""

import warnings
from functools import partial
from types import SimpleNamespace

import pytest
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)

from gpu_vecenv.adapters import pettingzoo as adapter
from tests.envs.mpe_original import CASES as PARTICLES
from tests.envs.mpe_original import MODULES
from tests.marks import slow_but

CASES = {
    "foraging": ("WarpForaging-v3", {"players": 3, "max_num_food": 2}, "max_episode_steps"),
    "warehouse": ("WarpRware-v2", {"n_agents": 3, "msg_bits": 1}, "max_steps"),
    **{name: (env_id, params, "max_cycles") for name, (env_id, params) in PARTICLES.items()},
}
"""Id, parameters and the parameter that limits an episode."""

CYCLES = 12
"""Steps of each test; an episode has at most eight."""


@pytest.mark.works("PettingZoo", "`api_test`, `seed_test` and the other tests by which mpe2 tests its scenarios, on all suites")
@pytest.mark.parametrize("name", slow_but(list(CASES)[: 2 + len(MODULES)], CASES))
def test_upstreams_tests(name):
    env_id, params, limit = CASES[name]
    given = {"device": "cpu", limit: 8, **params}
    make, make_aec = partial(adapter.parallel_env, env_id, **given), partial(adapter.env, env_id, **given)
    limited = SimpleNamespace(
        parallel_env=lambda max_cycles: make(**{limit: max_cycles}), env=lambda max_cycles: make_aec(**{limit: max_cycles})
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # advice on spaces, such as one size for all agents
        api_test(make_aec(), CYCLES)
        parallel_api_test(make(), CYCLES)
        max_cycles_test(limited)
        parallel_seed_test(make, CYCLES)
        seed_test(make_aec, CYCLES)
        state_test(make_aec(), make())
        # The test makes an env in mode "human" only to read the list of modes.
        render_test(lambda render_mode: make_aec(render_mode=None if render_mode == "human" else render_mode))
