"""The pause of the garbage collector during imports."""

import gc

import pytest

from gpu_vecenv.importing import collector_paused


@pytest.mark.parametrize("before", [True, False])
def test_the_collector_is_paused_inside_and_as_before_behind(before, monkeypatch):
    monkeypatch.setattr(gc, "isenabled", lambda: before)
    calls = []
    monkeypatch.setattr(gc, "enable", lambda: calls.append("enable"))
    monkeypatch.setattr(gc, "disable", lambda: calls.append("disable"))
    with collector_paused():
        assert calls == ["disable"]
    assert calls == ["disable", *(["enable"] if before else [])]


def test_an_error_of_an_import_ends_the_pause():
    with pytest.raises(ImportError), collector_paused():
        import gpu_vecenv.no_such_module  # noqa: F401
    assert gc.isenabled()
