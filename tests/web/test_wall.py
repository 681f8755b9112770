"""A wall of worlds, drawn shape by shape, has the pictures of its worlds."""

import json

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.render.canvas import find_renderer
from gpu_vecenv.render.style import THEMES
from tests.web.chromium import in_chromium, text_of_page

WORLDS, STEPS = 4, 12

SCRIPT = """
const { states, shapes, pictures, palette } = GIVEN;
const fields = Object.fromEntries(Object.entries(shapes).map(([name, shape]) => [name, { numbers: [], shape }]));
const first = new Pictures(pictures, fields, palette), all = states[0].t.map((_, world) => (world ? first.twin() : first));
for (const state of states) {
  for (const name in shapes) fields[name].numbers.splice(0, Infinity, ...state[name]);
  all.forEach((one, world) => one.follow(world, state.t[world], state.episode[world]));
}
const counts = [];
for (const scale of [1, 0.4]) {
  const [width, height] = first.size("scene"), row = Math.ceil(height * scale);
  const places = all.map((_, world) => ({ x: 0, y: row * world, scale }));
  const [many, single] = [0, 1].map(() => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [Math.ceil(width * scale), row * all.length];
    return canvas.getContext("2d", { willReadFrequently: true });
  });
  for (const part of ["still", "moving"]) Pictures.drawMany(many, all.slice(0, 2), "scene", places.slice(0, 2), 0, part);
  for (const part of ["still", "moving"]) Pictures.drawMany(many, all.slice(2), "scene", places.slice(2), 2, part);
  all.forEach((one, world) => one.draw(single, "scene", places[world], world));
  const [x, y] = [many, single].map((context) => context.getImageData(0, 0, context.canvas.width, context.canvas.height).data);
  let apart = 0;
  for (let i = 0; i < x.length; i += 4) apart += [0, 1, 2].some((k) => Math.abs(x[i + k] - y[i + k]) > 48);
  counts.push(apart / (x.length / 4));
}
document.body.append(JSON.stringify(counts));
"""


@pytest.mark.in_ci
@in_chromium
@pytest.mark.parametrize("name", ["WarpCartPole-v1", "WarpTag-v0", "WarpGridTag-v0", "WarpSimpleTag-v3"])
def test_a_wall_has_the_pictures_of_its_worlds(name):
    env = gymnasium.make_vec(name, num_worlds=WORLDS, device="cpu", array="numpy").unwrapped
    env.reset(seed=3)
    states = [env.get_state()]
    for _ in range(STEPS):
        env.rollout(num_steps=1)
        states.append(env.get_state())
    given = {
        "states": [{name: np.asarray(values, float).reshape(-1).tolist() for name, values in state.items()} for state in states],
        "shapes": {name: list(values.shape[1:]) for name, values in states[0].items()},
        "pictures": find_renderer(env.env_spec.kernel.parent)(env.layout.params).describe(),
        "palette": THEMES["dark"]._asdict(),
    }
    env.close()
    shares = json.loads(text_of_page(f"const GIVEN = {json.dumps(given)};\n{SCRIPT}", "scene.js"))
    assert max(shares) <= 0.003, shares  # edges of shapes
