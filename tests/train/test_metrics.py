"""Metrics of a run: lines that are accepted, values that are drawn, and lines kept when the run is resumed."""

import dataclasses
import json
import warnings

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gpu_vecenv.train import ConfigError, MetricsError, PPOConfig, TrainConfig, Trainer, plot_curves
from gpu_vecenv.train.run_folder.json_lines import JsonLines
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, read_metrics
from gpu_vecenv.train.run_folder.titles import title_of

LINE = '{"iteration": %d, "steps": %d, "steps_per_second": 2.0, "kl/agent": %s}\n'


def test_curves_leave_out_values_that_are_not_finite(tmp_path, monkeypatch):
    values = ["0.5", "NaN", "Infinity", "-Infinity", "null", "1" + "0" * 400, "0.25"]
    (tmp_path / METRICS_FILE).write_text("".join(LINE % (i, 10 * i, value) for i, value in enumerate(values, 1)))
    drawn = {}
    original = Axes.plot

    def plot(self, x, y, *given, **options):
        drawn.setdefault(options.get("label"), []).append((list(x), list(y)))
        return original(self, x, y, *given, **options)

    monkeypatch.setattr(Axes, "plot", plot)
    plot_curves(tmp_path)
    assert drawn["agent"] == [([10, 70], [0.5, 0.25])]


def test_policies_of_any_name_are_drawn(tmp_path):
    metrics = {f"{metric}/{name}": 1.0 for metric in ("return", "kl") for name in ("$\\foo$", "a$b", "{x}", "%s", "^_")}
    (tmp_path / METRICS_FILE).write_text(json.dumps({"iteration": 1, "steps": 5, **metrics, "kl/other": 2.0}) + "\n")
    assert plot_curves(tmp_path).is_file()


PPO = "policy_loss value_loss entropy kl clip_fraction grad_norm explained_variance learning_rate updates skipped".split()
SAC = "critic_loss q actor_loss entropy temperature replay_filled update_to_data updates skipped".split()
PPO_TITLES = ["policy loss", "value loss", "entropy (nats)", "KL divergence (nats)"]


@pytest.mark.parametrize(
    ("algorithms", "titles"),
    [
        ({"a": PPO, "b": PPO}, PPO_TITLES),
        ({"a": SAC}, ["critic loss", "Q value", "actor loss", "entropy (nats)", "temperature"]),
        ({"a": ["loss", "q_value", "grad_norm", "epsilon"]}, ["loss", "Q value", "epsilon"]),
        ({"a": PPO, "b": SAC}, [*PPO_TITLES, "critic loss", "Q value", "actor loss", "temperature"]),
        ({"a": ["best_fitness", "skipped"]}, ["best fitness"]),
        ({"a": [f"number_{k}" for k in range(30)]}, [f"number {k}" for k in range(20)]),
        ({"a": ["skipped"]}, []),
    ],
)
def test_each_metric_of_an_algorithm_has_a_panel_with_its_curves(algorithms, titles, tmp_path, monkeypatch):
    """The k-th metric of policy a is k, and that of b is 100 + k. Metrics without any value have no panel."""
    line = {f"{metric}/{name}": 100.0 * (name == "b") + k for name, of in algorithms.items() for k, metric in enumerate(of)}
    line |= {"steps_per_second": 2.0, "evaluation/a": 1.0, "recent_return/a": 1.0, "episode_length/a": 1.0, "never/a": None}
    (tmp_path / METRICS_FILE).write_text(json.dumps({"iteration": 1, "steps": 5, "return/a": 3.0, **line}) + "\n")
    figures, texts = [], []
    drawn = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *given, **options: figures.append(self) or drawn(self, *given, **options))
    monkeypatch.setattr(Axes, "text", lambda self, x, y, text, **_: texts.append(text))
    plot_curves(tmp_path)
    panels = {axes.get_title(): axes for axes in figures[0].axes}
    assert list(panels) == ["mean return of a", *titles, "world steps / s"] and texts == []
    for title in titles:
        of_policies = [[k for k, metric in enumerate(of) if title_of(metric) == title] for of in algorithms.values()]
        want = {100.0 * i + k for i, numbers in enumerate(of_policies) for k in numbers}
        assert {line.get_ydata()[0] for line in panels[title].lines} == want
    rows = [axes.get_subplotspec().get_position(figures[0]).y0 for title, axes in panels.items() if "return" not in title]
    most = max(map(rows.count, rows))
    assert most <= 5 and len(rows) > most * (len(set(rows)) - 1)


def test_a_policy_without_values_leaves_the_panel_to_the_others(tmp_path, monkeypatch):
    texts = []
    monkeypatch.setattr(Axes, "text", lambda self, x, y, text, **_: texts.append(text))
    metrics = {"return/a": None, "return/b": None, "kl/a": 1.0, "kl/b": None}
    (tmp_path / METRICS_FILE).write_text(json.dumps({"iteration": 1, "steps": 5, **metrics}) + "\n")
    plot_curves(tmp_path)
    assert texts == ["no episode has ended yet"] * 2


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("b.pdf", b"%PDF"), ("new/c.PNG", b"\x89PNG")])
def test_the_ending_of_a_picture_gives_its_format(name, start, tmp_path):
    (tmp_path / METRICS_FILE).write_text(LINE % (1, 5, "1.0"))
    assert plot_curves(tmp_path, tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize("name", ["", ".", "curves", "curves.mp4", "folder.png"])
def test_a_picture_that_cannot_be_written_leaves_no_file(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / METRICS_FILE).write_text(LINE % (1, 5, "1.0"))
    (tmp_path / "folder.png").mkdir()
    with pytest.raises((ConfigError, IsADirectoryError)):
        plot_curves(tmp_path, name)
    assert {path.name for path in tmp_path.iterdir()} == {METRICS_FILE, "folder.png"}


def test_curves_of_several_runs_are_means_with_intervals(tmp_path, monkeypatch):
    for seed, values in enumerate([(1.0, 2.0, 6.0), (3.0, 2.5, 4.0), (8.0, 3.0, 5.0)]):
        (tmp_path / f"seed-{seed}").mkdir()
        lines = "".join(LINE % (i, 10 * i, value) for i, value in enumerate(values, 1))
        (tmp_path / f"seed-{seed}" / METRICS_FILE).write_text(lines)
    (tmp_path / "seed-3").mkdir()
    (tmp_path / "seed-3" / METRICS_FILE).write_text("")  # stopped in its first iteration
    lines, bands = {}, []
    plot, fill = Axes.plot, Axes.fill_between
    monkeypatch.setattr(Axes, "plot", lambda self, x, y, **o: lines.setdefault(o.get("label"), (x, y)) and plot(self, x, y, **o))
    monkeypatch.setattr(Axes, "fill_between", lambda self, *given, **o: bands.append(given) or fill(self, *given, **o))
    assert plot_curves(tmp_path) == tmp_path / "curves.png"
    x, mean = lines["agent"]
    assert (x.tolist(), mean.tolist()) == ([10, 20, 30], [4.0, 2.5, 5.0])
    # Student's t with 2 degrees of freedom is below 4.303 with a probability of 97.5 %.
    half = 4.303 * np.std([(1, 2, 6), (3, 2.5, 4), (8, 3, 5)], axis=0, ddof=1) / np.sqrt(3)
    assert bands[0][1] == pytest.approx(mean - half, rel=1e-3)
    assert bands[0][2] == pytest.approx(mean + half, rel=1e-3)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("seed: 1", "a mapping with an env_id"), ("env_id: [", "YAML"), ("env_id: A\nseed: yes", "true, false or text in quotes")],
)
def test_curves_of_a_run_with_damaged_options_are_drawn_and_a_warning_says_what_they_lack(content, reason, tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(Figure, "suptitle", lambda self, text, **_: titles.append(text))
    (tmp_path / METRICS_FILE).write_text(LINE % (1, 5, "1.0"))
    (tmp_path / "config.yaml").write_text(content)
    (tmp_path / "against_random.json").write_text("[" * 10**5)
    with pytest.warns(UserWarning) as caught:
        assert plot_curves(tmp_path).read_bytes().startswith(b"\x89PNG")
    said = sorted(str(warning.message) for warning in caught)
    assert len(said) == 2 and titles == [str(tmp_path)]
    assert said[0].startswith(f"{tmp_path}/against_random.json: expected the matches of a run, got RecursionError: ")
    assert said[0].endswith("; the curves lack the lines of random play")
    assert f"{tmp_path}/config.yaml: " in said[1] and f"expected {reason}" in said[1]
    assert said[1].endswith("; the curves' title has the folder in place of the env and the seed")


def test_a_folder_of_runs_without_iterations_has_no_curves(tmp_path):
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / METRICS_FILE).write_text("")
    with pytest.raises(MetricsError, match=f"{tmp_path}: expected at least one iteration, got none"):
        plot_curves(tmp_path)


@pytest.mark.parametrize("damage", ["[1]", '{"steps": 1}', '{"iteration": "1", "steps": 1}', "{", "\0"])
def test_damaged_metrics_are_kept_and_the_run_is_not_resumed(damage, tmp_path):
    out = tmp_path / "run"
    Trainer(TrainConfig("WarpCartPole-v1", 2, 64, device="cpu", out=str(out)), quiet=True).train(iterations=0)
    text = f"{LINE % (1, 5, '1.0')}{damage}\n{LINE % (2, 9, '1.0')}"
    (out / METRICS_FILE).write_text(text)
    with pytest.raises(MetricsError, match=f"{METRICS_FILE}.*expected"):
        Trainer.resume(out, quiet=True).train()
    assert (out / METRICS_FILE).read_text() == text


def test_lines_of_repeated_iterations_are_dropped_and_the_others_not_changed(tmp_path):
    out = tmp_path / "run"
    trainer = Trainer(TrainConfig("WarpCartPole-v1", 2, 128, device="cpu", ppo=PPOConfig(num_steps=32), out=str(out)), quiet=True)
    trainer.train(iterations=1)
    trainer.close()
    first = (out / METRICS_FILE).read_text()
    (out / METRICS_FILE).write_text(first + LINE % (2, 128, "1.0") + '{"iterat')
    Trainer.resume(out, quiet=True).train()
    assert (out / METRICS_FILE).read_text().startswith(first)
    assert [line["iteration"] for line in read_metrics(out)] == [1, 2]


@pytest.mark.parametrize(
    ("kept", "gaps"),
    [
        ((), "1 to 6"),
        ((1, 2, 3), "4 to 6"),
        ((4, 5, 6), "1 to 3"),
        ((1, 3, 6), "2, 4 to 5"),
        ((1, 2, 3, 4, 5), "6"),
        (None, "1 to 6"),
        ((1, 2, 3, 4, 5, 6), ""),
    ],
)
def test_a_resumed_run_names_iterations_whose_lines_are_lost(kept, gaps, config, tmp_path):
    run = tmp_path / "run"
    trainer = Trainer(dataclasses.replace(config, out=str(run)), quiet=True)
    trainer.train()
    trainer.close()
    file = run / METRICS_FILE
    lines = file.read_text().splitlines(keepends=True)
    file.unlink() if kept is None else file.write_text("".join(lines[k - 1] for k in kept))
    trainer = Trainer.resume(run, quiet=True, total_steps=4 * 10 * 7)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.train()
    said = [str(warning.message) for warning in caught if METRICS_FILE in str(warning.message)]
    expected = f"{file}: expected a line of each iteration up to 6, that of the checkpoint, got none of "
    assert said == ([f"{expected}{gaps}; the run goes on, and its curves have no points there"] if gaps else [])
    assert [line["iteration"] for line in read_metrics(run)] == [*(kept or ()), 7]


def test_of_many_gaps_the_first_are_named_and_a_run_that_moves_to_another_folder_has_none(tmp_path):
    path = tmp_path / METRICS_FILE
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        JsonLines(path, 10**18).close()
    path.write_text("".join(LINE % (k, k, "1.0") for k in range(2, 40, 2)))
    with pytest.warns(UserWarning, match="got none of 1, 3, 5, 7, 9, 15 other ranges; "):
        JsonLines(path, 10**18).close()
