"""Texts of kernels are kept until a file changes that they were made from."""

import dataclasses
import gc
import os

import pytest

from gpu_vecenv.backend import files, source
from gpu_vecenv.backend.build_kind import KINDS
from gpu_vecenv.backend.source import kernel_source
from gpu_vecenv.envs.cartpole.spec import SPEC
from gpu_vecenv.errors import CompileError


@pytest.fixture
def spec(tmp_path):
    """CartPole with a header in its folder."""
    (tmp_path / "rules.h").write_text("// rule 1")
    (tmp_path / "cartpole.cu").write_text(f'#include "rules.h"\n{SPEC.kernel.read_text()}')
    return dataclasses.replace(SPEC, kernel=tmp_path / "cartpole.cu")


@pytest.fixture
def settled(monkeypatch):
    """Files count as old as soon as they are written."""
    monkeypatch.setattr(files, "SETTLED", -1.0)


def test_a_text_is_made_once_for_a_kind_of_builds(spec, settled):
    text, debug = kernel_source(spec), kernel_source(spec, KINDS["debug"])
    assert kernel_source(spec) is kernel_source(spec, KINDS["quick"]) is text
    assert kernel_source(spec, KINDS["debug"]) is debug and debug != text


@pytest.mark.parametrize("name", ["rules.h", "cartpole.cu"])
def test_a_change_of_a_file_makes_another_text(spec, settled, name):
    """Also one that leaves size and time, as a copy of a file of another folder may."""
    path = spec.kernel.parent / name
    text, before = kernel_source(spec), path.stat()
    path.write_text(path.read_text()[:-1] + "2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kernel_source(spec) != text


def test_a_header_that_appears_in_front_of_another_makes_another_text(spec, settled):
    text = kernel_source(spec)
    (spec.kernel.parent / "world_parts.h").write_text("// a header of the env in place of that of the package")
    assert "in place of that of the package" in kernel_source(spec) and kernel_source(spec) != text


def test_a_header_that_is_gone_is_missed(spec, settled):
    kernel_source(spec)
    (spec.kernel.parent / "rules.h").unlink()
    with pytest.raises(CompileError, match='includes "rules.h", which is not in'):
        kernel_source(spec)


def test_a_file_that_was_just_written_is_read_again(spec, monkeypatch):
    """A second change within a tick of the clock leaves all numbers of a file: here they are frozen."""
    state = files._state
    frozen = {}
    monkeypatch.setattr(files, "_state", lambda path: frozen.setdefault(os.fspath(path), state(path)))
    assert "// rule 1" in kernel_source(spec)
    (spec.kernel.parent / "rules.h").write_text("// rule 2")
    assert "// rule 2" in kernel_source(spec)


def test_texts_go_with_their_spec(spec, settled):
    gc.collect()
    before = len(source._sources)
    one = dataclasses.replace(spec)
    kernel_source(one)
    assert len(source._sources) == before + 1
    del one
    gc.collect()
    assert len(source._sources) == before
