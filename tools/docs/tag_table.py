"""Writes how runners of Tag dodge and what Tag's presets learn; ``--check`` only says which page is stale.

The files are ``benchmarks/results/tag_crowding.json`` of the run in Tag's preview, ``python benchmarks/tag_crowding.py runs/tag
--out benchmarks/results/tag_crowding.json``, and ``tag_presets.json`` of ``python benchmarks/tag_presets.py``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from gpu_vecenv.train.config import TrainConfig  # noqa: E402
from tools.docs.generated import table, update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/tag_table.py"
RESULTS = ROOT / "benchmarks" / "results" / "tag_crowding.json"
PRESETS = ROOT / "benchmarks" / "results" / "tag_presets.json"
OPTIONS = ROOT / "examples" / "tag_dodge.yaml"
TRAINED_IN = "13 seconds of training on an H100"
"""Time from the first to the last iteration of the run; kernels were compiled before."""


def matches() -> list[dict[str, Any]]:
    """Results of the matches of the run on record; see ``Crowding`` of ``benchmarks/tag_crowding.py``."""
    (result,) = json.loads(RESULTS.read_text()).values()
    return list(result)


def caption() -> str:
    """The length of the run, and how many runners are caught with and without training."""
    caught = {(each["taggers"], each["runners"]): f"{each['caught']:.0f}" for each in matches()}
    steps = TrainConfig.from_yaml(OPTIONS).total_steps
    assert steps is not None
    return (
        f"Tag before and after {TRAINED_IN}, {steps / 1e6:.1f} million steps. Of 100 runners, trained taggers catch\n"
        f"{caught['trained', 'random']} that act at random, and {caught['trained', 'trained']} that have learned to dodge; "
        f"random taggers catch {caught['random', 'random']} that act at random."
    )


def spread() -> str:
    """The table of all matches."""
    header = ["taggers", "runners", "caught", "in the fullest cell", "in the last quarter", "at random places"]
    rows = [
        [
            each["taggers"],
            each["runners"],
            f"{each['caught']:.1f} ± {each['caught_interval']:.1f}",
            *(f"{each[key]:.1%}" for key in ("share", "late", "even")),
        ]
        for each in matches()
    ]
    return table(header, rows)


def presets() -> str:
    """Lengths of the trainings by the presets of both devices, and the table of the matches between them."""
    result = json.loads(PRESETS.read_text())
    cpu, gpu = (result["trained"][kind] for kind in ("cpu", "gpu"))
    rows = [
        [f"preset for the {each['taggers'].upper()}", f"preset for the {each['runners'].upper()}", f"{each['caught']:.1f}",
         *("{:.2f} ± {:.2f}".format(*each["returns"][role]) for role in ("tagger", "runner"))]
        for each in result["matches"]
    ]  # fmt: skip
    words = ["taggers", "runners", "caught", "return of taggers", "return of runners"]
    return (
        f"The preset for a GPU trained {gpu['total_steps'] / 1e6:.0f} million steps in {gpu['train_s']:.0f} seconds on an "
        f"{result['machine']['gpu']}; that\nfor the CPU makes {cpu['total_steps']:,}. Runners caught, of 100, and mean returns "
        f"over {result['episodes']} episodes:\n\n{table(words, rows)}"
    )


PAGES = {
    "README.md": {"dodge": lambda: f"*{caption()}*"},
    "docs/gallery.md": {"dodge": caption, "spread": spread},
    "docs/learn/first-run.md": {"dodge": caption, "presets": presets},
}
"""Pages, and the content of each of their blocks."""


def main(arguments: list[str]) -> int:
    """Write the blocks, or only say which page is stale; returns the exit status."""
    statuses = []
    for page, blocks in PAGES.items():
        text = (ROOT / page).read_text()
        for name, block in blocks.items():
            text = with_block(text, name, COMMAND, block())
        statuses.append(update_page(ROOT / page, text, arguments))
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
