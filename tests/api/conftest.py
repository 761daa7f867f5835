"""A tiny base run and a tiny tuned run, served in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from pellucid import runs
from pellucid.api import ServedModels
from pellucid.runs import Run
from pellucid.web import open_session
from pellucid.web.app import app
from support.api import HERE, models_of, programs_of, serving
from support.life import pretrain, tune, write_rows


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that continues texts."""
    return runs.load(pretrain(tmp_path_factory.mktemp("api") / "base", steps=6))


@pytest.fixture(scope="session")
def tuned(base: Run) -> Run:
    """A run that was tuned to answer."""
    parent = base.folder.parent
    return tune(parent / "tuned", "sft", base.folder, write_rows(parent / "rows"), steps=2)


@pytest.fixture(scope="module")
def models(base: Run, tuned: Run) -> Iterator[ServedModels]:
    """Both runs as models."""
    served = models_of(base, tuned)
    yield served
    served.close()


@pytest.fixture(scope="module")
def client(models: ServedModels, base: Run) -> TestClient:
    """A program that asks the server."""
    page = app(open_session([base]), programs=programs_of(models))
    return TestClient(page, base_url=HERE)


@pytest.fixture(scope="module")
def address(models: ServedModels, base: Run) -> Iterator[str]:
    """The address of a real server."""
    yield from serving(open_session([base]), models)
