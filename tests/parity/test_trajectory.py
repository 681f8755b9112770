"""Hashes of trajectories with state fields left out, and the command that compares them with those on record."""

import dataclasses
import json
import re
from functools import partial

import gymnasium
import pytest

from gpu_vecenv import Field, GpuVectorEnv
from gpu_vecenv.envs.cartpole.spec import SPEC
from tests.parity import trajectory
from tests.parity.trajectory import RECORD, trajectory_hash

MARKED = dataclasses.replace(SPEC, state=(Field("mark", "uint16", (), "a mark"), *SPEC.state))
"""CartPole with a state field that its kernel leaves 0."""


@pytest.fixture
def record(monkeypatch, tmp_path):
    """A case of an env with a new state field, whose recorded hash is that of the env without it; the file of records."""
    gymnasium.register("MarkedCartPole-v0", vector_entry_point=partial(GpuVectorEnv, MARKED))
    monkeypatch.setitem(trajectory.CASES, "marked", ("MarkedCartPole-v0", trajectory.CASES["cartpole"][1]))
    monkeypatch.setattr(trajectory, "RECORD", tmp_path / "hashes.json")
    trajectory.RECORD.write_text(json.dumps({"marked": json.loads(RECORD.read_text())["cartpole"]}))
    yield trajectory.RECORD
    del gymnasium.registry["MarkedCartPole-v0"]


@pytest.mark.slow
def test_a_new_state_field_changes_the_hash_and_none_without_it(record, monkeypatch, capsys):
    before = record.read_text()
    assert trajectory_hash("marked", 50) != trajectory_hash("cartpole", 50) == trajectory_hash("marked", 50, without=["mark"])
    for words, changed in ((["marked", "--without", "mark"], "none"), (["marked", "--without", "state"], "'marked'")):
        monkeypatch.setattr("sys.argv", ["trajectory", *words])
        trajectory.main()
        assert capsys.readouterr().out == f"changed: {changed}\n"
    assert record.read_text() == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [(["--without", "mark"], "--without: expected CASE, "), (["cart pole"], r"expected cases out of \[.* got \['cart pole'\]")],
)
def test_a_command_without_effect_is_refused(record, monkeypatch, capsys, words, expected):
    before = record.read_text()
    monkeypatch.setattr("sys.argv", ["trajectory", *words])
    with pytest.raises(SystemExit):
        trajectory.main()
    assert re.search(expected, capsys.readouterr().err)
    with pytest.raises(ValueError, match=r"marked: expected state fields out of \['mark', 'state', .* got \['speed'\]"):
        trajectory_hash("marked", 5, without=["speed"])
    assert record.read_text() == before
