"""What tests of commands get: commands that must succeed, and what they print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pellucid.cli import main


@pytest.fixture
def stdout_of(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command that must succeed in silence on standard error; gives what it printed."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 0
        text, errors = capsys.readouterr()
        assert errors == ""
        return text

    return run


@pytest.fixture
def json_of(stdout_of: Any) -> Any:
    """The one JSON document that a command prints."""
    return lambda *words: json.loads(stdout_of(*words, "--json"))


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Any:
    """The one paragraph with which a command is refused."""

    def run(*words: object) -> str:
        assert main([str(word) for word in words]) == 2
        text, errors = capsys.readouterr()
        assert text == ""
        assert errors.split()[0] == "error:"
        assert "Traceback" not in errors
        return " ".join(errors.split())

    return run
