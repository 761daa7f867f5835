"""Clients that send half, trickle, flood or do not read: others are answered, and Ctrl-C works."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from pellucid.errors import Signalled
from pellucid.web import Session, bounds, serving
from pellucid.web.app import app

#: Seconds after which a test has failed that waits for the server.
HANGS = 20.0
HEAD = "POST /ask HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: http://127.0.0.1:{port}\r\n"


@pytest.fixture
def port(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server with little patience."""
    monkeypatch.setattr(bounds, "PATIENCE", 0.5)
    monkeypatch.setattr(bounds, "_TICK", 0.05)
    with closing(serving._bound("127.0.0.1", 0)) as bound:
        server = bounds.Server(app(session))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        yield bound.getsockname()[1]
        server.should_exit = True
        thread.join(HANGS)
        assert not thread.is_alive(), "the server did not end"


def connected(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=HANGS)
    client.settimeout(HANGS)
    return client


def sent(port: int, text: str) -> socket.socket:
    client = connected(port)
    client.sendall(text.format(port=port).encode())
    return client


def answer(client: socket.socket) -> bytes:
    """All that the server says until it closes; a reset is an end too."""
    content = b""
    try:
        while chunk := client.recv(65_536):
            content += chunk
    except ConnectionError:
        pass
    return content


def ask(port: int) -> dict[str, Any]:
    """An honest question."""
    question = '{"kind": "runs"}'
    head = f"{HEAD}content-length: {len(question)}\r\nconnection: close\r\n\r\n".format(port=port)
    with connected(port) as client:
        client.sendall((head + question).encode())
        head, _, body = answer(client).partition(b"\r\n\r\n")  # type: ignore[assignment]
    assert b" 200 " in head  # type: ignore[operator]
    return json.loads(body)


HALF = {
    "nothing": "",
    "half a line": "GET / HT",
    "half a head": "GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx: ",
    "half a body": f"{HEAD}content-length: 100\r\n\r\n" + "{{",
    "half a chunk": f"{HEAD}transfer-encoding: chunked\r\n\r\nff\r\n" + "{{",
    "a body behind an answer": "GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{",
}


@pytest.mark.parametrize("text", HALF.values(), ids=HALF)
def test_half_a_request_is_cut_off_and_does_not_keep_others_waiting(port: int, text: str) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(sent(port, text)) for _ in range(64)]
        assert ask(port)["sentence"]
        for client in clients:
            answer(client)  # it comes to an end


def send_until_cut_off(client: socket.socket, piece: bytes) -> None:
    """Send without end; the test fails if the server allows it."""
    end = time.monotonic() + HANGS
    while time.monotonic() < end:
        client.sendall(piece)
        time.sleep(0.02)


def test_a_question_that_comes_in_a_trickle_is_cut_off(port: int) -> None:
    with sent(port, HEAD + "x: ") as client, pytest.raises(ConnectionError):
        send_until_cut_off(client, b"x")


def test_a_body_without_an_end_is_refused_and_cut_off(port: int) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = f"{HEAD}transfer-encoding: chunked\r\n\r\n"
    with sent(port, head) as client, pytest.raises(ConnectionError):
        send_until_cut_off(client, chunk)
    assert ask(port)["sentence"]


@pytest.mark.parametrize("head", ["x" * 100_000, "y: z\r\n" * 20_000], ids=["long", "many"])
def test_a_huge_head_is_refused(port: int, head: str) -> None:
    with connected(port) as client:
        try:
            client.sendall(f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx: {head}".encode())
        except ConnectionError:
            return
        assert answer(client)[:12] in (b"HTTP/1.1 400", b"")
    assert ask(port)["sentence"]


def test_who_does_not_read_is_cut_off(port: int) -> None:
    get = "GET /app.js HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(8):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(HANGS)
            client.connect(("127.0.0.1", port))
            stack.enter_context(client).sendall(get.format(port=port).encode() * 100)
        assert ask(port)["sentence"]
        read = len(answer(client))  # what the system held back for us, and then its end
        assert read < 100 * 20_000


def test_idle_connections_make_room_for_a_new_one(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "PATIENCE", 1000.0)
    with ExitStack() as stack:
        clients = [stack.enter_context(connected(port)) for _ in range(bounds.MOST_CONNECTIONS)]
        assert ask(port)["sentence"]
        assert answer(clients[0]) == b""
        clients[-1].sendall(f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert clients[-1].recv(12) == b"HTTP/1.1 200"


def test_a_connection_that_is_used_stays(port: int) -> None:
    get = f"GET /nothing HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode()
    with connected(port) as client:
        for _ in range(8):  # twice the patience, and no pause as long as it
            client.sendall(get)
            content = b""
            while b"error" not in content:  # its body
                content += client.recv(65_536)
            assert content.startswith(b"HTTP/1.1 404")
            time.sleep(0.12)


@pytest.mark.parametrize("bad", ["zz\r\n", "5\r\nabc\r\n0\r\n\r\n", "-1\r\n"])
def test_a_malformed_body_is_no_traceback(
    port: int, bad: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with sent(port, f"{HEAD}transfer-encoding: chunked\r\n\r\n{bad}") as client:
        answer(client)
    assert ask(port)["sentence"]
    assert "Traceback" not in "".join(capfd.readouterr())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signal to end it with")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_whatever_clients_do(
    number: signal.Signals, session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    clients: list[socket.socket] = []

    def ready(address: str) -> None:
        threading.Thread(target=crowd, args=(int(address.rstrip("/").rpartition(":")[2]),)).start()

    def crowd(port: int) -> None:
        for text in HALF.values():
            clients.extend(sent(port, text) for _ in range(12))
        assert ask(port)["sentence"]
        os.kill(os.getpid(), number)

    with handler_of(number, signal.default_int_handler):
        expected: type[BaseException] = KeyboardInterrupt if number == 2 else Signalled
        with pytest.raises(expected):
            serving.serve(session, port=0, ready=ready)
        assert signal.getsignal(number) is signal.default_int_handler
    for client in clients:
        client.close()
    assert "".join(capfd.readouterr()) == ""


def handler_of(number: int, handler: Callable[..., object]) -> ExitStack:
    stack = ExitStack()
    stack.callback(signal.signal, number, signal.signal(number, handler))
    return stack
