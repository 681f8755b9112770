"""Pictures of envs without a renderer: the names and numbers of their state."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from gpu_vecenv.render.expressions import Number, field
from gpu_vecenv.render.frame import MARGIN, Panel
from gpu_vecenv.render.scene import Pictures, Written

WIDTH, ROW = 480, 30
MOST_ROWS = 12
"""Most numbers in a picture."""


def plain_pictures(title: str, limit: int, fields: Sequence[tuple[str, tuple[int, ...]]]) -> Pictures:
    """Return pictures with a line for each of the first numbers of a state.

    Args:
        title: name of the env.
        limit: time limit in steps, 0 for none.
        fields: name and shape of each field in one world.
    """
    rows = [*itertools.islice(_named_numbers(fields), MOST_ROWS)]
    panel = Panel(title, limit, WIDTH, 170 + ROW * len(rows))
    scene = panel.empty()
    for row, (name, number) in enumerate(rows):
        height = panel.top + 30 + ROW * row
        scene.text((MARGIN, height), name, 18, scene.palette.muted)
        scene.text((WIDTH - MARGIN, height), [Written(number, ",.3f")], 18, anchor="rs")
    panel.write(scene, [])
    return Pictures((scene,))


def _named_numbers(fields: Sequence[tuple[str, tuple[int, ...]]]) -> Iterator[tuple[str, Number]]:
    """Yield the numbers of fields with their names."""
    for name, shape in fields:
        for index in itertools.product(*map(range, shape)) if math.prod(shape) else ():
            yield f"{name}{list(index) if index else ''}", field(name, *index)
