"""The live page with runs in progress: in Node and in a browser each rollout ends in the same bits."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import threading

import gymnasium
import pytest
import torch

from gpu_vecenv.cli.main import main
from gpu_vecenv.spec.registered import REGISTERED_PRESETS
from gpu_vecenv.train.run_folder.live_file import LIVE_FILE
from gpu_vecenv.train.runner import live
from gpu_vecenv.train.runner.trainer import Trainer
from gpu_vecenv.web.node_worlds import find_node
from tests.devices import DEVICES
from tests.docs.test_code_blocks import DOCUMENTS, WALK
from tests.train.live_cases import RUNS, config_of
from tests.web.chromium import WEB, in_chromium, value_in_page
from tests.web.test_live_server import MALFORMED, address_of, ask, come_and_go
from tools.docs.readme import blocks

REPLAY = """
const [script, address, wish, count, changed] = process.argv.slice(2);
const { Replay, excerptOf } = await import(script);
const replay = new Replay(await (await fetch(`${address}kernels.wasm`)).arrayBuffer());
while (replay.made < Number(count)) {
  const answer = await fetch(`${address}rollout?${wish}&plan=${replay.planNumber}&pool=${replay.poolNumber}`);
  if (answer.status === 204) continue;
  if (!answer.ok) throw new Error(await answer.text());
  const excerpt = excerptOf(await answer.arrayBuffer());
  const [name, byte, mask] = changed.split(" ");
  if (changed) excerpt.rollouts[0][name][byte] ^= mask;
  await replay.take(excerpt);
  while (replay.begin()) while (replay.playing) replay.step();
}
console.log(JSON.stringify([replay.equal, replay.made]));
"""


def live_run(config):
    trainer = Trainer(config, quiet=True)
    trainer.serve_live_page()
    return trainer


def replayed(trainer, tmp_path, wish="worlds=4,0,5&agent=4.0", count=3, changed=""):
    """Rollouts that Node made again while a run went on: those with equal bits, and all."""
    script = tmp_path / "replay.mjs"
    script.write_text(REPLAY)
    command = [find_node(), str(script), str(WEB / "live_replay.js"), trainer.live_address, wish, str(count), changed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            trainer.train(1)
        return json.loads(process.stdout.read())


IN_CI = ("cartpole, gravity by world", "small tag", "harvest", "recall, with memory")
"""Runs that CI compares: parameters by world and a pool, agents that leave, roles with masks, memory; others are slow."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.in_ci if case in IN_CI else pytest.mark.slow) for case in RUNS]
)
def test_node_makes_rollouts_of_a_run_again(case, device, monkeypatch, tmp_path):
    monkeypatch.setattr(live, "SHARE", 1.0)
    with contextlib.closing(live_run(config_of(case, device))) as trainer:
        if "cartpole" in case:
            trainer.env.set_reset_pool({"state": trainer.env.draw_start_states(16, seed=9)["state"]})
        equal, made = replayed(trainer, tmp_path)
        assert equal == made >= 3


@pytest.mark.in_ci
@pytest.mark.parametrize("changed", ["start 3 64", "actions 84 1", "end 0 1"])
def test_a_changed_bit_is_seen(changed, monkeypatch, tmp_path):
    """The exponent of the first number, an action of the last step, or the last bit of the first number at the end."""
    monkeypatch.setattr(live, "SHARE", 1.0)
    with contextlib.closing(live_run(config_of("cartpole, gravity by world"))) as trainer:
        assert replayed(trainer, tmp_path, count=2, changed=changed) == [1, 2]  # an excerpt has two rollouts of eight steps


@pytest.fixture
def walk(tmp_path, monkeypatch):
    """Modules of the env of "Write your env" with the renderer of "Pictures and videos", and nothing in JavaScript."""
    spec, kernel, _, _, preset = WALK
    (page,) = (path for path in DOCUMENTS if path.name == "pictures.md" and path.parent.name == "docs")
    (renderer,) = (block for block in blocks(page) if "class Renderer" in block.text)
    for name, text in (("walk.py", f"{spec.text}\n{preset.text}"), ("walk.cu", kernel.text), ("render.py", renderer.text)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield "walk:Walk-v0"
    sys.modules.pop("walk", None)
    gymnasium.registry.pop("Walk-v0", None)
    REGISTERED_PRESETS.pop("Walk-v0", None)


SEEN = """(() => {
  const text = (id) => document.getElementById(id).textContent, canvas = document.querySelector("figure:nth-child(2) canvas");
  const [equal, made] = (text("equal").match(/[0-9]+/g) ?? [0, 0]).map(Number);
  if (made < 2 || !document.querySelector(".choice.taken") || !document.querySelector("polyline")) return null;
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, colours = new Set();
  for (let at = 0; at < pixels.length; at += 4) colours.add(pixels.slice(at, at + 3).join());
  return { equal, made, colours: colours.size, decision: text("decision"), message: text("message") };
})()"""


@pytest.mark.in_ci
@in_chromium
def test_an_env_of_the_docs_appears_on_the_page_without_a_line_of_javascript(walk, monkeypatch):
    monkeypatch.setattr(live, "SHARE", 1.0)
    config = config_of("cartpole, gravity by world", env_id=walk, env_kwargs={})
    with contextlib.closing(live_run(config)) as trainer:
        with value_in_page(trainer.live_address, SEEN) as browser:
            while browser.poll() is None:
                trainer.train(1)
            found = json.loads(browser.stdout.read())
    assert not found["wrong"]
    seen = found["value"]
    assert seen["equal"] == seen["made"] >= 2 and seen["colours"] > 10 and not seen["message"]
    assert seen["decision"].startswith("agent 0 of world 0: reward ") and "probabilities of policy agent" in seen["decision"]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_ten_thousand_browsers_that_vanish_change_no_weight(device):
    """They connect, say nothing, half of a request, or ask for rollouts and go; others are malformed, foreign or do not read."""
    config, done = config_of("small tag", device), threading.Event()
    with contextlib.closing(live_run(config)) as trainer:
        server = trainer.pipeline.live.server
        port, token = address_of(server)

        def disturb():
            slow = socket.create_connection(("127.0.0.1", port))
            slow.sendall(f"GET {token}/rollout?worlds=0,1,2,3 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            for _ in range(10):
                asyncio.run(come_and_go(port, f"{token}/rollout?worlds=1&agent=1.0", 1000))
                assert ask(server, "/about", headers={"Host": "example.org"})[0] == 403
                for request in MALFORMED:
                    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as connection:
                        connection.sendall(request)
            slow.close()
            done.set()

        thread = threading.Thread(target=disturb)
        thread.start()
        while not done.is_set():
            trainer.train(1)
        thread.join()
        iterations, found = trainer.iteration, trainer.policies
    with contextlib.closing(Trainer(config, quiet=True)) as alone:
        alone.train(iterations)
        for name, policy in alone.policies.items():
            for key, values in policy.state_dict().items():
                assert torch.equal(values, found[name].state_dict()[key]), f"{name} {key}"


TRAIN = ["train", "WarpCartPole-v1", "--device", "cpu", "--num-envs", "8", "--no-matches", "--no-video"]


@pytest.mark.in_ci
def test_commands_serve_and_show_a_run_in_progress(tmp_path, capsys):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "gpu_vecenv", *TRAIN, "--total-steps", str(10**9), "--live", "--out", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = next(line.split()[1] for line in process.stdout if line.startswith("live: "))
        assert ((run / LIVE_FILE).stat().st_mode & 0o777, (run / LIVE_FILE).read_text()) == (0o600, f"{address}\n")
        assert main(["watch", str(run), "--live"]) == 0
        assert capsys.readouterr().out == f"live: {address}\n"
        process.terminate()
        process.communicate(timeout=60)
    assert not (run / LIVE_FILE).exists()
    (run / LIVE_FILE).write_text(f"{address}\n")  # of a run that was killed
    assert main(["watch", str(run), "--live"]) == 2
    assert "that was started with --live on this machine, got one that has ended" in capsys.readouterr().err


REFUSED = (
    (["watch", "--live"], "--live: expected the folder of a run in progress, got none"),
    (["watch", "nowhere", "--live"], "nowhere: expected the folder of a run in progress that was started with --live, got no"),
    (["watch", ".", "--live"], "started with --live, got one without: gpu-vecenv train ... --live"),
    (["watch", ".", "--live", "--fps", "10"], "--live: expected no option of a video, which it writes none of, got --fps"),
    ([*TRAIN, "--live-port", "80"], "--live-port: expected --live with it, got 80 alone"),
    ([*TRAIN, "--live", "--live-port", "70000"], "--live-port: expected an integer from 0 to 65535, got 70000"),
    ([*TRAIN, "--live", "--seeds", "2"], "--live: expected one run, got those of 2"),
)


@pytest.mark.parametrize(("words", "error"), REFUSED, ids=lambda value: value if isinstance(value, str) else "")
def test_commands_refuse_what_has_no_effect(words, error, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert error in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
