"""The door: runs become a session.

Comes in: paths or loaded runs. Goes out: a session that tells all chapters. It does not know who
asks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pellucid.runs import Run
from pellucid.web.chapter_index import AllChapters
from pellucid.web.run_registry import Shelf
from pellucid.web.sentence_view import open_with
from pellucid.web.session import Session


def open_session(given: Sequence[str | Path | Run], *, sentence: str = "") -> Session:
    """A session over runs; `sentence` is what a page begins with.

    Raises:
        PellucidError: no run was given.
    """
    return Session(Shelf(given), partial(open_with, AllChapters()), sentence=sentence)
