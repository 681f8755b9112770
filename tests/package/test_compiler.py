"""Commands in CXX that are no compiler: each raises an error that names it and the remedy."""

import shlex
import subprocess
import sys

import pytest

from gpu_vecenv.backend import compiler
from gpu_vecenv.errors import CompileError
from tests.package.episodes import episode


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_CXX_counts_as_unset(stand_in, monkeypatch, blank):
    monkeypatch.delenv("CXX")
    expected = compiler.find_compiler()
    monkeypatch.setenv("CXX", blank)
    assert compiler.find_compiler() == expected


@pytest.mark.parametrize("command", ["'g++", 'g++ "-O1', "g++ \\"])
def test_a_command_with_open_quotes_raises_an_error(stand_in, monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(CompileError, match=r"CXX must be the command of a C\+\+ compiler, got .*g\+\+.*: No"):
        episode()


@pytest.mark.parametrize("command", [__file__, "/tmp", "''", "/nonexistent/c++ -O1"])
def test_a_command_that_cannot_be_run_raises_an_error(stand_in, monkeypatch, command):
    monkeypatch.setenv("CXX", command)
    with pytest.raises(CompileError, match=r"could not run '.*Name a C\+\+ compiler in CXX"):
        episode()


@pytest.mark.parametrize(("does", "says"), [
    ("exit 0", "succeeded but made no file. Name a C\\+\\+ compiler in CXX"),
    ("for last; do :; done; mkdir $last", "succeeded but made no file. Name a C\\+\\+ compiler in CXX"),
    ("for last; do :; done; > $last", "cannot be loaded from .* name another compiler in CXX"),
    ("for last; do :; done; echo rubbish > $last", "cannot be loaded from .* name another compiler in CXX"),
    ("printf 'gar\\377bled' >&2; exit 1", "failed:\ngar\ufffdbled"),
])  # fmt: skip
def test_a_compiler_that_does_not_compile_raises_an_error(stand_in, does, says):
    stand_in.command.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit\n{does}\n')
    with pytest.raises(CompileError, match=says):
        episode()


def test_a_missing_temporary_folder_raises_an_error(stand_in, monkeypatch):
    def none(**options):
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(compiler.tempfile, "TemporaryDirectory", none)
    with pytest.raises(CompileError, match="cannot compile in the temporary folder: No usable.* TMPDIR"):
        episode()


def test_a_trial_of_a_compiler_ends_in_a_process_without_streams():
    """The trial's file then has the number of the stream for errors, which the process that calls the function has, too."""
    code = "from gpu_vecenv.backend.compiler import find_compiler, try_compiler; try_compiler(find_compiler())"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)} 2>&-"
    assert subprocess.run(command, shell=True, timeout=100).returncode == 0
