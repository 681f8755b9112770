"""Sinks of a run's metrics: valid JSON, TensorBoard over steps, Weights & Biases, the user's own, and a closed terminal."""

import contextlib
import dataclasses
import importlib.util
import io
import json
import math
import resource
import sys
from types import ModuleType, SimpleNamespace

import pytest

from gpu_vecenv.train import Callback, ConfigError, PolicyMapError, Trainer, load_checkpoint
from gpu_vecenv.train.run_folder import logger as logger_module
from gpu_vecenv.train.run_folder.json_lines import JsonLines
from gpu_vecenv.train.run_folder.logger import Logger
from gpu_vecenv.train.run_folder.metrics import METRICS_FILE, metrics_line, read_metrics
from gpu_vecenv.train.run_folder.tensorboard import TensorBoard
from gpu_vecenv.train.run_folder.terminal import Terminal
from gpu_vecenv.train.run_folder.weights_and_biases import ID_FILE

LINE = {"iteration": 3, "steps": 120, "steps_per_second": 1e5, "return/a": math.nan, "kl/a": math.inf, "kl/b": -math.inf}


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def test_values_that_are_not_finite_are_valid_json_and_are_read_back(tmp_path):
    text = metrics_line(LINE)
    raw = json.loads(text, parse_constant=refuse)
    assert raw == {**LINE, "return/a": None, "kl/a": "Infinity", "kl/b": "-Infinity"}
    (tmp_path / METRICS_FILE).write_text(text + "\n")
    assert read_metrics(tmp_path) == [{**LINE, "return/a": None}]


@pytest.mark.parametrize("text", ["infinity", "inf", "NaN", "+Infinity", "1"])
def test_other_texts_are_no_numbers(tmp_path, text):
    (tmp_path / METRICS_FILE).write_text(metrics_line(LINE).replace("-Infinity", text) + "\n")
    with pytest.raises(ValueError, match="expected kl/b to be a number or null"):
        read_metrics(tmp_path)


def test_a_file_of_metrics_without_later_lines_is_not_written_again(tmp_path):
    path = tmp_path / METRICS_FILE
    path.write_text(metrics_line({**LINE, "iteration": 1}) + "\n")
    inode = path.stat().st_ino
    JsonLines(path, 1).close()
    assert path.stat().st_ino == inode
    JsonLines(path, 0).close()
    assert path.read_text() == "" and path.stat().st_ino != inode


def scalars(folder, name):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_tensorboard_has_world_steps_on_its_axis_and_each_once_after_a_kill(config, tmp_path, monkeypatch):
    """Imitates a kill after iteration 4 of a run whose last checkpoint is that of iteration 2."""
    monkeypatch.setattr("gpu_vecenv.train.run_folder.tensorboard.POINT_S", 0.0)
    run = tmp_path / "run"
    trainer = Trainer(dataclasses.replace(config, out=str(run), checkpoint_interval=2), quiet=True)
    steps = trainer.steps_per_iteration
    save, killed = trainer.save, RuntimeError("killed")

    def die_at_the_third(path=None):
        if trainer.iteration == 4:
            raise killed
        return save(path)

    monkeypatch.setattr(trainer, "save", die_at_the_third)
    with pytest.raises(RuntimeError, match="killed"):
        trainer.train()
    trainer.close()
    assert [step for step, _ in scalars(run / "tensorboard", "policy_loss/runner")] == [steps * k for k in (1, 2, 3, 4)]
    Trainer.resume(run, quiet=True).train()
    points = scalars(run / "tensorboard", "policy_loss/runner")
    want = [(line["steps"], line["policy_loss/runner"]) for line in read_metrics(run)]
    assert [step for step, _ in points] == [step for step, _ in want] == [steps * k for k in range(1, 7)]
    assert [value for _, value in points] == pytest.approx([value for _, value in want], rel=1e-6)


def test_tensorboard_gets_few_points_of_a_fast_run_with_every_evaluation_and_the_last_one(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.setattr("gpu_vecenv.train.run_folder.tensorboard.POINT_S", 1e9)
    board = TensorBoard(tmp_path, 0)
    for k in range(1, 9):
        board.log({"iteration": k, "steps": k, "kl/a": k / 10} | ({"evaluation/a": 1.0} if k == 4 else {}))
        if k == 6:
            board.flush()
            board.flush()
    board.close()
    assert [step for step, _ in scalars(tmp_path, "kl/a")] == [1, 4, 6, 8]
    assert [step for step, _ in scalars(tmp_path, "evaluation/a")] == [4]


def test_lines_that_follow_each_other_quickly_reach_the_file_at_a_flush(tmp_path, monkeypatch):
    path = tmp_path / METRICS_FILE
    lines = JsonLines(path, 0)
    seen = []
    for interval in (1e9, 1e9, 0.0, 1e9):
        monkeypatch.setattr("gpu_vecenv.train.run_folder.json_lines.FLUSH_S", interval)
        lines.log(LINE)
        seen.append(len(read_metrics(path)))
    lines.flush()
    assert [*seen, len(read_metrics(path))] == [1, 1, 3, 3, 4]
    lines.close()


class Notes:
    """Sink of a user that remembers its calls."""

    def __init__(self, calls, fail=""):
        self.calls, self.fail = calls, fail

    def log(self, metrics):
        self.calls.append(("log", metrics["iteration"]))
        if self.fail == "log":
            raise RuntimeError("no room")

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.calls.append("close")


def test_a_sink_of_the_user_gets_every_iteration_and_is_closed_by_the_trainer(config, tmp_path):
    calls = []
    trainer = Trainer(dataclasses.replace(config, out=str(tmp_path / "run")), quiet=True, sinks=[Notes(calls)])
    trainer.train(2)
    assert calls == [("log", 1), ("log", 2), "flush"]
    trainer.train(1)
    trainer.close()
    assert calls[3:] == [("log", 3), "flush", "close"]
    calls.clear()
    with contextlib.closing(Trainer.resume(tmp_path / "run", quiet=True, sinks=[Notes(calls, "log")])) as trainer:
        with pytest.raises(RuntimeError, match="no room"):
            trainer.train(1)
        assert calls == [("log", 4)]
    assert calls[-1] == "close"
    assert [line["iteration"] for line in read_metrics(tmp_path / "run")] == [1, 2, 3]


def test_sinks_are_closed_if_another_cannot_be_opened(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(logger_module, "require_wandb", lambda project: None)
    monkeypatch.setattr(logger_module, "WeightsAndBiases", lambda *arguments: Notes(calls))
    monkeypatch.setattr(logger_module.tensorboard, "is_installed", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError), Logger(tmp_path, 200, quiet=True, wandb="games"):
        pass
    assert calls == ["close"]
    monkeypatch.undo()
    monkeypatch.setattr(logger_module, "JsonLines", lambda path, first: Notes(calls))
    monkeypatch.setattr(logger_module, "Terminal", lambda *arguments: 1 / 0)
    with pytest.raises(ZeroDivisionError), Logger(tmp_path, 200, quiet=True) as logger:
        logger.begin()
    assert calls == ["close", "close"]


@pytest.fixture
def small_disk():
    """Let no file of this process grow beyond 4 KiB, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("sink", ["TensorBoard", "JsonLines"])
def test_a_full_disk_is_an_error_of_the_caller_that_names_the_file(sink, small_disk, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("gpu_vecenv.train.run_folder.tensorboard.POINT_S", 0.0)
    opened = TensorBoard(tmp_path, 0) if sink == "TensorBoard" else JsonLines(tmp_path / "metrics.jsonl", 0)
    with pytest.raises(OSError, match="File too large") as caught:
        for step in range(200):
            opened.log({"iteration": step, "steps": step, "return": 0.1 * step})
        opened.flush()
    (file,) = tmp_path.iterdir()
    assert caught.value.filename == str(file)
    with contextlib.suppress(OSError):
        opened.close()
    assert capfd.readouterr().err == ""


def test_an_error_of_a_sink_that_is_closed_does_not_hide_the_error_of_the_run(tmp_path, monkeypatch):
    full = Notes([])
    full.close = fail(OSError(28, "No space left on device"))
    monkeypatch.setattr(logger_module, "JsonLines", lambda path, first: full)
    with pytest.raises(ValueError, match="of the run") as caught, Logger(tmp_path, 200, quiet=True) as logger:
        logger.begin()
        raise ValueError("of the run")
    assert caught.value.__notes__ == ["While the sinks of the metrics were closed: [Errno 28] No space left on device"]
    with pytest.raises(OSError, match="No space"), Logger(tmp_path, 200, quiet=True) as logger:
        logger.begin()


def fail(error):
    """Return a function that raises the error."""

    def raises():
        raise error

    return raises


def test_sinks_are_closed_if_the_trainer_cannot_be_made(config):
    calls = []
    with pytest.raises(PolicyMapError):
        Trainer(dataclasses.replace(config, policy_map={"nobody": "random"}), quiet=True, sinks=[Notes(calls)])
    assert calls == ["close"]


def test_all_is_stored_before_a_checkpoint_is_written(config, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(logger_module, "JsonLines", lambda path, first: Notes(calls))
    trainer = Trainer(dataclasses.replace(config, out=str(tmp_path / "run"), checkpoint_interval=4), quiet=True)
    monkeypatch.setattr(trainer._folder, "remember", lambda name: None)
    save = trainer.save
    monkeypatch.setattr(trainer, "save", lambda: (calls.append("save"), save())[1])
    trainer.train()
    logs = [("log", k) for k in range(1, 7)]
    assert calls == ["save", *logs[:4], "flush", "save", *logs[4:], "flush", "save", "close"]


@pytest.fixture
def wandb(monkeypatch):
    """Stand-in for the package wandb; ``wandb.runs`` lists what its runs got."""
    module = ModuleType("wandb")
    module.runs = []

    def init(**options):
        run = SimpleNamespace(options=options, points=[], finished=0)
        run.log = lambda values, step: run.points.append((step, values))
        run.finish = lambda: setattr(run, "finished", run.finished + 1)
        module.runs.append(run)
        return run

    module.init = init
    module.__spec__ = importlib.util.spec_from_loader("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_weights_and_biases_gets_the_metrics_by_steps_and_a_resumed_run_its_id(config, tmp_path, wandb):
    run = tmp_path / "run"
    trainer = Trainer(dataclasses.replace(config, out=str(run), wandb="games"), quiet=True)
    trainer.train(iterations=2)
    trainer.close()
    Trainer.resume(run, quiet=True).train()
    first, second = wandb.runs
    assert first.options["project"] == "games" and first.options["dir"] == str(run)
    assert first.options["config"]["env_id"] == "TagStandIn-v0" and first.options["config"]["ppo"]["num_steps"] == 10
    assert first.options["id"] == second.options["id"] == (run / ID_FILE).read_text().strip()
    assert second.options["resume"] == "allow"
    assert first.finished == second.finished == 1
    want = [(m["steps"], {name: x for name, x in m.items() if x is not None}) for m in read_metrics(run)]
    assert first.points + second.points == want
    assert [step for step, _ in want] == [trainer.steps_per_iteration * k for k in range(1, 7)]


def test_weights_and_biases_is_not_touched_unless_asked(config, tmp_path, wandb):
    Trainer(dataclasses.replace(config, out=str(tmp_path / "run")), quiet=True).train()
    assert wandb.runs == [] and not (tmp_path / "run" / ID_FILE).exists()


def test_weights_and_biases_works_without_a_folder(config, wandb):
    Trainer(dataclasses.replace(config, wandb="games"), quiet=True).train(iterations=1)
    assert "id" not in wandb.runs[0].options and len(wandb.runs[0].points) == 1


def test_a_missing_package_wandb_is_named_before_a_folder_is_made(config, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "wandb" else find(name))
    text = "wandb: expected the package wandb for the project 'games', got none: pip install wandb"
    with pytest.raises(ConfigError, match=text):
        Trainer(dataclasses.replace(config, wandb="games", out=str(tmp_path / "run")), quiet=True)
    assert not (tmp_path / "run").exists()
    saved = Trainer(config, quiet=True).save(tmp_path / "a.pt")
    with pytest.raises(ConfigError, match=text):
        Trainer.resume(saved, quiet=True, wandb="games", out=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("fails", ["wandb", "tensorboard", "on_start"])
def test_a_run_that_cannot_begin_leaves_its_folder_free(config, tmp_path, wandb, monkeypatch, fails):
    """Nothing that makes the folder one of a run is written before all sinks are open and ``on_start`` has returned."""
    config = dataclasses.replace(config, out=str(tmp_path / "run"), wandb="games")
    callback = Callback()
    with monkeypatch.context() as patched:
        if fails == "wandb":
            patched.setattr(wandb, "init", lambda **options: 1 / 0)
        elif fails == "tensorboard":
            patched.setattr(logger_module.tensorboard, "TensorBoard", lambda *arguments: 1 / 0)
        else:
            callback.on_start = lambda trainer: 1 / 0
        with contextlib.closing(Trainer(config, quiet=True, callbacks=[callback])) as trainer, pytest.raises(ZeroDivisionError):
            trainer.train()
    with contextlib.closing(Trainer(config, quiet=True)) as trainer:
        assert trainer.train(iterations=1)["iteration"] == 1


class Closed(io.StringIO):
    """Standard output of a terminal or a pipe that was closed after some writes."""

    left = 0

    def write(self, text):
        if self.left == 0:
            raise OSError(5, "Input/output error")
        self.left -= 1
        return super().write(text)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_closed_terminal_does_not_end_the_run(config, tmp_path, monkeypatch, writes):
    monkeypatch.setattr(sys, "stdout", Closed())
    sys.stdout.left = writes
    monkeypatch.setattr("gpu_vecenv.train.run_folder.progress.PLAIN_INTERVAL_S", 0.0)
    Trainer(dataclasses.replace(config, out=str(tmp_path / "run"))).train()
    assert load_checkpoint(tmp_path / "run")["iteration"] == 6


def test_the_display_ends_at_the_first_error_of_its_output(monkeypatch):
    monkeypatch.setattr("gpu_vecenv.train.run_folder.progress.PLAIN_INTERVAL_S", 0.0)
    output = Closed()
    output.left = 2  # one line: its text and its end
    terminal = Terminal(200, output, quiet=False)
    terminal.log(LINE)
    terminal.log(LINE)
    output.left = 100
    terminal.log(LINE)
    terminal.close()
    assert output.getvalue().count("120 steps") == 1
