"""Worlds in a page of a browser, with the calls of an env: Chromium or Firefox, which need no driver for it."""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from gpu_vecenv.testing.run import at
from gpu_vecenv.vector.outputs.results import Results
from gpu_vecenv.vector.outputs.tree import nest
from gpu_vecenv.web.node_worlds import NodeWorlds
from gpu_vecenv.web.plan import make_plan
from tests.trees import leaves
from tests.web.chromium import WEB, find_chromium

LIMIT_S = 120

SCRIPT = """
import { calls } from "./world_calls.js";
import { bytesOf } from "./worlds.js";
let body = new Blob(), failed = "";
while (true) {
  const given = await (await fetch("calls", { method: "POST", body, headers: failed ? { failed } : {} })).json(), parts = [];
  failed = "";
  try {
    for (const { call, ...argument } of given) {
      if (call === "load") {
        argument.plan = await (await fetch("plan.json")).json();
        argument.module = await (await fetch("kernels.wasm")).arrayBuffer();
      }
      for (const array of await calls[call](argument)) parts.push(bytesOf(array).slice());
    }
  } catch (error) { failed = String(error); }
  body = new Blob(parts);
}
"""


def find_firefox():
    """Return the command of Firefox; None without one."""
    return os.environ.get("FIREFOX") or shutil.which("firefox") or shutil.which("firefox-esr")


FIND = {"chromium": find_chromium, "firefox": find_firefox}


def command_of(browser, profile):
    """Return the command of a headless browser, without the address of a page."""
    if browser == "firefox":
        return [find_firefox(), "--headless", "--no-remote", "--profile", profile]
    return [find_chromium(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]


class WorkingPage:
    """A page that makes calls: it asks for some, and its next request has the bytes of their results.

    Attributes:
        files: further files of the page by name.
    """

    def __init__(self, browser):
        self.files = {"": f"<!doctype html><meta charset=utf-8><script type=module>{SCRIPT}</script>".encode()}
        self._calls, self._results = queue.Queue(), queue.Queue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # processes of the browser may still write
        address = f"http://127.0.0.1:{self._server.server_port}/"
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen([*command_of(browser, self._folder.name), address], **silent)
        self._results.get(timeout=LIMIT_S)  # the page is loaded

    def make(self, calls):
        """Return the bytes of the results of calls."""
        self._calls.put(json.dumps(calls).encode())
        failed, data = self._results.get(timeout=LIMIT_S)
        assert not failed, failed
        return data

    def close(self):
        """End the browser."""
        self._process.terminate()
        self._process.wait()
        self._server.shutdown()
        self._server.server_close()
        self._folder.cleanup()

    def _handler(page):  # noqa: N805 - self is that of a request
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # one connection for all calls
            disable_nagle_algorithm = True

            def do_GET(self):
                name = self.path.removeprefix("/")
                content = page.files.get(name) or (WEB / name).read_bytes()
                kind = {"js": "text/javascript", "json": "application/json", "": "text/html"}.get(name.rpartition(".")[2])
                self._answer(content, kind or "application/octet-stream")

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                page._results.put((self.headers["failed"], body))
                self._answer(page._calls.get(), "application/json")

            def _answer(self, data, kind):
                with contextlib.suppress(ConnectionError):  # the browser has ended
                    self.send_response(200)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(data)))
                    self.send_header("Cache-Control", "no-store")
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *words):
                pass

        return Handler


class PageWorlds(NodeWorlds):
    """``NodeWorlds`` in a page instead of a process."""

    def __init__(self, view, module, page):
        self._view, self._results, self._page, self._data = view, Results(view, same_step=True), page, b""
        page.files |= {"plan.json": json.dumps(make_plan(view)).encode(), "kernels.wasm": module}
        self._call("load")

    def close(self):
        """Leave the page to other worlds."""

    def rollout(self, actions):
        """Advance every world by steps with given actions, of all steps at once, because a request takes milliseconds."""
        num_steps = len(leaves(actions)[0])
        self._make([{"call": "step", "actions": self._action_texts(at(actions, t))} for t in range(num_steps)])
        steps = [self._read_outputs() for _ in range(num_steps)]
        outputs = [np.stack(arrays) for arrays in zip(*steps, strict=True)]
        return tuple(nest(tree, outputs) for tree in self._results.returned)

    def _call(self, call, **arguments):
        self._make([{"call": call, **arguments}])

    def _make(self, calls):
        assert not self._data
        self._data = self._page.make(calls)

    def _read(self, dtype, shape):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        data, self._data = self._data[:size], self._data[size:]
        return np.frombuffer(data, dtype).reshape(shape).copy()
