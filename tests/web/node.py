"""Scripts of the package that Node runs for tests."""

import json
import subprocess
from pathlib import Path

from gpu_vecenv.web.node_worlds import find_node

WEB = Path(__file__).parents[2] / "gpu_vecenv" / "web"


def run_in_node(script, given):
    """Return the value that a script gives to ``answer()``; it reads ``given`` and imports modules from ``web``."""
    text = f"""
    import {{ readFileSync, writeSync }} from "node:fs";
    const given = JSON.parse(readFileSync(0, "utf8")), web = (name) => import(`{WEB.as_uri()}/${{name}}`);
    const bytes = (text) => Uint8Array.from(Buffer.from(text, "base64"));
    const answer = (value) => {{
      for (let rest = Buffer.from(JSON.stringify(value)); rest.length; ) rest = rest.subarray(writeSync(1, rest));
    }};
    {script}
    """
    words = [find_node(), "--input-type=module", "--eval", text]
    done = subprocess.run(words, input=json.dumps(given).encode(), capture_output=True, timeout=240)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
