"""Access to the page's server: headers and refusals.

The page may run and fetch only its own files: `default-src 'self'`. The host header refuses names
that another site points here (DNS rebinding), and the origin header refuses forms of other sites.
On a wider address clients need the token.

Programs that are no browsers send no origin. Routes for them take requests without one, but only
JSON, which no page of another site can send here without asking first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pellucid.catalogue import message as page_message

#: No content from other sites, no inline scripts, no frame around the page.
POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-cache"),
)
LOCAL = ("127.0.0.1", "localhost", "[::1]")
_COOKIE = "pellucid-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRoutes:
    """Routes for programs, in addition to the page.

    Attributes:
        routes: the routes.
        prefix: how the paths begin that take requests without an origin.
        open_paths: paths that need no token.
        refuse: a refusal of theirs from a message and a status.
    """

    routes: Sequence[BaseRoute] = ()
    prefix: str = "/v1/"
    open_paths: Sequence[str] = ("/healthz",)
    refuse: Callable[[str, int], Response]


class Guard:
    """Refuses clients without access, and adds the headers to every response."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Sequence[str],
        token: str | None,
        programs: ProgramRoutes | None = None,
    ) -> None:
        self._app, self._hosts, self._token = app, tuple(hosts), token
        self._programs = programs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        cookies: list[tuple[bytes, bytes]] = []

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS, *cookies]
            await send(message)

        programs = self._programs
        for_programs = programs is not None and scope["path"].startswith(programs.prefix)
        refusal = self._refusal(scope, headers, for_programs=for_programs)
        if refusal is not None:
            refuse = programs.refuse if programs is not None and for_programs else _page_refusal
            await refuse(*refusal)(scope, receive, with_headers)
            return
        if self._token is not None and _is_secret(_read_token(scope), self._token):
            cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            cookies.append((b"set-cookie", cookie.encode()))
        await self._app(scope, receive, with_headers)

    def _refusal(
        self, scope: Scope, headers: dict[str, str], *, for_programs: bool
    ) -> tuple[str, int] | None:
        """Why a request is refused, and the status; None if it is not."""
        host = _without_port(headers.get("host", ""))
        if host not in self._hosts:
            return page_message("wrong-host", host=repr(host)), 403
        if _is_foreign(scope["method"], headers, for_programs=for_programs):
            return page_message("wrong-origin"), 403
        open_paths = () if self._programs is None else self._programs.open_paths
        if self._token is None or scope["path"] in open_paths:
            return None
        if not self._has_token(scope, headers):
            return page_message("no-token"), 401 if for_programs else 403
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self._token is not None
        pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        cookies = [value for name, _, value in pairs if name == _COOKIE]
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        tokens = [*cookies, _read_token(scope), bearer if scheme.lower() == "bearer" else ""]
        matches = [_is_secret(token, self._token) for token in tokens]
        return any(matches)


def _page_refusal(text: str, status: int) -> Response:
    return JSONResponse({"error": text}, status_code=status)


def _is_secret(token: str, secret: str) -> bool:
    """Whether a token is the secret; the time to compare tells nothing about it."""
    return secrets.compare_digest(token.encode(), secret.encode())


def _is_foreign(method: str, headers: dict[str, str], *, for_programs: bool) -> bool:
    """Whether a page of another site may have sent the request."""
    origin, only_reads = headers.get("origin"), method in ("GET", "HEAD")
    if origin is not None and urlsplit(origin).netloc != headers.get("host"):
        return True
    if for_programs:  # a browser says where a request comes from, a program does not
        return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    return origin is None and not only_reads


def _read_token(scope: Scope) -> str:
    """The token in the address, or empty."""
    return parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
