"""One request to a server, and its answer read so that every way to fail has a name."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

from pellucid.errors import TextError
from pellucid.version import __version__

#: Seconds of silence after which a connection counts as broken.
_PATIENCE = 30.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Answer:
    """What a server gives: `start` is the place of its first byte, `total` the size of the file.

    `version` is what it calls this content, fit for If-Range; `linked_size` and `linked_sha256` are
    what Hugging Face says of a large file before it sends one elsewhere for it.
    """

    def __init__(self, address: str, response: Any, linked: Message | None) -> None:
        self._address, self._response = address, response
        headers: Message = response.headers
        self.start, self.total = _place(response.status, headers)
        self._is_complete = response.status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        if not self._is_complete:
            self._refuse_other_content()
        self.version = _version(headers)
        self.linked_size = _number((linked or headers).get("X-Linked-Size"))
        tag = ((linked or headers).get("X-Linked-ETag") or "").strip('"').lower()
        self.linked_sha256 = tag if _SHA256.fullmatch(tag) else None

    def continues(self, start: int, version: str | None) -> bool:
        """Whether its bytes can be written behind the first `start` of `version`, or are all."""
        if self.start == 0:
            return not self._is_complete
        return self.start == start and self.version in (version, None)

    def blocks(self, size: int) -> Iterator[bytes]:
        """The bytes as they come; fewer than were promised where the connection ends early.

        Raises:
            TextError: the connection broke, or they are a web page.
        """
        first = self.start == 0
        try:
            while not self._is_complete and (block := self._response.read(size)):
                if first and block[:64].lstrip().lower().startswith((b"<!doctype html", b"<html")):
                    raise _no_file(self._address)
                first = False
                yield block
        except (http.client.HTTPException, OSError) as error:
            raise TextError(
                f"the connection to {self._address} broke ({_reason(error)}); what has come "
                "is kept: the same command goes on from there"
            ) from None

    def _refuse_other_content(self) -> None:
        kind = self._response.headers.get_content_type()
        if kind in ("text/html", "application/xhtml+xml"):
            raise _no_file(self._address)
        encoding = self._response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise TextError(
                f"{self._address} was sent as {encoding} though nobody asked for that: its bytes "
                "cannot be counted; take it from elsewhere with --from"
            )


@contextmanager
def ask(address: str, *, start: int, version: str | None) -> Generator[Answer]:
    """Ask for a file from byte `start` on, if it still is `version`; for all of it otherwise.

    Raises:
        TextError: no connection, a refusal, or a way that is not safe.
    """
    redirects = _Redirects(address)
    request = urllib.request.Request(address, headers=_request_headers(start, version))
    try:
        response: Any = urllib.request.build_opener(redirects).open(request, timeout=_PATIENCE)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            error.close()
            raise _refused(address, error.code, error.reason) from None
        response = error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise TextError(
            f"{address} cannot be reached ({_reason(error)}): look at the connection, or take the "
            "file from elsewhere with --from"
        ) from None
    with response:
        yield Answer(address, response, redirects.linked)


def _request_headers(start: int, version: str | None) -> dict[str, str]:
    headers = {"User-Agent": f"pellucid/{__version__}", "Accept-Encoding": "identity"}
    if start and version:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    return headers


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to http; keeps the first one's word on the file."""

    def __init__(self, address: str) -> None:
        self._safe = urllib.parse.urlsplit(address).scheme == "https"
        self.linked: Message | None = None

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("https", "http") or (self._safe and scheme == "http"):
            raise TextError(
                f"{req.full_url} leads to {newurl}, which is not https: it is not followed; take "
                "the file from elsewhere with --from"
            )
        if self.linked is None and "X-Linked-Size" in headers:
            self.linked = headers
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _no_file(address: str) -> TextError:
    return TextError(
        f"{address} gave a web page and not a file: a login, a notice or an error; look at it in a "
        "browser, or take the file from elsewhere with --from"
    )


def _refused(address: str, code: int, reason: str) -> TextError:
    message = f"{address}: the server says {code} {reason}"
    if code in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE):
        return TextError(f"{message}: the file is not there; take it from elsewhere with --from")
    if code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
        return TextError(
            f"{message}: it wants to know who asks; take it from elsewhere with --from"
        )
    return TextError(
        f"{message}; what has come is kept: try again later, or take it from elsewhere with --from"
    )


def _place(status: int, headers: Message) -> tuple[int, int | None]:
    """Where in the file the answer begins, and how long the file is."""
    if status == http.HTTPStatus.PARTIAL_CONTENT:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        if match is None:
            raise TextError("the server gave a part of the file without saying which: try again")
        return int(match[1]), _number(match[2])
    if status == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        size = _number(headers.get("Content-Range", "").removeprefix("bytes */"))
        return size or 0, size
    return 0, _number(headers.get("Content-Length"))


def _version(headers: Message) -> str | None:
    """A strong ETag, or else the date of the last change; a weak ETag may not be resumed by."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        return _reason(error.reason)
    return str(error) or type(error).__name__
