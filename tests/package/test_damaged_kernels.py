"""Damaged kernels in the cache are compiled again and never loaded."""

import random

import pytest

from gpu_vecenv.errors import CompileError
from tests.package.episodes import episode, in_child

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


def damaged(data: bytes, generator: random.Random) -> bytes:
    """Return the data with damage of a random kind: cut short, a bit flipped, zeros in it, or bytes appended."""
    place = generator.randrange(len(data))
    return generator.choice([
        lambda: data[:place],
        lambda: data[:place] + bytes([data[place] ^ 1 << generator.randrange(8)]) + data[place + 1 :],
        lambda: data[:place] + bytes(min(4096, len(data) - place)) + data[place + 4096 :],
        lambda: data + data[place:],
    ])()  # fmt: skip


def outcome_without_compiler() -> str:
    try:
        return f"loaded, {len(episode())} bytes"
    except CompileError as error:
        return str(error)


def check(stand_in, folder, monkeypatch, cases):
    """With a compiler, each damaged kernel is compiled again and steps as before; without one, it raises an error."""
    expected = in_child(episode)
    (place,) = folder.glob("*.so")
    data, compiles = place.read_bytes(), 1
    generator = random.Random(cases)
    special = [b"", b"\x7fELF", data[:-32], data[:-1], data[:-32] + bytes(32), data[:-1] + bytes([data[-1] ^ 1])]
    for bad in special + [damaged(data, generator) for _ in range(cases)]:
        if bad == data:
            continue
        place.write_bytes(bad)
        with monkeypatch.context() as changed:
            changed.setenv("CXX", "/nonexistent/c++")
            assert "could not run '/nonexistent/c++'" in in_child(outcome_without_compiler)
        assert in_child(episode) == expected
        compiles += 1
        assert stand_in.count("compiled") == compiles and place.read_bytes() == data


@pytest.mark.slow
def test_a_damaged_kernel_is_compiled_again_and_never_loaded(stand_in, tmp_path, monkeypatch):
    check(stand_in, tmp_path / "cache", monkeypatch, 20)


@pytest.mark.slow
def test_a_kernel_damaged_in_many_ways_is_compiled_again_and_never_loaded(stand_in, tmp_path, monkeypatch):
    check(stand_in, tmp_path / "cache", monkeypatch, 600)
