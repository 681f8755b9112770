"""Draws one world of continuous Tag."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpu_vecenv.envs.tag.spec import action_table
from gpu_vecenv.render.controls import Controls, Held
from gpu_vecenv.render.expressions import Number, Operand, Table, blend, choose, cos, field, sin, smallest, sqrt, total
from gpu_vecenv.render.frame import draw_axis, draw_time, make_status, steps_of, write_status
from gpu_vecenv.render.scene import At, Glyph, Pictures, Remembered, Scene, Written
from gpu_vecenv.render.scene_renderer import SceneRenderer

HEIGHT = 688
ARENA = HEIGHT  # the arena's picture is a square
RIM = 24  # room around the walls, so that an agent at a wall is drawn completely
PANEL = 272
LEFT, RIGHT = 8, PANEL - 24  # horizontal edges of the panel's content
CURVE_TOP, CURVE_BOTTOM = 424, 584

FLASH_STEPS = 8
MOST_TRAILS = 50  # with more agents, only taggers have trails
MAX_DISC = 80  # a larger disc is only outlined, because a filled one would hide the arena


class Renderer(SceneRenderer):
    """Pictures of one world: the arena at the left, a legend with live counts at the right.

    Taggers are arrowheads on a disc as large as the tagging distance, runners are drops with their
    tip in the direction they face, caught runners are crosses, and a growing ring marks a runner that was
    caught a moment ago. The y axis points up. Trails and the curve in the panel are kept between frames and
    cleared when an episode starts.
    """

    def pictures(self, params: Mapping[str, Any]) -> Pictures:
        """Return the pictures.

        They depend on `num_taggers`, `num_runners`, `grid_length`, `episode_length`, `tagging_distance` and
        `runner_exits_game_after_tagged`.
        """
        game = Game(params)
        status = make_status(ARENA, steps_of(game.limit, ",d"))
        caught = game.tagged_in_step(status) if not game.exits else game.runners - game.free
        words = "caught " if game.exits else "tagged now "
        write_status(status, [words, Written(caught, ",d"), f" of {game.runners:,}"])
        arena = game.draw_arena()
        return Pictures((arena, game.draw_panel()), (status, arena), game.legend)

    def controls(self, params: Mapping[str, Any], held: Held) -> Mapping[str, Controls]:
        """Return for both roles the controls that turn toward a direction and speed up; both roles act alike."""
        if params["flatten_actions"] or params["continuous_actions"]:
            return {}
        turns, changes = (
            Table(action_table(params[f"min_{name}"], params[f"max_{name}"], params[f"num_{name}_levels"]).tolist())
            for name in ("turn", "acceleration")
        )
        heading = field("direction", held.agent) + turns[held.choice]
        speed_up = changes[held.choice] * (abs(held.right) + abs(held.up))
        steering = Controls([speed_up, cos(heading) * held.right + sin(heading) * held.up], Game(params).place(held.agent))
        return {"tagger": steering, "runner": steering}


class Game:
    """Sizes and numbers of Tag with these parameters."""

    def __init__(self, params: Mapping[str, Any]) -> None:
        self.taggers, self.runners = int(params["num_taggers"]), int(params["num_runners"])
        self.limit, self.exits = int(params["episode_length"]), bool(params["runner_exits_game_after_tagged"])
        length, agents = float(params["grid_length"]), self.taggers + self.runners
        self.agents, self.scale = agents, (ARENA - 2 * RIM) / length  # pixels a unit
        self.reach = float(params["tagging_distance"]) * length * self.scale
        self.size = min(11.0, max(3.0, 78.0 / math.sqrt(agents)))
        # Trails of a crowd would hide the few taggers.
        self.trailed = agents if agents <= MOST_TRAILS else self.taggers
        self.free = total(self.runners, lambda i: self.alive(self.taggers + i))

    @property
    def legend(self) -> tuple[Glyph, ...]:
        """Names of the shapes in the arena."""
        up = (0.7071, -0.7071)
        glyphs = [
            Glyph("tagger", lambda scene, at: draw_tagger(scene, at, up, 11.0)),
            Glyph("runner", lambda scene, at: draw_runner(scene, at, up, 11.0)),
        ]
        if self.exits:
            glyphs.append(Glyph("caught", lambda scene, at: scene.cross(at, 8.0, scene.palette.faded, 2.5)))
        word = "just caught" if self.exits else "tagged now"
        return *glyphs, Glyph(word, lambda scene, at: scene.ring(at, 11.0, scene.palette.mark, 2.5))

    def alive(self, agent: Operand) -> Number:
        """Return 1 if an agent is in the game."""
        return field("alive", agent) > 0

    def place(self, agent: Operand) -> At:
        """Return the position of an agent in pixels."""
        return RIM + field("loc_x", agent) * self.scale, ARENA - RIM - field("loc_y", agent) * self.scale

    def tagged(self, scene: Scene) -> Remembered:
        """Return the steps since each runner was tagged; without exits, since it was in a tagger's reach."""
        if self.exits:
            before = scene.before(self.runners, lambda i: self.alive(self.taggers + i))
            return scene.age(self.runners, lambda i: before[i] & ~self.alive(self.taggers + i))
        first = scene.before(self.runners, lambda i: field("t"))
        return scene.age(self.runners, lambda i: (first[i] < field("t")) & (self.nearest(self.taggers + i) < self.reach))

    def tagged_in_step(self, scene: Scene) -> Number:
        """Return the number of runners that were tagged in the last step."""
        ages = self.tagged(scene)
        return total(self.runners, lambda i: ages[i].is_(0))

    def nearest(self, agent: Operand) -> Number:
        """Return the distance of an agent from the nearest tagger, in pixels."""
        x, y = self.place(agent)

        def distance(tagger: Number) -> Number:
            across, up = self.place(tagger)[0] - x, self.place(tagger)[1] - y
            return sqrt(across * across + up * up)

        return smallest(self.taggers, distance)

    # The arena

    def draw_arena(self) -> Scene:
        """Draw the agents between their walls."""
        scene = draw_empty_arena()
        palette, size, first, ages = scene.palette, self.size, self.taggers, self.tagged(scene)
        if self.reach > size:
            with scene.each(first) as i:
                colour = blend(palette.vermilion, palette.surface, 0.25)
                (scene.disc if self.reach < MAX_DISC else scene.ring)(self.place(i), self.reach, colour)
        with scene.each(self.trailed) as i:
            colour = choose(i < first, palette.vermilion, palette.sky)
            scene.trail(self.place(i), size, 12 if self.agents <= 300 else 8, colour)
        cross = max(3.5, 0.75 * size), max(1.0, 0.22 * size)
        with scene.each(first) as i:
            scene.cross(self.place(i), cross[0], palette.faded, cross[1], ~self.alive(i))
        with scene.each(self.runners) as i:
            colour = choose(ages[i] < FLASH_STEPS, palette.mark, palette.faded)
            scene.cross(self.place(first + i), cross[0], colour, cross[1], ~self.alive(first + i))
        with scene.each(self.runners) as i:
            draw_runner(scene, self.place(first + i), facing(first + i), size, self.alive(first + i))
        with scene.each(first) as i:
            draw_tagger(scene, self.place(i), facing(i), max(6.0, 1.3 * size))
        with scene.each(self.runners) as i:
            age = ages[i] / FLASH_STEPS
            colour = blend(palette.mark, palette.surface, 1.0 - 0.8 * age)
            radius = max(5.0, size) * (1.6 + 2.2 * age)
            scene.ring(self.place(first + i), radius, colour, 2.5 - 1.5 * age, ages[i] < FLASH_STEPS)
        return scene

    # The panel

    def draw_panel(self) -> Scene:
        """Draw title, step, legend with counts, and curve."""
        scene, box = Scene(PANEL, HEIGHT, still_first=True), (LEFT, CURVE_TOP, RIGHT, CURVE_BOTTOM)
        palette, ages = scene.palette, self.tagged(scene)
        draw_time(scene, "Tag", self.limit, LEFT, RIGHT)
        now = total(self.runners, lambda i: ages[i].is_(0))
        rows: list[tuple[str, Operand]] = [("taggers", self.taggers)]
        if self.exits:
            fresh = total(self.runners, lambda i: ages[i] < FLASH_STEPS)
            caught = self.runners - self.free
            rows += [("runners free", self.free), ("caught", caught), ("just caught", fresh)]
        else:
            rows += [("runners", self.runners), ("tagged now", now)]
        for row, ((word, count), glyph) in enumerate(zip(rows, self.legend, strict=True)):
            at = 200 + 44 * row
            glyph.draw(scene, (LEFT + 14, at))
            scene.text((LEFT + 44, at), word, 18, anchor="lm")
            scene.text((RIGHT, at), [Written(count, ",d")], 24, anchor="rm")
        curve = "runners free" if self.exits else "runners tagged"
        scene.text((LEFT, CURVE_TOP - 14), curve, 14, palette.muted)
        scene.text((RIGHT, CURVE_TOP - 14), f"of {self.runners:,}", 14, palette.muted, "rs")
        draw_axis(scene, self.limit, box)
        scene.curve(box, field("t") / self.limit, self.free if self.exits else now, palette.sky, self.runners, inset=4,
                    area=blend(palette.sky, palette.surface, 0.25))  # fmt: skip
        over = field("t") >= self.limit
        if self.exits:
            scene.text((LEFT, 648), "all runners caught", 20, palette.mark, when=self.free.is_(0))
            got_away = Written(self.free, ",d")
            scene.text((LEFT, 648), ["time is up, ", got_away, " got away"], 20, palette.mark, when=over & (self.free > 0))
        else:
            scene.text((LEFT, 648), "time is up", 20, palette.mark, when=over)
        return scene


def facing(agent: Operand) -> At:
    """Return the unit vector in which an agent faces, y downwards."""
    return cos(field("direction", agent)), -sin(field("direction", agent))


def draw_empty_arena() -> Scene:
    """Draw the walls and a grid of ten by ten."""
    scene, near, far = Scene(ARENA, ARENA), RIM, ARENA - RIM
    scene.rectangle(near - 2, near - 2, far + 2, far + 2, scene.palette.border, corner=3)
    scene.rectangle(near, near, far, far, scene.palette.surface)
    for k in range(1, 10):
        at = near + k * (far - near) / 10
        scene.line((at, near, at, far - 1), scene.palette.grid)
        scene.line((near, at, far - 1, at), scene.palette.grid)
    return scene


def draw_tagger(scene: Scene, centre: At, facing: At, size: float) -> None:
    """Draw an arrowhead that points along the unit vector `facing` (y downwards)."""
    x, y = centre
    for scale, colour in ((1.16 * size + 0.4, scene.palette.ink), (size, scene.palette.vermilion)):
        u, v = facing[0] * scale, facing[1] * scale
        back_x, back_y = x - 0.85 * u, y - 0.85 * v
        corners = (
            (x + 1.15 * u, y + 1.15 * v),
            (back_x - 0.85 * v, back_y + 0.85 * u),
            (x - 0.4 * u, y - 0.4 * v),
            (back_x + 0.85 * v, back_y - 0.85 * u),
        )
        scene.polygon(corners, colour)


def draw_runner(scene: Scene, centre: At, facing: At, size: float, when: Number | None = None) -> None:
    """Draw a drop with its tip along the unit vector `facing` (y downwards)."""
    (x, y), (u, v) = centre, facing
    for radius, colour in ((0.7 * size + 1.0, scene.palette.page), (0.7 * size, scene.palette.sky)):
        tip, side, ahead = 2.0 * radius, 0.866 * radius, 0.5 * radius  # the sides touch the circle
        corners = (
            (x + tip * u, y + tip * v),
            (x + ahead * u - side * v, y + ahead * v + side * u),
            (x + ahead * u + side * v, y + ahead * v - side * u),
        )
        scene.polygon(corners, colour, when)
        scene.disc(centre, radius, colour, when)
