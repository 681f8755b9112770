"""Headless Chromium for tests: scripts of the package run in a page, and the page is read back."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from gpu_vecenv.web.node_worlds import find_node

WEB = Path(__file__).parents[2] / "gpu_vecenv" / "web"


def find_chromium():
    """Return the command of Chromium; None without one."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


in_chromium = pytest.mark.skipif(find_chromium() is None, reason="needs Chromium: apt-get install chromium")


def text_of_page(script, *modules):
    """Return the text that a script writes to the body of a page, with all names of some modules of the package."""
    texts = [re.sub(r"^export |^import .*$", "", (WEB / name).read_text(), flags=re.MULTILINE) for name in modules]
    body = f"<!doctype html><meta charset=utf-8><body><script type=module>{''.join(texts)}\n{script}</script>"
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(body)
        options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile")
        command = [find_chromium(), *options, "--virtual-time-budget=60000", "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    return re.search(r"<body><script.*</script>(.*)</body>", done.stdout, re.DOTALL)[1]


DRIVER = """
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
const [chromium, profile, url, expression] = process.argv.slice(2);
const options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", `--user-data-dir=${profile}`];
const browser = spawn(chromium, [...options, "about:blank"], { stdio: "ignore" });
process.on("exit", () => browser.kill());
process.on("SIGTERM", () => process.exit());
const later = () => new Promise((resolve) => setTimeout(resolve, 100));
while (!existsSync(`${profile}/DevToolsActivePort`)) await later();
await later();
const [port] = readFileSync(`${profile}/DevToolsActivePort`, "utf8").split("\\n");
const pages = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
const socket = new WebSocket(pages.find(({ type }) => type === "page").webSocketDebuggerUrl);
await new Promise((resolve) => (socket.onopen = resolve));
const answers = new Map(), wrong = [];
socket.onmessage = ({ data }) => {
  const { id, result, method, params } = JSON.parse(data);
  if (id) answers.get(id)(result);
  else if (method === "Runtime.exceptionThrown") wrong.push(params.exceptionDetails.exception?.description);
  else if (method === "Log.entryAdded") wrong.push(`${params.entry.text} ${params.entry.url}`);
};
let count = 0;
const call = (method, params = {}) => new Promise((resolve) => {
  answers.set(++count, resolve);
  socket.send(JSON.stringify({ id: count, method, params }));
});
for (const domain of ["Runtime", "Log", "Page"]) await call(`${domain}.enable`);
await call("Page.navigate", { url });
let value;
while (!value && !wrong.length) {
  await later();
  value = (await call("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true })).result?.value;
}
console.log(JSON.stringify({ value, wrong }));
process.exit();
"""


@contextlib.contextmanager
def value_in_page(url, expression):
    """Start a browser that shows a page until an expression is true there; yields the process, whose output is a JSON text.

    It has ``value``, that of the expression, and ``wrong``, errors of the page.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        driver = Path(folder) / "driver.mjs"
        driver.write_text(DRIVER)
        command = [find_node(), str(driver), find_chromium(), f"{folder}/profile", url, expression]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.terminate()  # which ends the browser, too
            process.communicate()
