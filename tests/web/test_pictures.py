"""One description, two drawers: the canvas of a page draws what Pillow draws."""

import base64
import io
import json

import gymnasium
import numpy as np
import pytest
from PIL import Image, ImageFont

import gpu_vecenv  # noqa: F401
from gpu_vecenv.registration import IDS
from gpu_vecenv.render.canvas import find_renderer
from gpu_vecenv.render.expressions import Now, choose, field, largest, smallest, total
from gpu_vecenv.render.scene_renderer import SceneRenderer
from gpu_vecenv.render.style import THEMES, make_style
from gpu_vecenv.testing.subject import Subject
from tests.ids import marked
from tests.web.chromium import in_chromium, text_of_page

DRAWN = [marked(name) for name in IDS]
STEPS = 24

APART, SHARE, BLOCK, MOST = 48, 0.005, 8, 0.75
"""A pixel is apart if it differs by more than 48 of 255 from each of the nine pixels around its place in the other picture: edges
have other shades, and letters at the end of a word lie up to two pixels further. At most 0.5 % of a picture are apart, and 75 %
of a block of 8 by 8, which a missing shape covers."""


def shares_apart(one, other):
    """Return the share of the pixels that are apart, and the largest share of a block."""
    shifted = [np.roll(other, (down, across), (0, 1)) for down in (-1, 0, 1) for across in (-1, 0, 1)]
    apart = np.min([np.abs(one - picture).max(axis=2) for picture in shifted], axis=0) > APART
    rows, columns = (size // BLOCK for size in apart.shape)
    blocks = apart[: rows * BLOCK, : columns * BLOCK].reshape(rows, BLOCK, columns, BLOCK).mean(axis=(1, 3))
    return apart.mean(), blocks.max()


def states_of(env):
    """States of one world in some random steps."""
    env.reset(seed=3)
    states = [env.get_state()]
    for _ in range(STEPS):
        env.rollout(num_steps=1)
        states.append(env.get_state())
    return [{name: values[0] for name, values in state.items()} for state in states]


SCRIPT = """
const { states, shapes, pictures, themes, font } = GIVEN;
const face = new FontFace("pillow", `url(data:font/ttf;base64,${font})`);
document.fonts.add(await face.load());
const fields = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, { numbers: [], shape }]));
for (const kind of ["frame", "scene"]) for (const palette of Object.values(themes)) {
  const drawn = new Pictures(pictures, fields, palette, "pillow"), canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = drawn.size(kind);
  for (const state of states) {
    for (const name in shapes) fields[name].numbers.splice(0, Infinity, ...state[name]);
    drawn.follow(0, state.t[0], state.episode[0]);
  }
  const context = canvas.getContext("2d");
  drawn.draw(context, kind, { x: 0, y: 0, scale: 1 }, 0, "still");
  drawn.draw(context, kind, { x: 0, y: 0, scale: 1 }, 0, "moving");
  document.body.append(canvas.toDataURL(), " ");
}
"""


@pytest.mark.in_ci
@in_chromium
@pytest.mark.parametrize("name", DRAWN)
def test_the_canvas_of_a_page_draws_what_pillow_draws(name):
    env = gymnasium.make_vec(name, num_envs=1, device="cpu", array="numpy").unwrapped
    states, renderer = states_of(env), find_renderer(env.env_spec.kernel.parent)
    env.close()
    given = {
        "states": [{name: np.asarray(values, float).reshape(-1).tolist() for name, values in state.items()} for state in states],
        "shapes": {name: list(np.shape(values)) for name, values in states[0].items()},
        "pictures": renderer(env.layout.params).describe(),
        "themes": {name: palette._asdict() for name, palette in THEMES.items()},
        "font": base64.b64encode(ImageFont.load_default(20).font_bytes).decode(),
    }
    texts = text_of_page(f"const GIVEN = {json.dumps(given)};\n{SCRIPT}", "scene.js").split()
    for text, (kind, theme) in zip(texts, [(kind, theme) for kind in ("frame", "scene") for theme in THEMES], strict=True):
        found = np.asarray(Image.open(io.BytesIO(base64.b64decode(text.split(",")[1]))).convert("RGB")).astype(int)
        drawn = renderer(env.layout.params, make_style(theme))
        for state in states:
            expected = getattr(drawn, kind)(state)
        assert found.shape == expected.shape
        share, most = shares_apart(found, expected.astype(int))
        assert share <= SHARE and most <= MOST, f"{kind}, {theme}: {100 * share:.2f} %, {100 * most:.0f} % of a block"


@pytest.mark.parametrize("name", IDS)
def test_pictures_are_data(name):
    folder = Subject(name).layout().spec.kernel.parent
    assert issubclass(find_renderer(folder), SceneRenderer)


FORMATS = ("d", ",d", ".0f", ".2f", ",.0f", "+.1f", "+z.0f", "+.3f")
NUMBERS = (0.0, -0.0, 0.04, -0.04, 1.0, -1.0, 3.14159, 999.4, 1000.0, 1234567.0, -98765.0, 0.126)


@pytest.mark.in_ci
@in_chromium
def test_a_page_writes_and_computes_numbers_as_python_does():
    x = field("x", 2)
    numbers = {
        "arithmetic": (x + 1) * 2 - x / 4 + (7 - x) % 3, "comparisons": (x < 3) + (x <= 3) + (x > 3) + (x >= 3) + x.is_(3) * 10,
        "logic": (x < 5) & ~(x < 1) | (x > 9), "choice": choose(x > 1, -abs(-x), x // 2),
        "sum": total(4, lambda i: field("x", i) * i), "nested": smallest(2, lambda i: largest(2, lambda k: field("m", i, k) + i)),
    }  # fmt: skip
    state = {"x": np.array([1.5, -2.0, 3.0, 0.25]), "m": np.array([[1.0, 5.0], [2.0, -1.0]])}
    pairs = [(number, form) for form in FORMATS for number in NUMBERS if "d" not in form or number == round(number)]
    script = f"""
    const fields = {{ x: {{ numbers: {state["x"].tolist()}, shape: [4] }}, m: {{ numbers: [1, 5, 2, -1], shape: [2, 2] }} }};
    const entries = {json.dumps([number.json for number in numbers.values()])};
    const memory = entries.map((number, k) => ({{ kind: "now", count: 1, variable: -1 - k, number }}));
    const scene = new Scene({{ size: [1, 1], blocks: [], memory }}, fields, {{}}), kept = scene.memory();
    scene.follow(kept, 0, 0, false);
    const pairs = {json.dumps(pairs)}.map(([number, form]) => written(number, form));
    document.body.append(JSON.stringify([kept.values.map((values) => values[0]), pairs]));
    """
    computed, texts = json.loads(text_of_page(script, "scene.js"))
    assert computed == [float(Now(state).value(number.json)) for number in numbers.values()]
    assert texts == [format(round(number) if "d" in form else number, form) for number, form in pairs]
