"""Rollouts of live runs on one machine, made again by Node on another: a machine with a GPU has often neither Node nor a browser.

    python tools/compare/live_rollouts.py record FOLDER --device cuda:0   # trains, and stores what a live page would get
    python tools/compare/live_rollouts.py replay FOLDER                   # makes the rollouts again and compares the last states

``record`` needs Starlette and uvicorn of the extra "web", and ``replay`` its ziglang wheel and Node: it compiles the
kernels from this checkout, which must be the one that recorded. It only reads the folder. A file has the excerpts of one run, as
the server of the page sent them, each with its length in front. The exit status of ``replay`` is 1 if a bit differs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.request import ProxyHandler, build_opener

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import tests.roles  # noqa: E402, F401 - registers Harvest and Whisper
from gpu_vecenv.backend.wasm import wasm_module  # noqa: E402
from gpu_vecenv.testing.subject import Subject  # noqa: E402
from gpu_vecenv.train import TrainConfig, Trainer  # noqa: E402
from gpu_vecenv.train.runner import live  # noqa: E402
from gpu_vecenv.web.node_worlds import find_node  # noqa: E402

GRAVITY = {"gravity": np.linspace(5, 15, 64).tolist(), "max_episode_steps": 50}
MAPS = {"map": (np.arange(64) % 3).tolist(), "max_episode_steps": 9, "regrowth": 0.3}
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "cartpole": ("WarpCartPole-v1", GRAVITY, {"num_envs": 64}),  # parameters by world, and a reset pool
    "tag": ("WarpTag-v0", {}, {"num_envs": 16}),
    "grid_tag": ("WarpGridTag-v0", {}, {"num_envs": 512}),
    "harvest": ("Harvest-v0", MAPS, {"num_envs": 64}),  # masks, and tables by world
    "whisper": ("Whisper-v0", {"max_episode_steps": 9, "quiet": 1}, {"num_envs": 64}),  # roles with spaces of their own
    "covid": ("WarpCovid-v0", {}, {"num_envs": 16}),
    "recall": ("WarpRecall-v0", {"delay": 5}, {"num_envs": 64, "network": {"memory": "gru"}}),
}
"""Id of the env, parameters and options of each run. Options that are missing are those of presets."""

WORLDS = (4, 0, 5, 7)
"""Worlds that are recorded, not in their order."""

EXCERPTS = 6
"""Excerpts of a run. The first one has the plan and the pool."""

DEVICE_FILE = "device.txt"


# ---- record -----------------------------------------------------------------------------------------------------------


def record(name: str, folder: Path, device: str) -> str:
    """Train, store the excerpts of a run in the folder, and return what was stored as text."""
    env_id, params, options = RUNS[name]
    start = time.monotonic()
    config = TrainConfig.from_options({"env_id": env_id, "env_kwargs": params, "total_steps": 2**50, "device": device, **options})
    no_module = mock.patch.object(live, "wasm_module", return_value=b"")  # ``replay`` compiles the kernels
    with no_module, contextlib.closing(Trainer(config, quiet=True)) as trainer, ThreadPoolExecutor(1) as page:
        if name == "cartpole":
            trainer.env.set_reset_pool({"state": trainer.env.draw_start_states(16, seed=9)["state"]})
        address = trainer.serve_live_page()
        excerpts = page.submit(ask, str(address))
        while not excerpts.done():
            trainer.train(1 if device == "cpu" else 32)
        framed = b"".join(len(excerpt).to_bytes(4, "little") + excerpt for excerpt in excerpts.result())
        folder.joinpath(f"{name}.excerpts").write_bytes(framed)
        seconds = time.monotonic() - start
        return f"{name}: {EXCERPTS} excerpts of {trainer.iteration} iterations, {len(framed)} bytes, {seconds:.1f} s"


def ask(address: str) -> list[bytes]:
    """Return excerpts as a page gets them that follows an agent."""
    excerpts: list[bytes] = []
    connection = build_opener(ProxyHandler({}))  # no proxy leads to this machine
    while len(excerpts) < EXCERPTS:
        known = int(bool(excerpts))
        query = f"worlds={','.join(map(str, WORLDS))}&agent={WORLDS[0]}.0&plan={known}&pool={known}"
        with connection.open(f"{address}rollout?{query}") as answer:
            excerpts += [answer.read()] if answer.status == 200 else []
    return excerpts


# ---- replay -----------------------------------------------------------------------------------------------------------

REPLAY = """
import { readFileSync } from "node:fs";
const [script, kernels, file] = process.argv.slice(2);
const { Replay, excerptOf } = await import(script);
const replay = new Replay(readFileSync(kernels)), data = readFileSync(file), wrong = [];
let steps = 0;
for (let at = 0; at < data.length; ) {
  const length = data.readUInt32LE(at), excerpt = data.buffer.slice(data.byteOffset + at + 4, data.byteOffset + at + 4 + length);
  at += 4 + length;
  await replay.take(excerptOf(excerpt));
  while (replay.begin()) {
    const { playing, equal } = replay;
    while (replay.playing) replay.step();
    steps += playing.steps;
    if (replay.equal === equal) wrong.push(playing.iteration);
  }
}
console.log(JSON.stringify([replay.equal, replay.made, steps, wrong]));
"""


def replay(file: Path) -> tuple[str, bool]:
    """Make the rollouts of a file again; returns the result as text, and True if each ended in the same bits."""
    env_id, *_ = RUNS[file.stem]
    script = ROOT / "gpu_vecenv" / "web" / "live_replay.js"
    with tempfile.TemporaryDirectory() as folder:
        node, kernels = Path(folder) / "replay.mjs", Path(folder) / "kernels.wasm"
        node.write_text(REPLAY)
        kernels.write_bytes(wasm_module(Subject(env_id).layout().spec))
        command = [str(find_node()), str(node), script.as_uri(), str(kernels), str(file)]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{file.stem}: cannot be read: {done.stderr.strip()}", False
    equal, made, steps, wrong = json.loads(done.stdout)
    of = f", not those of the iterations {', '.join(map(str, wrong))}" if wrong else ""
    return f"{file.stem}: {equal} of {made} rollouts, {steps} steps of {len(WORLDS)} worlds, end in the same bits{of}", not wrong


def main(arguments: list[str] | None = None) -> int:
    """Record or replay; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "replay"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", help="of record: cpu or cuda:0 (default)")
    parser.add_argument("--runs", nargs="+", choices=RUNS, help="of record: the runs, by default all")
    options = parser.parse_args(arguments)
    if options.command == "record":
        device = options.device or "cuda:0"
        options.folder.mkdir(parents=True, exist_ok=True)
        words = "CPU" if device == "cpu" else torch.cuda.get_device_name(device)
        options.folder.joinpath(DEVICE_FILE).write_text(f"{words}\n")
        for name in options.runs or RUNS:
            print(record(name, options.folder, device), flush=True)
        return 0
    if options.device or options.runs:
        parser.error("--device and --runs: expected none with replay, which reads the files of the folder")
    files = sorted(options.folder.glob("*.excerpts"))
    if not files:
        parser.error(f"{options.folder}: expected files of record, got none")
    print(f"recorded on: {options.folder.joinpath(DEVICE_FILE).read_text().strip()}")
    results = [replay(file) for file in files]
    print("\n".join(text for text, _ in results))
    return 0 if all(equal for _, equal in results) else 1


if __name__ == "__main__":
    sys.exit(main())
