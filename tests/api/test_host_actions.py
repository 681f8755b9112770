"""Reading of host actions for a GPU. Host memory stands in for the GPU's."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium.spaces import MultiDiscrete

from gpu_vecenv.backend.memory import NumpyMemory
from gpu_vecenv.vector.inputs.actions import ActionReader

ACTIONS = np.arange(6, dtype=np.int32).reshape(3, 2)


def reader(**options):
    backend = SimpleNamespace(device="cuda:0", memory=NumpyMemory(), max_index=None)
    return ActionReader(MultiDiscrete([9, 9]), (3,), backend, **options)


def test_the_first_upload_warns_and_later_ones_do_not():
    read = reader().read
    with pytest.warns(UserWarning, match="Host actions are uploaded to cuda:0"):
        read(ACTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array, _, size = read(ACTIONS)
    np.testing.assert_array_equal(array, ACTIONS)
    assert size == 4


def test_code_without_a_module_name_may_upload():
    """Code that ``exec`` runs may have no ``__name__``."""
    with pytest.warns(UserWarning, match="Host actions are uploaded"):
        exec("read(actions)", {"read": reader().read, "actions": ACTIONS})


def test_no_warning_is_given_when_host_arrays_were_requested():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(reader(warn=False).read(ACTIONS)[0], ACTIONS)
