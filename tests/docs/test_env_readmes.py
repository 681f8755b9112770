"""The contracts of the environments match the code, and all have the same sections."""

import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib import import_module
from math import inf, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Space

from gpu_vecenv.spec.contract import with_contract
from tools.docs.env_tables import COMMAND, current_text, main, readmes

ROOT = Path(__file__).resolve().parents[2]
START, END = f"<!-- generated: tables ({COMMAND}) -->", "<!-- /generated -->"

SUMMARY = ["Agents", "Observation", "Action", "Reward", "Terminated", "Truncated", "Unit of time"]
SECTIONS = [
    "In code",
    "A step",
    "Action",
    "Observation",
    "End of an episode",
    "Start of an episode",
    "Constants",
    "Parameters, state, rewards",
]


@dataclass(frozen=True)
class Case:
    """An env made with some parameters, and the tables of its contract.

    ``symbols`` gives values to letters in the tables; ``observation``, ``shared`` and ``action`` are numbers of the tables that
    apply; ``role`` is the role with the spaces, if roles have spaces of their own.
    """

    folder: str
    params: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, float] = field(default_factory=dict)
    observation: tuple[int, ...] = (0,)
    action: int = 0
    role: str = ""
    shared: int | None = None

    @property
    def spec(self):
        return import_module(f"gpu_vecenv.envs.{self.folder}.spec").SPEC

    def space(self, kind: str) -> Space:
        """The observation or action space of an agent, by ``kind``."""
        (group,) = [role for role in self.spec.groups if self.role in ("", role.name)]
        return getattr(group, kind)(self.spec.resolve(self.params))

    def number(self, text: str) -> float:
        """Value of ``3A - 1``, ``-4 pi`` or a parameter's name."""
        product = re.sub(r"(?<=\d) ?(?=[A-Za-z])", "*", text.replace("`", ""))
        return eval(product, {"__builtins__": {}, "pi": pi}, {**self.spec.resolve(self.params), **self.symbols})

    def indices(self, text: str) -> list[int]:
        ends = [int(self.number(end)) for end in text.split(" .. ")]
        return list(range(ends[0], ends[-1] + 1))

    def bounds(self, text: str) -> list[float]:
        return [-inf, inf] if text == "none" else [self.number(end) for end in text.strip("[]").split(", ")]


TAG = {"num_taggers": 2, "num_runners": 5}
CASES = [
    *map(Case, ("cartpole", "acrobot", "mountain_car", "mountain_car_continuous", "pendulum")),
    Case("recall", {}, {"K": 4}),
    Case("foraging", {}, {"R": 7, "C": 7, "L": 4}),
    Case("foraging", {"rows": 5, "max_food_level": 3, "observe_agent_levels": False}, {"R": 4, "C": 7, "L": 3}, (1,)),
    Case("rware", {}, {"F": 63}),
    Case("rware", {"msg_bits": 2}, {"F": 81, "B": 2}, action=1),
    Case("tag", {}, {"w": 10, "skill": 1, "n": 20, "m": 20}),
    Case("tag", {**TAG, "use_full_observation": True, "skill_level_runner": 1.5, "num_turn_levels": 3},
         {"w": 6, "skill": 1.5, "n": 20, "m": 3}),
    Case("tag", {**TAG, "extended_observation": True, "continuous_actions": True}, {"w": 6, "skill": 1}, (0, 1), 1),
    Case("grid_tag", {"num_taggers": 7}, {"A": 8}),
    Case("catalysis", {}, {"d": np.hypot(np.hypot(14, 16), 38) / np.sqrt(168)}),
    Case("catalysis", {"configuration": "two_atom_diffusion"}, {"d": np.sqrt(165) / 4, "e": np.sqrt(186) / 4}, (1,), 1),
    Case("grid_tag", {"use_full_observation": False}, observation=(1,)),
    Case("covid", role="governor"),
    Case("covid", {"num_subsidy_levels": 7}, observation=(1,), action=1, role="planner"),
    Case("simple"),
    Case("simple", {"continuous_actions": True}, action=1),
    Case("simple_spread"),
    Case("simple_tag", role="adversary"),
    Case("simple_tag", {"continuous_actions": True}, observation=(1,), action=1, role="agent"),
    Case("simple_reference"),
    Case("simple_reference", {"continuous_actions": True}, action=1),
    Case("simple_speaker_listener", role="speaker"),
    Case("simple_speaker_listener", observation=(1,), action=1, role="listener"),
    Case("simple_speaker_listener", {"continuous_actions": True}, action=2, role="speaker"),
    Case("simple_adversary", role="adversary"),
    Case("simple_adversary", observation=(1,), role="agent"),
    Case("simple_push", role="adversary"),
    Case("simple_push", observation=(1,), role="agent"),
    Case("simple_crypto", role="eve"),
    Case("simple_crypto", observation=(1,), role="bob"),
    Case("simple_crypto", {"continuous_actions": True}, observation=(2,), action=1, role="alice"),
    Case("simple_world_comm", role="leadadversary"),
    Case("simple_world_comm", {"continuous_actions": True}, action=2, role="leadadversary"),
    Case("simple_world_comm", action=1, role="adversary"),
    Case("simple_world_comm", observation=(1,), action=1, role="agent"),
    Case("rice", {}, {"n": 10}, shared=2),
    Case("rice", {"negotiation_on": True, "full_rates": True}, {"n": 11}, (0, 1)),
]  # fmt: skip


def sections(text: str) -> dict[str, str]:
    """Text under each heading of the second level."""
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in text.split("\n## ")[1:]}


def tables(text: str) -> list[list[list[str]]]:
    """Cells of every table of a text, row by row, without the head."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in row.strip("| ").split("|")] for row in table.splitlines()[2:]] for table in found]


def section_tables(case: Case, section: str) -> list[list[list[str]]]:
    return tables(sections((ROOT / "envs" / case.folder / "README.md").read_text())[section])


def check_box(case: Case, space: Box, rows: list[list[str]]) -> None:
    """Assert that rows (index, content, unit, bounds) cover a space: each index once, in order."""
    assert [i for index, *_ in rows for i in case.indices(index)] == list(range(space.shape[0]))
    for index, content, unit, bounds in rows:
        assert content and unit
        low, high = case.bounds(bounds)
        np.testing.assert_allclose(space.low[case.indices(index)], low, rtol=2e-5)
        np.testing.assert_allclose(space.high[case.indices(index)], high, rtol=2e-5)


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: path.parent.name)
def test_every_contract_has_the_same_sections(readme):
    text = readme.read_text()
    *common, last = sections(text)
    assert common == SECTIONS
    last_sections = (
        "Gymnasium", "WarpDrive", "the AI-Economist", "the authors' class", "bsuite", "lbforaging", "rware", "mpe2")  # fmt: skip
    assert last in [f"Differences from {other}" for other in last_sections]
    assert [name for name, _ in tables(text)[0]] == SUMMARY
    assert all(body.strip() for body in sections(text).values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.folder} {case.role} {case.params}")
def test_the_contract_lists_every_index_of_the_observation(case):
    found = section_tables(case, "Observation")
    check_box(case, case.space("observation"), sum((found[i] for i in case.observation), []))
    if case.shared is not None:
        check_box(case, case.space("shared"), found[case.shared])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.folder} {case.role} {case.params}")
def test_the_contract_lists_every_action(case):
    space, rows = case.space("action"), section_tables(case, "Action")[case.action]
    if isinstance(space, Box):
        return check_box(case, space, rows)
    if isinstance(space, Discrete):
        rows, sizes = [["0", *row] for row in rows], [space.n]
    else:
        sizes = space.nvec.tolist()
    of_heads = range(len(sizes))
    listed = [[i for at, index, *_ in rows if head in case.indices(at) for i in case.indices(index)] for head in of_heads]
    assert listed == [list(range(size)) for size in sizes]
    assert all(effect and unit for *_, effect, unit in rows)


@pytest.mark.parametrize("folder", ["tag", "grid_tag"])
def test_the_contract_lists_every_reward_of_tag(folder):
    spec = Case(folder).spec
    terms = {p.name for p in spec.params if re.search("reward|penalty|cost", p.name)}
    assert set(re.findall(r"`(\w+)`", " ".join(spec.rewards))) == terms


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: path.parent.name)
def test_the_docstring_of_the_package_holds_the_contract(readme):
    docstring = import_module(f"gpu_vecenv.envs.{readme.parent.name}").__doc__
    lines = readme.read_text().replace(f"{START}\n", "").replace(f"{END}\n", "").splitlines(keepends=True)
    assert lines[2].startswith("![") and lines[3] == "\n"  # the preview, which help() cannot show
    assert "".join(lines[:2] + lines[4:]) in docstring
    assert not docstring.startswith("#")


def test_a_missing_contract_leaves_the_docstring_as_it_is(tmp_path):
    assert with_contract("Summary.", str(tmp_path / "__init__.py")) == "Summary."
    assert with_contract(None, str(tmp_path / "__init__.py")) == ""
    (tmp_path / "README.md").write_text("# Name\n<!-- made -->\ntext\n")
    assert with_contract("Summary.", str(tmp_path / "__init__.py")) == "Summary.\n\n# Name\ntext\n"


def test_python_without_docstrings_imports_an_environment():
    code = "import gpu_vecenv.envs.cartpole as env; print(env.__doc__[:17])"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("# WarpCartPole-v1\n", "")


@pytest.mark.parametrize("readme", readmes(), ids=lambda path: path.parent.name)
def test_generated_tables_are_current(readme):
    assert readme.read_text() == current_text(readme), f"run {COMMAND}"


def test_every_environment_has_a_contract():
    folders = {path.parent for path in (ROOT / "envs").glob("*/spec.py")}
    assert {readme.parent for readme in readmes() if readme.is_file()} == folders == {ROOT / "envs" / c.folder for c in CASES}


def test_stale_tables_are_found_and_rewritten(tmp_path):
    readme = tmp_path / "tag" / "README.md"
    readme.parent.mkdir()
    readme.write_text(f"before\n{START}\nold\n{END}\nafter\n")
    text = current_text(readme)
    assert text.startswith(f"before\n{START}\n### Parameters") and text.endswith(f"{END}\nafter\n")
    assert "| `num_taggers` | 5 |" in text
    assert main(["--check"]) == 0
    assert main(["--wrong"]) == 2
