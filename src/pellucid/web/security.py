"""Access to the page's server: headers and refusals.

The page may run and fetch only its own files: `default-src 'self'`. The host header refuses names
that another site points here (DNS rebinding), and the origin header refuses forms of other sites.
On a wider address clients need the token.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pellucid.web.assets import message as page_message

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


class Guard:
    """Refuses clients without access, and adds the headers to every response."""

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str], token: str | None) -> None:
        self._app, self._hosts, self._token = app, tuple(hosts), token

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

        refusal = self._refusal(scope, headers)
        if refusal is not None:
            response = JSONResponse({"error": refusal}, status_code=403)
            await response(scope, receive, with_headers)
            return
        if self._token is not None and _read_token(scope) == self._token:
            cookie = f"{_COOKIE}={self._token}; HttpOnly; SameSite=Strict; Path=/"
            cookies.append((b"set-cookie", cookie.encode()))
        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> str | None:
        host = _without_port(headers.get("host", ""))
        if host not in self._hosts:
            return page_message("wrong-host", host=repr(host))
        if scope["method"] == "POST":
            origin = headers.get("origin")
            if origin is None or urlsplit(origin).netloc != headers.get("host"):
                return page_message("wrong-origin")
        if self._token is not None and not self._has_token(scope, headers):
            return page_message("no-token")
        return None

    def _has_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self._token is not None
        pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        cookies = [value for name, _, value in pairs if name == _COOKIE]
        tokens = [*cookies, _read_token(scope)]
        return any(secrets.compare_digest(token.encode(), self._token.encode()) for token in tokens)


def _read_token(scope: Scope) -> str:
    """The token in the address, or empty."""
    return parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]
