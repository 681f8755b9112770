"""Runs the notebooks in ``tutorials/`` and stores their outputs, so that they can be read without running them.

``python tools/docs/tutorials.py`` runs all, ``python tools/docs/tutorials.py 1 5`` the first and the fifth. A stored
notebook holds only text, code and outputs: no times, ids or settings of the machine that ran it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[2] / "tutorials"


def number_of(path: Path) -> str:
    """Return the number with which the name of a notebook starts."""
    return path.name.partition("_")[0]


TUTORIALS = sorted(FOLDER.glob("*.ipynb"), key=lambda path: int(number_of(path)))

MAX_BYTES = 600_000
"""Largest size of a stored notebook; GitHub shows larger ones slowly or not at all."""

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def run(path: Path, folder: Path, seconds: int = 240) -> NotebookNode:
    """Return a notebook with the outputs of a run in a fresh kernel.

    Args:
        path: the notebook; the file is not changed.
        folder: folder in which its code runs, for the files that it writes.
        seconds: longest time of a cell.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell raised an error, which the message holds.
        nbclient.exceptions.CellTimeoutError: a cell took longer.
    """
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=seconds, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return normal(notebook)


def normal(notebook: NotebookNode) -> NotebookNode:
    """Return a notebook without all that differs from machine to machine; cells are numbered from 1."""
    cells, executed = [], 0
    for number, cell in enumerate(notebook.cells, 1):
        fields = {"id": f"cell-{number}", "cell_type": cell.cell_type, "metadata": {}, "source": cell.source.strip("\n")}
        if cell.cell_type == "code":
            executed += 1
            fields |= {"execution_count": executed, "outputs": _merged(cell.outputs, executed)}
        cells.append(fields)
    return nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": METADATA, "cells": cells})


def text(notebook: NotebookNode) -> str:
    """Return the file of a notebook."""
    return str(nbformat.writes(notebook)) + "\n"


def _merged(outputs: list[NotebookNode], executed: int) -> list[NotebookNode]:
    """Return outputs in which adjacent pieces of text are one; the kernel cuts them at times that differ from run to run."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output.output_type == "stream" and (last.get("output_type"), last.get("name")) == ("stream", output.name):
            merged[-1].text += output.text
            continue
        stable = nbformat.from_dict(dict(output))
        if "metadata" in stable:
            stable.metadata = {}
        if "execution_count" in stable:
            stable.execution_count = executed
        merged.append(stable)
    return merged


def main() -> None:
    """Run notebooks and write them back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", help="all notebooks by default")
    chosen = parser.parse_args().numbers
    if unknown := set(chosen) - set(map(number_of, TUTORIALS)):
        parser.error(f"expected numbers from 1 to {len(TUTORIALS)}, got {', '.join(sorted(unknown))}")
    for path in TUTORIALS:
        if chosen and number_of(path) not in chosen:
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            content = text(run(path, Path(folder)))
        path.write_text(content)
        print(f"{path.name}: {time.perf_counter() - start:.1f} s, {len(content) / 1000:,.0f} KB")
        if len(content) > MAX_BYTES:
            raise SystemExit(f"{path.name}: expected at most {MAX_BYTES:,} bytes, got {len(content):,}; show smaller pictures")


if __name__ == "__main__":
    main()
