"""The contracts of the environments say what the code does."""

import re
import sys
from pathlib import Path

import pytest

from gpu_vecenv.envs.tag.spec import SPEC as TAG

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from update_docs import END, START, current_text, main, readmes  # noqa: E402


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: path.parent.name)
def test_generated_tables_are_current(readme):
    assert readme.read_text() == current_text(readme), "run python tools/update_docs.py"


def test_every_environment_has_a_contract():
    folders = {path.parent for path in (ROOT / "envs").glob("*/*.cu")}
    assert {readme.parent for readme in readmes() if readme.is_file()} == folders


def test_stale_tables_are_noticed_and_rewritten(tmp_path):
    readme = tmp_path / "tag" / "README.md"
    readme.parent.mkdir()
    readme.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    text = current_text(readme)
    assert text.startswith(f"before\n{START}\n### Parameters") and text.endswith(f"{END}\nafter\n")
    assert "| `num_taggers` | 5 |" in text
    assert main(["--check"]) == 0
    assert main(["--wrong"]) == 2


def test_tags_observation_table_adds_up():
    text = (ROOT / "envs" / "tag" / "README.md").read_text()
    rows = re.findall(r"^\| (\d*)w?(?: \.\. (\d*)w - 1)? \|", text.split("## Observation")[1].split("## End")[0], re.M)
    starts = [int(start or 1) if last or start == "7" else 0 for start, last in rows]
    assert starts == [0, 1, 2, 3, 4, 5, 6, 7]
    width = 4
    params = TAG.resolve({"num_runners": 5, "num_other_agents_observed": width})
    assert TAG.observation(params).shape == (starts[-1] * width + 1,)
