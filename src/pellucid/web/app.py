"""The HTTP application: requests of the page, and its files.

Work runs in a thread, one request at a time. A few requests wait; more get the answer that the page
is busy. If the browser gives up, the work stops at the next layer.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Sequence

import anyio
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.reader import decode_text, parse_json
from pellucid.web.assets import files
from pellucid.web.cancellation import Stopped, stop
from pellucid.web.json_payload import text_of, with_messages
from pellucid.web.requests import PageRequest, RequestError, parse_request
from pellucid.web.security import LOCAL, Guard, ProgramRoutes
from pellucid.web.session import Session

_log = logging.getLogger(__name__)

#: Most requests that are worked on or wait, from all clients.
MAX_REQUESTS = 16
#: Bytes of a request, which is a sentence and a few numbers.
_LARGEST_QUESTION = 200_000
#: Pages besides the first: the lessons, and the textbook.
_PAGES: dict[str, str] = dict.fromkeys(("learn", "concept"), "learn/learn.html")


def app(
    session: Session,
    *,
    hosts: Sequence[str] = LOCAL,
    token: str | None = None,
    programs: ProgramRoutes | None = None,
) -> Starlette:
    """The application.

    Args:
        session: Answers the requests.
        hosts: The host names that it answers to.
        token: A secret that every client has to send; None for none.
        programs: Routes for programs, which the same guard protects.
    """
    assets = files()
    places = anyio.CapacityLimiter(MAX_REQUESTS)

    async def page(request: Request) -> Response:
        name: str = request.path_params.get("name", "index.html")
        asset = assets.get(_PAGES.get(name, name))
        if asset is None:
            return _refused(message("no-page"), 404)
        return Response(asset.content, media_type=asset.kind)

    async def ask(request: Request) -> Response:
        # read it first: an incomplete request takes no place of another
        try:
            question = parse_request(_read(await _body(request)))
        except PellucidError as error:
            return _refused(text_of(error), 400)
        except ClientDisconnect:
            return Response(status_code=499)
        if places.available_tokens < 1:
            return _refused(message("busy"), 503)
        async with places:
            try:
                return await _answered(request, session, question)
            except Stopped:
                return Response(status_code=499)
            except PellucidError as error:
                # a valid request without an answer, such as half a sentence: nothing failed
                return _refused(text_of(error), 200)
            except Exception:
                _log.exception("unanswered")
                return _refused(message("broken"), 500)

    return Starlette(
        routes=[
            *(() if programs is None else programs.routes),
            Route("/", page),
            Route("/ask", ask, methods=["POST"]),
            Route("/{name:path}", page),
        ],
        middleware=[
            Middleware(Guard, hosts=hosts, token=token, programs=programs),
            Middleware(GZipMiddleware, minimum_size=1000, compresslevel=7),
        ],
    )


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_QUESTION:
            raise RequestError(message("too-long"))
    return bytes(body)


def _read(body: bytes) -> object:
    try:
        return parse_json(decode_text(body, message("request")), message("request"))
    except PellucidError as error:
        raise RequestError(message("unreadable", error=error)) from None


async def _answered(request: Request, session: Session, question: PageRequest) -> Response:
    """Work in a thread, and stop if the browser has gone."""
    given_up = threading.Event()
    answers: list[bytes] = []

    def work() -> bytes:
        stop.set(given_up)
        return contextvars.copy_context().run(session.answer, question)

    async def watch(finished: anyio.Event) -> None:
        while not finished.is_set():
            if await request.is_disconnected():
                given_up.set()
                return
            with anyio.move_on_after(0.2):
                await finished.wait()

    failed: list[Exception] = []
    finished = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(watch, finished)
        try:
            answers.append(await run_sync(work))
        except Exception as error:  # raise it itself, not in a group of errors
            failed.append(error)
        finished.set()
    if failed:
        raise failed[0]
    return Response(answers[0], media_type="application/json")


def _refused(text: str, status: int) -> Response:
    return JSONResponse(with_messages({"error": text}), status_code=status)
