"""Sessions of the page over tiny real models."""

from __future__ import annotations

from pathlib import Path

from pellucid.web import Session, open_session

SENTENCE = "the fox sat"


def session_of(*folders: Path) -> Session:
    """A session over runs."""
    return open_session(folders, sentence=SENTENCE)
