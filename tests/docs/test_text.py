"""Text of documents: generated blocks have one syntax and a tool each, and lines are short."""

import re
from pathlib import Path

import pytest

from tools.docs.generated import table, with_block

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "envs", "benchmarks", "tests", "tutorials")
DOCUMENTS = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.md")))]
MARKER = re.compile(r"<!-- generated: (\w+) \(python (tools/[\w/]+\.py)( --tables)?\) -->|<!-- /generated -->")
COMMENTS = {path: re.findall(r"^<!--(?! /?tabs ).*?-->", path.read_text(), re.DOTALL | re.MULTILINE) for path in DOCUMENTS}
GENERATED = [path for path, comments in COMMENTS.items() if comments]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_comment_is_a_marker_of_a_block(path):
    markers = [MARKER.fullmatch(comment) for comment in COMMENTS[path]]
    assert None not in markers
    assert [bool(marker[1]) for marker in markers] == [True, False] * (len(markers) // 2)
    for marker in markers[::2]:
        assert "generated import" in (ROOT / marker[2]).read_text()


def test_there_are_generated_blocks():
    assert {ROOT / "README.md", ROOT / "benchmarks" / "README.md", ROOT / "envs" / "tag" / "README.md"} <= set(GENERATED)


def test_a_block_is_replaced_and_the_rest_is_kept():
    text = "a\n<!-- generated: one (make) -->\nold\n<!-- /generated -->\nb\n"
    text += "<!-- generated: two (make) -->\n<!-- /generated -->\nc\n"
    assert with_block(text, "one", "make", "\nnew\n\n") == text.replace("old", "new")
    assert with_block(text, "two", "make", "new") == text.replace("two (make) -->\n", "two (make) -->\nnew\n")


@pytest.mark.parametrize("text", [
    "", "<!-- generated: one (make) -->\n", "<!-- /generated -->\n<!-- generated: one (make) -->\n",
    "<!-- generated: one (other) -->\n<!-- /generated -->\n", "<!-- generated: one (make) -->\n<!-- /generated -->\n" * 2,
])  # fmt: skip
def test_missing_and_repeated_markers_are_refused(text):
    with pytest.raises(ValueError, match=r"expected <!-- generated: one \(make\) --> once in the document"):
        with_block(text, "one", "make", "new")


def test_a_table_is_markdown():
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"


def prose(path):
    """Numbered lines of a document outside of tables, fenced code and generated blocks."""
    text = re.sub(r"^(```|~~~).*?^\1$|^<!-- generated.*?^<!-- /generated -->$", lambda block: "\n" * block[0].count("\n"),
                  path.read_text(), flags=re.DOTALL | re.MULTILINE)  # fmt: skip
    return [(number, line) for number, line in enumerate(text.splitlines(), 1) if not line.startswith("|")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_line_of_prose_is_longer_than_130_characters(path):
    assert [number for number, line in prose(path) if len(line) > 130] == []
