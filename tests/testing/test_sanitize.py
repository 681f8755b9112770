"""Reports of sanitizers in one line, with the line of the env's file."""

import subprocess
from types import SimpleNamespace

import pytest

from gpu_vecenv.testing import CheckError, NotRunError, sanitize
from gpu_vecenv.testing.sanitize import report_of

ADDRESS = """==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x55 bp 0x7f sp 0x7f
READ of size 4 at 0x60 thread T0
    #0 0x5568 in gv_load /site-packages/gpu_vecenv/kernels/state.h:31
    #1 0x5569 in meet(GvWorld const&, GvAgent const&) /home/me/harvest.cu:50
    #2 0x556a in env_step(GvWorld&) /home/me/harvest.cu:80

0x60 is located 0 bytes after 20-byte region [0x40,0x60)
allocated by thread T0 here:
    #0 0x7f in malloc (/lib/libasan.so+0xb)
"""
THREADS = """==================
WARNING: ThreadSanitizer: data race (pid=7)
  Write of size 8 at 0x7b by thread T2:
    #0 env_step(GvWorld&) /home/me/pot.cu:22 (replay+0x1)

  Previous read of size 4 at 0x7b by thread T1:
    #0 env_step(GvWorld&) /home/me/pot.cu:27 (replay+0x2)

  Location is heap block of size 12
"""
SIGNAL = """ThreadSanitizer:DEADLYSIGNAL
==7==ERROR: ThreadSanitizer: SEGV on unknown address 0x7b (pc 0x55 bp 0x7f sp 0x7f T9)
==7==The signal is caused by a READ memory access.
    #0 ground(GvWorld&, int) /home/me/harvest.cu:16 (replay+0x1)
    #1 env_observe(GvWorld&) /home/me/harvest.cu:93 (replay+0x2)
    #2 start_thread nptl/pthread_create.c:442 (libc.so.6+0x3)

ThreadSanitizer can not provide additional info.
"""
INDEX = "walk.cu:21: env_step: index -1 of axis 1 (width) of w.state.cells, which has the elements 0 to 3; step 2, world 3"
UNDEFINED = "/home/me/walk.cu:11:33: runtime error: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'\n"


@pytest.mark.parametrize(("said", "files", "words"), [
    (ADDRESS, {"harvest.cu"}, "heap-buffer-overflow: read of 4 bytes at /home/me/harvest.cu:50 in meet()"),
    (ADDRESS, {"other.cu"}, "heap-buffer-overflow: read of 4 bytes at a header of the package"),
    (THREADS, {"pot.cu"}, "data race: write of 8 bytes at /home/me/pot.cu:22 in env_step() and read of 4 bytes at "
                          "/home/me/pot.cu:27 in env_step()"),
    (f"hook fault: {INDEX}\n", {"walk.cu"}, INDEX),
    (SIGNAL, {"harvest.cu"}, "SEGV: at /home/me/harvest.cu:16 in ground()"),
    (UNDEFINED, {"walk.cu"}, "/home/me/walk.cu:11: signed integer overflow: 2147483647 + 1 cannot be represented in type 'int'"),
    ("Killed\n", {"walk.cu"}, "it ended with an error: Killed"),
])  # fmt: skip
def test_a_report_is_one_line(said, files, words):
    assert report_of(said, files) == words


@pytest.mark.parametrize(("outcome", "error", "says"), [
    (SimpleNamespace(returncode=66, stderr="FATAL: ThreadSanitizer: unexpected memory mapping 0x5"), NotRunError, "setarch -R"),
    (SimpleNamespace(returncode=1, stderr=UNDEFINED), CheckError, "walk.cu:11: signed integer overflow"),
    (subprocess.TimeoutExpired("replay", 240), CheckError, "some lanes wait at a barrier that others do not reach"),
])  # fmt: skip
def test_outcomes_of_a_replay(outcome, error, says, monkeypatch):
    def replay(*_):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(sanitize, "replay", replay)
    monkeypatch.setattr(sanitize, "build", lambda *_: None)
    with pytest.raises(error, match=says):
        sanitize.sanitize("WarpGridTag-v0", sanitize.RACES, 2, num_taggers=2)


def test_a_compiler_without_the_sanitizer_is_a_reason_not_to_run():
    with pytest.raises(NotRunError, match="does not build with -fsanitize=nothing"):
        sanitize.sanitize("WarpGridTag-v0", ("-fsanitize=nothing",), 2, num_taggers=2)
