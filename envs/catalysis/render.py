"""Draws one world of catalytic reaction pathways."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpu_vecenv.envs.catalysis.spec import cell_in_slab, landscape, places
from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import draw_dashes, draw_status
from gpu_vecenv.render.legend import Entry, draw_legend
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Palette, Style, mix

WIDTH, HEIGHT = 720, 672
MARGIN = 24.0
MAP_TOP, MAP_WIDTH, MAP_HEIGHT = 32.0, (WIDTH - 3 * MARGIN) / 2, 320.0  # room of each of the two maps
SCALE_LEFT, SCALE_TOP, SCALE_HEIGHT = 2 * MARGIN + MAP_WIDTH, 366.0, 12.0  # of the scale of colours below the maps
LEFT, RIGHT, TOP, BOTTOM = 64.0, WIDTH - MARGIN, 448.0, 640.0  # edges of the profile

LEAST = 3.0  # eV above or below the start that has the strongest colour, at least
BANDS = 6  # contours of energies above the start, and of those below it
SHORTEST = 20  # fewest steps of the profile's axis


class Renderer:
    """Pictures of one world: the energy surface with the path on it, and the energy along the path.

    The left map shows the surface from above, the right one from the side. A cell of a map has the colour of the lowest energy
    behind it, in bands: blue below the energy of the start, orange above it. The scale below the maps ends 3 eV away, or at
    `ienergy` if that is farther; energies beyond it have the colour of its end. With two atoms, the maps are those of the first
    atom while the second one stays where it is. A ring marks the highest place of the path, in the maps and in the profile below
    them, where an arrow shows the barrier. The path is kept between frames and cleared when an episode starts.

    Args:
        params: The environment's resolved parameters. The renderer uses the landscape, the grid, start and target,
            `ienergy` and `episode_length`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._style, self._limit = style, int(params["episode_length"])
        energies = landscape(params)
        start = float(energies[cell_in_slab(params, "initial_state")])
        self._energy, self._full = energies - start, max(LEAST, start - float(params["ienergy"]))
        self._size = np.array([params["nx"], params["ny"], params["nz"]])
        self._low, self._high = int(params["z_slab_lower"]), int(params["z_slab_upper"])
        self._targets = [tuple(cell) for cell in places(params, "final_state").tolist()]
        self._cell = min(MAP_WIDTH / params["nx"], MAP_HEIGHT / params["ny"], MAP_HEIGHT / (self._high - self._low))
        self._maps = self._draw_maps(()) if len(self._targets) == 1 else None
        self.reset()

    def reset(self) -> None:
        """Forget data of earlier frames: the path."""
        self._path: dict[int, list[tuple[int, int, int]]] = {}  # step to the cell of each atom
        self._heights: dict[int, float] = {}  # step to eV above the start; NaN outside the slab
        self._time = -1
        self._episode: int | None = None

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `position` and `position2` of shape (4,), and the scalar `t`. An
                optional `episode` distinguishes episodes, and an optional `episode_barrier` is the barrier so far.

        Returns:
            The picture, uint8 of shape (776, 720, 3) at scale 1.
        """
        scene = self.scene(state)
        return np.concatenate([scene, draw_legend(self.legend, scene.shape[1], self._style)])

    def scene(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state without the legend: a part of a picture that has one `legend`.

        Args:
            state: As in `frame`.

        Returns:
            The picture, uint8 of shape (720, 720, 3) at scale 1.
        """
        barrier = self._push(state)
        second = self._path[self._time][1:]
        canvas = self._maps.copy() if self._maps else self._draw_maps(second)
        summit = max(self._heights, key=lambda t: (not math.isnan(self._heights[t]), self._heights[t]))
        for view in (self._from_above, self._from_the_side):
            self._draw_path(canvas, view, summit if barrier > 0 else None)
        self._draw_profile(canvas, summit, barrier)
        words = f"barrier {barrier:.3f} eV"
        if self._path[self._time] == self._targets:
            words = f"arrived, {words}"
        elif math.isnan(self._heights[self._time]):
            words = f"outside the slab, {words}"
        return np.concatenate([draw_status(WIDTH, f"step {self._time} / {self._limit}", words, self._style), canvas.to_array()])

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""
        return (
            Entry("atom", lambda canvas, at: draw_atom(canvas, at, 9.0)),
            Entry("target", lambda canvas, at: draw_target(canvas, at, 10.0)),
            Entry("highest place", lambda canvas, at: canvas.ring(at, 11.0, canvas.palette.mark, 3.0)),
        )

    def _push(self, state: Mapping[str, np.ndarray]) -> float:
        """Append a state to the path; returns the barrier so far."""
        time, episode = int(state["t"]), int(state["episode"]) if "episode" in state else None
        if time < self._time or episode != self._episode:
            self.reset()
        cells = []
        for name, _ in zip(("position", "position2"), self._targets, strict=False):
            at = np.minimum(np.asarray(state[name][:3], np.int64), self._size - 1).tolist()
            cells.append((at[0], at[1], at[2]))
        inside = all(self._low <= z < self._high for _, _, z in cells)
        index = tuple(value for x, y, z in cells for value in (x, y, z - self._low))
        self._path[time] = cells
        self._heights[time] = float(self._energy[index]) if inside else math.nan
        self._time, self._episode = time, episode
        recorded = float(state.get("episode_barrier", math.nan))
        seen = max((height for height in self._heights.values() if not math.isnan(height)), default=0.0)
        return max(0.0, seen if math.isnan(recorded) else recorded)

    # The maps

    def _from_above(self, cell: Sequence[int]) -> Point:
        """Centre of a cell in the left map; y points up."""
        x, y, _ = cell
        return MARGIN + (x + 0.5) * self._cell, MAP_TOP + (int(self._size[1]) - y - 0.5) * self._cell

    def _from_the_side(self, cell: Sequence[int]) -> Point:
        """Centre of a cell in the right map; z points up, and a cell outside is drawn beyond the edge that is nearer."""
        x, _, z = cell
        up = min(max(z, self._low - 1), self._high) - self._low
        depth = self._high - self._low
        return 2 * MARGIN + MAP_WIDTH + (x + 0.5) * self._cell, MAP_TOP + (depth - up - 0.5) * self._cell

    def _draw_maps(self, second: Sequence[tuple[int, int, int]]) -> Canvas:
        """Draw both maps without the path; ``second`` is the cell of the second atom, if there is one."""
        canvas = Canvas(WIDTH, HEIGHT, style=self._style)
        energy = self._energy
        for x, y, z in second:
            energy = energy[..., x, y, min(max(z - self._low, 0), self._high - self._low - 1)]
        for view, title, lowest, axis in (
            (self._from_above, "from above, x and y: lowest over z", energy.min(axis=2), 1),
            (self._from_the_side, "from the side, x and z: lowest over y", energy.min(axis=1), 2),
        ):
            first = [0, 0, self._low]
            half = self._cell / 2
            corner = view(first)
            canvas.text((corner[0] - half, MAP_TOP - 10), title, 17, canvas.palette.muted)
            for x, row in enumerate(lowest.tolist()):
                for k, height in enumerate(row):
                    cell = list(first)
                    cell[0], cell[axis] = x, cell[axis] + k
                    across, down = view(cell)
                    colour = energy_colour(canvas.palette, height / self._full)
                    canvas.rectangle(across - half, down - half, across + half + 0.5, down + half + 0.5, colour)  # without gaps
        self._draw_scale(canvas)
        return canvas

    def _draw_scale(self, canvas: Canvas) -> None:
        """Draw the bands of colours with the energies at their ends and in the middle."""
        muted, middle = canvas.palette.muted, SCALE_TOP + SCALE_HEIGHT / 2
        canvas.text((SCALE_LEFT - 14, middle), "energy above the start, eV", 17, muted, "rm")
        width = (RIGHT - SCALE_LEFT) / (2 * BANDS)
        for k in range(2 * BANDS):
            left = SCALE_LEFT + k * width
            colour = energy_colour(canvas.palette, (k + 0.5) / BANDS - 1)
            canvas.rectangle(left, SCALE_TOP, left + width + 0.5, SCALE_TOP + SCALE_HEIGHT, colour)
        for share, anchor in ((-1, "ls"), (0, "ms"), (1, "rs")):
            at = SCALE_LEFT + (1 + share) / 2 * (RIGHT - SCALE_LEFT)
            canvas.text((at, SCALE_TOP + SCALE_HEIGHT + 16), f"{share * self._full:.3g}", 14, muted, anchor)

    def _draw_path(self, canvas: Canvas, view: Any, summit: int | None) -> None:
        radius = min(max(0.36 * self._cell, 5.0), 13.0)
        for atom, target in enumerate(self._targets):
            draw_target(canvas, view(target), 1.3 * radius)
            for width, colour in ((5.0, canvas.palette.page), (2.5, atom_colour(canvas.palette, atom))):
                for piece in self._pieces(atom):
                    if len(piece) > 1:
                        canvas.line([view(cell) for cell in piece], colour, width)
        if len(self._targets) > 1:
            words: dict[Point, list[str]] = {}
            for atom, target in enumerate(self._targets, 1):
                words.setdefault(view(target), []).append(str(atom))
            for at, atoms in words.items():
                canvas.text(at, " ".join(atoms), round(1.2 * radius), canvas.palette.ink, "mm")
        if summit is not None:
            for cell in self._path[summit]:
                canvas.ring(view(cell), 1.5 * radius, canvas.palette.mark, 3.0)
        for atom, cell in enumerate(self._path[self._time]):
            draw_atom(canvas, view(cell), radius, atom)
            if len(self._targets) > 1:
                canvas.text(view(cell), str(atom + 1), round(1.4 * radius), canvas.palette.page, "mm")

    def _pieces(self, atom: int) -> list[list[tuple[int, int, int]]]:
        """The path of an atom, cut where it leaves one end of the grid for the other."""
        pieces: list[list[tuple[int, int, int]]] = [[]]
        for cells in self._path.values():
            here = cells[atom]
            if pieces[-1] and (2 * np.abs(np.subtract(here, pieces[-1][-1])) > self._size).any():
                pieces.append([])
            pieces[-1].append(here)
        return pieces

    # The profile

    def _draw_profile(self, canvas: Canvas, summit: int, barrier: float) -> None:
        known = [height for height in self._heights.values() if not math.isnan(height)]
        low, high = min([0.0, *known]), max([0.0, barrier, *known])
        low, high = max(low, -20.0), min(high, 400.0)  # the energies of two atoms hold failed calculations
        pad = 0.12 * max(high - low, 1.0)
        low, high = low - pad, max(high, low + 1.0) + 2 * pad
        steps = max(SHORTEST, *self._heights)

        def at(t: float, height: float) -> Point:
            share = (min(max(height, low), high) - low) / (high - low)
            return LEFT + (RIGHT - LEFT) * t / steps, BOTTOM - (BOTTOM - TOP) * share

        palette = canvas.palette
        canvas.rectangle(LEFT, TOP, RIGHT, BOTTOM, palette.surface)
        canvas.text((MARGIN, TOP - 12), "energy above the start, eV, along the path", 17, palette.muted)
        tick = tick_of(high - low)
        for k in range(math.ceil(low / tick), math.floor(high / tick) + 1):
            _, y = at(0, k * tick)
            canvas.line((LEFT, y, RIGHT, y), palette.border if k == 0 else palette.grid, 1.0)
            canvas.text((LEFT - 8, y), f"{k * tick:g}", 15, palette.muted, "rm")
        canvas.text((RIGHT, BOTTOM + 18), f"step {steps}", 15, palette.muted, "rs")
        piece: list[Point] = []
        for t, height in [*self._heights.items(), (0, math.nan)]:
            if not math.isnan(height):
                piece.append(at(t, height))
            elif len(piece) > 1:
                canvas.line(piece, palette.sky, 3.0)
            piece = piece if not math.isnan(height) else []
        if barrier > 0:
            self._draw_barrier(canvas, at(0, 0.0), at(summit, barrier), f"{barrier:.2f} eV")
        now = self._heights[self._time]
        if not math.isnan(now):
            draw_atom(canvas, at(self._time, now), 6.0)

    def _draw_barrier(self, canvas: Canvas, start: Point, summit: Point, text: str) -> None:
        """Draw the summit of the profile, an arrow to it, and its height above it, where the curve never is."""
        palette, (x, y) = canvas.palette, summit
        if x > LEFT + 1:
            draw_dashes(canvas, (LEFT, y), summit, palette.mark)
        middle = LEFT + max(18.0, (x - LEFT) / 2)
        canvas.line((middle, start[1], middle, y), palette.mark, 2.0)
        size = min(7.0, 0.45 * (start[1] - y))
        for end, towards in ((start[1], -1), (y, 1)):
            base = end + towards * 1.6 * size
            canvas.polygon([(middle, end), (middle - size, base), (middle + size, base)], palette.mark)
        canvas.text((min(max(x, LEFT + 36), RIGHT - 36), max(y, TOP + 30) - 13), text, 17, palette.mark, "ms")
        canvas.ring(summit, 8.0, palette.mark, 3.0)


def energy_colour(palette: Palette, share: float) -> Colour:
    """Colour of an energy above the start, as a share of the one with the strongest colour; negative below the start."""
    band = min(max(math.floor(share * BANDS), -BANDS), BANDS - 1)
    return mix(palette.vermilion if band >= 0 else palette.sky, palette.surface, 0.9 * abs(band + 0.5) / BANDS)


def tick_of(span: float) -> float:
    """Distance between lines of a scale, 1, 2 or 5 times a power of ten, so that about four fit."""
    size = 10.0 ** math.floor(math.log10(span / 4))
    return size * next(factor for factor in (1, 2, 5, 10) if factor * size >= span / 5)


def atom_colour(palette: Palette, atom: int) -> Colour:
    """Colour of the first or the second atom and of its path."""
    return palette.muted if atom else palette.ink


def draw_atom(canvas: Canvas, centre: Point, radius: float, atom: int = 0) -> None:
    """Draw an atom as a disc."""
    canvas.disc(centre, radius + 1.5, canvas.palette.page)
    canvas.disc(centre, radius, atom_colour(canvas.palette, atom))


def draw_target(canvas: Canvas, centre: Point, radius: float) -> None:
    """Draw a target as a ring."""
    canvas.ring(centre, radius + 1.5, canvas.palette.page, 6.0)
    canvas.ring(centre, radius, canvas.palette.green, 3.5)
