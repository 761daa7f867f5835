"""The page in a real headless Chromium, every way out of this machine shut."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from pellucid.web import Session
from pellucid.web.app import app

Open = Callable[..., Any]


@contextmanager
def launched() -> Generator[Any]:
    """A browser; what needs it is skipped without playwright or without a chromium."""
    api: Any = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("there is no chromium on this machine")
    with api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def served(session: Session) -> Generator[str]:
    """The address at which a session is served within it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        config = uvicorn.Config(app(session), log_level="warning", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}/"
        server.should_exit = True
        thread.join(10)


@contextmanager
def opening(browser: Any, address: str) -> Generator[Open]:
    """Opens the page; at the end nothing may have been asked of elsewhere, nor an error logged."""
    wrong: list[str] = []
    contexts: list[Any] = []

    def block_foreign(route: Any) -> None:
        if route.request.url.startswith(address):
            route.continue_()
        else:
            wrong.append(f"asked for {route.request.url}")
            route.abort()

    def note_error(message: Any) -> None:
        if message.type in ("error", "warning"):
            wrong.append(message.text)

    def page(at: str = "", *, width: int = 1440, wait: bool = True, **has: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, **has)
        contexts.append(context)
        context.set_default_timeout(60_000)
        context.route("**/*", block_foreign)
        new_page = context.new_page()
        new_page.on("console", note_error)
        new_page.on("pageerror", lambda error: wrong.append(str(error)))
        new_page.goto(address + at)
        if wait:
            new_page.wait_for_selector("#focus h1")
            new_page.wait_for_selector("#prediction [data-p]")
        return new_page

    yield page
    for context in contexts:
        context.close()
    assert wrong == []


def until(page: Any, true: str) -> None:
    """Wait until something is true of the page, whose policy forbids to evaluate a string."""
    end = time.monotonic() + 60
    while not page.evaluate(true):
        assert time.monotonic() < end, f"never came true: {true}"
        page.wait_for_timeout(20)


def settled(page: Any) -> None:
    """Until nothing is asked any more."""
    page.wait_for_timeout(30)
    until(page, "!document.body.hasAttribute('aria-busy')")
    page.wait_for_timeout(30)


def bracket_texts(route: Any) -> None:
    """Answer a request for a language's texts with every text in brackets."""

    def bracket(text: Any) -> Any:
        return f"⟦{text}⟧" if isinstance(text, str) else {n: bracket(t) for n, t in text.items()}

    texts = route.fetch().json()
    route.fulfill(json={key: bracket(text) for key, text in texts.items()})
