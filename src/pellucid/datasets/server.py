"""One request to a server, and its answer, with a clear message for every failure."""

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

#: A connection without bytes for so many seconds counts as broken.
_PATIENCE = 30.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Answer:
    """The answer of a server.

    `start` is the place of its first byte, `total` the size of the file. `version` is the server's
    name for this content, as If-Range needs it. `linked_size` and `linked_sha256` are what Hugging
    Face says about a large file before it redirects to another server.
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
        """Whether its bytes continue the first `start` bytes of `version`, or are all bytes."""
        if self.start == 0:
            return not self._is_complete
        return self.start == start and self.version in (version, None)

    def blocks(self, size: int) -> Iterator[bytes]:
        """The bytes in blocks; fewer than announced if the connection ends early.

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
                f"the connection to {self._address} broke ({_reason(error)}); the downloaded bytes "
                "stay: the same command continues from there"
            ) from None

    def _refuse_other_content(self) -> None:
        kind = self._response.headers.get_content_type()
        if kind in ("text/html", "application/xhtml+xml"):
            raise _no_file(self._address)
        encoding = self._response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise TextError(
                f"the server sent {self._address} as {encoding}, which pellucid did not request: "
                "choose another source with --from"
            )


@contextmanager
def ask(address: str, *, start: int, version: str | None) -> Generator[Answer]:
    """Request a file from byte `start` on if its version is still `version`, else all of it.

    Args:
        address: the address of the file.
        start: the first missing byte.
        version: the version of the bytes so far.

    Raises:
        TextError: there is no connection, the server refuses, or it redirects from https to http.
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
            f"{address} cannot be reached ({_reason(error)}): check the connection, or choose "
            "another source with --from"
        ) from None
    with response:
        yield Answer(address, response, redirects.linked)


def _request_headers(start: int, version: str | None) -> dict[str, str]:
    headers = {"User-Agent": f"pellucid/{__version__}", "Accept-Encoding": "identity"}
    if start and version:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    return headers


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to http; stores the headers of the first."""

    def __init__(self, address: str) -> None:
        self._safe = urllib.parse.urlsplit(address).scheme == "https"
        self.linked: Message | None = None

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        scheme = urllib.parse.urlsplit(newurl).scheme
        if scheme not in ("https", "http") or (self._safe and scheme == "http"):
            raise TextError(
                f"{req.full_url} redirects to {newurl}, which is not https, so pellucid does not "
                "follow it: choose another source with --from"
            )
        if self.linked is None and "X-Linked-Size" in headers:
            self.linked = headers
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _no_file(address: str) -> TextError:
    return TextError(
        f"{address} is a web page and not a file: a login, a notice or an error; open it in a "
        "browser, or choose another source with --from"
    )


def _refused(address: str, code: int, reason: str) -> TextError:
    message = f"{address}: the server says {code} {reason}"
    if code in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE):
        return TextError(f"{message}: the file does not exist; choose another source with --from")
    if code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
        return TextError(f"{message}: it requires a login; choose another source with --from")
    return TextError(
        f"{message}; the downloaded bytes stay: try again later, or choose another source with "
        "--from"
    )


def _place(status: int, headers: Message) -> tuple[int, int | None]:
    """The place in the file where the answer begins, and the size of the file."""
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
    """A strong ETag, else the date of the last change; a weak ETag is not allowed in If-Range."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified")


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception):
        return _reason(error.reason)
    return str(error) or type(error).__name__
