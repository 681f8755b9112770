"""Draws one world of COVID-19 and the economy."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpu_vecenv.envs.covid.spec import LEVELS, RING, STATES, calibrated
from gpu_vecenv.render.expressions import Ink, Number, Operand, Table, blend, field, least, most, total
from gpu_vecenv.render.frame import make_status, write_status
from gpu_vecenv.render.scene import At, Glyph, OneOf, Pictures, Scene, Words, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

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

PERSONS = ("infected", "deaths", "unemployed")  # fields of the state that count persons
FULL_DEATHS, FULL_UNEMPLOYED = 0.01, 0.25  # shares of the population with a full bar


class Curve(NamedTuple):
    """A quantity of the nation in the panel: name, format, colour, and the end of its scale, None for the largest so far."""

    name: str
    form: str
    colour: str
    most: float | None = None


CURVES = (
    Curve("infected, % of the population", ".2f", "mark"),
    Curve("deaths, thousand", ",.0f", "ink"),
    Curve("unemployed, % of the population", ".1f", "sky"),
    Curve("mean stringency", ".1f", "vermilion", float(LEVELS)),
    Curve("subsidy, USD a person and year", ",.0f", "green"),
)


class Renderer(SceneRenderer):
    """Pictures of one world: a tile map of the states at the left, a legend and curves of the nation at the right.

    The colour of a tile is the stringency of its state, from 1 to 10, which a number repeats. Its two bars are deaths and
    unemployed as shares of the population. The bar below the map is the level of the subsidy. Curves are kept between frames and
    cleared when an episode starts; the ends of their scales are at the right.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures.

        They depend on `episode_length`, `start_date`, `num_subsidy_levels` and `max_annual_subsidy_per_person`.
        """
        nation = Nation(params)
        status = make_status(MAP, nation.date)
        _, deaths, unemployed, *_ = nation.values
        write_status(status, [Written(deaths, ",.0f"), " k deaths, ", Written(unemployed, ".1f"), " % jobless"])
        states = nation.draw_map()
        return Pictures((states, nation.draw_panel()), (status, states), LEGEND)


class Nation:
    """Numbers of the nation, with these parameters."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.days, self.subsidies = int(params["episode_length"]), int(params["num_subsidy_levels"])
        start = datetime.date.fromisoformat(params["start_date"])
        dates = [str(start + datetime.timedelta(days=day)) for day in range(self.days + 1)]
        self.date: Words = [OneOf(field("t"), dates)]
        self.population = calibrated("state_population").tolist()
        self.share = field("subsidy_level") / self.subsidies
        persons = sum(self.population)
        infected, deaths, unemployed = map(people_of, PERSONS)
        stringency = total(STATES, stringency_of) / STATES
        subsidy = self.share * float(params["max_annual_subsidy_per_person"])
        self.values: list[Operand] = [100 * infected / persons, deaths / 1e3, 100 * unemployed / persons, stringency, subsidy]

    def draw_map(self) -> Scene:
        """Draw a tile for each state and the bar of the subsidy."""
        scene = Scene(MAP, HEIGHT)
        palette = scene.palette
        places, people = [PLACES[code] for code in CODES], Table(self.population)
        across, down = (Table([place[axis] for place in places]) for axis in (0, 1))
        with scene.each(STATES) as i:
            bars = (field("deaths", i) / people[i] / FULL_DEATHS, field("unemployed", i) / people[i] / FULL_UNEMPLOYED)
            draw_tile(scene, (MARGIN + across[i] * SIDE, TOP + down[i] * SIDE), [OneOf(i, CODES)], stringency_of(i), bars)
        level = Written(field("subsidy_level"))
        scene.text((MARGIN, BAR_TOP + 12), ["subsidy ", level, f" / {self.subsidies}"], 16)
        width = MAP - MARGIN - GAP - BAR_LEFT
        scene.rectangle(BAR_LEFT, BAR_TOP, BAR_LEFT + width, BAR_TOP + 14, palette.grid, corner=3)
        scene.rectangle(BAR_LEFT, BAR_TOP, BAR_LEFT + self.share * width, BAR_TOP + 14, palette.green, corner=3)
        return scene

    def draw_panel(self) -> Scene:
        """Draw title, date, legend and curves."""
        scene = Scene(PANEL, HEIGHT, still_first=True)
        palette, time = scene.palette, field("t")
        scene.text((LEFT, 46), "COVID-19 and the economy", 27)
        for k, glyph in enumerate(LEGEND):
            at = LEFT + (14 if k < 2 else 152), 126 + 28 * (k % 2)
            glyph.draw(scene, at)
            scene.text((at[0] + 26, at[1]), glyph.word, 16, anchor="lm")
        scene.text((LEFT, 82), self.date, 24)
        scene.text((RIGHT, 82), ["day ", Written(time), f" / {self.days}"], 20, palette.muted, "rs")
        scene.rectangle(LEFT, 94, RIGHT, 100, palette.grid, corner=3)
        done = least(1.0, time / self.days)
        scene.rectangle(LEFT, 94, LEFT + done * (RIGHT - LEFT), 100, palette.ink, corner=3)
        for k, (curve, value) in enumerate(zip(CURVES, self.values, strict=True)):
            draw_curve(scene, CHARTS + CHART * k, curve, value, time / self.days)
        return scene


def people_of(name: str) -> Number:
    """Return the persons that a field counts in all states."""
    return total(STATES, lambda i: field(name, i))


def stringency_of(state: Number) -> Number:
    """Return the stringency of a state today."""
    return field("levels", field("t") % RING, state)


def draw_curve(scene: Scene, top: float, curve: Curve, value: Operand, share: Number) -> None:
    """Draw a quantity over the days: its name and value above, the ends of its scale at the right."""
    palette, bottom, right = scene.palette, top + 18 + PLOT, RIGHT - SCALE
    colour: Ink = getattr(palette, curve.colour)
    scene.text((LEFT, top + 12), curve.name, 14, palette.muted)
    scene.rectangle(LEFT, top + 18, right, bottom, palette.surface)
    scene.text((RIGHT, bottom - 1), "0", 12, palette.muted, "rs")
    scene.text((RIGHT, top + 12), [Written(value, curve.form)], 16, anchor="rs")
    end = curve.most or most(1e-9, scene.highest(1, lambda i: value)[0])
    scene.text((RIGHT, top + 28), [Written(end, curve.form)], 12, palette.muted, "rs")
    box = (LEFT, bottom - 2 - (PLOT - 5), right, bottom - 2)
    scene.curve(box, share, value, colour, curve.most, floor=1e-9, dot=3.0)


def tile_ink(palette: Any, level: Operand) -> Ink:
    """Return the colour of a stringency, from that of the surface to vermilion."""
    return blend(palette.vermilion, palette.surface, level / LEVELS)


def draw_tile(scene: Scene, corner: At, code: Words, level: Number, bars: Sequence[Number]) -> None:
    """Draw a state: its code and stringency above, two bars with these shares of their full width below."""
    (left, top), side, palette = corner, SIDE - GAP, scene.palette
    scene.rectangle(left, top, left + side, top + side, tile_ink(palette, level), corner=4)
    scene.text((left + 4, top + 19), code, 16)
    scene.text((left + side - 4, top + 19), [Written(level)], 12, anchor="rs")
    for share, at, colour in zip(bars, (26, 37), (palette.ink, palette.sky), strict=True):
        draw_bar(scene, left + 5, top + at, side - 10, share, colour)


def draw_bar(scene: Scene, left: Operand, top: Operand, width: float, share: Operand, colour: Ink) -> None:
    """Draw a bar 8 pixels high that is filled from the left to `share` of its width, at most 1."""
    scene.rectangle(left, top, left + width, top + 8, scene.palette.page, corner=2)
    filled = least(1.0, most(0.0, share)) * (width - 2)
    scene.rectangle(left + 1, top + 1, left + 1 + filled, top + 7, colour, corner=1)


def draw_square(scene: Scene, centre: At, colour: Ink) -> None:
    """Draw a small tile, with a rim because that of an open state looks like the page."""
    (x, y), reach = centre, 11.0
    scene.rectangle(x - reach, y - reach, x + reach, y + reach, scene.palette.border, corner=4)
    scene.rectangle(x - reach + 1, y - reach + 1, x + reach - 1, y + reach - 1, colour, corner=3)


LEGEND = (
    Glyph("open, 1", lambda scene, at: draw_square(scene, at, tile_ink(scene.palette, 1))),
    Glyph(f"closed, {LEVELS}", lambda scene, at: draw_square(scene, at, tile_ink(scene.palette, LEVELS))),
    Glyph("deaths, to 1 %", lambda scene, at: draw_bar(scene, at[0] - 12, at[1] - 4, 24, 0.6, scene.palette.ink)),
    Glyph("unemployed, to 25 %", lambda scene, at: draw_bar(scene, at[0] - 12, at[1] - 4, 24, 0.6, scene.palette.sky)),
)
"""Names of the shapes on the map."""
