"""``gpu-vecenv play``: the page that it opens, and the window."""

import webbrowser

import numpy as np
import pytest

from gpu_vecenv.cli.main import main
from gpu_vecenv.errors import ParameterError
from gpu_vecenv.testing.subject import Subject
from gpu_vecenv.train import TrainConfig
from gpu_vecenv.train.runner import window
from gpu_vecenv.train.runner.evaluation import game_of
from gpu_vecenv.train.runner.window import Player, play_in_window
from tests.web.test_page import parts_of

pygame = pytest.importorskip("pygame")


def config_of(env_id, **params):
    """An env with its first policies."""
    return game_of(TrainConfig(env_id, device="cpu", env_kwargs=params), None, None, {})


@pytest.mark.parametrize(("held", "entries"), [((0, 0), [0, 0]), ((1, 0), [2, 0]), ((0, 1), [2, 2]), ((0, -1), [2, 1])])
def test_a_player_of_tag_turns_toward_the_keys(held, entries):
    """Index 2 of both entries is the largest: speed up, and turn to the left."""
    params = {"min_turn": -0.5, "max_turn": 0.5, "num_turn_levels": 2, "num_acceleration_levels": 2}
    player = Player(Subject("WarpTag-v0", params).layout(), "runner")
    player.right, player.up = held
    state = {name: np.zeros(200) for name in ("direction", "loc_x", "loc_y")}
    assert player.action(state) == entries


@pytest.mark.parametrize(("held", "entry"), [((0, 0, 0), 0), ((0, 1, 0), 1), ((1, 0, 0), 4), ((0, 0, 1), 5), ((1, 0, 1), 5)])
def test_a_player_of_foraging_loads_while_it_presses(held, entry):
    player = Player(Subject("WarpForaging-v3").layout(), None)
    player.right, player.up, player.press = held
    assert player.action({"player_pos": np.zeros((8, 2))}) == [entry]


def test_a_role_without_controls_is_refused():
    with pytest.raises(ParameterError, match=r"role: expected one whose agents have controls, \['agent'\], got 'cat'\."):
        Player(Subject("WarpCartPole-v1").layout(), "cat")


def test_keys_steer_the_agent_in_a_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    held = iter([(1, 0, 0)] * 6 + [(0, 0, 0)] * 6)
    monkeypatch.setattr(window, "held_keys", lambda _: next(held))
    seen = []
    renderer = window.find_renderer(Subject("WarpMountainCar-v0").layout().spec.kernel.parent)
    frame = renderer.frame
    monkeypatch.setattr(renderer, "frame", lambda self, state: seen.append(state["state"][1]) or frame(self, state))
    monkeypatch.setattr(window, "find_renderer", lambda folder: renderer)
    assert play_in_window(config_of("WarpMountainCar-v0"), None, seed=1, rate=1000, most_steps=12) == 12
    changes = np.diff(seen)
    assert (changes[:6] > changes[6:].max()).all()  # a push to the right adds 0.001


@pytest.mark.in_ci
def test_play_opens_a_page_in_which_the_visitor_steers(monkeypatch, tmp_path, capsys):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    assert main(["play", "WarpCartPole-v1", "--out", str(tmp_path / "play.html")]) == 0
    data, _ = parts_of((tmp_path / "play.html").read_text())
    assert data["plays"] and data["spans"][0]["policy"] == "random" and opened == [(tmp_path / "play.html").as_uri()]
    assert main(["play", "WarpCartPole-v1", "--window", "--out", "x.html"]) == 2
    assert "--out: expected none with --window" in capsys.readouterr().err
