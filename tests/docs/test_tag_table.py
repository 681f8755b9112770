"""The longer run of Tag: its options, and the pages that say how its runners dodge."""

import dataclasses
import json

import numpy as np
import pytest

from gpu_vecenv.train import TrainConfig, Trainer
from tools.docs import tag_table


def test_the_pages_have_the_matches_on_record(capsys):
    assert tag_table.main(["--check"]) == 0, capsys.readouterr().out


def test_the_run_on_record_dodges_and_does_not_huddle():
    caught = {(each["taggers"], each["runners"]): each for each in tag_table.matches()}
    both = caught["trained", "trained"]
    assert both["late"] < 0.15 and both["share"] < 0.15
    assert both["caught"] + both["caught_interval"] < caught["trained", "random"]["caught"] / 2


def test_the_caption_has_the_numbers_of_their_matches(tmp_path, monkeypatch):
    pairs = {("trained", "random"): 81.0, ("random", "random"): 33.0, ("trained", "trained"): 5.0, ("random", "trained"): 2.0}
    found = [{"taggers": taggers, "runners": runners, "caught": caught} for (taggers, runners), caught in pairs.items()]
    (tmp_path / "found.json").write_text(json.dumps({"run": found}))
    monkeypatch.setattr(tag_table, "RESULTS", tmp_path / "found.json")
    text = tag_table.caption().replace("\n", " ")
    assert "14.3 million steps" in text
    assert "trained taggers catch 81 that act at random, and 5 that have learned to dodge; random taggers catch 33 that" in text


def test_turns_are_those_that_the_pages_name():
    params = TrainConfig.from_yaml(tag_table.OPTIONS).env_kwargs
    turns = np.linspace(params["min_turn"], params["max_turn"], params["num_turn_levels"])
    assert np.degrees(turns) == pytest.approx([-45, -15, 15, 45], abs=0.1)


def test_its_options_train():
    config = TrainConfig.from_yaml(tag_table.OPTIONS)
    small = {**config.env_kwargs, "num_taggers": 1, "num_runners": 4}
    trainer = Trainer(dataclasses.replace(config, num_envs=2, total_steps=200, device="cpu", env_kwargs=small), quiet=True)
    trainer.train()
    params = trainer.env.params
    trainer.close()
    assert (params["num_turn_levels"], params["edge_hit_penalty"]) == (4, pytest.approx(-0.1))
    assert params["max_speed"] == 0.5  # of the preset
