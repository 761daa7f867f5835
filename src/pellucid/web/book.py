"""The chapters there are, as the page lists and opens them.

Comes in: a trace, a chapter's name, a place. Goes out: headings, a chapter. It tells nothing
itself: `explain.chapters` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pellucid.explain import Trace
from pellucid.explain.chapter import Chapter, Place
from pellucid.explain.chapters import CHAPTERS, tell
from pellucid.web.told import Heading

#: Part and title of chapters whose name does not say them: the strip shows them before a chapter is
#: opened. A test holds them to what the chapters say.
TITLES: dict[str, tuple[str, str]] = {
    "qkv": ("forward", "Queries, keys, values"),
    "residual": ("forward", "Residual stream"),
    "lens": ("forward", "Logit lens"),
}


class AllChapters:
    """Every chapter of a trace."""

    def contents(self, read: Trace, versus: Trace | None) -> Sequence[Heading]:
        """Those that this model has."""
        found: list[Heading] = []
        for number, entry in enumerate(CHAPTERS, 1):
            part, title = TITLES.get(entry.id, ("forward", entry.id.capitalize()))
            found.append(
                Heading(
                    id=entry.id, number=number, part=part, title=title, costly=part != "forward"
                )
            )
        return found

    def chapter(self, read: Trace, name: str, place: Place, versus: Trace | None) -> Chapter:
        """One of them, at a place."""
        return tell(read, name, place)
