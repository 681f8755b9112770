"""Matches of trained and random roles, compared with single evaluations, and the texts and lines made from them."""

import dataclasses
import functools
import importlib
import json
import math
import os
import re
import shlex

import pytest
from matplotlib.axes import Axes

from gpu_vecenv.cli.learned import learned_lines, next_lines
from gpu_vecenv.cli.main import main
from gpu_vecenv.train import MetricsError, Trainer, evaluate, plot_curves
from gpu_vecenv.train.config import resolve
from gpu_vecenv.train.run_folder.matches import MATCHES_FILE, Match, Matches, RoleFacts, read_matches, save_matches
from gpu_vecenv.train.runner.matches import MOST_WORLDS, play_matches, random_roles

TAG = Matches(
    worlds=30,
    steps=60_000,
    learning=["tagger", "runner"],
    roles={"tagger": RoleFacts(5, ["hunters"], ""), "runner": RoleFacts(100, ["runner"], "caught")},
    matches=[
        Match([], {"tagger": 160.0, "runner": -8.0}, {"tagger": 0.0, "runner": 84.2}),
        Match(["tagger"], {"tagger": 56.0, "runner": -2.0}, {"tagger": 0.0, "runner": 28.4}),
        Match(["runner"], {"tagger": 186.0, "runner": -9.0}, {"tagger": 0.0, "runner": 93.3}),
        Match(["tagger", "runner"], {"tagger": 73.0, "runner": -3.0}, {"tagger": 0.0, "runner": 36.5}),
    ],
)


@pytest.fixture
def run(config, tmp_path):
    """Folder of a short run."""
    trainer = Trainer(dataclasses.replace(config, out=str(tmp_path / "run")), quiet=True)
    trainer.train(iterations=2)
    trainer.close()
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("learning", "expected"),
    [
        (["a"], [(), ("a",)]),
        (["a", "b"], [(), ("a",), ("b",), ("a", "b")]),
        (["a", "b", "c"], [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]),
        (["w", "x", "y", "z"], [(), *"wxyz", "wxy", "wxz", "wyz", "xyz", "wxyz"]),
    ],
)
def test_every_role_is_compared_among_trained_and_among_random_ones(learning, expected):
    assert random_roles(learning) == [tuple(names) for names in expected]


def test_matches_are_evaluations_in_the_same_worlds(run):
    matches = play_matches(run, "cpu")
    assert (matches.worlds, matches.steps, matches.learning) == (MOST_WORLDS, 2 * 4 * 10, ["catcher", "runner"])
    assert matches.roles == {"catcher": RoleFacts(2, ["catcher"], ""), "runner": RoleFacts(3, ["runner"], "past the line")}
    for match in matches.matches:
        alone = evaluate(run, MOST_WORLDS, {role: "random" for role in match.random}, device="cpu")
        assert (match.mean_return, match.mean_exits, match.mean_metrics) == (alone.mean_return, alone.mean_exits, {})
    assert matches.match("runner") != matches.match()


def test_roles_that_do_not_learn_play_as_in_training(config, tmp_path):
    config = dataclasses.replace(config, out=str(tmp_path / "run"), policy_map={"catcher": "random", "runner": "mine"})
    with_random = Trainer(config, quiet=True)
    with_random.train(iterations=1)
    matches = play_matches(tmp_path / "run", "cpu")
    assert [match.random for match in matches.matches] == [[], ["runner"]]
    assert matches.roles["runner"].policies == ["mine"]


def test_the_file_holds_all_and_damage_is_an_error(tmp_path):
    assert read_matches(tmp_path) is None
    path = save_matches(TAG, tmp_path)
    assert (path, read_matches(tmp_path)) == (tmp_path / MATCHES_FILE, TAG)
    content = path.read_text()
    older = re.sub(r',\s*"mean_metrics": {}', "", content)
    path.write_text(older)
    assert older != content and read_matches(tmp_path) == TAG
    for damage in (
        '{"worlds": 30}', "[" * 100_000, "[]", content.replace('"learning": [', '"learning": ["nobody", '),
        re.sub(r'"count": \d+', '"count": "x"', content), re.sub(r'("mean_return": {\s*"\w+"): [-\d.]+', r'\1: "x"', content),
        re.sub(r'"count": \d+', '"count": 0', content),
    ):  # fmt: skip
        path.write_text(damage)
        assert damage != content
        with pytest.raises(MetricsError, match=f"{MATCHES_FILE}: expected the matches of a run, got "):
            read_matches(tmp_path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(MetricsError, match=f"{MATCHES_FILE}: expected the matches of a run, got something that is no file"):
        read_matches(tmp_path)


def test_lines_say_what_was_learned():
    first, *lines = learned_lines(TAG)
    assert first.startswith("After 60,000 steps (means over 30 new episodes")
    assert lines == [
        "  trained taggers against random runners: 93.3 of 100 runners caught; random taggers: 36.5",
        "  trained taggers against trained runners: 84.2 of 100 runners caught; random taggers: 28.4",
        "  trained runners against random taggers: 28.4 of 100 runners caught; random runners: 36.5",
        "  trained runners against trained taggers: 84.2 of 100 runners caught; random runners: 93.3",
    ]


def test_agents_are_counted_out_of_those_of_a_world():
    few = dataclasses.replace(
        TAG,
        roles={"tagger": RoleFacts(5, ["hunters"], ""), "runner": RoleFacts(20, ["runner"], "caught")},
        learning=["tagger"],
        matches=[Match([], {"tagger": 1.0, "runner": 1.0}, {"tagger": 0.0, "runner": 3.74}),
                 Match(["tagger"], {"tagger": 1.0, "runner": 1.0}, {"tagger": 0.0, "runner": 2.0})],
    )  # fmt: skip
    assert list(learned_lines(few))[1:] == ["  trained taggers: 3.7 of 20 runners caught; random taggers: 2"]


def test_a_role_that_took_no_part_has_no_return(tmp_path):
    matches = [Match([], {"agent": math.nan}, {"agent": 0.0}), Match(["agent"], {"agent": math.nan}, {"agent": 0.0})]
    absent = Matches(100, 400, ["agent"], {"agent": RoleFacts(1, ["agent"], "")}, matches)
    assert list(learned_lines(absent))[1:] == ["  trained agent: no agent took part; random agent: none"]
    json.loads(save_matches(absent, tmp_path).read_text(), parse_constant=pytest.fail)
    assert read_matches(tmp_path).baseline("agent") is None


def test_a_role_alone_is_judged_by_its_return():
    matches = [Match([], {"agent": 489.25}, {"agent": 0.0}), Match(["agent"], {"agent": 22.0}, {"agent": 0.0})]
    alone = Matches(100, 400, ["agent"], {"agent": RoleFacts(1, ["agent"], "")}, matches)
    assert list(learned_lines(alone))[1:] == ["  trained agent: mean return 489.2; random agent: 22"]


@pytest.mark.parametrize("drawn", [True, False])
def test_next_commands_import_what_the_run_needs(drawn, config):
    config = resolve(dataclasses.replace(config, env_id="harvest:WarpTag-v0", out="run"))
    _, watch, resume, _ = next_lines(config, drawn, ["", "sac", "nets.big", "sac"])
    for line in (watch, resume):
        words = shlex.split(line, comments=True)
        at = words.index("--modules")
        assert words[at:] == ["--modules", "harvest", "sac", "nets.big"]


@pytest.mark.parametrize("drawn", [True, False])
def test_next_commands_are_accepted(drawn, config, monkeypatch):
    config = resolve(dataclasses.replace(config, env_id="WarpTag-v0", out="a folder/it's"))
    called = []
    for name in ("train.train", "evaluation.eval_run", "watch.watch"):
        module, function = name.split(".")
        original = getattr(importlib.import_module(f"gpu_vecenv.cli.{module}"), function)
        monkeypatch.setattr(f"gpu_vecenv.cli.{name}", _recorded(original, called))
    _, *lines = next_lines(config, drawn)
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "gpu-vecenv" and main(words) == 0
    assert called == ["watch" if drawn else "eval_run", "train", "train"]


def _recorded(function, called):
    @functools.wraps(function)
    def record(*_, **__):
        called.append(function.__name__)

    return record


def test_curves_show_random_play_and_scripted_policies_and_name_them(tmp_path, monkeypatch):
    lines = '{"iteration": 1, "steps": 5, "return/hunters": 70.0, "return/runner": -3.0, "kl/runner": 1.0}\n'
    (tmp_path / "metrics.jsonl").write_text(lines)
    drawn = {}
    monkeypatch.setattr(Axes, "axhline", lambda self, y, label, **_: drawn.setdefault((self.get_title(), label), y))
    flee = Match([], {"tagger": 150.0, "runner": -7.5}, {"tagger": 0.0, "runner": 80.0}, scripted={"runner": "flee"})
    save_matches(dataclasses.replace(TAG, matches=[*TAG.matches, flee]), tmp_path)
    plot_curves(tmp_path)
    assert drawn == {
        ("mean return of hunters", "random play of all roles"): 73.0,
        ("mean return of hunters", "random hunters against the trained others"): 56.0,
        ("mean return of runner", "random play of all roles"): -3.0,
        ("mean return of runner", "random runner against the trained others"): -9.0,
        ("mean return of runner", "flee against the trained others"): -7.5,
    }


def test_the_baseline_of_a_policy_for_two_roles_is_the_mean_over_agents():
    shared = dataclasses.replace(TAG, roles={role: dataclasses.replace(x, policies=["all"]) for role, x in TAG.roles.items()})
    assert shared.baseline("all") == pytest.approx((5 * 160.0 + 100 * -8.0) / 105)
    assert shared.baseline("none") is None
