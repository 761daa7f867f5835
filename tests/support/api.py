"""Runs as models of the API, and a real server in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

from pellucid.api import Limits, ModelSource, ServedModels, api_routes, refusal_of
from pellucid.runs import Run
from pellucid.web import ProgramRoutes, Session
from pellucid.web.app import app
from pellucid.web.bounds import Server

HERE = "http://127.0.0.1:7357"


def models_of(*opened: Run, limits: Limits | None = None) -> ServedModels:
    """Runs by the names of their folders."""

    def source(run: Run) -> ModelSource:
        return ModelSource(name=run.folder.name, folder=run.folder, load=lambda: run)

    return ServedModels([source(run) for run in opened], limits=limits)


def programs_of(models: ServedModels) -> ProgramRoutes:
    return ProgramRoutes(routes=api_routes(models), refuse=refusal_of)


def serving(session: Session, models: ServedModels, **options: Any) -> Iterator[str]:
    """A real server in a thread, on a free port."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(128)
        port = bound.getsockname()[1]
        server = Server(app(session, programs=programs_of(models), **options))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(10)
