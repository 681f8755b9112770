import pytest

from tests.kernels.functions import Functions


@pytest.fixture(scope="session")
def call(tmp_path_factory):
    """Return an object that calls a device function by name: ``call("floor", x)``."""
    return Functions(tmp_path_factory.mktemp("functions"))
