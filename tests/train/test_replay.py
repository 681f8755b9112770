"""The replay buffer, compared with a deque of steps, and its draws with the shares that they should have."""

import numpy as np
import pytest
import torch
from replay_cases import Steps, Worlds, numpy_of

from gpu_vecenv.train.storage.replay import Replay

FORMS = {
    "rows": {},
    "rows, no one leaves": {"leaving": False, "continuous": True},
    "rows, all ends terminal": {"final_obs": False, "mask": True},
    "worlds": {"by_world": True, "mask": True, "continuous": True},
    "worlds, shared": {"by_world": True, "shared": True, "agents": 3},
    "worlds, critic": {"by_world": True, "critic": True, "final_obs": False},
}


def parts_of(inputs):
    """Return inputs by name."""
    obs = inputs.obs if isinstance(inputs.obs, dict) else {"own": inputs.obs}
    return {name: numpy_of(x) for name, x in {**obs, "mask": inputs.mask, "critic": inputs.critic}.items() if x is not None}


def require_transitions(batch, steps):
    """Each transition of a batch must be that of the deque."""
    places, weight = steps.sampled(), numpy_of(batch.weight)
    inputs, ahead = parts_of(batch.inputs), parts_of(batch.next_inputs)
    if not places:
        assert not batch.valid.any() and not batch.discount.any() and not batch.reward.any()
        assert np.isfinite(weight).all() and all(np.isfinite(x).all() for x in (*inputs.values(), *ahead.values()))
        return
    for b, place in enumerate(batch.place.tolist()):
        want = steps.transition(*places[place])
        for found, name in ((inputs, "inputs"), (ahead, "next")):
            assert found.keys() == want[name].keys()
            for part, x in want[name].items():
                np.testing.assert_array_equal(found[part][b], x, err_msg=f"{name} {part}")
        for name in ("valid", "action"):
            np.testing.assert_array_equal(np.atleast_1d(numpy_of(getattr(batch, name))[b]), np.atleast_1d(want[name]), name)
        for name in ("reward", "discount"):
            np.testing.assert_allclose(np.atleast_1d(numpy_of(getattr(batch, name))[b]), want[name], 1e-5, 1e-6, name)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("form", FORMS)
def test_transitions_are_those_of_a_deque(form, n_steps):
    worlds = Worlds(**FORMS[form], seed=n_steps)
    rows, size = worlds.rows, 13 * worlds.rows.num_samples - 1
    replay = Replay(rows, size, 40, 0.9, 7, "cpu", n_steps, priority_exponent=0.6 if n_steps == 3 else None)
    beta = () if n_steps == 1 else (0.4,)
    steps = Steps(13, n_steps, 0.9)
    require_transitions(replay.sample(*beta), steps)
    for _ in range(12):
        samples = worlds.rollout()
        replay.add(samples)
        steps.add(samples)
        assert int(replay.filled) == len(steps.sampled())
        batch = replay.sample(*beta)
        require_transitions(batch, steps)
        if beta:
            replay.set_priorities(batch, torch.rand(40))
