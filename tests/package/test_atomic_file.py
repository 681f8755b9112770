"""A file is replaced whole or not at all."""

import errno
import os

import pytest

from gpu_vecenv.atomic_file import atomic_file


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "data.tar.gz"
    path.write_bytes(b"old")
    return path


def assert_untouched(old):
    assert old.read_bytes() == b"old"
    assert list(old.parent.iterdir()) == [old]


def test_the_new_file_takes_the_name_at_the_end(old):
    with atomic_file(old) as partial:
        assert (partial.parent, partial.suffix) == (old.parent, old.suffix)
        partial.write_bytes(b"new")
        assert old.read_bytes() == b"old"
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


def test_the_file_is_on_disk_before_it_has_the_name_and_the_name_after(old, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    with atomic_file(old) as partial:
        partial.write_bytes(b"new")
    assert calls == [str(partial), "replace", str(old.parent)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong"), OSError(errno.ECONNRESET, "lost")])
def test_an_error_in_the_block_comes_out_as_it_was(old, error):
    text = str(error)
    with pytest.raises(type(error)) as caught, atomic_file(old) as partial:
        partial.write_bytes(b"new")
        raise error
    assert caught.value is error
    assert str(error) == text
    assert_untouched(old)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_disk_that_fails_late_is_named(old, monkeypatch, number):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=f"{os.strerror(number)}: '{old}'$"), atomic_file(old) as partial:
        partial.write_bytes(b"new")
    assert_untouched(old)


def test_a_folder_that_is_missing_is_an_error_of_the_file_asked_for(tmp_path):
    wanted = tmp_path / "missing" / "data.bin"
    with pytest.raises(FileNotFoundError, match=f"'{wanted}'$"), atomic_file(wanted) as partial:
        partial.write_bytes(b"new")


def test_a_block_that_writes_nothing_is_an_error(old):
    with pytest.raises(FileNotFoundError, match=f"'{old}'$"), atomic_file(old):
        pass
    assert_untouched(old)
