"""Reading of host actions for a GPU. Host memory stands in for the GPU's."""

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


def test_no_warning_is_given_when_host_arrays_were_requested():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(reader(warn=False).read(ACTIONS)[0], ACTIONS)
