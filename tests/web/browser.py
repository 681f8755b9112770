"""A page in headless Chromium that tests play: keys, fingers, pictures, and expressions of the page, by the DevTools protocol."""

import base64
import itertools
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from tests.web.chromium import find_chromium


class Browser:
    """One page of Chromium. ``errors`` has its uncaught errors."""

    def __init__(self, url, width=1280, height=900, theme="dark", touch=False, scripts=True, reduced_motion=False):
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # processes of the browser may still write
        (read_calls, self._calls), (self._answers, write_answers) = os.pipe(), os.pipe()
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "about:blank")
        start = f'exec "$@" 3<&{read_calls} 4>&{write_answers}'
        words = ["bash", "-c", start, "bash", find_chromium(), f"--user-data-dir={self._folder.name}", *options]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(words, pass_fds=(read_calls, write_answers), **silent)
        os.close(read_calls)
        os.close(write_answers)
        self._numbers, self._rest, self._session, self._trace, self.errors = itertools.count(1), b"", None, None, []
        (target,) = [one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        dots = 2 if touch else 1
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=dots, mobile=touch)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        motion = "reduce" if reduced_motion else "no-preference"
        features = [{"name": "prefers-color-scheme", "value": theme}, {"name": "prefers-reduced-motion", "value": motion}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=url)

    def close(self):
        """End the browser."""
        self._process.kill()
        self._process.wait()
        os.close(self._calls)
        os.close(self._answers)
        self._folder.cleanup()

    def call(self, method, **params):
        """Return the result of a method of the protocol."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._calls, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("method") == "Runtime.exceptionThrown":
                details = answer["params"]["exceptionDetails"]
                self.errors.append(details.get("exception", details).get("description", details["text"]))
            if answer.get("method") == "Tracing.tracingComplete":
                self._trace = answer["params"]["stream"]
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self):
        while b"\0" not in self._rest:
            part = os.read(self._answers, 1 << 20)
            assert part, "Chromium has ended"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def value(self, expression):
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression, seconds=20.0):
        """Wait until an expression in the page is true, and return its value."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"{expression} is not true after {seconds} s; errors: {self.errors}"
            time.sleep(0.05)
        return value

    def script_times(self, seconds):
        """Return the processor time in milliseconds of the scripts of each frame in some seconds."""
        self.call("Tracing.start", transferMode="ReturnAsStream", traceConfig={"includedCategories": ["devtools.timeline"]})
        time.sleep(seconds)
        self._trace = None
        self.call("Tracing.end")
        while self._trace is None:
            self.value("0")
        parts, end = [], False
        while not end:
            part = self.call("IO.read", handle=self._trace)
            parts.append(base64.b64decode(part["data"]).decode() if part["base64Encoded"] else part["data"])
            end = part["eof"]
        events = json.loads("".join(parts))["traceEvents"]
        return [event["tdur"] / 1000 for event in events if event["name"] == "FireAnimationFrame" and "tdur" in event]

    def key(self, name, down, code=None):
        """Press or release a key."""
        self.call("Input.dispatchKeyEvent", type="keyDown" if down else "keyUp", key=name, code=code or name)

    def touch(self, *points):
        """Put fingers on places of the page, in its pixels; none lifts them."""
        kind = "touchStart" if points else "touchEnd"
        self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y} for x, y in points])

    def move(self, *points):
        """Move the fingers."""
        self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x, "y": y} for x, y in points])

    def screenshot(self, path, whole=True):
        """Write a picture of the page."""
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(picture["data"]))
