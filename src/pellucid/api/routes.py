"""The routes of the API: `/v1`, `/healthz` and `/metrics`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pellucid.api.answers import Answer
from pellucid.api.models import ServedModels
from pellucid.api.plan import Plan, make_plan
from pellucid.api.refusals import ApiError, broken
from pellucid.api.requests import ApiRequest, parse_chat, parse_completion
from pellucid.api.sending import EventStream, collect, error_event, open_jobs
from pellucid.errors import PellucidError
from pellucid.reader import decode_text, parse_json, short

_log = logging.getLogger(__name__)

#: Bytes of a request; a long conversation has some hundred thousand.
_LARGEST_BODY = 4_000_000
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_Handler = Callable[[Request], Awaitable[Response]]


def api_routes(models: ServedModels) -> list[Route]:
    """The routes over these models."""
    metrics = models.metrics

    def handled(route: str, handler: _Handler) -> _Handler:
        """A handler that answers every error in OpenAI's shape, and counts the request."""

        async def handle(request: Request) -> Response:
            try:
                response = await handler(request)
            except ClientDisconnect:
                response = Response(status_code=499)
            except ApiError as error:
                response = error.response()
            except PellucidError as error:
                response = ApiError(str(error)).response()
            except Exception:
                _log.exception("unanswered")
                response = broken().response()
            metrics.count_request(route, response.status_code)
            return response

        return handle

    async def list_models(request: Request) -> Response:
        cards = [model.card() for model in models.by_name.values()]
        return JSONResponse({"object": "list", "data": cards})

    async def show_model(request: Request) -> Response:
        return JSONResponse(models.get(request.path_params["name"]).card())

    async def complete(request: Request) -> Response:
        return await _write(request, models, parse_completion)

    async def chat(request: Request) -> Response:
        return await _write(request, models, parse_chat)

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def show_metrics(request: Request) -> Response:
        return PlainTextResponse(metrics.text(), media_type=_METRICS_TYPE)

    every_method = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
    handlers: list[tuple[str, str, _Handler]] = [
        ("GET", "/v1/models", list_models),
        ("GET", "/v1/models/{name:path}", show_model),
        ("POST", "/v1/completions", complete),
        ("POST", "/v1/chat/completions", chat),
        ("GET", "/healthz", health),
        ("GET", "/metrics", show_metrics),
    ]
    paths = [Route(path, handled(path, call), methods=[method]) for method, path, call in handlers]
    other = Route("/v1/{path:path}", handled("/v1/", _unknown), methods=every_method)
    return [*paths, other]


async def _unknown(request: Request) -> Response:
    return ApiError(
        f"there is no route {request.method} {short(request.url.path)[1:-1]}: this server has "
        "/v1/models, /v1/completions and /v1/chat/completions",
        status=404,
        code="unknown_route",
    ).response()


async def _write(
    request: Request, models: ServedModels, parse: Callable[[object], ApiRequest]
) -> Response:
    """Answer a request for texts: whole, or as a stream of events.

    For the page, which alone sends an origin, a refusal is an event: a browser logs a status.
    """
    parsed = parse(await _json(request))
    served = models.get(parsed.model)

    def prepare() -> Plan:
        return make_plan(parsed, served.opened())

    try:
        plan = await run_sync(prepare)
        answer = Answer(plan)
        jobs = open_jobs(plan)
    except ApiError as error:
        if parsed.stream and "origin" in request.headers:
            return error_event(error)
        raise
    if parsed.stream:
        return EventStream(request, answer, jobs, include_usage=parsed.usage)
    return JSONResponse(await collect(request, answer, jobs))


async def _json(request: Request) -> object:
    """The body of a request.

    A web page of another site can send other types of content without asking; JSON it cannot.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiError(
            f"the content type is {short(kind)}: send JSON as application/json", status=415
        )
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _LARGEST_BODY:
            raise ApiError(
                f"the request has more than {_LARGEST_BODY:,} bytes: shorten it", status=413
            )
    try:
        return parse_json(decode_text(bytes(body), "the request"), "the request")
    except PellucidError as error:
        raise ApiError(str(error), code="invalid_json") from None
