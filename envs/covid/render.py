"""Draws one world of COVID-19 and the economy."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.envs.covid.spec import LEVELS, RING, calibrated
from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import draw_status
from gpu_vecenv.render.legend import Entry
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Palette, Style, mix

TILES = """
AK .. .. .. .. .. .. .. .. .. ME
.. .. .. .. .. .. .. .. .. VT NH
WA ID MT ND MN WI MI .. NY MA RI
OR NV WY SD IA IL IN OH PA NJ CT
CA UT CO NE MO KY WV VA MD DE ..
.. AZ NM KS AR TN NC SC DC .. ..
.. .. .. OK LA MS AL GA .. .. ..
HI .. .. TX .. .. .. .. FL .. ..
"""
"""A tile for each state, about where it lies on a map."""

CODES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR PA RI SC "
    "SD TN TX UT VT VA WA WV WI WY"
).split()
"""Postal codes of the states, in the order of the governors."""

PLACES = {code: (x, y) for y, row in enumerate(TILES.split("\n")[1:-1]) for x, code in enumerate(row.split()) if code != ".."}
"""Column and row of each tile."""

SIDE, GAP = 54, 4  # of tiles
MARGIN, TOP = 23, 20
MAP, HEIGHT = 11 * SIDE + 2 * MARGIN, 500  # width and height of the map
BAR_LEFT, BAR_TOP = 150, HEIGHT - 30  # of the subsidy's bar below the map
PANEL = 380
LEFT, RIGHT = 8, PANEL - 24  # horizontal edges of the panel's content
CHARTS, CHART, PLOT = 188, 62, 36  # top of the first chart, distance between charts, height of a curve
SCALE = 46  # width right of the curves for the ends of their scales

FULL_DEATHS, FULL_UNEMPLOYED = 0.01, 0.25  # shares of the population with a full bar


class Curve(NamedTuple):
    """A quantity of the nation in the panel: name, format, colour and the end of its scale, 0 for the largest value so far."""

    name: str
    text: str
    colour: Callable[[Palette], Colour]
    most: float


CURVES = (
    Curve("infected, % of the population", "{:.2f}", lambda palette: palette.mark, 0.0),
    Curve("deaths, thousand", "{:,.0f}", lambda palette: palette.ink, 0.0),
    Curve("unemployed, % of the population", "{:.1f}", lambda palette: palette.sky, 0.0),
    Curve("mean stringency", "{:.1f}", lambda palette: palette.vermilion, float(LEVELS)),
    Curve("subsidy, USD a person and year", "{:,.0f}", lambda palette: palette.green, 0.0),
)


class Renderer:
    """Pictures of one world: a tile map of the states at the left, a legend and curves of the nation at the right.

    The colour of a tile is the stringency of its state, from 1 to 10, which a number repeats. Its two bars are deaths and
    unemployed as shares of the population. The bar below the map is the level of the subsidy. Curves are kept between frames and
    cleared when an episode starts; the ends of their scales are at the right.

    Args:
        params: The environment's resolved parameters. The renderer uses `episode_length`, `start_date`, `num_subsidy_levels` and
            `max_annual_subsidy_per_person`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._style = style
        self._days, self._levels = int(params["episode_length"]), int(params["num_subsidy_levels"])
        self._start = datetime.date.fromisoformat(params["start_date"])
        self._most_subsidy = float(params["max_annual_subsidy_per_person"])
        self._population = calibrated("state_population")
        self._empty_panel = self._draw_empty_panel()
        self.reset()

    def reset(self) -> None:
        """Forget data of earlier frames: the curves."""
        self._past: dict[int, tuple[float, ...]] = {}  # day to the values of CURVES
        self._time = -1
        self._episode: int | None = None

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis: `infected`, `deaths`, `unemployed` of shape (51,), `levels` of shape
                (30, 51), and the scalars `subsidy_level` and `t`. An optional `episode` distinguishes episodes.

        Returns:
            The picture, uint8 of shape (500, 1020, 3) at scale 1.
        """
        return np.concatenate([self._next_map(state).to_array(), self._draw_panel().to_array()], axis=1)

    def scene(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state without the panel, with one line of text above: a part of a picture that has one `legend`.

        Args:
            state: As in `frame`.

        Returns:
            The picture, uint8 of shape (548, 640, 3) at scale 1.
        """
        canvas = self._next_map(state)
        _, deaths, unemployed, *_ = self._past[self._time]
        words = f"{deaths:,.0f} k deaths, {unemployed:.1f} % jobless"
        return np.concatenate([draw_status(MAP, self._date(), words, self._style), canvas.to_array()])

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""
        return (
            Entry("open, 1", lambda canvas, at: draw_square(canvas, at, tile_colour(canvas.palette, 1))),
            Entry(f"closed, {LEVELS}", lambda canvas, at: draw_square(canvas, at, tile_colour(canvas.palette, LEVELS))),
            Entry("deaths, to 1 %", lambda canvas, at: draw_bar(canvas, at[0] - 12, at[1] - 4, 24, 0.6, canvas.palette.ink)),
            Entry("unemployed, to 25 %", lambda canvas, at: draw_bar(canvas, at[0] - 12, at[1] - 4, 24, 0.6, canvas.palette.sky)),
        )

    def _date(self) -> str:
        return str(self._start + datetime.timedelta(days=self._time))

    def _next_map(self, state: Mapping[str, np.ndarray]) -> Canvas:
        """Remember a state's curves and draw its map."""
        time, episode = int(state["t"]), int(state["episode"]) if "episode" in state else None
        if time < self._time or episode != self._episode:
            self.reset()
        self._time, self._episode = time, episode
        levels, persons = np.asarray(state["levels"])[time % RING], self._population.sum()
        infected, deaths, unemployed = (np.asarray(state[name], np.float64) for name in ("infected", "deaths", "unemployed"))
        share = int(state["subsidy_level"]) / self._levels
        self._past[time] = (
            100 * float(infected.sum() / persons),
            float(deaths.sum()) / 1e3,
            100 * float(unemployed.sum() / persons),
            float(levels.mean()),
            share * self._most_subsidy,
        )
        canvas = Canvas(MAP, HEIGHT, style=self._style)
        for i, code in enumerate(CODES):
            x, y = PLACES[code]
            bars = deaths[i] / self._population[i] / FULL_DEATHS, unemployed[i] / self._population[i] / FULL_UNEMPLOYED
            draw_tile(canvas, (MARGIN + x * SIDE, TOP + y * SIDE), code, int(levels[i]), bars)
        canvas.text((MARGIN, BAR_TOP + 12), f"subsidy {int(state['subsidy_level'])} / {self._levels}", 16)
        width = MAP - MARGIN - GAP - BAR_LEFT
        canvas.rectangle(BAR_LEFT, BAR_TOP, BAR_LEFT + width, BAR_TOP + 14, canvas.palette.grid, corner=3)
        canvas.rectangle(BAR_LEFT, BAR_TOP, BAR_LEFT + share * width, BAR_TOP + 14, canvas.palette.green, corner=3)
        return canvas

    # The panel

    def _draw_empty_panel(self) -> Canvas:
        canvas = Canvas(PANEL, HEIGHT, style=self._style)
        canvas.text((LEFT, 46), "COVID-19 and the economy", 27)
        for k, entry in enumerate(self.legend):
            at = LEFT + (14 if k < 2 else 152), 126 + 28 * (k % 2)
            entry.draw(canvas, at)
            canvas.text((at[0] + 26, at[1]), entry.word, 16, anchor="lm")
        for k, curve in enumerate(CURVES):
            top = CHARTS + CHART * k
            canvas.text((LEFT, top + 12), curve.name, 14, canvas.palette.muted)
            canvas.rectangle(LEFT, top + 18, RIGHT - SCALE, top + 18 + PLOT, canvas.palette.surface)
            canvas.text((RIGHT, top + 17 + PLOT), "0", 12, canvas.palette.muted, "rs")
        return canvas

    def _draw_panel(self) -> Canvas:
        canvas = self._empty_panel.copy()
        canvas.text((LEFT, 82), self._date(), 24)
        canvas.text((RIGHT, 82), f"day {self._time} / {self._days}", 20, canvas.palette.muted, "rs")
        canvas.rectangle(LEFT, 94, RIGHT, 100, canvas.palette.grid, corner=3)
        done = min(1.0, self._time / self._days)
        canvas.rectangle(LEFT, 94, LEFT + done * (RIGHT - LEFT), 100, canvas.palette.ink, corner=3)
        for k, curve in enumerate(CURVES):
            values = [(day, past[k]) for day, past in self._past.items()]
            self._draw_curve(canvas, CHARTS + CHART * k, curve, values)
        return canvas

    def _draw_curve(self, canvas: Canvas, top: float, curve: Curve, values: Sequence[tuple[int, float]]) -> None:
        colour = curve.colour(canvas.palette)
        canvas.text((RIGHT, top + 12), curve.text.format(values[-1][1]), 16, anchor="rs")
        most = curve.most or max(1e-9, *(value for _, value in values))
        canvas.text((RIGHT, top + 28), curve.text.format(most), 12, canvas.palette.muted, "rs")
        width = RIGHT - SCALE - LEFT
        stride = 1 + len(values) // width
        bottom, across = top + 18 + PLOT, width / self._days
        shown = [*values[:-1:stride], values[-1]]
        line = [(LEFT + min(day, self._days) * across, bottom - 2 - (PLOT - 5) * value / most) for day, value in shown]
        if len(line) > 1:
            canvas.line(line, colour, 2.0)
        canvas.disc(line[-1], 3.0, colour)


def tile_colour(palette: Palette, level: int) -> Colour:
    """Return the colour of a stringency, from that of the surface to vermilion."""
    return mix(palette.vermilion, palette.surface, level / LEVELS)


def draw_tile(canvas: Canvas, corner: Point, code: str, level: int, bars: Sequence[float]) -> None:
    """Draw a state: its code and stringency above, two bars with these shares of their full width below."""
    (left, top), side = corner, SIDE - GAP
    canvas.rectangle(left, top, left + side, top + side, tile_colour(canvas.palette, level), corner=4)
    canvas.text((left + 4, top + 19), code, 16)
    canvas.text((left + side - 4, top + 19), str(level), 12, anchor="rs")
    for share, at, colour in zip(bars, (26, 37), (canvas.palette.ink, canvas.palette.sky), strict=True):
        draw_bar(canvas, left + 5, top + at, side - 10, share, colour)


def draw_bar(canvas: Canvas, left: float, top: float, width: float, share: float, colour: Colour) -> None:
    """Draw a bar 8 pixels high that is filled from the left to `share` of its width, at most 1."""
    canvas.rectangle(left, top, left + width, top + 8, canvas.palette.page, corner=2)
    filled = min(1.0, max(0.0, float(share))) * (width - 2)
    canvas.rectangle(left + 1, top + 1, left + 1 + filled, top + 7, colour, corner=1)


def draw_square(canvas: Canvas, centre: Point, colour: Colour) -> None:
    """Draw a small tile, with a rim because that of an open state looks like the page."""
    (x, y), reach = centre, 11.0
    canvas.rectangle(x - reach, y - reach, x + reach, y + reach, canvas.palette.border, corner=4)
    canvas.rectangle(x - reach + 1, y - reach + 1, x + reach - 1, y + reach - 1, colour, corner=3)
