"""Pages that quote the end of the first run have the numbers of the matches on record."""

import dataclasses

import pytest

from gpu_vecenv.train.config import PRESETS
from gpu_vecenv.train.run_folder.matches import read_matches
from tools.docs import first_run


def test_the_pages_quote_the_run_on_record(capsys):
    assert first_run.main(["--check"]) == 0, capsys.readouterr().out


def test_the_run_on_record_is_that_of_the_preset():
    assert read_matches(first_run.RESULTS).steps == PRESETS["WarpTag-v0"].on("cpu").total_steps


@pytest.mark.parametrize(("saved", "says"), [(30.0, "save 30 of these 72."), (-5.0, "have not learned to escape")])
def test_the_sentence_follows_from_the_numbers(saved, says):
    matches = read_matches(first_run.RESULTS)
    untrained = matches.match("runner").mean_exits["runner"]
    trained = dataclasses.replace(matches.match(), mean_exits={**matches.match().mean_exits, "runner": untrained - saved})
    changed = dataclasses.replace(matches, matches=[trained if not match.random else match for match in matches.matches])
    assert says.replace("72", f"{untrained:.0f}") in first_run.block(changed, whole=True)
    assert f"{untrained - saved:.1f}".removesuffix(".0") in first_run.block(changed, whole=False)
