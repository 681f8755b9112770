"""With ``debug=True``, a mask that allows no choice of an entry raises an error."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest

from gpu_vecenv.errors import ActionError
from gpu_vecenv.vector.env.vector_env import GpuVectorEnv
from gpu_vecenv.vector.outputs.choices import require_choices
from gpu_vecenv.vector.outputs.tree import leaves, tree_map
from tests.devices import DEVICES
from tests.roles.cases import make
from tests.roles.harvest import SPEC as HARVEST


@pytest.mark.parametrize("device", DEVICES)
def test_a_mask_without_a_choice_raises_an_error(device):
    """In world 4 the judge takes coins that players do not have. Purses below zero forbid all choices."""
    actions = {"player": np.zeros((6, 3), np.int32), "judge": np.ones((6, 1), np.int32)}
    for debug in (True, False):
        env = make("pot", device=device, debug=debug)
        env.reset(seed=0)
        env.step(actions)
        env.set_state({"pot": np.where(np.arange(6) == 4, -30, 0).astype(np.int32)})
        if debug:
            with pytest.raises(ActionError, match=r"a mask of player that allows none in entry 0, at \[4, 0\]\."):
                env.step(actions)
        else:
            assert not env.step(actions)[4]["action_mask"]["player"][4].any()


@pytest.mark.parametrize("entry", [0, 1])
def test_each_masked_entry_needs_a_choice(entry):
    """Masks of Harvest with both entries masked: 5 choices, then 2."""
    roles = tuple(replace(role, masked=(0, 1)) for role in HARVEST.roles)
    env = GpuVectorEnv(replace(HARVEST, roles=roles), 3, device="cpu", array="numpy")
    outputs, memory = env.worlds.outputs, env.worlds.output_memory
    mask = np.zeros(outputs.results.shapes["action_mask"], bool)
    mask[..., [2, 6]] = True
    arrays = {outputs.results.indices["action_mask"]: mask}
    require_choices(env.layout, outputs.results, memory, arrays)
    mask[2, 4, [2, 6][entry]] = False
    with pytest.raises(ActionError, match=rf"an agent that allows none in entry {entry}, at \[2, 4\]\."):
        require_choices(env.layout, outputs.results, memory, arrays)


@pytest.mark.parametrize("name", ["town", "harvest", "pot"])
def test_masks_of_a_state_that_was_set(name):
    """After ``set_state()`` the masks are those that the step before gave; reading them changes nothing."""
    env = make(name, device="cpu")
    env.reset(seed=0)
    env.rollout(num_steps=3)
    info = env.rollout(num_steps=1, keep_actions=False)[4]
    expected = tree_map(lambda mask: mask[0].copy(), info["action_mask"])
    state = env.get_state()
    env.reset(seed=1)
    env.set_state(state)
    for _ in range(2):
        for got, wanted in zip(leaves(env.action_mask()), leaves(expected), strict=True):
            assert got.dtype == wanted.dtype and (got == wanted).all()


def test_an_env_without_masks_has_none():
    env = gymnasium.make_vec("WarpCartPole-v1", num_envs=2, device="cpu")
    env.reset(seed=0)
    assert env.unwrapped.action_mask() is None
