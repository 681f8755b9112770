"""Runs the tutorials, and checks that the outputs stored in them can be read on the web."""

import re

import nbformat
import pytest

from tools.docs.notebook_page import page
from tools.docs.tutorials import FOLDER, MAX_BYTES, TUTORIALS, normal, number_of, run, text

PAGE = FOLDER / "README.md"


LONG = ("5", "6", "7", "8", "9", "10", "11", "12", "13", "14")
"""Numbers of the notebooks that take longest: training, roles, other libraries, sizes, the real world, learning, Lightning."""


LIBRARIES = {"14_lightning": "lightning"}
"""Notebooks of libraries that the extra "test" does not install; .ci/run installs them."""


def marked(path):
    return pytest.param(path, marks=pytest.mark.slow if number_of(path) in LONG else pytest.mark.in_ci)


@pytest.mark.parametrize("path", [marked(path) for path in TUTORIALS], ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path):
    if path.stem in LIBRARIES:
        pytest.importorskip(LIBRARIES[path.stem])
    notebook = run(path, tmp_path)  # an error in a cell raises CellExecutionError
    assert [cell.id for cell in notebook.cells if cell.cell_type == "code" and cell.execution_count is None] == []


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_stored_outputs_are_whole_and_small(path):
    stored = path.read_text()
    assert len(stored) <= MAX_BYTES
    notebook = nbformat.reads(stored, as_version=4)
    assert text(normal(notebook)) == stored, "run python tools/docs/tutorials.py"
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs
    assert [o for o in outputs if o.output_type == "error" or o.get("name") == "stderr"] == []


def test_every_tutorial_is_on_the_page():
    assert [path.name for path in TUTORIALS if f"({path.name})" not in PAGE.read_text()] == []
    assert [number_of(path) for path in TUTORIALS] == [str(number) for number in range(1, 15)]


def test_tutorials_make_envs_as_the_pages_do():
    """One function makes envs: the one whose types and help are those of our envs."""
    cells = [(path.stem, cell) for path in TUTORIALS for cell in nbformat.read(path, as_version=4).cells]
    code = [(stem, cell.source) for stem, cell in cells if cell.cell_type == "code"]
    assert [stem for stem, source in code if "gymnasium.make" in source] == []
    assert len({stem for stem, source in code if "gpu_vecenv.make_vec(" in source}) > 9


@pytest.mark.parametrize("path", [*TUTORIALS, PAGE], ids=lambda path: path.stem)
def test_links_lead_to_files(path):
    targets = re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", path.read_text())
    assert targets and [target for target in targets if not (FOLDER / target).exists()] == []


@pytest.mark.slow
def test_a_cell_that_fails_is_an_error(tmp_path):
    cell = nbformat.v4.new_code_cell("print('before'); raise ValueError('a mistake')")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "wrong.ipynb")
    with pytest.raises(Exception, match="a mistake"):
        run(tmp_path / "wrong.ipynb", tmp_path)


def test_a_stored_notebook_has_no_traces_of_the_machine():
    code = nbformat.v4.new_code_cell("1 + 1", execution_count=7, metadata={"execution": {"iopub.execute_input": "2026-01-01"}})
    pieces = [nbformat.v4.new_output("stream", name="stdout", text=piece) for piece in ("a\n", "b\n")]
    code.outputs = [*pieces, nbformat.v4.new_output("execute_result", {"text/plain": "2"}, execution_count=7)]
    found = normal(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Title\n"), code], metadata={"user": "me"}))
    assert "user" not in found.metadata and found.cells[1].metadata == {}
    assert [cell.id for cell in found.cells] == ["cell-1", "cell-2"]
    printed, result = found.cells[1].outputs
    assert printed.text == "a\nb\n"
    assert found.cells[1].execution_count == result.execution_count == 1
    nbformat.validate(found)


def seen(output):
    """Return what a reader sees of an output, as text."""
    if output.output_type == "stream":
        return output.text.rstrip()
    kind = next(kind for kind in ("text/html", "image/png", "text/plain") if kind in output.data)
    return output.data[kind].replace("\n", "") if kind == "image/png" else output.data[kind]


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_page_of_the_site_has_all_cells_and_outputs(path):
    shown, cells = page(path), nbformat.read(path, as_version=4).cells
    assert [cell.source for cell in cells if cell.source not in shown] == []
    assert [text for cell in cells for output in cell.get("outputs", ()) if (text := seen(output)) not in shown] == []
