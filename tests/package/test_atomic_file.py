"""A file is replaced as a whole or not at all."""

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


def test_the_file_is_replaced_at_the_end_of_the_block(old):
    with atomic_file(old) as partial:
        assert (partial.parent, partial.suffix) == (old.parent, old.suffix)
        partial.write_bytes(b"new")
        assert old.read_bytes() == b"old"
    assert old.read_bytes() == b"new"
    assert list(old.parent.iterdir()) == [old]


def test_the_file_is_synced_before_the_rename_and_the_folder_after_it(old, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (calls.append("replace"), replace(a, b)))
    with atomic_file(old) as partial:
        partial.write_bytes(b"new")
    assert calls == [str(partial), "replace", str(old.parent)]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong"), OSError(errno.ECONNRESET, "lost")])
def test_an_error_in_the_block_is_raised_unchanged(old, error):
    text = str(error)
    with pytest.raises(type(error)) as caught, atomic_file(old) as partial:
        partial.write_bytes(b"new")
        raise error
    assert caught.value is error
    assert str(error) == text
    assert_untouched(old)


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_an_error_of_the_sync_names_the_file(old, monkeypatch, number):
    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=f"{os.strerror(number)}: '{old}'$"), atomic_file(old) as partial:
        partial.write_bytes(b"new")
    assert_untouched(old)


def test_a_missing_folder_raises_an_error_that_names_the_file(tmp_path):
    wanted = tmp_path / "missing" / "data.bin"
    with pytest.raises(FileNotFoundError, match=f"'{wanted}'$"), atomic_file(wanted) as partial:
        partial.write_bytes(b"new")


def test_a_block_that_writes_nothing_raises_an_error(old):
    with pytest.raises(FileNotFoundError, match=f"'{old}'$"), atomic_file(old):
        pass
    assert_untouched(old)
