"""Mutants fit the files that they are applied to, and the script reports the outcome of each."""

import re
from pathlib import Path

import pytest

from tools.mutation import mutate

ROOT = Path(__file__).resolve().parents[2]

MUTANTS = mutate.load()


def test_the_text_of_each_mutant_is_in_its_file_once():
    assert mutate.misfits(MUTANTS.values(), ROOT) == []


def test_a_copy_has_the_folders_that_tests_of_mutants_read():
    files = {ROOT / test.partition("::")[0] for mutant in MUTANTS.values() for test in mutant.tests}
    read = {name for file in files for name in re.findall(r'(?:ROOT|parents\[\d\]) / "([\w.-]+)"', file.read_text())}
    top = read & {path.name for path in ROOT.iterdir()}  # other names are inside the folder of tests
    assert top and top <= {*mutate.COPIED}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_mutant_is_noticed():
    assert mutate.main([]) == 0


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A small checkout and mutants of it: two that a test notices, one that no test notices, and some that do not fit."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # plugins would take longer than these tests
    (tmp_path / "tests").mkdir()
    (tmp_path / "gpu_vecenv").mkdir()
    (tmp_path / "gpu_vecenv" / "__init__.py").touch()
    (tmp_path / "gpu_vecenv" / "sums.py").write_text("def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return 2 * a\n")
    test = "from gpu_vecenv.sums import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
    (tmp_path / "tests" / "test_sums.py").write_text(test)

    def mutant(name, text, replacement, tests="tests/test_sums.py", **more):
        return mutate.Mutant(name, "gpu_vecenv/sums.py", text, replacement, [tests], **more)

    return tmp_path, {
        "noticed": mutant("noticed", "a + b", "a - b"),
        "crashes": mutant("crashes", "return a + b", "import os; os.abort()"),
        "missed": mutant("missed", "2 * a", "3 * a"),
        "gone": mutant("gone", "a / b", "a"),
        "twice": mutant("twice", "return", "yield"),
        "same": mutant("same", "2 * a", "2 * a"),
        "no file": mutant("no file", "2 * a", "a", "tests/test_none.py"),
        "no test": mutant("no test", "2 * a", "a", "tests/test_sums.py::test_twice"),
        "no library": mutant("no library", "2 * a", "a", needs="no_such_library"),
    }


def test_the_table_names_the_tests_that_noticed_and_the_checkout_is_unchanged(small, capsys):
    root, mutants = small
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    chosen = [mutants[name] for name in ("noticed", "crashes", "missed", "no library")]
    assert mutate.mutate(chosen, root) == ["missed"]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines()]
    assert [[cell.strip() for cell in row] for row in rows[2:]] == [
        ["noticed", "tests/test_sums.py::test_add"], ["crashes", "exit status -6"], ["missed", "no test"],
        ["no library", "not applied: needs no_such_library"],
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "said"), [
    ("gone", "gone: expected its text once in gpu_vecenv/sums.py, got it 0 times"),
    ("twice", "twice: expected its text once in gpu_vecenv/sums.py, got it 2 times"),
    ("same", "same: expected another text as replacement, got the same"),
    ("no file", "no file: expected tests as tests/test_none.py, got none"),
    ("no test", "no test: expected tests as tests/test_sums.py::test_twice, got none"),
])  # fmt: skip
def test_a_mutant_that_does_not_fit_raises_an_error(small, name, said):
    root, mutants = small
    with pytest.raises(mutate.MutationError, match=f"^{said}$"):
        mutate.mutate([mutants["noticed"], mutants[name]], root)


def test_failing_tests_without_a_mutation_are_an_error(small):
    root, mutants = small
    (root / "gpu_vecenv" / "sums.py").write_text("def add(a, b):\n    return a + b - 1\n\n\ndef twice(a):\n    return 2 * a\n")
    with pytest.raises(mutate.MutationError, match="noticed: expected tests that pass .* tests/test_sums.py::test_add$"):
        mutate.mutate([mutants["noticed"]], root)


@pytest.mark.parametrize(("survivors", "status"), [([], 0), (["some"], 1), (mutate.MutationError("some: does not fit"), 2)])
def test_the_exit_status_tells_the_outcome(monkeypatch, survivors, status):
    def mutated(mutants):
        assert mutants == [MUTANTS["modulo-below-zero"]]
        if isinstance(survivors, Exception):
            raise survivors
        return survivors

    monkeypatch.setattr(mutate, "mutate", mutated)
    assert mutate.main(["modulo-below-zero"]) == status


def test_an_unknown_mutant_raises_an_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        mutate.main(["modulo"])
    assert "expected names of mutants.toml, got modulo" in capsys.readouterr().err
