"""Pages: what they hold, what they refuse, and how they are played in a browser."""

import base64
import contextlib
import dataclasses
import functools
import gzip
import http.server
import importlib
import json
import re
import threading
import time

import gymnasium
import numpy as np
import pytest

import gpu_vecenv  # noqa: F401
from gpu_vecenv.backend.wasm import wasm_module
from gpu_vecenv.cli.main import main
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.registration import IDS
from gpu_vecenv.spec.layout import Layout
from gpu_vecenv.testing.subject import Subject
from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.runner.evaluation import play
from gpu_vecenv.train.runner.page import PageOptions, page
from gpu_vecenv.vector.env.changed_params import changed_layout
from gpu_vecenv.web import page_data
from gpu_vecenv.web.page_data import env_data, pictures_of, renderer_kind
from gpu_vecenv.web.page_params import leaves, sliders
from tests.ids import marked
from tests.web.browser import Browser
from tests.web.chromium import in_chromium
from tests.web.node import run_in_node
from tests.web.walk import write_walk

MAX_PAGE = 120_000
"""Bytes of a compressed page, so that it loads fast."""


def parts_of(text):
    """Data and files of a page of one file, by name."""
    files = {name: gzip.decompress(base64.b64decode(part)) for name, part in re.findall(r'plain" id="([^"]+)">([^<]*)<', text)}
    return json.loads(re.search(r'id="data.json">(.*?)</script>', text, re.DOTALL)[1]), files


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Folder and id of the env of the docs' page, and its page."""
    folder = tmp_path_factory.mktemp("walk")
    env_id = write_walk(folder, "stroll", with_renderer=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        importlib.import_module("stroll")
        assert main(["page", f"stroll:{env_id}", "--out", str(folder / "page.html"), "--worlds", "30", "--rate", "20"]) == 0
        yield folder, env_id


# ---- what a page holds --------------------------------------------------------------------------------------------


SLIDERS = """
const { Worlds } = await web("worlds.js"), { Params } = await web("panel.js"), { plan, pictures, sliders } = given.data;
answer(await Promise.all(given.places.map(async ([k, at]) => {
  const worlds = await Worlds.load(plan, bytes(given.module));
  let drawn = null;
  const params = new Params({ plan, pictures, sliders }, worlds, (now) => { drawn = now; });
  params.set(k, at);
  worlds.reset(3);
  worlds.rollout(given.steps);
  const text = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString("base64");
  return [plan.state.map((name) => text(worlds.arrays[name])), drawn];
})));
"""


@pytest.mark.in_ci
@pytest.mark.parametrize("name", ["WarpCartPole-v1", "WarpTag-v0"])
def test_a_slider_changes_what_set_params_changes(name):
    params, worlds, steps = {"num_taggers": 2, "num_runners": 3} if "Tag" in name else {}, 3, 40
    env = gymnasium.make_vec(name, num_worlds=worlds, device="cpu", array="numpy", **params).unwrapped
    layout = Layout(env.layout.spec, env.layout.params)
    data = {**env_data(layout, worlds), "sliders": sliders(layout)}
    places = [(k, at) for k, slider in enumerate(data["sliders"]) for at in (0, len(slider["values"]) - 1)]
    assert len(places) > 8
    module = base64.b64encode(wasm_module(layout.spec)).decode()
    found = run_in_node(SLIDERS, {"data": data, "places": places, "module": module, "steps": steps})
    for (k, at), (state, drawn) in zip(places, found, strict=True):
        slider = data["sliders"][k]
        change = {slider["name"]: slider["values"][at]}
        env.set_params(**change)
        env.reset(seed=3)
        env.rollout(num_steps=steps)
        expected = [base64.b64encode(np.ascontiguousarray(values)).decode() for values in env.get_state().values()]
        assert state == expected, change
        assert leaves(drawn) == leaves(pictures_of(changed_layout(layout, change, worlds), renderer_kind(layout)))
        env.set_params(**{slider["name"]: slider["values"][slider["at"]]})
    env.close()


PLAY = """
const { Worlds } = await web("worlds.js"), { Policy } = await web("policy.js"), { data, files, steps } = given;
const worlds = await Worlds.load(data.plan, bytes(files["kernels.wasm"]));
const weights = new Float32Array(bytes(files["weights.bin"]).buffer);
const policies = await Promise.all(data.spans.map(async (span) => {
  const { instance } = await WebAssembly.instantiate(bytes(files["policy.wasm"]), {});
  return new Policy(data.program, data.policies[span.policy], weights, span, data.groups[span.group], worlds, instance.exports);
}));
worlds.set("autoreset", data.modes.disabled);
worlds.reset(given.seed, { count: 1 });
const places = [];
for (let step = 0; step < steps; ++step) {
  for (const policy of policies) policy.act(1);
  worlds.step(1);
  places.push([...worlds.arrays[given.field].subarray(0, given.count)]);
}
answer(places);
"""

PLAYED = {
    "one agent": (TrainConfig("WarpCartPole-v1"), {}, "state"),
    "two roles, three policies": (
        TrainConfig("WarpTag-v0", env_kwargs={"num_taggers": 2, "num_runners": 4, "episode_length": 40}),
        {"tagger": "tagger", "runner[0:1]": "random", "runner[1:4]": "runner"}, "loc_x",
    ),
    "roles with spaces of their own": (
        TrainConfig("WarpSimpleTag-v3", env_kwargs={"max_cycles": 25}), {"adversary": "random", "agent": "agent"}, "agent_pos",
    ),
}  # fmt: skip


@pytest.mark.in_ci
@pytest.mark.parametrize("case", PLAYED)
def test_policies_of_a_page_play_the_episode_of_an_evaluation(case, tmp_path):
    config, policy_map, name = PLAYED[case]
    config = dataclasses.replace(config, device="cpu", policy_map=policy_map or None, seed=11)  # the weights have this seed, too
    states = [*play(config, seed=11)][1:]
    page(config, tmp_path / "page.html", options=PageOptions(worlds=2))
    data, files = parts_of((tmp_path / "page.html").read_text())
    texts = {file: base64.b64encode(content).decode() for file, content in files.items()}
    count = states[0][name].size
    given = {"data": data, "files": texts, "steps": len(states), "seed": 11, "field": name, "count": count}
    found = np.array(run_in_node(PLAY, given), np.float32)
    assert np.array_equal(found, np.array([state[name].reshape(-1) for state in states]))


@pytest.mark.in_ci
def test_a_page_of_tag_is_small(tmp_path):
    config = TrainConfig("WarpTag-v0", env_kwargs={"num_taggers": 5, "num_runners": 100})
    page(config, tmp_path / "tag.html")
    text = (tmp_path / "tag.html").read_bytes()
    assert len(gzip.compress(text)) < MAX_PAGE
    data, files = parts_of(text.decode())
    assert {span["policy"] for span in data["spans"]} == {"tagger", "runner"} and len(files["weights.bin"]) > 40_000


@pytest.mark.parametrize("name", [marked(name) for name in IDS])
def test_a_page_has_controls_for_roles_of_the_env(name):
    """Roles and entries of controls are checked when data are made; expressions read fields that the state has."""
    layout = Subject(name).layout()
    data = env_data(layout, 2)
    fields = {*(field.name for field in layout.state), "held"}
    read = set(re.findall(r'"field", "(\w+)"', json.dumps([data["controls"], data["pictures"]])))
    assert read <= fields and {span["name"] for span in data["roles"]} <= {*layout.role_counts}


# ---- what it refuses ----------------------------------------------------------------------------------------------


def test_what_a_page_cannot_show_is_refused_by_name(monkeypatch):
    by_world = Subject("WarpCartPole-v1", {"length": np.full(3, 0.5)}).layout()
    with pytest.raises(ParameterError, match=r"expected one number for all worlds of a page, got length by world\."):
        env_data(by_world, 3)
    monkeypatch.setattr(page_data, "find_renderer", lambda folder: type("Renderer", (), {}))
    with pytest.raises(ParameterError, match=r"expected a Renderer derived from SceneRenderer in .*cartpole/render.py, got"):
        env_data(Subject("WarpCartPole-v1").layout(), 3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--worlds", "0"], "--worlds: expected an integer from 1 to 10000, got 0"),
        (["--rate", "61"], "--rate: expected an integer from 1 to 60, got 61"),
        (["--seed", "-1"], "--seed: expected an integer from 0 to"),
        (["--role", "cat"], "role: expected one of ['agent'], got 'cat'"),
        (["--out", "page.txt/../."], ""),
    ],
)
def test_wrong_options_are_refused(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    words = ["--out", "file"] if not said else words
    assert main(["page", "WarpCartPole-v1", *words]) == 2
    assert (said or "--out must be a file that ends with .html, or a folder; got file") in capsys.readouterr().err


# ---- in a browser -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def browser(*given, **options):
    """A page that is ready."""
    opened = Browser(*given, **options)
    try:
        opened.wait_for("document.body && document.body.dataset.ready")
        yield opened
        assert opened.errors == []
    finally:
        opened.close()


POSITION = "page.worlds.arrays.position[0]"


@pytest.mark.in_ci
@in_chromium
def test_a_visitor_plays_the_env_of_the_docs_by_keys(walk):
    with browser((walk[0] / "page.html").as_uri()) as page:
        record = page.wait_for("document.getElementById('record').textContent")
        assert record.endswith("equal to the one recorded by the CPU build.")
        page.value("document.getElementById('take').click()")
        assert "steer agent 0" in page.value("document.getElementById('status').textContent")
        page.value("page.pause(true)")
        page.value(f"page.start(), {POSITION}")
        for key, sign in (("ArrowRight", 1), ("ArrowLeft", -1)):
            page.key(key, down=True)
            for _ in range(3):
                before = page.value(POSITION)
                page.value("document.getElementById('step').click()")
                assert sign * (page.value(POSITION) - before) == pytest.approx(0.1, abs=1e-5)
            page.key(key, down=False)
        page.key("ArrowRight", down=True)
        page.value("while (!page.worlds.outputs.finished[0]) document.getElementById('step').click()")
        page.key("ArrowRight", down=False)
        assert "The episode ended at step" in page.value("document.getElementById('status').textContent")
        page.value("document.querySelectorAll('canvas')[1].focus()")
        page.key(" ", down=True, code="Space")
        steps = page.value("Number(page.worlds.arrays.t[0])")
        page.wait_for(f"Number(page.worlds.arrays.t[0]) !== {steps}")


FRAMES = """
const frame = page.frame.bind(page), step = page.worlds.step.bind(page.worlds);
page.frame = () => {};
globalThis.count = 0;
page.worlds.step = (worlds) => { ++count; step(worlds); };
globalThis.frames = (frames) => {
  const before = count, start = page.last;
  for (let k = 1; k <= frames; ++k) frame(start + (1000 * k) / 60);
  return count - before;
};
"""
"""Frames are those that a test asks for, 60 a second; they return the steps that were made."""


@pytest.mark.in_ci
@in_chromium
def test_a_page_makes_as_many_steps_a_second_as_its_visitor_chose(walk):
    with browser((walk[0] / "page.html").as_uri()) as page:
        page.wait_for("page.stage.visible && page.last")
        page.value(FRAMES)
        for rate in (4, 12, 15, 30, 60):
            steps = page.value(f"(document.getElementById('rate').value = {rate}, page.start(), frames(60))")
            assert abs(steps - rate) <= 1, rate
        page.value("page.pause(true)")
        assert page.value("frames(60)") == 0


@pytest.mark.in_ci
@in_chromium
def test_a_wall_that_is_stepped_in_parts_has_the_states_of_one_that_is_stepped_at_once(walk):
    states = "[...page.worlds.arrays.position, ...page.worlds.arrays.t].map(Number)"
    with browser((walk[0] / "page.html").as_uri() + "#wall") as page:
        page.wait_for("page.stage.visible && page.last")
        page.value(FRAMES)
        page.value("page.together = 7, document.getElementById('rate').value = 60")
        page.value("(() => { page.start(); for (let made = 0; made < 9; ) made += frames(1); })()")
        in_parts = page.value(states)
        page.value("(() => { page.start(); for (const before = count; count < before + 9; ) page.step(0); })()")
        assert page.value(states) == in_parts


@pytest.mark.in_ci
@in_chromium
def test_a_new_start_has_the_states_of_its_seed_also_after_the_end_of_an_episode(walk):
    states = "[...page.worlds.arrays.position, ...page.worlds.arrays.t].map(Number)"
    with browser((walk[0] / "page.html").as_uri() + "#wall") as page:
        page.value(FRAMES)
        first = page.value(f"page.start(), page.step(0), {states}")
        page.value("while (!page.worlds.outputs.finished.some(Boolean)) page.step(0)")
        assert page.value(f"page.start(), page.step(0), {states}") == first


@pytest.mark.in_ci
@in_chromium
def test_a_visitor_plays_by_touch_on_a_narrow_screen(walk):
    with browser((walk[0] / "page.html").as_uri(), width=390, height=844, theme="light", touch=True) as page:
        assert page.value("document.documentElement.scrollWidth") == 390
        page.value("page.pause(true)")
        box = page.value("(({ left, top, width, height }) => [left, top, width, height])(page.stage.box.getBoundingClientRect())")
        middle, height = box[0] + box[2] / 2, box[1] + box[3] / 2
        for side in (1, -1):
            page.touch((middle + side * 100, height))
            before = page.value(POSITION)
            page.value("document.getElementById('step').click()")
            assert side * (page.value(POSITION) - before) == pytest.approx(0.1, abs=1e-5)
            page.touch()
        page.value("document.getElementById('wall').click()")
        assert page.value("page.stage.places.length") == 30


@pytest.mark.in_ci
@in_chromium
@pytest.mark.parametrize("touch", [False, True])
def test_a_visitor_of_foraging_loads_by_a_key_and_by_a_finger_on_the_player(tmp_path, touch):
    page(TrainConfig("WarpForaging-v3", device="cpu", policy_map={"agent": "random"}), tmp_path / "page.html")
    width = 390 if touch else 1280
    with browser((tmp_path / "page.html").as_uri(), width=width, touch=touch) as shown:
        shown.value("page.pause(true), document.getElementById('take').click()")
        assert "presses" in shown.value("document.getElementById('status').textContent")
        if touch:
            box = shown.value("(({ left, top, width }) => [left, top, width])(page.stage.box.getBoundingClientRect())")
            places = "(({ x, y, scale }) => [x, y, scale])(page.stage.places[0])"
            (x, y, scale), (right, down) = shown.value(places), shown.value("page.steering.place()")
            dots = shown.value("page.stage.canvases[1].width") / box[2]
            shown.touch((box[0] + (x + right * scale) / dots, box[1] + (y + down * scale) / dots))
        else:
            shown.key("e", down=True)
        shown.value("document.getElementById('step').click()")
        assert shown.value("page.worlds.arrays.action[0]") == 5


@pytest.mark.in_ci
@in_chromium
def test_a_page_respects_what_its_visitor_asked_for(walk):
    url = (walk[0] / "page.html").as_uri()
    with browser(url, reduced_motion=True) as page:
        assert page.value("page.paused && Number(page.worlds.arrays.t[0]) === 0")
        labels = "[...document.querySelectorAll('button, select, input, canvas[tabindex]')].filter((one) => one.offsetParent)"
        named = "(one) => one.textContent.trim() || one.labels?.length || one.getAttribute('aria-label')"
        assert page.value(f"{labels}.every({named})")
    still = Browser(url, scripts=False)
    try:
        end = time.monotonic() + 20
        while '"still"' not in json.dumps(still.call("DOM.getDocument", depth=-1)):  # a class of an element, not of a text
            assert time.monotonic() < end
    finally:
        still.close()


@pytest.mark.in_ci
@in_chromium
def test_a_folder_is_served_by_any_server(walk, capsys):
    folder, env_id = walk
    assert main(["page", f"stroll:{env_id}", "--out", str(folder / "served")]) == 0
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder / "served"))
    handler.log_message = lambda *given: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with browser(f"http://127.0.0.1:{server.server_port}/") as page:
            page.wait_for("Number(page.worlds.arrays.t[0]) > 0")
        server.shutdown()
