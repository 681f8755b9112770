"""Measures pages in headless Chromium without a GPU.

    python benchmarks/pages.py [--out benchmarks/results/pages.json]

Tag with 5 taggers and 100 runners, and a wall of 1,000 CartPoles, at 1280 and 390 pixels, from the files of docs/policies. A page
counts frames and the time of its scripts itself; Chromium counts the processor time that scripts take in each frame, which other
programs change less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.web.browser import Browser
from tools.docs.play_pages import envs, write_page

CASES = {"Tag, 5 + 100": ("tag", ""), "1,000 CartPoles": ("cartpole", "#wall")}
WIDTHS = (1280, 390)
SECONDS = 10


def measured(url: str, width: int) -> dict[str, object]:
    """Return what a page took in some seconds."""
    browser = Browser(url, width, 900, touch=width < 600)
    try:
        ready = browser.wait_for("document.body && document.body.dataset.ready", 60)
        browser.wait_for("document.getElementById('record').textContent", 60)
        paint = browser.value("performance.getEntriesByType('paint')[0].startTime")
        browser.value("globalThis.counted = 0, (function count() { ++counted; requestAnimationFrame(count); })()")
        start = time.perf_counter()
        time.sleep(SECONDS)
        rate = browser.value("counted") / (time.perf_counter() - start)
        said = browser.value("document.getElementById('speed').textContent")
        times = sorted(browser.script_times(SECONDS))
        return {
            "first_paint_ms": round(paint), "playing_ms": int(ready),
            "frames_a_second": round(rate, 1), "script_cpu_ms_a_frame": round(sum(times) / len(times), 2),
            "script_cpu_ms_of_95_percent": round(times[int(0.95 * (len(times) - 1))], 2), "page": said,
        }  # fmt: skip
    finally:
        browser.close()


def main() -> None:
    """Measure all cases, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FILE", help="file to write, too")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case, (name, mark) in CASES.items():
            write_page(name, envs()[name], Path(folder))
            url = (Path(folder) / f"{name}.html").as_uri() + mark
            rows += [{"case": case, "width": width, **measured(url, width)} for width in WIDTHS]
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    text = json.dumps({**machine, "rows": rows}, indent=1)
    if options.out is not None:
        options.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
