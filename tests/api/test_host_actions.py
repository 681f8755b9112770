"""Host actions on their way to a GPU, with the host's memory in its place."""

import warnings

import numpy as np
import pytest
from gymnasium.spaces import MultiDiscrete

from gpu_vecenv.backend.memory import NumpyMemory
from gpu_vecenv.vector.actions import ActionReader

ACTIONS = np.arange(6, dtype=np.int32).reshape(3, 2)


def reader(**options):
    return ActionReader(MultiDiscrete([9, 9]), (3,), "cuda:0", NumpyMemory(), **options)


def test_the_first_upload_warns_and_later_ones_do_not():
    read = reader().read
    with pytest.warns(UserWarning, match="Host actions are uploaded to cuda:0"):
        read(ACTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array, _, size = read(ACTIONS)
    np.testing.assert_array_equal(array, ACTIONS)
    assert size == 4


def test_who_asked_for_host_arrays_is_not_warned():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(reader(warn=False).read(ACTIONS)[0], ACTIONS)
