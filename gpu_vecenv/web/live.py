"""The server of a run's live page: it gives pages that wait the rollouts that the trainer has recorded, and no other file."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpu_vecenv.web.loopback import Loopback, require_server

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HERE = Path(__file__).parent
FILES = {
    "": ("live.html", "text/html"),
    "live.css": ("live.css", "text/css"),
    **{name: (name, "text/javascript") for name in ("live.js", "live_panels.js", "live_replay.js", "worlds.js", "scene.js")},
}
"""Files of the page by their path, and their types."""

WAIT_S = 20.0
"""Seconds after which a page that waits hears that there is no rollout yet."""

MAX_SHOWN = 36
"""Most worlds that a page shows."""

NOTHING, ENDED = 204, 410
"""Status codes for a page that waits: there is no rollout yet; the run has ended."""


@dataclass(frozen=True)
class Wish:
    """Worlds that a page shows, and the agent that it follows."""

    worlds: tuple[int, ...]
    """Numbers of worlds, each once."""
    agent: tuple[int, int] | None = None
    """Number of one of these worlds, and of an agent in it; None follows none."""


Message = Callable[[int, int], bytes]
"""Returns recorded rollouts for a page that has the plan and the pool with these numbers."""


@dataclass(eq=False)
class _Waiting:
    """A page that waits for a rollout."""

    wish: Wish
    answer: asyncio.Future[Message | None] = field(repr=False)
    """None: the run has ended."""


class LiveServer:
    """Serves the page of a run on this machine. The trainer reads ``wish`` and calls ``give()``, and never waits for a page.

    Attributes:
        wish: what the page that has waited longest wants; None if no page waits.
    """

    def __init__(self, about: Mapping[str, Any], kernels: bytes, metrics: Callable[[int], Any], port: int = 0) -> None:
        """Start the server.

        Args:
            about: what pages show of the run, as JSON; ``num_worlds`` and ``num_agents`` bound what they may ask for.
            kernels: kernels of the env as WebAssembly.
            metrics: returns the points of the curves after an iteration, as JSON; called in the server's thread.
            port: port of this machine; 0 takes a free one.

        Raises:
            MissingExtraError: packages of the server are missing.
            ParameterError: the port is taken or not allowed.
        """
        require_server()
        self._about, self._kernels, self._metrics = about, kernels, metrics
        self.wish: Wish | None = None
        self._waiting: list[_Waiting] = []
        self._ended = False
        self._server = Loopback(self._app(), port)

    @property
    def address(self) -> str:
        """Address of the page, with the token."""
        return self._server.address

    # ---- in the trainer's thread ----------------------------------------------------------------------------------------------

    def give(self, wish: Wish, message: Message) -> None:
        """Answer the pages that have this wish; ``message`` is called in a thread of the server."""
        self._call(self._answer, wish, message)

    def close(self) -> None:
        """Tell pages that the run has ended, and end the server."""
        self._call(self._end)
        self._server.close()

    def _call(self, function: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # a closed loop has no pages
            self._server.loop.call_soon_threadsafe(function, *arguments)

    # ---- in the server's thread -----------------------------------------------------------------------------------------------

    def _answer(self, wish: Wish, message: Message) -> None:
        for page in self._waiting:
            if page.wish == wish and not page.answer.done():
                page.answer.set_result(message)
        self._next_wish()

    def _end(self) -> None:
        self._ended = True
        for page in self._waiting:
            if not page.answer.done():
                page.answer.set_result(None)
        self._next_wish()

    def _next_wish(self) -> None:
        self.wish = next((page.wish for page in self._waiting if not page.answer.done()), None)

    def _app(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.routing import Route

        sends = {"about": self._send_about, "kernels.wasm": self._send_kernels, "metrics": self._send_metrics,
                 "rollout": self._send_rollout, "{name:path}": self._send_file}  # fmt: skip
        return Starlette(routes=[Route(f"/{path}", send) for path, send in sends.items()])

    async def _send_file(self, request: Request) -> Response:
        from starlette.responses import FileResponse, Response

        if request.path_params["name"] not in FILES:
            return Response(status_code=404)
        name, kind = FILES[request.path_params["name"]]
        return FileResponse(HERE / name, media_type=kind)

    async def _send_about(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse(self._about)

    async def _send_kernels(self, request: Request) -> Response:
        from starlette.responses import Response

        return Response(self._kernels, media_type="application/wasm")

    async def _send_metrics(self, request: Request) -> Response:
        from starlette.responses import JSONResponse, Response

        try:
            after = _number(request.query_params.get("after", "0"), 2**53)
        except ValueError as error:
            return Response(str(error), status_code=400)
        return JSONResponse(self._metrics(after))

    async def _send_rollout(self, request: Request) -> Response:
        """Wait for a rollout of the page's worlds, until the page is gone or ``WAIT_S`` are over."""
        from starlette.responses import Response

        try:
            wish = self._wish_of(request)
            plan, pool = (_number(request.query_params.get(name, "0"), 2**31) for name in ("plan", "pool"))
        except ValueError as error:
            return Response(str(error), status_code=400)
        message = None if self._ended else await self._message_for(wish, request)
        if message is None:
            return Response(status_code=ENDED if self._ended else NOTHING)
        try:
            body = await asyncio.to_thread(message, plan, pool)
        except Exception as error:  # the page shows it, and the run goes on
            return Response(f"{type(error).__name__}: {error}", status_code=500)
        return Response(body, media_type="application/octet-stream")

    async def _message_for(self, wish: Wish, request: Request) -> Message | None:
        page = _Waiting(wish, asyncio.get_running_loop().create_future())
        self._waiting.append(page)
        self._next_wish()
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait((page.answer, gone), timeout=WAIT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            self._waiting.remove(page)
            self._next_wish()
        return page.answer.result() if page.answer.done() else None

    def _wish_of(self, request: Request) -> Wish:
        """Return the worlds and the agent that a page asks for.

        Raises:
            ValueError: there are none of these numbers.
        """
        query, num_worlds = request.query_params, self._about["num_worlds"]
        worlds = tuple(dict.fromkeys(_number(text, num_worlds) for text in query.get("worlds", "").split(",")))
        if len(worlds) > MAX_SHOWN:
            raise ValueError(f"worlds: expected at most {MAX_SHOWN}, got {len(worlds)}")
        if "agent" not in query:
            return Wish(worlds)
        world, _, agent = query["agent"].partition(".")
        followed = _number(world, num_worlds), _number(agent, self._about["num_agents"])
        if followed[0] not in worlds:
            raise ValueError(f"agent: expected one in the worlds {worlds}, got one in world {followed[0]}")
        return Wish(worlds, followed)


def _number(text: str, count: int) -> int:
    """Return a number below ``count``.

    Raises:
        ValueError: the text is none.
    """
    if not (text.isascii() and text.isdecimal()) or len(text) > 20 or int(text) >= count:
        raise ValueError(f"expected a number from 0 to {count - 1}, got {text[:20]!r}")
    return int(text)


async def _disconnected(request: Request) -> None:
    """Return when the other side has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def running(address: str) -> bool:
    """Return True if a server of a run answers at an address."""
    from http.client import HTTPException
    from urllib.request import ProxyHandler, build_opener

    try:
        with build_opener(ProxyHandler({})).open(f"{address}about", timeout=5) as answer:  # no proxy leads to this machine
            return "num_worlds" in json.load(answer)
    except (OSError, ValueError, HTTPException):
        return False
