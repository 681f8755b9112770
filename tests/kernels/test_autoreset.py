"""The effect of a step on an episode, compared with the rules of Gymnasium's modes, stated one by one."""

import ctypes
import itertools

import pytest

NEXT_STEP, SAME_STEP, DISABLED = range(3)


class World:
    """A world by the documentation of ``gymnasium.vector.AutoresetMode``: its flags, as the step before left them."""

    def __init__(self, flags=(False, False)):
        self.flags = flags

    def step(self, mode, set_by_env):
        """Return the flags of a step, whether it ends the episode, and whether it starts one."""
        if any(self.flags):  # the episode has ended in an earlier step
            if mode == NEXT_STEP:
                self.flags = (False, False)
                return self.flags, False, True
            return self.flags, False, False  # finished worlds stay as they are until they are reset
        ends = any(set_by_env)
        starts = ends and mode == SAME_STEP
        self.flags = (False, False) if starts else set_by_env
        return set_by_env, ends, starts


@pytest.mark.parametrize("mode", [NEXT_STEP, SAME_STEP, DISABLED])
def test_an_outcome_follows_the_mode_of_autoreset(call, mode):
    every = list(itertools.product((False, True), repeat=2))
    for before, set_by_env in itertools.product(every, every):
        finished = any(before)
        flags, ends, starts = World(before).step(mode, set_by_env)
        bits = call.of_host("outcome_of", mode, finished, *(before if finished else set_by_env), result=ctypes.c_int32)
        assert [bool(bits >> bit & 1) for bit in range(4)] == [*flags, ends, starts]
