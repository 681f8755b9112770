"""Draws one world of catalytic reaction pathways."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.envs.catalysis.spec import atoms, cell_in_slab, grid, landscape, places
from gpu_vecenv.render.controls import Controls, Held, toward
from gpu_vecenv.render.expressions import Ink, Number, Operand, Table, blend, choose, field, floor, least, most, smallest
from gpu_vecenv.render.frame import STATUS, make_legend, steps_of, write_status
from gpu_vecenv.render.scene import At, Condition, Glyph, Pictures, Remembered, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

WIDTH, HEIGHT = 720, STATUS + 672
MARGIN = 24.0
MAP_TOP, MAP_WIDTH, MAP_HEIGHT = STATUS + 32.0, (WIDTH - 3 * MARGIN) / 2, 320.0  # room of each of the two maps
SCALE_LEFT, SCALE_TOP, SCALE_HEIGHT = 2 * MARGIN + MAP_WIDTH, STATUS + 366.0, 12.0  # of the scale of colours below the maps
LEFT, RIGHT, TOP, BOTTOM = 64.0, WIDTH - MARGIN, STATUS + 448.0, STATUS + 640.0  # edges of the profile

LEAST = 3.0  # eV above or below the start that has the strongest colour, at least
OVERLAP = 3.0  # pixels by which a cell reaches under the next one, because edges of small pictures would leave gaps
BANDS = 6  # contours of energies above the start, and of those below it
SHORTEST = 20  # fewest steps of the profile's axis
PROFILE_LOW, PROFILE_HIGH = -20.0, 400.0  # eV; the energies of two atoms hold failed calculations
TICKS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200)  # distances between lines of the profile

Cell = tuple[Number, Number, Number]
"""Coordinates x, y and z of an atom, in cells."""

ByNumber = Callable[[Number], Number]
"""From the number of a cell to an energy above the start."""

View = Callable[[Sequence[Operand]], At]
"""From a cell to its centre in a map."""


class Renderer(SceneRenderer):
    """Pictures of one world: the energy surface with the path on it, and the energy along the path.

    The left map shows the surface from above, the right one from the side. A cell of a map has the colour of the lowest energy
    behind it, in bands: blue below the energy of the start, orange above it. The scale below the maps ends 3 eV away, or at
    `ienergy` if that is farther; energies beyond it have the colour of its end. With two atoms, the maps are those of the first
    atom while the second one stays where it is. A ring marks the highest place of the path, in the maps and in the profile below
    them, where an arrow shows the barrier. The path is kept between frames and cleared when an episode starts.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures. They depend on the landscape, the grid, start and target, `ienergy` and `episode_length`."""
        scene, maps = Scene(WIDTH, HEIGHT), Maps(params)
        walk = Walk.of(scene, maps)
        maps.draw(scene, walk)  # first, because a page draws once what no state changes, up to the first shape that moves
        draw_scale(scene, maps.full)
        for view in (maps.from_above, maps.from_the_side):
            draw_path(scene, maps, walk, view)
        draw_profile(scene, walk)
        scene.text((MARGIN, 34), steps_of(int(params["episode_length"]), "d"), 24, scene.palette.muted)
        write_words(scene, maps, walk)
        return Pictures((scene, make_legend(LEGEND, WIDTH)), (scene,), LEGEND, stacked=True)

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return the controls of a single atom: directions move it in the map from above, and a page's menu moves it in z."""
        if atoms(params) > 1:
            return {}
        moves = toward(held, ((1, 0), (-1, 0), (0, 1), (0, -1), (0, 0), (0, 0)))
        at = Maps(params).from_above([field("position", axis) for axis in range(3)])
        return {"agent": Controls([moves], at, rests=False)}


class Maps:
    """The two maps, and the energies in them.

    Attributes:
        size: cells in x, y and z.
        low: first z with an energy.
        high: z after the last one.
        targets: cells.
        full: eV above the start that have the strongest colour.
        radius: of an atom, in pixels.
    """

    def __init__(self, params: Mapping[str, Any]) -> None:
        energies = landscape(params)
        start = float(energies[cell_in_slab(params, "initial_state")])
        self.full = max(LEAST, start - float(params["ienergy"]))
        self.size, self.targets = grid(params), [tuple(cell) for cell in places(params, "final_state").tolist()]
        self.low, self.high = int(params["z_slab_lower"]), int(params["z_slab_upper"])
        self._above = np.maximum(energies - start, 50 * PROFILE_LOW)  # lower ones have the colour of the lowest band
        self._cell = min(MAP_WIDTH / self.size[0], MAP_HEIGHT / self.size[1], MAP_HEIGHT / (self.high - self.low))
        self.radius = min(max(0.36 * self._cell, 5.0), 13.0)

    def from_above(self, cell: Sequence[Operand]) -> At:
        """Centre of a cell in the left map; y points up."""
        x, y, _ = cell
        return MARGIN + (x + 0.5) * self._cell, MAP_TOP + (self.size[1] - y - 0.5) * self._cell

    def from_the_side(self, cell: Sequence[Operand]) -> At:
        """Centre of a cell in the right map; z points up, and a cell outside is drawn beyond the edge that is nearer."""
        x, _, z = cell
        up, depth = between(z, self.low - 1, self.high) - self.low, self.high - self.low
        return 2 * MARGIN + MAP_WIDTH + (x + 0.5) * self._cell, MAP_TOP + (depth - up - 0.5) * self._cell

    def number_of(self, cell: Cell) -> Number:
        """Return the number of a cell among those with an energy, of the nearest one for a cell outside the slab."""
        (x, y, z), depth = cell, self.high - self.low
        return (x * self.size[1] + y) * depth + least(most(z - self.low, 0), depth - 1)

    def heights(self, scene: Scene, second: Cell | None) -> tuple[ByNumber, Sequence[ByNumber]]:
        """Return the energies above the start: those of cells by number, and the lowest ones of the cells of both maps."""
        (nx, ny, _), depth = self.size, self.high - self.low
        if second is None:
            # A pixel of the profile is about 0.01 eV, a band of colours is wider, and a page loads these numbers.
            return energies_by_place(self._above, 2), [energies_by_place(self._above.min(axis), 2) for axis in (2, 1)]
        table, cells, place = energies_by_place(self._above), nx * ny * depth, self.number_of(second)
        here = scene.now(cells, lambda number: table(number * cells + place))
        return here.__getitem__, (
            lambda i: smallest(depth, lambda z: here[i * depth + z]),
            lambda i: smallest(ny, lambda y: here[(floor(i / depth) * ny + y) * depth + i % depth]),
        )

    def draw(self, scene: Scene, walk: Walk) -> None:
        """Draw both maps without the path."""
        (nx, ny, _), depth, half = self.size, self.high - self.low, self._cell / 2
        for view, title, lowest, rows in (
            (self.from_above, "from above, x and y: lowest over z", walk.lowest[0], ny),
            (self.from_the_side, "from the side, x and z: lowest over y", walk.lowest[1], depth),
        ):
            left, bottom = (edge + side * half for edge, side in zip(view((0, 0, self.low)), (-1, 1), strict=True))
            scene.text((left, MAP_TOP - 10), title, 17, scene.palette.muted)
            with scene.each(nx * rows) as i:
                x, up = floor(i / rows), rows - 1 - i % rows  # from the top to the bottom
                across, down = view((x, up, self.low + up))
                colour = energy_ink(scene, lowest(x * rows + up) / self.full)
                right, low = least(across + half + OVERLAP, left + nx * self._cell), least(down + half + OVERLAP, bottom)
                scene.rectangle(across - half, down - half, right, low, colour)


class Walk(NamedTuple):
    """Numbers of an episode that a scene computes and keeps."""

    cells: list[Cell]
    """The cell of each atom."""
    inside: Number
    """1 if all atoms are in the slab."""
    joined: list[Number]
    """For each atom 1, or 0 if it left one end of the grid for the other."""
    lowest: Sequence[ByNumber]
    """Lowest energies of the cells of both maps, by their numbers."""
    height: Number
    """Energy in eV above the start, of the nearest cell of the slab."""
    deepest: Number
    """Lowest height of the episode, at most 0."""
    barrier: Number
    """Highest height of the episode, at least 0: that on record, because frames may be left out."""
    highest_step: Number
    """Step of the highest place that was seen."""
    highest_cells: list[Cell]
    """Cell of each atom there."""

    @classmethod
    def of(cls, scene: Scene, maps: Maps) -> Walk:
        """Add the remembered numbers of a walk to a scene."""
        here = [cell_of(scene, name, maps.size) for name, _ in zip(("position", "position2"), maps.targets, strict=False)]
        cells = [(at[0], at[1], at[2]) for at in here]
        inside = once(scene, reduce(and_, [(z >= maps.low) & (z < maps.high) for *_, z in cells]))
        heights, lowest = maps.heights(scene, cells[1] if len(cells) > 1 else None)
        height = once(scene, heights(maps.number_of(cells[0])))
        highest = scene.highest(1, lambda _: most(0, choose(inside, height, 0)))
        before, recorded = scene.before(1, lambda _: highest[0]), field("episode_barrier")
        rises = highest[0] > before[0]
        at_highest = [scene.held(3, at.__getitem__, lambda _: rises) for at in here]
        return cls(
            cells=cells,
            inside=inside,
            joined=[joined(scene, at, maps.size) for at in here],
            lowest=lowest,
            height=height,
            deepest=-scene.highest(1, lambda _: most(0, choose(inside, -height, 0)))[0],
            barrier=once(scene, choose(recorded.is_(recorded), most(0, recorded), highest[0])),  # NaN without one
            highest_step=scene.held(1, lambda _: field("t"), lambda _: rises)[0],
            highest_cells=[(at[0], at[1], at[2]) for at in at_highest],
        )


def cell_of(scene: Scene, name: str, size: Sequence[int]) -> Remembered:
    """Return the coordinates of an atom, which a caller may have set beyond the end of an axis."""
    last = Table([cells - 1 for cells in size])
    return scene.now(3, lambda axis: least(field(name, axis), last[axis]))


def energies_by_place(energies: np.ndarray, digits: int = 4) -> ByNumber:
    """Return energies by their place, rounded to some digits behind the point."""
    return Table(energies.reshape(-1).round(digits).tolist()).__getitem__


def between(x: Any, low: Operand, high: Operand) -> Any:
    """Return the number from ``low`` to ``high`` that is nearest; a plain number for plain ones."""
    return least(most(x, low), high) if isinstance(x, Number) else min(max(x, low), high)


def once(scene: Scene, number: Operand) -> Number:
    """Return a number that is computed once for all shapes."""
    return scene.now(1, lambda _: number)[0]


def joined(scene: Scene, here: Remembered, size: Sequence[int]) -> Number:
    """Return 0 for an atom that left one end of the grid for the other, else 1."""
    before = scene.before(3, here.__getitem__)
    return once(scene, reduce(and_, [2 * abs(here[axis] - before[axis]) <= cells for axis, cells in enumerate(size)]))


def energy_ink(scene: Scene, share: Operand) -> Ink:
    """Colour of an energy above the start, as a share of the one with the strongest colour; negative below the start."""
    band, palette = least(most(floor(share * BANDS), -BANDS), BANDS - 1), scene.palette
    colour: Ink = choose(band >= 0, palette.vermilion, palette.sky)
    return blend(colour, palette.surface, 0.9 * abs(band + 0.5) / BANDS)


def draw_scale(scene: Scene, full: float) -> None:
    """Draw the bands of colours with the energies at their ends and in the middle."""
    muted, middle = scene.palette.muted, SCALE_TOP + SCALE_HEIGHT / 2
    scene.text((SCALE_LEFT - 14, middle), "energy above the start, eV", 17, muted, "rm")
    width = (RIGHT - SCALE_LEFT) / (2 * BANDS)
    with scene.each(2 * BANDS) as k:
        left = SCALE_LEFT + k * width
        right = least(left + width + OVERLAP, RIGHT)
        scene.rectangle(left, SCALE_TOP, right, SCALE_TOP + SCALE_HEIGHT, energy_ink(scene, (k + 0.5) / BANDS - 1))
    for share, anchor in ((-1, "ls"), (0, "ms"), (1, "rs")):
        at = SCALE_LEFT + (1 + share) / 2 * (RIGHT - SCALE_LEFT)
        scene.text((at, SCALE_TOP + SCALE_HEIGHT + 16), f"{share * full:.3g}", 14, muted, anchor)


def draw_path(scene: Scene, maps: Maps, walk: Walk, view: View) -> None:
    """Draw the path, targets and atoms in a map."""
    palette, radius, two = scene.palette, maps.radius, len(maps.targets) > 1
    for atom, target in enumerate(maps.targets):
        draw_target(scene, view(target), 1.3 * radius)
        for width, colour in ((5.0, palette.page), (2.5, atom_ink(scene, atom))):
            scene.path(view(walk.cells[atom]), colour, width, walk.joined[atom])
    words: dict[At, list[str]] = {}
    for number, target in enumerate(maps.targets, 1):
        words.setdefault(view(target), []).append(str(number))
    for at, here in words.items():
        if two:
            scene.text(at, " ".join(here), round(1.2 * radius), palette.ink, "mm")
    for cell in walk.highest_cells:
        scene.ring(view(cell), 1.5 * radius, palette.mark, 3.0, walk.barrier > 0)
    for atom, cell in enumerate(walk.cells):
        draw_atom(scene, view(cell), radius, atom)
        if two:
            scene.text(view(cell), str(atom + 1), round(1.4 * radius), palette.page, "mm")


# ---- the profile --------------------------------------------------------------------------------------------------


def draw_profile(scene: Scene, walk: Walk) -> None:
    """Draw the energy along the path, and the barrier. Both axes grow with the path."""
    palette, time, barrier = scene.palette, field("t"), walk.barrier
    lowest, highest = once(scene, most(walk.deepest, PROFILE_LOW)), once(scene, least(barrier, PROFILE_HIGH))
    pad = once(scene, 0.12 * most(highest - lowest, 1.0))
    low, high = once(scene, lowest - pad), once(scene, most(highest, lowest + 1.0) + 2 * pad)
    steps = once(scene, most(SHORTEST, time))

    def at(t: Operand, height: Operand) -> At:
        share = (least(most(height, low), high) - low) / (high - low)
        return LEFT + (RIGHT - LEFT) * t / steps, BOTTOM - (BOTTOM - TOP) * share

    scene.rectangle(LEFT, TOP, RIGHT, BOTTOM, palette.surface)
    scene.text((MARGIN, TOP - 12), "energy above the start, eV, along the path", 17, palette.muted)
    sizes = Table(TICKS)
    tick = once(scene, smallest(len(TICKS), lambda k: choose(sizes[k] >= (high - low) / 5, sizes[k], TICKS[-1])))
    with scene.each(6) as k:
        value = tick * (k - floor(-low / tick))
        (_, y), shown = at(0, value), value <= high
        scene.line((LEFT, y, RIGHT, y), choose(value.is_(0), palette.border, palette.grid), 1.0, shown)
        for form, suits in (("d", tick >= 1), (".1f", tick < 1)):
            scene.text((LEFT - 8, y), [Written(value, form)], 15, palette.muted, "rm", shown & suits)
    scene.text((RIGHT, BOTTOM + 18), ["step ", Written(steps)], 15, palette.muted, "rs")
    before = scene.before(1, lambda _: walk.inside)
    scene.path((time, walk.height), palette.sky, 3.0, walk.inside & before[0], at)
    x, y = (once(scene, place) for place in at(walk.highest_step, barrier))
    draw_barrier(scene, once(scene, at(0, 0.0)[1]), (x, y), barrier)
    draw_atom(scene, at(time, walk.height), 6.0, when=walk.inside)


def draw_barrier(scene: Scene, ground: Number, summit: tuple[Number, Number], barrier: Number) -> None:
    """Draw the summit of the profile, an arrow to it, and its height above it, where the curve never is."""
    mark, (x, y), shown = scene.palette.mark, summit, barrier > 0
    with scene.each(math.ceil((RIGHT - LEFT) / 14)) as k:
        dash = LEFT + 14 * k
        scene.line((dash, y, least(dash + 7, x), y), mark, 2.0, shown & (dash < floor(x)))
    middle = LEFT + most(18.0, (x - LEFT) / 2)
    scene.line((middle, ground, middle, y), mark, 2.0, shown)
    size = least(7.0, 0.45 * (ground - y))
    for end, toward_middle in ((ground, -1), (y, 1)):
        base = end + toward_middle * 1.6 * size
        scene.polygon([(middle, end), (middle - size, base), (middle + size, base)], mark, shown)
    at = (least(most(x, LEFT + 36), RIGHT - 36), most(y, TOP + 30) - 13)
    scene.text(at, [Written(barrier, ".2f"), " eV"], 17, mark, "ms", shown)
    scene.ring(summit, 8.0, mark, 3.0, shown)


# ---- words and shapes ---------------------------------------------------------------------------------------------


def write_words(scene: Scene, maps: Maps, walk: Walk) -> None:
    """Write the barrier, and if the atoms are at their targets or outside the slab."""
    there = [cell[axis].is_(target[axis]) for cell, target in zip(walk.cells, maps.targets, strict=True) for axis in range(3)]
    arrived, barrier = once(scene, reduce(and_, there)), Written(walk.barrier, ".3f")
    for words, when in (("arrived, ", arrived), ("outside the slab, ", ~walk.inside), ("", walk.inside & ~arrived)):
        write_status(scene, [f"{words}barrier ", barrier, " eV"], when)


def atom_ink(scene: Scene, atom: int) -> Ink:
    """Colour of the first or the second atom and of its path."""
    ink: Ink = scene.palette.muted if atom else scene.palette.ink
    return ink


def draw_atom(scene: Scene, centre: At, radius: float, atom: int = 0, when: Condition = None) -> None:
    """Draw an atom as a disc."""
    scene.disc(centre, radius + 1.5, scene.palette.page, when)
    scene.disc(centre, radius, atom_ink(scene, atom), when)


def draw_target(scene: Scene, centre: At, radius: float) -> None:
    """Draw a target as a ring."""
    scene.ring(centre, radius + 1.5, scene.palette.page, 6.0)
    scene.ring(centre, radius, scene.palette.green, 3.5)


LEGEND = (
    Glyph("atom", lambda scene, at: draw_atom(scene, at, 9.0)),
    Glyph("target", lambda scene, at: draw_target(scene, at, 10.0)),
    Glyph("highest place", lambda scene, at: scene.ring(at, 11.0, scene.palette.mark, 3.0)),
)
