"""The progress display, as a terminal of a given width shows it."""

import importlib.util
import io
import math
import re
import sys
import time
from types import SimpleNamespace

import pytest
from tag_stand_in import TagStandIn

from gpu_vecenv import heartbeat
from gpu_vecenv.spec.params import TIME_LIMITS
from gpu_vecenv.train import Trainer, evaluate, play
from gpu_vecenv.train.run_folder import progress
from gpu_vecenv.train.run_folder import terminal as terminal_module
from gpu_vecenv.train.run_folder.logger import Logger
from gpu_vecenv.train.run_folder.progress import Progress
from gpu_vecenv.train.runner.measure import PIECE_STEPS

TWO = ("tagger", "runner")
TEN = tuple(f"a_policy_with_quite_a_long_name_{k}" for k in range(10))


class Terminal(io.StringIO):
    """Stream that claims to be a terminal and computes the content of its screen."""

    def isatty(self):
        return True

    def screen(self, width):
        """Return the lines on the screen, and True if the cursor is visible."""
        rows, row, column, cursor = [""], 0, 0, True
        for token in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[\s\S]", self.getvalue()):
            if token == "\n":
                row, column = row + 1, 0
            elif token == "\r":
                column = 0
            elif token == "\x1b[2K":
                rows[row] = ""
            elif token.startswith("\x1b[?25"):
                cursor = token.endswith("h")
            elif token.endswith("A") and token.startswith("\x1b"):
                row -= int(token[2:-1])
            elif not token.startswith("\x1b"):
                if column == width:
                    row, column = row + 1, 0
                    rows += [""] * (row + 1 - len(rows))
                rows[row] = rows[row][:column].ljust(column) + token + rows[row][column + 1 :]
                column += 1
            rows += [""] * (row + 1 - len(rows))
        return [line.rstrip() for line in rows if line.strip()], cursor


@pytest.fixture
def clock(monkeypatch):
    """Clock whose time `now` can be set."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def open_terminal(monkeypatch, stream=Terminal, width=80, **variables):
    """Make a stream standard output. Call it in the test: pytest sets its own stream after the fixtures."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_INTERACTIVE", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": str(width), **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream())
    return sys.stdout


def train(policies, clock, iterations=(1, 2, 3)):
    """Log a run of 20 iterations of 10 s each; no episode ends in the third."""
    with Logger(None, 20_000_000) as logger:
        logger.begin()
        for k in iterations:
            clock.now = 100.0 + 10.0 * k
            metrics = {"iteration": k, "steps": 1e6 * k, "steps_per_second": 1e5}
            for n, name in enumerate(policies):
                mean = math.nan if k == 3 else n + 0.25
                metrics |= {f"return/{name}": mean, f"policy_loss/{name}": -0.0123, f"value_loss/{name}": 0.5}
            logger.log(metrics)


@pytest.mark.parametrize("policies", [TWO, TEN], ids=["two", "ten"])
@pytest.mark.parametrize("width", [80, 110, 120])
def test_training_shows_two_lines_with_the_time_left(clock, monkeypatch, width, policies):
    terminal = open_terminal(monkeypatch, width=width)
    train(policies, clock)
    first, second = terminal.screen(width)[0]
    bar, text = first.split(" ", 1)
    assert len(bar) == 20
    assert text.split("  ") == [" 15%", "3,000,000 steps", "100,000 steps/s", "0:02:50 left"]
    whole = "  ".join(f"return/{name} {n}.25" for n, name in enumerate(policies))
    whole += "  loss " + " ".join(f"{name} -0.012" for name in policies) + "  value loss" + " 0.500" * len(policies)
    assert second == (whole if len(whole) <= width else whole[: width - 1].rstrip() + "…")


def test_a_narrow_terminal_shows_two_lines(clock, monkeypatch):
    terminal = open_terminal(monkeypatch, width=40)
    train(TWO, clock)
    lines = terminal.screen(40)[0]
    assert len(lines) == 2
    assert " 15%  3,000,000 steps" in lines[0]


def test_other_output_appears_above_the_display(clock, monkeypatch):
    terminal = open_terminal(monkeypatch)
    with Progress(sys.stdout) as display:
        for k in range(1, 4):
            clock.now += 1
            display.show(k / 4, f"{k} things", "note")
            print(f"words {k}")
    lines = terminal.screen(80)[0]
    assert lines[:3] == ["words 1", "words 2", "words 3"]
    assert [line.split("  ")[-2:] for line in lines[3:]] == [["3 things", "0:00:01 left"], ["note"]]


def test_the_cursor_is_visible_while_drawing_and_after_an_interrupt(clock, monkeypatch):
    terminal = open_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), Progress(sys.stdout) as display:
        for k in range(1, 4):
            clock.now += 1
            display.show(k / 4, f"{k} things")
            assert terminal.screen(80)[1]  # a process killed here leaves a visible cursor
        raise KeyboardInterrupt
    lines, cursor = terminal.screen(80)
    assert cursor
    assert "3 things" in lines[-1]
    assert terminal.getvalue().rstrip("\x1b[?25h").endswith("\n")


def colours(text):
    return [code for codes in re.findall(r"\x1b\[([0-9;]*)m", text) for code in codes.split(";") if int(code or 0) >= 30]


def test_no_color_turns_colours_off(clock, monkeypatch):
    terminal = open_terminal(monkeypatch)
    train(TWO, clock)
    assert colours(terminal.getvalue())
    terminal = open_terminal(monkeypatch, NO_COLOR="1")
    train(TWO, clock)
    assert colours(terminal.getvalue()) == []
    assert "0:02:50 left" in terminal.screen(80)[0][0]


PLAIN = """\
  5%  1,000,000 steps  100,000 steps/s  return/a 0.25  loss a -0.012  value loss 0.500
 10%  2,000,000 steps  100,000 steps/s  0:03:00 left  return/a 0.25  loss a -0.012  value loss 0.500
 15%  3,000,000 steps  100,000 steps/s  0:02:50 left  return/a 0.25  loss a -0.012  value loss 0.500
"""


@pytest.mark.parametrize(("stream", "variables"), [(Terminal, {"TERM": "dumb"}), (io.StringIO, {"FORCE_COLOR": "1"})])
def test_plain_lines_without_a_terminal(clock, monkeypatch, stream, variables):
    stream = open_terminal(monkeypatch, stream, **variables)
    train(("a",), clock)
    assert stream.getvalue() == PLAIN


def test_plain_lines_without_rich(clock, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    terminal = open_terminal(monkeypatch)
    train(("a",), clock)
    assert terminal.getvalue() == PLAIN


PPO = {"policy_loss": -0.5, "value_loss": 0.25, "entropy": 1.0, "kl": 0.1, "grad_norm": 1.0}
SAC = {"critic_loss": 3.0, "q": -96.0, "actor_loss": 95.0, "entropy": -0.75, "temperature": 0.5, "updates": 8.0}
PQN = {"loss": 0.125, "q_value": 2.0, "grad_norm": 1.0, "learning_rate": 0.001, "epsilon": 0.5}
MINE = {"updates": 4.0, "best_fitness": 7.0, "spread": 1.5, "third": 9.0}


@pytest.mark.parametrize(
    ("algorithms", "notes"),
    [
        ({"a": SAC}, "critic loss a 3.000  Q value -96.000"),
        ({"a": PQN}, "loss a 0.125  Q value 2.000"),
        ({"a": SAC, "b": SAC}, "critic loss a 3.000 b 3.000  Q value -96.000 -96.000"),
        ({"a": PPO, "b": SAC, "c": PPO}, "loss a -0.500 c -0.500  value loss 0.250 0.250  critic loss b 3.000  Q value -96.000"),
        ({"a": SAC, "b": PPO}, "critic loss a 3.000  Q value -96.000  loss b -0.500  value loss 0.250"),
        ({"a": MINE}, "best fitness a 7.000  spread 1.500"),
        ({"a": {"only": 1.0}, "b": {"first": 2.0, "only": 3.0}}, "only a 1.000 b 3.000  first b 2.000"),
        ({"a": {"updates": 4.0}}, ""),
    ],
)
def test_lines_show_the_first_metrics_of_each_algorithm(clock, algorithms, notes):
    output = io.StringIO()
    display = terminal_module.Terminal(100, output, quiet=False)
    metrics = {"iteration": 1, "steps": 50, "steps_per_second": 10.0}
    metrics |= {f"episode_length/{name}": 9.0 for name in algorithms}
    metrics |= {"episode/tax": 3.0, "evaluation/a": 4.0, "evaluation/episode/tax": 5.0}
    metrics |= {f"{metric}/{name}": x for name, numbers in algorithms.items() for metric, x in numbers.items()}
    display.log(metrics)
    display.close()
    assert output.getvalue() == "  ".join(filter(None, [" 50%  50 steps  10 steps/s", notes])) + "\n"


def test_a_metric_without_a_value_keeps_its_last_one(clock):
    output = io.StringIO()
    display = terminal_module.Terminal(100, output, quiet=False)
    for step, loss in enumerate([math.nan, 2.0, math.nan], 1):
        clock.now += 10.0
        display.log({"steps": 10 * step, "steps_per_second": 10.0, "critic_loss/a": loss, "q/a": 4.0})
    display.close()
    ends = [line.rpartition("left  ")[2].split("  ")[-2:] for line in output.getvalue().splitlines()]
    assert ends == [["10 steps/s", "Q value a 4.000"], *[["critic loss a 2.000", "Q value 4.000"]] * 2]


def test_plain_lines_appear_every_five_seconds_and_at_the_end(clock):
    stream = io.StringIO()
    with Progress(stream) as display:
        for k in range(1, 181):
            clock.now = 100.0 + 0.1 * k
            display.show(k / 180, f"{k} things")
    assert [int(line.split()[1]) for line in stream.getvalue().splitlines()] == [50, 100, 150, 180]


def test_a_resumed_run_counts_only_its_own_time(clock):
    stream = io.StringIO()
    with Progress(stream) as display:
        for share in (0.5, 0.6):
            clock.now += 100.0
            display.show(share, "counts")
    assert stream.getvalue().splitlines()[-1] == " 60%  counts  0:06:40 left"


def test_no_output_before_the_first_show_or_when_quiet(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with Progress(io.StringIO()) as display:
        pass
    assert display.output.getvalue() == ""
    with Progress(sys.stdout, quiet=True) as display:
        display.show(1.0, "counts")
    assert terminal.getvalue() == ""


def test_evaluate_counts_episodes_on_standard_error_if_asked(config, capsys):
    silent = evaluate(config, episodes=3)
    assert capsys.readouterr() == ("", "")
    assert evaluate(config, episodes=3, progress=True) == silent
    out, error = capsys.readouterr()
    assert out == ""
    steps = int(re.match(r"100%  3 of 3 episodes  (\d+) steps  [\d,]+ steps/s$", error.splitlines()[-1])[1])
    # All worlds step to the end of the piece in which the last one ends; no episode is longer than a piece.
    assert silent.mean_length <= 7
    assert steps == 3 * PIECE_STEPS


def test_evaluate_counts_the_steps_of_all_seeds(config, monkeypatch, capsys):
    monkeypatch.setattr("gpu_vecenv.train.runner.measure.PIECE_STEPS", 1)
    monkeypatch.setattr("gpu_vecenv.train.run_folder.progress.PLAIN_INTERVAL_S", 0.0)
    evaluate(config, episodes=3, progress=True, seeds=4)
    lines = capsys.readouterr().err.splitlines()
    assert [int(re.search(r"(\d+) steps  ", line)[1]) for line in lines] == [3 * (number + 1) for number in range(len(lines))]


def test_a_trainer_shows_its_progress_unless_quiet(config, capsys):
    Trainer(config, quiet=True).train()
    assert capsys.readouterr() == ("", "")
    Trainer(config).train()
    assert "100%  240 steps" in capsys.readouterr().out


@pytest.mark.parametrize("name", TIME_LIMITS)
def test_progress_is_the_share_of_the_time_limit_until_an_episode_ends(config, clock, monkeypatch, capsys, name):
    def step(env, actions):
        clock.now += 5.0
        return plain_step(env, actions)

    plain_step = TagStandIn.step
    monkeypatch.setattr(TagStandIn, "step", step)
    monkeypatch.setattr(TagStandIn, "params", {name: 10}, raising=False)
    monkeypatch.setattr("gpu_vecenv.train.runner.measure.PIECE_STEPS", 1)
    evaluate(config, episodes=1, progress=True)
    assert [line[:4] for line in capsys.readouterr().err.splitlines()[:3]] == [" 10%", " 20%", " 30%"]


def test_play_reports_episodes_and_the_share_of_the_present_one(config, monkeypatch):
    played = []
    states = list(play(config, episodes=2, on_step=played.append))
    assert len(played) == len(states) - 2  # the first state of an episode follows no step
    assert sorted(set(played)) == [0.0, 1.0, 2.0]  # the stand-in has no parameter with the time limit
    assert played == sorted(played)
    monkeypatch.setattr(TagStandIn, "params", {"episode_length": 10}, raising=False)
    played = []
    list(play(config, episodes=1, on_step=played.append))
    assert played[:-1] == [k / 10 for k in range(1, len(played))]
    assert played[-1] == 1.0


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_long_wait_is_told(stream, monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE_S", 0.02)
    output = open_terminal(monkeypatch, stream)
    with Progress(output, task="compiling"):
        assert "compiling" in output.getvalue()
        deadline = time.monotonic() + 60.0
        while "still at work, 0 s since the last news" not in output.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "still at work, 0 s since the last news" in output.getvalue()
