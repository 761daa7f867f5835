"""The chapters there are, as the page lists and opens them.

Comes in: a trace, a chapter's name, a place. Goes out: headings, a chapter. It tells nothing
itself: `explain.chapters` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.explain import Trace
from pellucid.explain.chapter_types import Chapter, Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.web.trace_protocol import Heading


class AllChapters:
    """Every chapter of a trace."""

    def contents(self, read: Trace, versus: Trace | None) -> Sequence[Heading]:
        """All there are, in the order of the story."""
        return [
            Heading(
                id=entry.id,
                number=number,
                part=entry.part,
                title=entry.title,
                walks=entry.walks,
                once=entry.once,
                axes=entry.axes,
            )
            for number, entry in enumerate(CHAPTERS, 1)
        ]

    def chapter(self, read: Trace, name: str, place: Place, versus: Trace | None) -> Chapter:
        """One of them, at a place."""
        return build_chapter(read, name, place, versus)
