"""Devices that tests run on: the CPU always, a GPU where one is present and asked for with ``-m gpu``."""

import pytest

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]
