"""Draws one world of RICE-N."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.render.expressions import Ink, Number, Operand, Table, field, least, log, most, total
from gpu_vecenv.render.frame import make_status, write_status
from gpu_vecenv.render.scene import At, Glyph, OneOf, Pictures, Remembered, Scene, Words, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

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


class Renderer(SceneRenderer):
    """Pictures of one world: a tile for each region, one for the climate, and totals at the right.

    A tile has the curves of emissions and consumption over the years, on one logarithmic scale from 0.01 to 100 for all regions,
    and above them the present values. Below, columns are the mean tariff on imports over the years, and a bar is the mitigation
    rate. With negotiation, a mark above the bar is the rate that the region agreed to. Curves are kept between frames and cleared
    when an episode starts.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures, which depend on `num_discrete_action_levels` and `negotiation_on`."""
        economy = Economy(int(params["num_discrete_action_levels"]), bool(params["negotiation_on"]))
        status = make_status(ARENA, ["year ", Written(YEAR)])
        emissions = total(REGIONS, economy.emissions)
        write_status(status, [Written(emissions, ".0f"), " Gt/year   ", Written(TEMPERATURE, "+.2f"), " K"])
        arena = economy.draw_arena()
        return Pictures((arena, economy.draw_panel()), (status, arena), economy.legend)


PERIOD, TEMPERATURE = field("period"), field("temperature", 0)
YEAR = FIRST_YEAR + YEARS * PERIOD  # at the end of the last period


class Economy:
    """Numbers of the regions in the last period."""

    def __init__(self, levels: int, negotiates: bool) -> None:
        self._levels, self._negotiates = levels, negotiates
        # The intensity of a period follows from the cost of mitigation in it.
        self._cost = Table([COST * 0.999 ** (period - 1) for period in range(PERIODS + 1)])[PERIOD]

    @property
    def legend(self) -> tuple[Glyph, ...]:
        """Names of the shapes in the tiles."""
        agreed = Glyph("agreed mitigation", lambda scene, at: draw_agreed(scene, (at[0], at[1] + 4)))
        return (*LEGEND, agreed) if self._negotiates else LEGEND

    def emissions(self, region: Operand) -> Number:
        """Emissions of a region, Gt a year."""
        emitted = 1 - field("mitigation", region) / self._levels
        return field("mitigation_cost", region) / self._cost * emitted * field("production", region)

    def tariffs(self, region: Operand) -> Number:
        """Mean tariff of a region on imports, which holds from the next year on."""
        return total(REGIONS, lambda other: field("tariffs", region, other)) / ((REGIONS - 1) * self._levels)

    # The tiles

    def draw_arena(self) -> Scene:
        """Draw a tile for each region and that of the climate."""
        scene = draw_empty_arena()
        emissions, tariffs = scene.now(REGIONS, self.emissions), scene.now(REGIONS, self.tariffs)
        consumption = scene.now(REGIONS, lambda region: field("consumption", region))
        for region in range(REGIONS):
            self._draw_tile(scene, region, emissions, consumption, tariffs)
        draw_climate(scene)
        return scene

    def _draw_tile(
        self, scene: Scene, region: int, emissions: Remembered, consumption: Remembered, tariffs: Remembered
    ) -> None:
        palette, (left, top, right, bottom), box = scene.palette, tile(region), chart(region)
        begun, share = PERIOD > 0, PERIOD / PERIODS
        for values, colour, edge in ((emissions, palette.vermilion, 0.58), (consumption, palette.green, 1.0)):
            value = values[region]
            scene.curve(box, share, share_of_scale(value), colour, 1.0, dot=2.8, when=begun)
            write_two_digits(scene, (left + 8 + edge * (right - left - 16), top + 21), value, 14, colour, begun)
        ground, taxes = bottom - 24, tariffs[region]
        scene.rectangle(box[0], ground - STRIP, box[2], ground, palette.grid)
        strip = (box[0], ground - STRIP, box[2], ground)
        scene.columns(strip, (PERIOD - 1) / PERIODS, 1 / PERIODS, taxes, palette.sky, begun & (taxes > 0))
        low = bottom - 7
        draw_bar(scene, (box[0], low - BAR, box[2], low), field("mitigation", region) / self._levels)
        if self._negotiates:
            agreed = field("minimum_mitigation", region) / self._levels
            draw_agreed(scene, (box[0] + agreed * (box[2] - box[0]), low - BAR - 1))

    # The panel

    def draw_panel(self) -> Scene:
        """Draw title, year, legend and totals."""
        scene = Scene(PANEL, HEIGHT, still_first=True)
        palette = scene.palette
        scene.text((LEFT, 52), "RICE-N", 34)
        scene.text((LEFT, 124), "year", 16, palette.muted)
        scene.text((RIGHT, 124), [Written(YEAR)], 26, anchor="rs")
        scene.rectangle(LEFT, 138, RIGHT, 144, palette.grid, corner=3)
        scene.rectangle(LEFT, 138, LEFT + PERIOD / PERIODS * (RIGHT - LEFT), 144, palette.ink, corner=3)
        for row, glyph in enumerate(self.legend):
            at, (word, _, unit) = 180 + 40 * row, glyph.word.partition(", ")
            glyph.draw(scene, (LEFT + 14, at))
            scene.text((LEFT + 44, at + 2), word, 18)
            scene.text((LEFT + 44, at + 17), unit, 12, palette.muted)
        scene.text((LEFT, 410), "world", 16, palette.muted)
        emissions, output, consumption, mitigation = (
            total(REGIONS, number) for number in (self.emissions, of("gross_output"), of("consumption"), of("mitigation"))
        )
        percent = Written(100 * mitigation / (REGIONS * self._levels), ".0f")
        values: tuple[Words, ...] = ([Written(TEMPERATURE, ".2f")], [Written(emissions, ",.1f")], [Written(output, ",.0f")],
                  [Written(consumption, ",.1f")], [percent, " %"])  # fmt: skip
        for row, ((name, unit), words) in enumerate(zip(TOTALS, values, strict=True)):
            scene.text((LEFT, 446 + 52 * row), name, 17)
            scene.text((LEFT, 464 + 52 * row), unit, 12, palette.muted)
            scene.text((RIGHT, 450 + 52 * row), words, 22, anchor="rs")
        if self._negotiates:
            time = field("t")
            stages = [OneOf(time % 3, ("period", "proposals", "decisions"))]
            scene.text((RIGHT, 410), "start", 16, palette.muted, "rs", time.is_(0))
            scene.text((RIGHT, 410), stages, 16, palette.muted, "rs", time > 0)
        return scene


TOTALS = (
    ("temperature", "K since 1750"),
    ("emissions", "Gt/year"),
    ("gross output", "trillion USD/year"),
    ("consumption", "trillion USD/year"),
    ("mean mitigation", "of emissions"),
)
"""Names and units of the numbers of the world in the panel."""


def of(name: str) -> Any:
    """Return a function from a region to its number of a field."""
    return lambda region: field(name, region)


def draw_empty_arena() -> Scene:
    """Draw tiles without curves."""
    scene = Scene(ARENA, ARENA)
    palette = scene.palette
    for region in range(REGIONS):
        left, top, right, bottom = tile(region)
        scene.rectangle(left, top, right, bottom, palette.surface, corner=6)
        scene.text((left + 8, top + 21), str(region + 1), 15, palette.muted)
        box = chart(region)
        for tick in TICKS:
            at = box[3] - math.log(tick / LOWEST) / math.log(HIGHEST / LOWEST) * (box[3] - box[1])
            scene.line((box[0], at, box[2], at), palette.grid)
            scene.text((box[0] - 4, at), f"{tick:g}", 9, palette.muted, "rm")
    left, top, right, bottom = climate_tile()
    scene.rectangle(left, top, right, bottom, palette.surface, corner=6)
    scene.text((left + 10, top + 21), "warming since 1750, K", 15, palette.muted)
    return scene


def draw_climate(scene: Scene) -> None:
    """Draw the temperature over the years. Lines are a kelvin apart, or five if it was hot."""
    palette, (left, top, right, bottom) = scene.palette, climate_tile()
    box = (left + 34, top + CHART_TOP, right - 10, bottom - 24)
    hottest = most(HOTTEST, scene.highest(1, lambda i: TEMPERATURE)[0])
    for stride, hot in ((1, hottest < 8), (5, hottest >= 8)):
        for kelvins in range(0, 8 * stride * stride, stride):
            at, shown = box[3] - kelvins / hottest * (box[3] - box[1]), hot & (hottest >= kelvins)
            scene.line((box[0], at, box[2], at), palette.grid, when=shown)
            scene.text((box[0] - 8, at), str(kelvins), 12, palette.muted, "rm", shown)
    scene.curve(box, PERIOD / PERIODS, TEMPERATURE, palette.mark, floor=HOTTEST, width=3.0, dot=4.2)
    scene.text((right - 10, top + 21), [Written(TEMPERATURE, "+.2f"), " K"], 16, anchor="rs")
    scene.text((box[0], bottom - 8), str(FIRST_YEAR), 12, palette.muted)
    scene.text((box[2], bottom - 8), str(FIRST_YEAR + PERIODS * YEARS), 12, palette.muted, "rs")


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


def two_digits(value: Number) -> tuple[tuple[Written, Number], ...]:
    """A value as text, with two digits from 1 on and two decimals below, and the condition of each text."""
    from_ten, below_one = value >= 10, value < 1
    return (Written(value, ".0f"), from_ten), (Written(value, ".1f"), ~from_ten & ~below_one), (Written(value, ".2f"), below_one)


def write_two_digits(scene: Scene, at: At, value: Number, size: float, colour: Ink, when: Number) -> None:
    """Write a value, with its right end at a place."""
    for written, condition in two_digits(value):
        scene.text(at, [written], size, colour, "rs", when & condition)


def share_of_scale(value: Operand) -> Number:
    """Height of a value on the logarithmic scale of the curves, from 0 to 1."""
    return log(least(most(value, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)


def draw_agreed(scene: Scene, tip: At) -> None:
    """Draw a small triangle that points down at `tip`."""
    x, y = tip
    scene.polygon([(x, y), (x - 4, y - 7), (x + 4, y - 7)], scene.palette.ink)


def draw_bar(scene: Scene, box: tuple[Operand, Operand, Operand, Operand], share: Operand) -> None:
    """Draw a bar that is filled from the left to a share of its width, at most 1."""
    left, top, right, bottom = box
    scene.rectangle(*box, scene.palette.grid)
    scene.rectangle(left, top, left + least(1.0, share) * (right - left), bottom, scene.palette.ink)


def draw_curve_glyph(scene: Scene, at: At, colour: Ink) -> None:
    """Draw a piece of a curve."""
    scene.line([(at[0] - 11, at[1] + 5), (at[0], at[1] - 4), (at[0] + 11, at[1])], colour, 3.0)


def draw_columns_glyph(scene: Scene, at: At) -> None:
    """Draw columns of several heights."""
    x, y = at
    scene.rectangle(x - 12, y - 8, x + 12, y + 8, scene.palette.grid)
    for k, height in enumerate((7, 11, 5, 9)):
        scene.rectangle(x - 12 + 6 * k, y + 8 - height, x - 6 + 6 * k, y + 8, scene.palette.sky)


LEGEND = (
    Glyph("emissions, Gt/year", lambda scene, at: draw_curve_glyph(scene, at, scene.palette.vermilion)),
    Glyph("consumption, trillion USD/year", lambda scene, at: draw_curve_glyph(scene, at, scene.palette.green)),
    Glyph("mean tariff, to 100 %", draw_columns_glyph),
    Glyph("mitigation, to 100 %", lambda scene, at: draw_bar(scene, (at[0] - 12, at[1] - 3, at[0] + 12, at[1] + 3), 0.6)),
)
"""Names of the shapes in the tiles, without the mark of negotiation."""
