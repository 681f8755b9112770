"""Draws one world of RICE-N."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpu_vecenv.render.canvas import Canvas, Point
from gpu_vecenv.render.frame import draw_status
from gpu_vecenv.render.legend import Entry
from gpu_vecenv.render.style import DEFAULT_STYLE, Colour, Style

HEIGHT = 688
ARENA = HEIGHT  # the tiles fill a square
PANEL = 272
LEFT, RIGHT = 8, PANEL - 24  # horizontal edges of the panel's content

REGIONS, PERIODS = 27, 20
FIRST_YEAR, YEARS = 2015, 5  # years of a period
COLUMNS, ROWS = 6, 5
RIM, GAP = 12.0, 8.0
CELL_WIDTH = (ARENA - 2 * RIM + GAP) / COLUMNS
CELL_HEIGHT = (ARENA - 2 * RIM + GAP) / ROWS
CHART_TOP, CHART_BOTTOM = 30.0, 45.0  # of a region's tile: heights above and below the curves
STRIP, BAR = 14.0, 6.0  # heights of the tariffs over the years and of the bar of mitigation
SCALE_LEFT = 24.0  # of a region's tile: width left of the curves

LOWEST, HIGHEST = 0.01, 100.0  # ends of the curves' scale
TICKS = (0.1, 1, 10)

COST = 0.55 / 2.6  # of mitigation in the first period, by carbon intensity; README.md, rule 3
HOTTEST = 5.0  # kelvins, the top of the climate's curve unless it is hotter


class Year(NamedTuple):
    """Numbers that the curves show, of one period."""

    emissions: np.ndarray
    """Gt a year, (27,)."""
    consumption: np.ndarray
    """10^12 USD a year, (27,)."""
    tariffs: np.ndarray
    """Mean tariff of a region on imports, which holds from the next year on, (27,)."""
    temperature: float
    """Kelvins since 1750."""


class Renderer:
    """Pictures of one world: a tile for each region, one for the climate, and totals at the right.

    A tile has the curves of emissions and consumption over the years, on one logarithmic scale from 0.01 to 100 for all regions,
    and above them the present values. Below, columns are the mean tariff on imports over the years, and a bar is the mitigation
    rate. With negotiation, a mark above the bar is the rate that the region agreed to. Curves are kept between frames and cleared
    when an episode starts.

    Args:
        params: The environment's resolved parameters. The renderer uses `num_discrete_action_levels` and `negotiation_on`.
        style: Colours and scale.
    """

    def __init__(self, params: Mapping[str, Any], style: Style = DEFAULT_STYLE) -> None:
        self._style = style
        self._levels = int(params["num_discrete_action_levels"])
        self._negotiates = bool(params["negotiation_on"])
        self._empty_arena, self._empty_panel = self._draw_empty_arena(), self._draw_empty_panel()
        self.reset()

    def reset(self) -> None:
        """Forget the curves."""
        self._years: dict[int, Year] = {}
        self._time = -1
        self._episode: int | None = None

    def frame(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state.

        Args:
            state: One world's state without a leading axis. An optional `episode` distinguishes episodes.

        Returns:
            The picture, uint8 of shape (688, 960, 3) at scale 1.
        """
        arena = self._next_arena(state)
        return np.concatenate([arena.to_array(), self._draw_panel(state).to_array()], axis=1)

    def scene(self, state: Mapping[str, np.ndarray]) -> np.ndarray:
        """Draw a state without the panel, with one line of text above: a part of a picture that has one `legend`.

        Args:
            state: As in `frame`.

        Returns:
            The picture, uint8 of shape (736, 688, 3) at scale 1.
        """
        arena = self._next_arena(state)
        latest = self._years[max(self._years)]
        words = f"{latest.emissions.sum():.0f} Gt/year   {latest.temperature:+.2f} K"
        return np.concatenate([draw_status(ARENA, f"year {year_of(state)}", words, self._style), arena.to_array()])

    @property
    def legend(self) -> tuple[Entry, ...]:
        """Names of the shapes in `scene`."""

        def curve(colour_of: str) -> Any:
            return lambda canvas, at: canvas.line(
                [(at[0] - 11, at[1] + 5), (at[0], at[1] - 4), (at[0] + 11, at[1])], getattr(canvas.palette, colour_of), 3.0
            )

        entries = [Entry("emissions, Gt/year", curve("vermilion")), Entry("consumption, trillion USD/year", curve("green"))]
        entries += [Entry("mean tariff, to 100 %", draw_columns_glyph), Entry("mitigation, to 100 %", draw_bar_glyph)]
        return (*entries, Entry("agreed mitigation", draw_agreed_glyph)) if self._negotiates else tuple(entries)

    def _next_arena(self, state: Mapping[str, np.ndarray]) -> Canvas:
        time, episode = int(state["t"]), int(state["episode"]) if "episode" in state else None
        if time < self._time or episode != self._episode:
            self.reset()
        self._time, self._episode = time, episode
        self._years[int(state["period"])] = year_in(state, self._levels)
        return self._draw_arena(state)

    # The tiles

    def _draw_empty_arena(self) -> Canvas:
        canvas = Canvas(ARENA, ARENA, style=self._style)
        for region in range(REGIONS):
            left, top, right, bottom = tile(region)
            canvas.rectangle(left, top, right, bottom, canvas.palette.surface, corner=6)
            canvas.text((left + 8, top + 21), str(region + 1), 15, canvas.palette.muted)
            box = chart(region)
            for tick in TICKS:
                at = box[3] - share_of_scale(tick) * (box[3] - box[1])
                canvas.line((box[0], at, box[2], at), canvas.palette.grid)
                canvas.text((box[0] - 4, at), f"{tick:g}", 9, canvas.palette.muted, "rm")
        left, top, right, bottom = climate_tile()
        canvas.rectangle(left, top, right, bottom, canvas.palette.surface, corner=6)
        canvas.text((left + 10, top + 21), "warming since 1750, K", 15, canvas.palette.muted)
        return canvas

    def _draw_arena(self, state: Mapping[str, np.ndarray]) -> Canvas:
        canvas = self._empty_arena.copy()
        mitigation = np.asarray(state["mitigation"], float) / self._levels
        agreed = np.asarray(state["minimum_mitigation"], float) / self._levels
        for region in range(REGIONS):
            self._draw_curves(canvas, region)
            self._draw_tariffs(canvas, region)
            left, _, right, _ = chart(region)
            bottom = tile(region)[3] - 7
            draw_bar(canvas, (left, bottom - BAR, right, bottom), float(mitigation[region]))
            if self._negotiates:
                draw_agreed(canvas, (left + agreed[region] * (right - left), bottom - BAR - 1))
        self._draw_climate(canvas)
        return canvas

    def _draw_curves(self, canvas: Canvas, region: int) -> None:
        """Draw emissions and consumption of a region, and their present values; nothing before the first period."""
        palette, (left, top, right, _) = canvas.palette, tile(region)
        years = {period: year for period, year in self._years.items() if period > 0}
        if not years:
            return
        emissions = [float(year.emissions[region]) for year in years.values()]
        consumption = [float(year.consumption[region]) for year in years.values()]
        for values, colour, edge in ((emissions, palette.vermilion, 0.58), (consumption, palette.green, 1.0)):
            draw_curve(canvas, chart(region), list(years), [share_of_scale(value) for value in values], colour)
            canvas.text((left + 8 + edge * (right - left - 16), top + 21), two_digits(values[-1]), 14, colour, "rs")

    def _draw_tariffs(self, canvas: Canvas, region: int) -> None:
        """Draw a column for the tariff of each year, on a ground that is as high as a tariff of 100 %."""
        left, _, right, _ = chart(region)
        ground = tile(region)[3] - 24
        canvas.rectangle(left, ground - STRIP, right, ground, canvas.palette.grid)
        width = (right - left) / PERIODS
        for period, year in self._years.items():
            if period > 0 and year.tariffs[region] > 0:
                at, height = left + (period - 1) * width, min(1.0, float(year.tariffs[region])) * STRIP
                canvas.rectangle(at, ground - height, at + width, ground, canvas.palette.sky)

    def _draw_climate(self, canvas: Canvas) -> None:
        palette = self._style.palette
        left, top, right, bottom = climate_tile()
        temperatures = [year.temperature for year in self._years.values()]
        hottest = max(HOTTEST, *temperatures)
        box = (left + 34, top + CHART_TOP, right - 10, bottom - 24)
        for kelvins in range(0, int(hottest) + 1, 1 if hottest < 8 else 5):
            at = box[3] - kelvins / hottest * (box[3] - box[1])
            canvas.line((box[0], at, box[2], at), palette.grid)
            canvas.text((box[0] - 8, at), str(kelvins), 12, palette.muted, "rm")
        draw_curve(canvas, box, list(self._years), [kelvins / hottest for kelvins in temperatures], palette.mark, 3.0)
        canvas.text((right - 10, top + 21), f"{temperatures[-1]:+.2f} K", 16, palette.ink, "rs")
        canvas.text((box[0], bottom - 8), str(FIRST_YEAR), 12, palette.muted)
        canvas.text((box[2], bottom - 8), str(FIRST_YEAR + PERIODS * YEARS), 12, palette.muted, "rs")

    # The panel

    def _draw_empty_panel(self) -> Canvas:
        canvas = Canvas(PANEL, HEIGHT, style=self._style)
        canvas.text((LEFT, 52), "RICE-N", 34)
        canvas.text((LEFT, 124), "year", 16, canvas.palette.muted)
        for row, entry in enumerate(self.legend):
            at, (word, _, unit) = 180 + 40 * row, entry.word.partition(", ")
            entry.draw(canvas, (LEFT + 14, at))
            canvas.text((LEFT + 44, at + 2), word, 18)
            canvas.text((LEFT + 44, at + 17), unit, 12, canvas.palette.muted)
        canvas.text((LEFT, 410), "world", 16, canvas.palette.muted)
        for row, (name, unit) in enumerate(TOTALS):
            canvas.text((LEFT, 446 + 52 * row), name, 17)
            canvas.text((LEFT, 464 + 52 * row), unit, 12, canvas.palette.muted)
        return canvas

    def _draw_panel(self, state: Mapping[str, np.ndarray]) -> Canvas:
        canvas, palette = self._empty_panel.copy(), self._style.palette
        period = int(state["period"])
        canvas.text((RIGHT, 124), str(year_of(state)), 26, anchor="rs")
        canvas.rectangle(LEFT, 138, RIGHT, 144, palette.grid, corner=3)
        canvas.rectangle(LEFT, 138, LEFT + period / PERIODS * (RIGHT - LEFT), 144, palette.ink, corner=3)
        latest = self._years[max(self._years)]
        mitigation = float(np.asarray(state["mitigation"], float).mean()) / self._levels
        values = (
            f"{latest.temperature:.2f}",
            f"{latest.emissions.sum():,.1f}",
            f"{float(np.asarray(state['gross_output'], float).sum()):,.0f}",
            f"{latest.consumption.sum():,.1f}",
            f"{100 * mitigation:.0f} %",
        )
        for row, value in enumerate(values):
            canvas.text((RIGHT, 450 + 52 * row), value, 22, anchor="rs")
        if self._negotiates:
            stage = ("period", "proposals", "decisions")[int(state["t"]) % 3] if self._time else "start"
            canvas.text((RIGHT, 410), stage, 16, palette.muted, "rs")
        return canvas


TOTALS = (
    ("temperature", "K since 1750"),
    ("emissions", "Gt/year"),
    ("gross output", "trillion USD/year"),
    ("consumption", "trillion USD/year"),
    ("mean mitigation", "of emissions"),
)
"""Names and units of the numbers of the world in the panel."""


def year_of(state: Mapping[str, np.ndarray]) -> int:
    """Year at the end of the last period."""
    return FIRST_YEAR + YEARS * int(state["period"])


def year_in(state: Mapping[str, np.ndarray], levels: int) -> Year:
    """Numbers of the last period. The intensity of that period follows from the cost of mitigation in it."""
    intensity = np.asarray(state["mitigation_cost"], float) / (COST * 0.999 ** (int(state["period"]) - 1))
    emitted = 1 - np.asarray(state["mitigation"], float) / levels
    emissions = intensity * emitted * np.asarray(state["production"], float)
    tariffs = np.asarray(state["tariffs"], float).sum(1) / ((REGIONS - 1) * levels)
    return Year(emissions, np.asarray(state["consumption"], float), tariffs, float(np.asarray(state["temperature"])[0]))


def tile(region: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a region's tile."""
    row, column = divmod(region, COLUMNS)
    left, top = RIM + column * CELL_WIDTH, RIM + row * CELL_HEIGHT
    return left, top, left + CELL_WIDTH - GAP, top + CELL_HEIGHT - GAP


def climate_tile() -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the tile of the climate, which fills the last row behind the regions."""
    left, top, _, bottom = tile(REGIONS)
    return left, top, ARENA - RIM, bottom


def chart(region: int) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the curves of a region's tile."""
    left, top, right, bottom = tile(region)
    return left + SCALE_LEFT, top + CHART_TOP, right - 8, bottom - CHART_BOTTOM


def two_digits(value: float) -> str:
    """A value as text, with two digits from 1 on and two decimals below."""
    return f"{value:.{2 if value < 1 else 1 if value < 10 else 0}f}"


def share_of_scale(value: float) -> float:
    """Height of a value on the logarithmic scale of the curves, from 0 to 1."""
    return math.log(min(max(value, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)


def draw_curve(
    canvas: Canvas, box: tuple[float, ...], periods: Sequence[int], shares: Sequence[float], colour: Colour, width: float = 2.0
) -> None:
    """Draw shares of the height of a box over the periods; no line before the second one."""
    left, top, right, bottom = box
    points = [
        (left + period / PERIODS * (right - left), bottom - share * (bottom - top))
        for period, share in zip(periods, shares, strict=True)
    ]
    if len(points) > 1:
        canvas.line(points, colour, width)
    canvas.disc(points[-1], 1.4 * width, colour)


def draw_agreed(canvas: Canvas, tip: Point) -> None:
    """Draw a small triangle that points down at `tip`."""
    x, y = tip
    canvas.polygon([(x, y), (x - 4, y - 7), (x + 4, y - 7)], canvas.palette.ink)


def draw_bar(canvas: Canvas, box: tuple[float, float, float, float], share: float) -> None:
    """Draw a bar that is filled from the left to a share of its width, at most 1."""
    left, top, right, bottom = box
    canvas.rectangle(*box, canvas.palette.grid)
    if share > 0:
        canvas.rectangle(left, top, left + min(1.0, share) * (right - left), bottom, canvas.palette.ink)


def draw_bar_glyph(canvas: Canvas, at: Point) -> None:
    """Draw a bar of which a part is filled."""
    x, y = at
    draw_bar(canvas, (x - 12, y - 3, x + 12, y + 3), 0.6)


def draw_columns_glyph(canvas: Canvas, at: Point) -> None:
    """Draw columns of several heights."""
    x, y = at
    canvas.rectangle(x - 12, y - 8, x + 12, y + 8, canvas.palette.grid)
    for k, height in enumerate((7, 11, 5, 9)):
        canvas.rectangle(x - 12 + 6 * k, y + 8 - height, x - 6 + 6 * k, y + 8, canvas.palette.sky)


def draw_agreed_glyph(canvas: Canvas, at: Point) -> None:
    """Draw the mark of an agreed rate."""
    draw_agreed(canvas, (at[0], at[1] + 4))
