"""Writes what the first run learned into the pages that quote it, from the matches that the run wrote at its end.

python tools/docs/first_run.py           # write the pages
python tools/docs/first_run.py --check   # only tell if a page is out of date
python tools/docs/first_run.py --train   # train the first run again on the CPU, store its matches and curves, write the pages
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from gpu_vecenv.cli.learned import learned_lines  # noqa: E402
from gpu_vecenv.train.run_folder.matches import MATCHES_FILE, Matches, read_matches  # noqa: E402
from tools.docs.generated import update_page, with_block  # noqa: E402

COMMAND = "python tools/docs/first_run.py"
RESULTS = ROOT / "benchmarks" / "results" / "first_run"
PAGES = {"docs/learn/first-run.md": True, "docs/api/train.md": False}
"""Pages that quote the end of the run, and whether they have all of it."""


def caught(matches: Matches, *random: str) -> float:
    """Runners of a world that are caught if these roles act at random."""
    return matches.match(*random).mean_exits["runner"]


def block(matches: Matches, whole: bool) -> str:
    """The end of a run as a quotation; with ``whole`` its first line too, and a sentence that reads it."""
    first, *lines = (line.strip() for line in learned_lines(matches))
    if not whole:
        return "\n".join(f"> - {line}" for line in lines)
    trained, untrained = caught(matches, "runner"), caught(matches, "runner", "tagger")
    saved = trained - caught(matches)
    reading = f"Trained taggers catch {trained:.0f} runners where random ones catch {untrained:.0f}. "
    reading += (
        f"Runners that have learned save {saved:.0f} of these {trained:.0f}."
        if round(saved) > 0
        else "Runners have not learned to escape them."
    )
    return "\n".join([f"> {first}", ">", *(f"> - {line}" for line in lines), "", reading])


def train() -> None:
    """Train the first run by its command, on the CPU with seed 0, and store its matches and the picture of its curves."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gpu_vecenv", "train", "WarpTag-v0", "--device", "cpu", "--out", f"{folder}/tag"]
        subprocess.run(command, check=True, cwd=ROOT)
        RESULTS.mkdir(exist_ok=True)
        shutil.copy(Path(folder, "tag", MATCHES_FILE), RESULTS)
        shutil.copy(Path(folder, "tag", "curves.png"), ROOT / "docs" / "figures" / "first_run_curves.png")


def main(arguments: list[str]) -> int:
    """Write the blocks, or only say which page is stale; returns the exit status."""
    if arguments == ["--train"]:
        train()
        arguments = []
    matches = read_matches(RESULTS)
    if matches is None:
        raise FileNotFoundError(f"{RESULTS} has no {MATCHES_FILE}: train the run with --train.")
    statuses = []
    for page, whole in PAGES.items():
        text = with_block((ROOT / page).read_text(), "first_run", COMMAND, block(matches, whole))
        statuses.append(update_page(ROOT / page, text, arguments))
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
