"""The server of live pages: what it serves, whom it refuses, and that pages that come, go or stay silent do not hold it up."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from http.client import HTTPConnection

import pytest

from gpu_vecenv.errors import MissingExtraError, ParameterError
from gpu_vecenv.web import live, loopback
from gpu_vecenv.web.live import ENDED, FILES, HERE, NOTHING, LiveServer, Wish, running

ABOUT = {"num_worlds": 8, "num_agents": 3}


@pytest.fixture
def server():
    with contextlib.closing(LiveServer(ABOUT, b"kernels", lambda after: [{"iteration": after + 1}])) as serving:
        yield serving


def address_of(server):
    port, token = server.address.removeprefix("http://127.0.0.1:").rstrip("/").split("/")
    return int(port), f"/{token}"


def ask(server, path, token=None, headers=(), method="GET"):
    """Status, headers and body of an answer."""
    port, known = address_of(server)
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, f"{known if token is None else token}{path}", headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_it_serves_its_files_and_nothing_else(server):
    for path, (name, kind) in FILES.items():
        status, headers, body = ask(server, f"/{path}")
        assert (status, body) == (200, (HERE / name).read_bytes()) and headers["content-type"].startswith(kind)
        assert headers["cache-control"] == "no-store" and headers["referrer-policy"] == "no-referrer"
    assert json.loads(ask(server, "/about")[2]) == ABOUT
    assert ask(server, "/kernels.wasm")[2] == b"kernels"
    assert json.loads(ask(server, "/metrics?after=4")[2]) == [{"iteration": 5}]
    for path in ("/live.py", "/../live.py", "/%2e%2e/live.py", "/..%2flive.py", "//live.py", "/live.js/", "/js/live.js"):
        assert ask(server, path)[0] == 404, path
    assert ask(server, "/about", method="POST")[0] == 405
    for path in ("/metrics?after=x", "/metrics?after=-1"):
        assert ask(server, path)[0] == 400


def test_it_refuses_wrong_tokens_and_requests_of_other_sites(server):
    (port, known), name = address_of(server), "127.0.0.1"
    for token in ("", "/", "/x", known[:-1], f"{known}x", "/%e9", "/%ff"):
        assert ask(server, "/about", token=token)[0] == 404, token
    for host in ("example.org", f"example.org:{port}", "127.0.0.1.example.org:80", name, "", "::1", f"127.0.0.1:{port}:x"):
        assert ask(server, "/about", headers={"Host": host})[0] in (400, 403), host
    for origin in ("http://example.org", "null", f"http://{name}:1", f"https://{name}:{port}"):
        assert ask(server, "/about", headers={"Origin": origin})[0] == 403, origin
    for host in (f"{name}:{port}", "localhost:9000", "[::1]:80"):  # a forwarded port has another number
        assert ask(server, "/about", headers={"Host": host, "Origin": f"http://{host}"})[0] == 200, host


WRONG = ("", "?worlds=", "?worlds=8", "?worlds=-1", "?worlds=1,", "?worlds=1&agent=1", "?worlds=1&agent=2.0",
         "?worlds=1&agent=1.3", "?worlds=1&agent=1.0&plan=x", "?worlds=1&pool=-1", f"?worlds={'9' * 100}",
         "?worlds=%D9%A1")  # fmt: skip


@pytest.mark.parametrize("query", WRONG)
def test_a_wish_for_what_there_is_not_is_refused(server, query):
    assert ask(server, f"/rollout{query}")[0] == 400
    assert server.wish is None


def test_at_most_some_worlds_are_shown(monkeypatch, server):
    monkeypatch.setattr(live, "MAX_SHOWN", 2)
    status, _, body = ask(server, "/rollout?worlds=1,2,3")
    assert (status, body) == (400, b"worlds: expected at most 2, got 3")


def in_threads(server, *paths):
    """Ask for paths at once; returns the threads and the list of their answers."""
    answers = []
    threads = [threading.Thread(target=lambda path=path: answers.append(ask(server, path))) for path in paths]
    for thread in threads:
        thread.start()
    return threads, answers


def test_pages_get_what_they_wish_the_one_that_has_waited_longest_first(server):
    first, _ = in_threads(server, "/rollout?worlds=1,2&agent=2.0&plan=3&pool=4")
    until(lambda: server.wish == Wish((1, 2), (2, 0)))
    second, answers = in_threads(server, "/rollout?worlds=7")
    given = []
    server.give(Wish((5,)), lambda *numbers: b"for none")
    server.give(Wish((1, 2), (2, 0)), lambda *numbers: given.append(numbers) or b"rollouts")
    first[0].join()
    assert given == [(3, 4)]
    until(lambda: server.wish == Wish((7,)))
    server.give(Wish((7,)), lambda *numbers: 1 / 0)
    second[0].join()
    assert answers[0][0] == 500 and answers[0][2] == b"ZeroDivisionError: division by zero"
    until(lambda: server.wish is None)


def test_a_page_hears_that_there_is_nothing_new_and_that_the_run_has_ended(monkeypatch, server):
    monkeypatch.setattr(live, "WAIT_S", 0.05)
    assert ask(server, "/rollout?worlds=1")[0] == NOTHING
    monkeypatch.setattr(live, "WAIT_S", 60)
    threads, answers = in_threads(server, "/rollout?worlds=1")
    until(lambda: server.wish is not None)
    server.close()
    threads[0].join()
    assert answers[0][0] == ENDED
    assert not running(server.address)
    server.give(Wish((1,)), lambda *numbers: b"")  # a run that goes on behind its page


def test_a_page_that_is_gone_wishes_nothing(server):
    port, token = address_of(server)
    with socket.create_connection(("127.0.0.1", port)) as page:
        page.sendall(f"GET {token}/rollout?worlds=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        until(lambda: server.wish is not None)
    until(lambda: server.wish is None)


MALFORMED = (b"\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x00\xff", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n",
             b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1:1\r\n\r\n", b"A" * 100_000)  # fmt: skip


def test_malformed_requests_and_silent_connections_leave_room_for_a_page(monkeypatch, server, capfd):
    monkeypatch.setattr(loopback, "MAX_CONNECTIONS", 4)
    port, _ = address_of(server)
    for request in MALFORMED:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(request)
                connection.settimeout(5)
                assert not connection.recv(12).startswith(b"HTTP/1.1 200")
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    with socket.create_connection(("127.0.0.1", port), timeout=5) as beyond:
        beyond.settimeout(5)
        with contextlib.suppress(ConnectionResetError):
            assert beyond.recv(1) == b""  # closed at once
    for connection in silent:
        connection.close()
    until(lambda: _answers(server))
    assert capfd.readouterr() == ("", "")


def _answers(server):
    with contextlib.suppress(OSError):
        return ask(server, "/about")[0] == 200
    return False


def test_an_answer_that_nobody_reads_holds_nobody_up(server):
    port, token = address_of(server)
    with socket.socket() as page:
        page.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        page.connect(("127.0.0.1", port))
        page.sendall(f"GET {token}/rollout?worlds=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        until(lambda: server.wish is not None)
        server.give(Wish((1,)), lambda *numbers: bytes(20_000_000))
        until(lambda: server.wish is None)
        assert ask(server, "/about")[0] == 200
        started = time.monotonic()
        server.close()
        assert time.monotonic() - started < 9


def test_a_taken_port_is_an_error_with_its_number(server):
    port, _ = address_of(server)
    with pytest.raises(ParameterError, match=f"live: expected a free port of this machine, or 0 for any, got {port}: "):
        LiveServer(ABOUT, b"", lambda after: [], port)


def test_without_the_extra_its_name_is_in_the_error(monkeypatch):
    monkeypatch.setattr(loopback, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'live pages need the extra "web": pip install'):
        LiveServer(ABOUT, b"", lambda after: [])


async def come_and_go(port, path, count):
    """Connect and vanish, fifteen at a time, because a socket has a queue of sixteen.

    Some go without a word, some in the middle of a request, some while they wait.
    """

    async def page(number):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
            writer.write(request[: (number % 3) * len(request) // 2])
            await asyncio.sleep(0.001 * (number % 5))
            writer.transport.abort()

    for first in range(0, count, 15):
        await asyncio.gather(*(page(number) for number in range(first, min(count, first + 15))))


def test_browsers_that_vanish_leave_nothing_behind(server):
    port, token = address_of(server)
    asyncio.run(come_and_go(port, f"{token}/rollout?worlds=1", 300))
    until(lambda: server.wish is None and not server._waiting)
    assert ask(server, "/about")[0] == 200
