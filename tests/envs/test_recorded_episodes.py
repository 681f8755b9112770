"""Whole episodes of the originals, played here from the same starts with the same actions and no correction in between."""

import numpy as np
import pytest

from tests.envs.recorded_episodes import CASES, play_here, recorded

TOLERANCE = {"mpe": 1e-5, "foraging": 1e-6, "rware": 0.0}
"""Largest difference of a number; the particle environments of mpe2 and rewards of lbforaging are in float64."""


@pytest.mark.parametrize(("suite", "case"), [(suite, case) for suite, cases in CASES.items() for case in cases])
def test_an_episode_is_the_originals(suite, case):
    start, actions, there = recorded(suite, case)
    here = play_here(suite, case, start, actions)
    for world in range(there["over"].shape[1]):
        over = there["over"][:, world].astype(bool)
        steps = int(over.argmax()) + 1 if over.any() else len(over)
        for name, values in there.items():
            one, other = (array[:steps, world].astype(float) for array in (here[name], values))
            np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE[suite], err_msg=f"{name}, episode {world}")
    assert there["reward"].any()
