"""The mistakes that tests must notice fit the files they are planted in, and the script tells what became of them."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import plant  # noqa: E402

MISTAKES = plant.load()


@pytest.mark.parametrize("name", MISTAKES)
def test_the_text_of_a_mistake_is_in_its_file_once(name):
    assert plant.misfits([MISTAKES[name]], ROOT) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_mistake_is_noticed():
    assert plant.main([]) == 0


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A checkout of few files, and mistakes in it: one that a test notices, one that none does, and some that do not fit."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take longer than these tests
    (tmp_path / "tests").mkdir()
    (tmp_path / "gpu_vecenv").mkdir()
    (tmp_path / "gpu_vecenv" / "__init__.py").touch()
    (tmp_path / "gpu_vecenv" / "sums.py").write_text("def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return 2 * a\n")
    test = "from gpu_vecenv.sums import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
    (tmp_path / "tests" / "test_sums.py").write_text(test)

    def mistake(name, text, planted, tests="tests/test_sums.py", **more):
        return plant.Mistake(name, "gpu_vecenv/sums.py", text, planted, [tests], **more)

    return tmp_path, {
        "noticed": mistake("noticed", "a + b", "a - b"),
        "crashes": mistake("crashes", "return a + b", "import os; os.abort()"),
        "missed": mistake("missed", "2 * a", "3 * a"),
        "gone": mistake("gone", "a / b", "a"),
        "twice": mistake("twice", "return", "yield"),
        "same": mistake("same", "2 * a", "2 * a"),
        "no file": mistake("no file", "2 * a", "a", "tests/test_none.py"),
        "no test": mistake("no test", "2 * a", "a", "tests/test_sums.py::test_twice"),
        "no library": mistake("no library", "2 * a", "a", needs="no_such_library"),
    }


def test_who_noticed_is_told_and_the_checkout_is_left_as_it_was(small, capsys):
    root, mistakes = small
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    chosen = [mistakes[name] for name in ("noticed", "crashes", "missed", "no library")]
    assert plant.plant(chosen, root) == ["missed"]
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    rows = [line.split("|")[1:3] for line in capsys.readouterr().out.splitlines()]
    assert [[cell.strip() for cell in row] for row in rows[2:]] == [
        ["noticed", "tests/test_sums.py::test_add"], ["crashes", "exit status -6"], ["missed", "nobody"],
        ["no library", "not planted: needs no_such_library"],
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "said"), [
    ("gone", "gone: expected its text once in gpu_vecenv/sums.py, got it 0 times"),
    ("twice", "twice: expected its text once in gpu_vecenv/sums.py, got it 2 times"),
    ("same", "same: expected another text to plant, got the same"),
    ("no file", "no file: expected tests as tests/test_none.py, got none"),
    ("no test", "no test: expected tests as tests/test_sums.py::test_twice, got none"),
])  # fmt: skip
def test_what_does_not_fit_is_named(small, name, said):
    root, mistakes = small
    with pytest.raises(plant.PlantError, match=f"^{said}$"):
        plant.plant([mistakes["noticed"], mistakes[name]], root)


def test_tests_that_fail_without_a_mistake_say_nothing(small):
    root, mistakes = small
    (root / "gpu_vecenv" / "sums.py").write_text("def add(a, b):\n    return a + b - 1\n\n\ndef twice(a):\n    return 2 * a\n")
    with pytest.raises(plant.PlantError, match="noticed: expected tests that pass .* tests/test_sums.py::test_add$"):
        plant.plant([mistakes["noticed"]], root)


@pytest.mark.parametrize(("survivors", "status"), [([], 0), (["some"], 1), (plant.PlantError("some: does not fit"), 2)])
def test_the_exit_status_tells_the_outcome(monkeypatch, survivors, status):
    def planted(mistakes):
        assert mistakes == [MISTAKES["modulo-below-zero"]]
        if isinstance(survivors, Exception):
            raise survivors
        return survivors

    monkeypatch.setattr(plant, "plant", planted)
    assert plant.main(["modulo-below-zero"]) == status


def test_an_unknown_mistake_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        plant.main(["modulo"])
    assert "expected names of mistakes.toml, got modulo" in capsys.readouterr().err
