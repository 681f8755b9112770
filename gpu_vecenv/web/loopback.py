"""A server for pages on this machine: in a thread of its own, with a token in its address, closed to other sites."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gpu_vecenv.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine. A page of another site may reach the server by a name of that site, but not by one of these."""

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src data:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The address holds the token, so no other site may learn it, show the page in a frame or add code to it."""

MAX_CONNECTIONS, BACKLOG = 64, 16
"""Connections at a time, and those that wait; the process needs its file descriptors for other files."""


def require_server() -> None:
    """Raise MissingExtraError if the packages of the server are missing."""
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtraError('live pages need the extra "web": pip install "gpu_vecenv[web]".')


class Loopback:
    """Serves an application at ``http://127.0.0.1:PORT/TOKEN/``, of which it sees the path behind the token.

    Attributes:
        address: the address, with the token.
        loop: event loop of the server's thread.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        """Start the server.

        Args:
            app: the application.
            port: port of this machine; 0 takes a free one.

        Raises:
            ParameterError: the port is taken or not allowed.
        """
        import uvicorn

        self._socket, token = _listening(port), secrets.token_urlsafe(24)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/{token}/"
        self.loop = asyncio.new_event_loop()
        options = uvicorn.Config(
            _Guard(app, token), http=_limited_protocol(), ws="none", lifespan="off", interface="asgi3", log_config=None,
            log_level="critical", access_log=False, server_header=False, date_header=False, timeout_keep_alive=5,
            timeout_graceful_shutdown=1, backlog=BACKLOG,
        )  # fmt: skip
        self._closing = asyncio.Event()
        self._server = _server(options, self._closing)
        self._thread = threading.Thread(target=self._serve, name="gpu_vecenv live", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server, after the answers that are under way."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(timeout=10)
        self._socket.close()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._server.serve([self._socket]))
        finally:
            self.loop.close()


def _server(options: uvicorn.Config, closing: asyncio.Event) -> uvicorn.Server:
    """Return a server that runs until ``closing`` is set. uvicorn's own loop wakes ten times a second."""
    import uvicorn

    class Waiting(uvicorn.Server):
        async def main_loop(self) -> None:
            await closing.wait()

    return Waiting(options)


def _listening(port: int) -> socket.socket:
    """Return a socket that listens to a port of this machine alone."""
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ParameterError(f"live: expected a free port of this machine, or 0 for any, got {port}: {error}.") from error
    return listening


def _limited_protocol() -> Any:
    """Return uvicorn's protocol with a limit of connections. Its own limit answers those above it, and keeps them open."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Limited(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) < MAX_CONNECTIONS:
                super().connection_made(transport)
            else:
                self.transport = transport
                transport.abort()

    return Limited


class _Guard:
    """Refuses requests without the token, by a name that is not this machine's, or from a page of another address."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import Response

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *((a.lower().encode(), b.encode()) for a, b in HEADERS.items())]
            await send(message)

        token, slash, rest = scope["path"].removeprefix("/").partition("/")
        app: ASGIApp = self._app
        if not _from_here(scope):
            app = Response(status_code=403)
        elif not slash or not hmac.compare_digest(token.encode(), self._token):
            app = Response(status_code=404)
        await app({**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode()}, receive, send_with_headers)


def _from_here(scope: Scope) -> bool:
    """True if a request has one name of this machine, and comes from no page or from one of this server."""
    values = [[value.decode("latin-1") for name, value in scope["headers"] if name == each] for each in (b"host", b"origin")]
    (host, *repeated), origins = values[0] or [""], values[1]
    name, _, port = host.rpartition(":")
    return not repeated and name in HOSTS and port.isdecimal() and all(origin == f"http://{host}" for origin in origins)
