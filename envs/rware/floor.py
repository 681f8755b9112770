"""Floor plans of a warehouse: highways, shelves and goals, from the numbers of shelves or from a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from gpu_vecenv.errors import ParameterError
from gpu_vecenv.spec.params import Params
from gpu_vecenv.spec.validation import abbreviated

MAX_SIDE = 256
"""Most rows and columns, because a coordinate is a byte of the state."""


@dataclass(frozen=True, eq=False)
class Floor:
    """Cells of a warehouse.

    Attributes:
        highway: bool (rows, cols), False where shelves stand at the start.
        goals: int (goals, 2), x and y.
    """

    highway: np.ndarray
    goals: np.ndarray

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.highway.shape[0])

    @property
    def cols(self) -> int:
        """Number of columns."""
        return int(self.highway.shape[1])

    @property
    def homes(self) -> np.ndarray:
        """Places of the shelves at the start, int (shelves, 2), x and y, row by row."""
        return np.argwhere(~self.highway)[:, ::-1]


def floor_of(params: Params) -> Floor:
    """Return the floor plan that parameters describe.

    Raises:
        ParameterError: an even number of columns, or a layout that is no rectangle of ``x``, ``.`` and ``g`` with a goal.
    """
    layout = params["layout"]
    if not isinstance(layout, str):
        raise ParameterError(f"WarpRware-v2: layout must be a text, got {abbreviated(layout)}.")
    return _drawn(layout) if layout else _counted(params["shelf_columns"], params["column_height"], params["shelf_rows"])


@cache
def _counted(shelf_columns: int, column_height: int, shelf_rows: int) -> Floor:
    """Blocks of two columns of shelves, ``column_height`` high, with highways between them.

    The block in the middle of the lowest row leaves room for a queue before the two goals.
    """
    if shelf_columns % 2 == 0:
        raise ParameterError(f"WarpRware-v2: shelf_columns must be odd, got {shelf_columns}.")
    rows, cols = (column_height + 1) * shelf_rows + 2, 3 * shelf_columns + 1
    if rows > MAX_SIDE or cols > MAX_SIDE:
        raise ParameterError(f"WarpRware-v2: a warehouse has at most {MAX_SIDE} rows and columns, got {rows} x {cols}.")
    y, x = np.indices((rows, cols))
    middle = (x == cols // 2 - 1) | (x == cols // 2)
    queue = (y > rows - (column_height + 3)) & middle
    highway = (x % 3 == 0) | (y % (column_height + 1) == 0) | (y == rows - 1) | queue
    return Floor(highway, np.array([[cols // 2 - 1, rows - 1], [cols // 2, rows - 1]]))


@cache
def _drawn(layout: str) -> Floor:
    """A plan of lines of ``x`` for shelves, ``.`` for highways and ``g`` for goals; spaces are left out."""
    lines = layout.strip().replace(" ", "").lower().split("\n")
    if len({len(line) for line in lines}) != 1:
        lengths = ", ".join(str(len(line)) for line in lines)
        raise ParameterError(f"WarpRware-v2: layout must have lines of one length, got {lengths}.")
    cells = np.array([list(line) for line in lines])
    unknown = sorted(set(map(str, cells.flat)) - set("gx."))
    if unknown or cells.size == 0:
        raise ParameterError(f"WarpRware-v2: layout must consist of 'x', '.' and 'g', got {unknown or abbreviated(layout)}.")
    if max(cells.shape) > MAX_SIDE:
        raise ParameterError(f"WarpRware-v2: a warehouse has at most {MAX_SIDE} rows and columns, got {cells.shape}.")
    goals = np.argwhere(cells == "g")[:, ::-1]
    if len(goals) == 0:
        raise ParameterError("WarpRware-v2: layout must have a goal, 'g', got none.")
    return Floor(cells != "x", goals)
