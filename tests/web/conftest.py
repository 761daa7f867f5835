"""Runs, sessions and clients of the page's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from pellucid.web import Session
from pellucid.web.app import app
from support.browsing import Open, launched, opening, served
from support.page import SENTENCE, session_of

HERE = "http://127.0.0.1:7357"


@pytest.fixture(scope="module")
def session(trained: Path) -> Session:
    """A session over the tiny run."""
    return session_of(trained)


@pytest.fixture
def client(session: Session) -> TestClient:
    """A browser of sorts, on the page's own address."""
    return TestClient(app(session), base_url=HERE, headers={"origin": HERE})


@pytest.fixture
def reading() -> dict[str, Any]:
    """A sentence, as the page names it."""
    return {"run": "run0", "checkpoint": "", "sentence": SENTENCE}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    with launched() as launched_browser:
        yield launched_browser


@pytest.fixture(scope="module")
def address(session: Session) -> Iterator[str]:
    """The address of a server of the session."""
    with served(session) as served_address:
        yield served_address


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Open]:
    """Opens the page at that address."""
    with opening(browser, address) as opens:
        yield opens
