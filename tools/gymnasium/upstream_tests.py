"""Runs Gymnasium's own tests with our envs under its ids: ``python tools/gymnasium/upstream_tests.py CHECKOUT``.

CHECKOUT is a git checkout of Gymnasium. Its test requirements (dill, box2d, opencv) must be installed. Each test runs twice, with
our envs and with Gymnasium's. A test that fails with Gymnasium's own env does not apply to ours. The tool writes
``benchmarks/results/gymnasium_tests.json`` and the tables of ``docs/gymnasium.md``; ``--tables`` only writes the tables.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from gpu_vecenv.bench.machine import machine  # noqa: E402
from tools.docs.generated import table, with_block  # noqa: E402

COMMAND = "python tools/gymnasium/upstream_tests.py"
DATA = ROOT / "benchmarks" / "results" / "gymnasium_tests.json"
DOCUMENT = ROOT / "docs" / "gymnasium.md"

NAMES = ("CartPole", "Acrobot", "MountainCar", "Pendulum", "tests.envs.utils", "tests.wrappers.utils")
"""A test file can make one of the envs only if it contains one of these names."""

EXCLUDED = ("mujoco", "functional", "jax", "registration/test_register", "registration/test_pprint_registry")
"""Parts of paths of files that contain these names but make none of the envs, or that need further libraries."""

OWN_CLASS = ("isinstance", "expects an instance of Gymnasium's own class")
ATTRIBUTES = ("gravity", "reads and sets `gravity` of Gymnasium's class; in our env it is a parameter, set when the env is made")
NOT_APPLICABLE = {
    "envs/registration/test_make.py::test_no_arguments": OWN_CLASS,
    "envs/registration/test_make.py::test_make_with_render_mode": (
        "Regex pattern did not match", "expects a warning with the render modes of Gymnasium's CartPole; our CartPole has fewer"
    ),
    "envs/registration/test_make.py::test_make_human_rendering": (
        "has_wrapper", "expects that CartPole opens a window itself; for our CartPole, Gymnasium's wrapper opens it"
    ),
    "envs/registration/test_make_vec.py::test_make_vec_env_id": OWN_CLASS,
    "envs/registration/test_make_vec.py::test_make_vec_vectorization_mode": OWN_CLASS,
    "envs/registration/test_env_spec.py::test_full_integration": OWN_CLASS,
    "envs/registration/test_env_spec.py::test_env_spec_pprint": (
        "entry_point", "compares the printed entry point with Gymnasium's own"
    ),
    "envs/test_rendering.py::test_pygame_selective_init": ("pygame", "expects that drawing starts pygame; our envs need none"),
    "test_core.py::test_get_set_wrapper_attr": ATTRIBUTES,
    "vector/test_async_vector_env.py::test_call_async_vector_env": ATTRIBUTES,
    "vector/test_sync_vector_env.py::test_call_sync_vector_env": ATTRIBUTES,
    "vector/test_vector_wrapper.py::test_vector_env_wrapper_attributes": ATTRIBUTES,
    "wrappers/vector/test_human_rendering.py::test_render_modes": (
        "render_mode must be", "makes a vector env with a render mode that its metadata does not list; our env refuses it"
    ),
}  # fmt: skip
"""Tests that do not apply to our envs, by name without parameters: a part of the expected error, and the reason."""


def chosen(tests: Path) -> list[str]:
    """Files under ``tests`` that can make one of the envs, relative to the parent folder."""
    files = [path for path in sorted(tests.rglob("test_*.py")) if any(name in path.read_text() for name in NAMES)]
    names = [path.relative_to(tests.parent).as_posix() for path in files]
    return [name for name in names if not any(part in name for part in EXCLUDED)]


def run(folder: Path, files: list[str], swap: bool) -> dict[str, dict[str, Any]]:
    """Outcomes of the tests that made one of the envs, by test. Each file runs in its own process.

    In one process, files would share envs that are made at the first import, and some tests close these envs.

    Raises:
        ValueError: pytest ended before all tests had run.
    """
    results = folder / f"results_{int(swap)}.jsonl"
    results.touch()
    environment = os.environ | {
        "SWAP": str(int(swap)), "RESULTS": str(results), "PYTHONPATH": str(Path(__file__).parent),
        "SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy",
    }  # fmt: skip
    options = ["-p", "upstream_plugin", "-p", "no:cacheprovider", "-q", "--no-header", "--tb=no", "--disable-warnings"]
    options += ["-o", "filterwarnings=ignore::DeprecationWarning:gymnasium.*:"]  # as in Gymnasium's settings
    # Without -P, the folder would come first on the path of child processes, too.
    for file in files:
        command = [sys.executable, "-P", "-m", "pytest", *options, file]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise ValueError(f"pytest ended with status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        print(file, done.stdout.strip().splitlines()[-1], flush=True)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {line["test"]: line for line in lines}


def judged(line: dict[str, Any], original: dict[str, Any] | None) -> dict[str, Any]:
    """Result of a test for our env: ``passed``, ``failed`` or ``not applicable``, and the reason."""
    about = {"test": line["test"], "envs": line["envs"]}
    if line["outcome"] == "passed":
        return {**about, "verdict": "passed", "why": ""}
    if original is not None and original["outcome"] != "passed":
        return {**about, "verdict": "not applicable", "why": f"with Gymnasium's own env as well: {_short(original['reason'])}"}
    said, why = NOT_APPLICABLE.get(line["test"].partition("[")[0].removeprefix("tests/"), ("", ""))
    if said and said in line["reason"]:
        return {**about, "verdict": "not applicable", "why": why}
    return {**about, "verdict": "failed", "why": _short(line["reason"])}


def _short(reason: str) -> str:
    line = reason.splitlines()[0][:160] if reason else "no reason given"
    return re.sub(" at 0x[0-9a-f]+", "", line).replace("|", "\\|")


def tables(data: dict[str, Any]) -> str:
    """Table of counts by file, and table of the tests that did not pass."""
    counts: dict[str, Counter[str]] = {}
    why: dict[tuple[str, str, str], int] = {}
    for test in data["tests"]:
        name = test["test"].partition("[")[0].removeprefix("tests/")
        counts.setdefault(name.partition("::")[0], Counter())[test["verdict"]] += 1
        if test["verdict"] != "passed":
            key = (name, test["verdict"], test["why"])
            why[key] = why.get(key, 0) + 1
    verdicts = ("passed", "failed", "not applicable")
    rows = [[f"`{file}`", *(str(count[verdict]) for verdict in verdicts)] for file, count in counts.items()]
    rows.append(["all", *(str(sum(count[verdict] for count in counts.values())) for verdict in verdicts)])
    text = table(["file below `tests`", *verdicts], rows)
    left = [[f"`{name}`", verdict, str(count), f"{reason}"] for (name, verdict, reason), count in why.items()]
    if left:
        text += "\n" + table(["test", "verdict", "cases", "reason"], left)
    ran_on = data["machine"]
    facts = ", ".join(f"{name} {ran_on[name]}" for name in ("gymnasium", "numpy", "python", "commit", "date"))
    return f"{text}\nTests of Gymnasium's commit {data['upstream_commit']}; {facts}."


def document(text: str, data: dict[str, Any]) -> str:
    """The document ``text`` with the tables of ``data``."""
    return with_block(text, "upstream", f"{COMMAND} --tables", tables(data))


def commit_of(folder: Path) -> str:
    """The commit checked out in a folder, 12 digits."""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()[:12]


def measure(checkout: Path) -> dict[str, Any]:
    """Run the tests of a checkout twice. They run from a copy, so that the installed Gymnasium is tested."""
    ran_on = machine("cpu") | {"commit": commit_of(ROOT)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(checkout / "tests", folder / "tests")
        files = chosen(folder / "tests")
        ours, original = (run(folder, files, swap) for swap in (True, False))
    return {
        "command": f"{COMMAND} CHECKOUT",
        "machine": ran_on,
        "upstream_commit": commit_of(checkout),
        "tests": [judged(line, original.get(test)) for test, line in sorted(ours.items())],
    }


def main() -> None:
    """Run the tests, then write data and tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", help="folder of a git checkout of Gymnasium")
    parser.add_argument("--tables", action="store_true", help="only write the tables")
    options = parser.parse_args()
    if not options.tables:
        if options.checkout is None or not (options.checkout / "tests").is_dir():
            parser.error(f"expected the folder of a git checkout of Gymnasium with its tests, got {options.checkout}")
        DATA.write_text(json.dumps(measure(options.checkout), indent=1) + "\n")
    DOCUMENT.write_text(document(DOCUMENT.read_text(), json.loads(DATA.read_text())))


if __name__ == "__main__":
    main()
