"""The server: its headers, what it refuses, how it waits and how it stops."""

from __future__ import annotations

import gzip
import json
import mimetypes
import socket
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from pellucid.errors import PellucidError
from pellucid.web import Session
from pellucid.web.app import MAX_REQUESTS, app
from pellucid.web.assets import files
from pellucid.web.serving import serve

HERE = "http://127.0.0.1:7357"


def test_the_page_and_its_files_are_served_as_what_they_are(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a system may hold that JavaScript is text; a browser would refuse to run it
    mimetypes.add_type("text/plain", ".js")
    try:
        index = client.get("/")
        assert index.headers["content-type"] == "text/html; charset=utf-8"
        script = client.get("/app.js")
        assert script.headers["content-type"] == "text/javascript; charset=utf-8"
        assert client.get("/app.css").headers["content-type"] == "text/css; charset=utf-8"
    finally:
        mimetypes.add_type("text/javascript", ".js")


def test_the_policy_allows_nothing_but_the_page_itself(client: TestClient) -> None:
    for path in ("/", "/app.js", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self';")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_the_files_name_nothing_outside_and_nothing_inline() -> None:
    for name, file in files().items():
        text = file.content.decode()
        own_text = text.replace("http://www.w3.org/", "")
        assert "http:" not in own_text, name
        assert "https:" not in own_text, name
        assert "eval(" not in text, name
        assert "innerHTML" not in text, name
        if name == "index.html":
            assert "<style" not in text
            assert "style=" not in text


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/..%2fapp.py", "/static/app.js", "/%2e%2e/app.py", "/etc/passwd"],
)
def test_no_path_leads_out_of_the_pages_folder(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_a_question_is_answered_and_packed(client: TestClient, reading: Any) -> None:
    question = {"kind": "overview", "reading": reading}
    response = client.post("/ask", json=question, headers={"accept-encoding": "gzip"})
    assert response.status_code == 200
    assert response.headers["content-encoding"] == "gzip"
    assert response.json()["pieces"][1] == "t"


def test_the_first_paint_stays_small(client: TestClient, reading: Any) -> None:
    n_bytes = 0
    names = [name for name in files() if not name.startswith(("learn/", "index."))]
    for name in ("", *names):
        n_bytes += len(gzip.compress(client.get(f"/{name}").content, 5))
    for kind, fields in (("overview", {}), ("prediction", {}), ("chapter", {"chapter": "tokens"})):
        n_bytes += len(
            client.post("/ask", json={"kind": kind, "reading": reading, **fields}).content
        )
    assert n_bytes <= 300_000


def test_what_is_refused_is_a_sentence(client: TestClient, reading: Any) -> None:
    empty = client.post("/ask", json={"kind": "overview", "reading": {**reading, "sentence": ""}})
    # nothing failed, and no browser logs an error
    assert empty.status_code == 200
    assert empty.json() == {
        "error": "the sentence is empty: write a few words to see them read",
        "messages": [[["error"], "no-sentence", {}]],
    }
    cut = client.post("/ask", content=b"{").json()["error"]
    assert cut.startswith("the request cannot be read")
    assert cut.endswith("load the page again")
    long = client.post("/ask", content=b"x" * 300_000)
    assert long.json()["error"].startswith("the request is too long")
    deep = client.post("/ask", content=b"[" * 100_000)
    assert deep.status_code == 400


def test_a_failure_of_ours_is_said_without_its_inside(
    session: Session, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(ask: Any) -> bytes:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(session, "answer", fail)
    client = TestClient(app(session), base_url=HERE, headers={"origin": HERE})
    failed = client.post("/ask", json={"kind": "overview", "reading": reading})
    assert failed.status_code == 500
    assert "secret" not in failed.text


def test_another_host_another_origin_and_no_origin_are_refused(
    session: Session, reading: Any
) -> None:
    question = {"kind": "runs"}
    page = app(session)
    rebound = TestClient(page, base_url="http://evil.example:7357")
    assert rebound.get("/").status_code == 403
    foreign = TestClient(page, base_url=HERE, headers={"origin": "http://evil.example"})
    assert foreign.post("/ask", json=question).status_code == 403
    without_origin = TestClient(page, base_url=HERE)
    assert without_origin.post("/ask", json=question).status_code == 403
    other_port = TestClient(page, base_url=HERE, headers={"origin": "http://127.0.0.1:9"})
    assert other_port.post("/ask", json=question).status_code == 403
    same_origin = TestClient(page, base_url=HERE, headers={"origin": HERE})
    assert same_origin.post("/ask", json=question).status_code == 200


def test_with_a_token_only_who_has_it_may_ask(session: Session) -> None:
    client = TestClient(app(session, token="abc"), base_url=HERE, headers={"origin": HERE})
    assert client.get("/").status_code == 403
    assert client.get("/?token=abd").status_code == 403
    assert client.get("/app.js").status_code == 403
    assert client.get("/?token=abc").status_code == 200
    # from here on the browser's cookie says it
    assert client.get("/app.js").status_code == 200
    assert client.post("/ask", json={"kind": "runs"}).status_code == 200


def test_too_many_at_once_are_told_to_wait(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, n_inside = threading.Event(), threading.Semaphore(0)

    def slow(ask: Any) -> bytes:
        n_inside.release()
        release.wait(20)
        return b"{}"

    monkeypatch.setattr(session, "answer", slow)
    statuses: list[int] = []

    async def one(client: Any) -> None:
        response = await client.post("/ask", json={"kind": "runs"}, headers={"origin": HERE})
        statuses.append(response.status_code)

    async def many() -> None:
        import httpx2

        transport = httpx2.ASGITransport(app=app(session))
        async with (
            httpx2.AsyncClient(transport=transport, base_url=HERE, timeout=30) as client,
            anyio.create_task_group() as group,
        ):
            for _ in range(MAX_REQUESTS):
                group.start_soon(one, client)
            for _ in range(MAX_REQUESTS):
                await anyio.to_thread.run_sync(n_inside.acquire)
            await one(client)
            release.set()

    anyio.run(many)
    assert statuses[0] == 503
    assert statuses.count(200) == MAX_REQUESTS


def test_a_question_that_was_taken_back_stops_its_work(
    session: Session, reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pellucid.web.cancellation import check_cancelled

    working, ended = threading.Event(), threading.Event()

    def layer_after_layer(ask: Any) -> bytes:
        working.set()
        try:
            for _ in range(2000):
                check_cancelled()
                threading.Event().wait(0.005)
        finally:
            ended.set()
        return b"{}"

    monkeypatch.setattr(session, "answer", layer_after_layer)
    question = json.dumps({"kind": "overview", "reading": reading}).encode()
    messages: list[Any] = []
    queue = [{"type": "http.request", "body": question, "more_body": False}]

    async def receive() -> Any:
        if queue:
            return queue.pop()
        while not working.is_set():
            await anyio.sleep(0.005)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/ask", "raw_path": b"/ask", "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:7357"), (b"origin", HERE.encode())],
        "http_version": "1.1", "scheme": "http", "root_path": "", "asgi": {"version": "3.0"},
        "server": ("127.0.0.1", 7357), "client": ("127.0.0.1", 1),
    }  # fmt: skip

    async def run() -> None:
        with anyio.fail_after(5):
            await app(session)(scope, receive, send)

    anyio.run(run)
    assert ended.is_set()
    assert messages[0]["status"] == 499


def test_a_port_in_use_is_said_and_without_one_another_is_taken(session: Session) -> None:
    with socket.socket() as taken_socket:
        taken_socket.bind(("127.0.0.1", 0))
        taken_socket.listen()
        port = taken_socket.getsockname()[1]
        with pytest.raises(PellucidError, match=f"port {port} is in use"):
            serve(session, port=port)
    with pytest.raises(PellucidError, match="from 0 to 65535"):
        serve(session, port=70000)
    with pytest.raises(PellucidError, match="cannot be listened on"):
        serve(session, host="203.0.113.9", port=0)


@pytest.fixture
def _leave_no_type() -> Any:
    yield
    mimetypes.init()


def test_the_files_are_in_the_package(trained: Path) -> None:
    assert {"index.html", "app.css", "app.js", "texts.en.json"} <= set(files())
