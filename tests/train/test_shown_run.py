"""The HTML that a notebook shows for a run's folder."""

import re

import numpy as np
import pytest

from gpu_vecenv import write_video
from gpu_vecenv.train import MetricsError, Run, TrainConfig, Trainer
from gpu_vecenv.train.run_folder.matches import Match, Matches, RoleFacts, save_matches
from gpu_vecenv.train.run_folder.metrics import metrics_line
from gpu_vecenv.train.run_folder.plot import look_of

LINES = [
    {"iteration": 1, "steps": 100, "return/a": float("nan"), "recent_return/a": float("nan")},
    {"iteration": 2, "steps": 200, "return/a": 1.5, "recent_return/a": 1.5},
    {"iteration": 3, "steps": 300, "return/a": 9.0, "recent_return/a": 7.25},
]


def write(folder, lines):
    (folder / "metrics.jsonl").write_text("".join(metrics_line(line) + "\n" for line in lines))
    return folder


def cells(html):
    return re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", html)


def test_returns_of_first_and_last_episodes_are_shown(tmp_path):
    run = Run(write(tmp_path, LINES))
    html = run._repr_html_()
    assert cells(html) == ["mean return of", "first episodes", "last 100 episodes", "a", "1.50", "7.25"]
    assert "300 world steps in 3 iterations" in html and "data:image/png" in html and "<video" not in html
    assert repr(run) == f"Run({tmp_path}, 300 steps, a 7.25)"
    assert not (tmp_path / "curves.png").exists()


def test_random_returns_are_shown_beside_them(tmp_path):
    assert cells(Run(write(tmp_path, LINES), {"a": 0.5})._repr_html_())[-4:] == ["a", "1.50", "7.25", "0.50"]
    assert cells(Run(tmp_path, {"b": 0.5})._repr_html_())[-1] == "–"


@pytest.mark.slow
def test_random_returns_come_from_the_matches_of_the_folder(tmp_path):
    roles = {"x": RoleFacts(2, ["a"], ""), "y": RoleFacts(1, ["b"], "")}
    returns = (["x", "y"], {"x": 0.25, "y": 4.0}), ([], {"x": 8.0, "y": 9.0}), (["x"], {"x": 1.0, "y": 2.0})
    matches = [Match(random, mean, {"x": 0.0, "y": 0.0}) for random, mean in returns]
    save_matches(Matches(64, 300, ["x", "y"], roles, matches), write(tmp_path, LINES))
    assert cells(Run(tmp_path)._repr_html_())[-4:] == ["a", "1.50", "7.25", "0.25"]
    assert cells(Run(tmp_path, {"a": 0.5})._repr_html_())[-1] == "0.50"


@pytest.mark.slow
def test_the_video_of_the_folder_is_shown(tmp_path):
    write_video(np.zeros((2, 16, 16, 3), np.uint8), write(tmp_path, LINES) / "video.mp4")
    assert "<video" in Run(tmp_path)._repr_html_()


def test_a_run_without_an_ended_episode_has_no_returns(tmp_path):
    assert cells(Run(write(tmp_path, LINES[:1]))._repr_html_())[-3:] == ["a", "–", "–"]
    assert "0 world steps" in Run(write(tmp_path, []))._repr_html_()


def test_a_folder_without_metrics_is_refused(tmp_path):
    with pytest.raises(MetricsError, match="expected the metrics of a run"):
        Run(tmp_path)


def test_a_trained_run_is_shown(tmp_path):
    Trainer(TrainConfig("WarpCartPole-v1", 8, total_steps=512, device="cpu", out=str(tmp_path)), quiet=True).train()
    run = Run(tmp_path)
    assert run.metrics[-1]["steps"] == 512 and cells(run._repr_html_())[3] == "agent"


def test_a_policy_has_one_colour_and_style_in_every_panel_and_the_colour_of_its_role_in_videos():
    policies = ["tagger", "runner", "judge"]
    looks = {name: look_of(f"{metric}/{name}", policies) for name in policies for metric in ("return", "entropy")}
    assert looks["tagger"]["color"] == "#d55e00" and looks["runner"]["color"] == "#0072b2"  # orange and blue
    assert len({look["color"] for look in looks.values()}) == len({str(look["linestyle"]) for look in looks.values()}) == 3
    assert look_of("steps_per_second", policies)["color"] not in {look["color"] for look in looks.values()}
