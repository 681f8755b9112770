"""The page of the command line shows the help of every command."""

import pytest

from gpu_vecenv.cli.main import COMMANDS, EXTRA_MODULES
from tools.docs import cli_page
from tools.docs.cli_page import COMMAND, DOCUMENT, WIDTH, current_text, help_text, main

START, END = f"<!-- generated: cli ({COMMAND}) -->", "<!-- /generated -->"


def test_the_page_is_current():
    assert DOCUMENT.read_text() == current_text(DOCUMENT.read_text()), f"run {COMMAND}"


def test_every_command_and_its_example_are_shown():
    text = DOCUMENT.read_text()
    for command in COMMANDS:
        assert f"\n## {command}\n\n~~~text\nusage: gpu-vecenv {command}" in text
        assert f"Example: gpu-vecenv {command}" in text


@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_text_does_not_depend_on_the_terminal(columns, monkeypatch):
    expected = help_text("memory")
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert help_text("memory") == expected
    assert max(map(len, expected.splitlines())) <= WIDTH


def test_help_is_text_without_colours_and_frames():
    for command in COMMANDS.keys() - EXTRA_MODULES.keys() | {"bench"}:
        text = help_text(command)
        assert text.isascii() and "--help" in text


def test_an_unknown_command_is_an_error(capsys):
    with pytest.raises(RuntimeError, match="expected gpu-vecenv traim --help to end with 0, got 2"):
        help_text("traim")
    assert "did you mean 'train'?" in capsys.readouterr().err


def test_a_stale_page_is_found_and_rewritten(tmp_path, monkeypatch, capsys):
    page = tmp_path / "cli.md"
    page.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    monkeypatch.setattr(cli_page, "DOCUMENT", page)
    assert main(["--check"]) == 1 and "old" in page.read_text()
    assert main([]) == 0 and page.read_text().startswith(f"before\n{START}\n~~~text\nusage: gpu-vecenv COMMAND")
    assert main(["--check"]) == 0
    assert main(["--wrong"]) == 2
    assert capsys.readouterr().out == f"stale: {page}\n" * 2
