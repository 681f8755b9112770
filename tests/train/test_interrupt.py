"""Signals that ask a training run to stop."""

import os
import pty
import select
import signal
import sys
from dataclasses import replace

import pytest

from gpu_vecenv.train import Trainer, load_checkpoint
from gpu_vecenv.train.runner.interrupt import StopRequest


@pytest.fixture
def counted():
    """Handlers of a user for the three signals, which count their calls."""
    calls = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, frame: calls.append(number)) for number in numbers}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_is_a_request_and_a_second_has_its_usual_effect_but_for_hangups(counted, first, second):
    with StopRequest() as stop:
        os.kill(os.getpid(), first)
        assert (stop.received, counted) == (first.name, [])
        os.kill(os.getpid(), second)
        assert stop.received == first.name
        assert counted == ([] if second == signal.SIGHUP else [second])
    counted.clear()
    for number in (first, second, signal.SIGHUP):
        os.kill(os.getpid(), number)
    assert counted == [first, second, signal.SIGHUP]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(counted, number):
    signal.signal(number, signal.SIG_IGN)
    with StopRequest() as stop:
        os.kill(os.getpid(), number)
        assert stop.received is None
    assert signal.getsignal(number) == signal.SIG_IGN


def test_a_run_whose_terminal_closes_saves_and_ends(config, tmp_path):
    """The child's terminal is a pty; when its other end closes, the system sends SIGHUP, and output raises an error."""
    run = tmp_path / "run"
    child, terminal = pty.fork()
    if child == 0:
        try:
            config = replace(config, out=str(run), total_steps=config.total_steps * 10**6, checkpoint_interval=10**6)
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.alarm(60)  # ends a child that does not stop
            sys.stdout = open(1, "w", closefd=False)  # the pty, not the file of pytest
            trainer = Trainer(config)
            trainer.train()
            trainer.close()
            os._exit(17)
        finally:
            os._exit(1)
    while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text():
        assert select.select([terminal], [], [], 60)[0]
        os.read(terminal, 1000)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert 0 < load_checkpoint(run)["iteration"] == len((run / "metrics.jsonl").read_text().splitlines())
