"""Headless Chromium for tests: scripts of the package run in a page, and the page is read back."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

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
