"""A server on this machine that gives a file, and can be set to do it badly."""

from __future__ import annotations

import re
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Server:
    """What it gives, and how; `asked` is what it was asked, the headers of each request."""

    content: bytes = b""
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    ifs: bool = True
    length: bool = True
    #: how many bytes are sent before the connection is cut, for one request after the other
    cuts: list[int] = field(default_factory=list)
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    #: headers of a redirect that comes first
    redirect: dict[str, str] | None = None
    #: set by a test: after this, the server sends the bytes that a cut held back
    hang: threading.Event | None = None
    asked: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    sent: int = 0
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """One request."""
        request_headers = {name.lower(): value for name, value in handler.headers.items()}
        self.paths.append(handler.path)
        if self.redirect is not None and not handler.path.startswith("/elsewhere"):
            handler.send_response(302)
            redirect_headers = {"Location": f"{self.url}/elsewhere", "Content-Length": "0"}
            self._head(handler, redirect_headers | self.redirect)
            return
        self.asked.append(request_headers)
        start = self._start(request_headers)
        total = len(self.content)
        if start is not None and start >= total:
            handler.send_response(416)
            self._head(handler, {"Content-Range": f"bytes */{total}", "Content-Length": "0"})
            return
        body = self.content[start or 0 :]
        handler.send_response(206 if start is not None else self.status)
        answer_headers = {"Content-Type": "text/plain"}
        if self.length:
            answer_headers["Content-Length"] = str(len(body))
        if start is not None:
            answer_headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        for name, value in (("ETag", self.etag), ("Last-Modified", self.modified)):
            if value is not None:
                answer_headers[name] = value
        self._head(handler, answer_headers | self.headers)
        self._send(handler, body)

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        first = self.cuts.pop(0) if self.cuts else len(body)
        self.sent += len(body[:first])  # before whoever asked can have it, and look here
        handler.wfile.write(body[:first])
        handler.wfile.flush()
        if self.hang is not None and first < len(body):
            self.hang.wait(30)
        handler.close_connection = True

    def _start(self, asked: dict[str, str]) -> int | None:
        match = re.fullmatch(r"bytes=(\d+)-", asked.get("range", ""))
        fits = asked.get("if-range") in (self.etag, self.modified) or not self.ifs
        return int(match[1]) if match and self.ranges and fits else None

    def _head(self, handler: BaseHTTPRequestHandler, headers: dict[str, str]) -> None:
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()


@contextmanager
def serving(server: Server) -> Generator[Server]:
    """Let `server` answer on 127.0.0.1; it knows its address as `url`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with suppress(ConnectionError):  # whoever asked has left
                server.answer(self)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            if server.hang is not None:
                server.hang.set()
            http.shutdown()
            thread.join()
