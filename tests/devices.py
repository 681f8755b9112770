"""Devices that tests run on: the CPU, and with ``-m gpu`` a GPU too."""

import pytest

DEVICES = ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)]
