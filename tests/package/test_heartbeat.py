"""The heartbeat: calls during silence, none after news or the end."""

import threading
import time

from gpu_vecenv import heartbeat
from gpu_vecenv.heartbeat import Heartbeat


def test_silence_is_broken_again_and_again(monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE_S", 0.02)
    seconds, enough = [], threading.Event()

    def beat(since):
        seconds.append(since)
        if len(seconds) == 3:
            enough.set()

    with Heartbeat(beat):
        assert enough.wait(60)
    assert 0.02 <= seconds[0] < seconds[1] < seconds[2]


def test_news_and_the_end_keep_it_quiet(monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE_S", 30.0)
    called = []
    with Heartbeat(called.append) as beats:
        beats.news()
    monkeypatch.setattr(heartbeat, "SILENCE_S", 0.01)
    time.sleep(0.05)
    assert called == []


def test_a_closed_pipe_ends_the_thread(monkeypatch):
    monkeypatch.setattr(heartbeat, "SILENCE_S", 0.01)
    threads = []

    def beat(since):
        threads.append(threading.current_thread())
        raise BrokenPipeError

    with Heartbeat(beat):
        for _ in range(6_000):
            if threads:
                break
            time.sleep(0.01)
        threads[0].join(60)
    assert len(threads) == 1 and not threads[0].is_alive()
