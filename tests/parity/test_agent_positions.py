"""Tag with agents at unusual positions, for every search for neighbours: the same bits from one lane, teams and a GPU."""

import gymnasium
import numpy as np
import pytest

from tests.marks import slow_but

SIZES = [60, 300, 430, 1100]
"""Numbers of agents: few; more than lanes of a block; enough for a grid in teams; enough for a grid with one lane."""


def unusual_positions(generator, shape, caught):
    """Random positions, some outside of the square, infinite, NaN or equal. The share ``caught`` of agents is not alive."""
    x, y = generator.uniform(-10, 30, (2, *shape)).astype(np.float32)
    for value in (np.nan, np.inf, -np.inf, 1e18, 3.0):
        where = generator.random(shape) < 0.05
        x[where], y[where] = value, 3.0
    return {"loc_x": x, "loc_y": y, "alive": (generator.random(shape) >= caught).astype(np.int32)}


def observations(agents, neighbours, device="cpu", backend=None):
    """Observations of unrelated states, each set and stepped once. Neighbours found in one state are wrong in the next."""
    params = {"num_taggers": 5, "num_runners": agents - 5, "num_other_agents_observed": neighbours, "autoreset_mode": "disabled"}
    env = gymnasium.make_vec("WarpTag-v0", num_envs=2, device=device, array="numpy", **params).unwrapped
    if backend is not None:
        env.worlds.backend = backend(env.layout)
    env.reset(seed=1)
    generator, seen = np.random.default_rng(agents + neighbours), []
    for caught in (0.1, 0.1, 0.98, 0.1, 0.98, 0.98):
        env.set_state(unusual_positions(generator, (2, agents), caught))
        seen += [env.observe(), env.step(generator.integers(0, 10, (2, agents, 2), np.int32))[0]]
    env.close()
    return np.stack(seen)


@pytest.mark.parametrize("neighbours", slow_but([10], [1, 10, 32]))
@pytest.mark.parametrize("agents", SIZES)
def test_teams_give_the_bits_of_one_lane(agents, neighbours, builds):
    teams = observations(agents, neighbours, backend=builds.team(7, "-O1"))
    alone = observations(agents, neighbours)
    assert teams.tobytes() == alone.tobytes() and np.count_nonzero(alone[0]) > agents


@pytest.mark.gpu
@pytest.mark.parametrize("neighbours", [1, 10, 32])
@pytest.mark.parametrize("agents", SIZES)
def test_a_gpu_gives_the_bits_of_the_cpu(agents, neighbours):
    assert observations(agents, neighbours, "cuda:0").tobytes() == observations(agents, neighbours).tobytes()
