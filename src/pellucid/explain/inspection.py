"""One answer for every display: which chapters of a sentence, at which place, and what they hold.

The command line prints an `Inspection`, the page sends it, a file stores it, a notebook shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pellucid.errors import PellucidError
from pellucid.explain.chapter_types import Chapter, Place
from pellucid.explain.chapters import CHAPTERS, build_chapter, find_chapter
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Chapters of a trace at one place; `versus` is what the trace is compared with."""

    trace: Trace
    chapters: tuple[str, ...]
    place: Place = field(default_factory=Place)
    versus: Trace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A chapter that this model or place does not have; `reason` is for the reader."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The chapters of a request, in its order, and the place that they are about."""

    trace: Trace
    selection: Selection
    chapters: tuple[Chapter | Refusal, ...]

    def chapter(self) -> Chapter:
        """The chapter of a request for one.

        Raises:
            PellucidError: the model or the place does not have it; says why.
        """
        (chapter,) = self.chapters
        if isinstance(chapter, Refusal):
            raise PellucidError(chapter.reason)
        return chapter


def inspect(request: Request) -> Inspection:
    """Check the place of a request, and open its chapters.

    Raises:
        PellucidError: there is no such chapter, or no such token, layer, head or stack.
    """
    for name in request.chapters:
        find_chapter(name)
    selection = select_place(request.trace, request.place)
    chapters = tuple(_open(request, name) for name in request.chapters)
    return Inspection(trace=request.trace, selection=selection, chapters=chapters)


def list_chapters() -> tuple[str, ...]:
    """The names of all chapters, in the order of the story."""
    return tuple(entry.id for entry in CHAPTERS)


def _open(request: Request, name: str) -> Chapter | Refusal:
    try:
        return build_chapter(request.trace, name, request.place, request.versus)
    except PellucidError as error:
        return Refusal(id=name, reason=str(error))
