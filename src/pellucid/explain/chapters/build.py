"""One chapter at a place: its content under its heading."""

from __future__ import annotations

from dataclasses import replace

from pellucid.catalogue import message
from pellucid.explain.chapter_types import Chapter, Content, Place
from pellucid.explain.chapters.contents import CHAPTERS, find_chapter
from pellucid.explain.outputs import explain_no_loss
from pellucid.explain.selection import select_place
from pellucid.explain.trace_types import Trace


def build_chapter(trace: Trace, name: str, place: Place, versus: Trace | None = None) -> Chapter:
    """One chapter at a place.

    Args:
        trace: the sentence.
        name: of the chapter, such as "softmax".
        place: the token, layer, head and so on that it is about.
        versus: the trace to compare with, for a chapter that compares.

    Raises:
        PellucidError: there is no such chapter, or the place is not in the trace.
    """
    entry = find_chapter(name)
    selection = select_place(trace, place)
    reason = explain_no_loss(trace) if entry.needs_loss else None
    if reason is not None:
        prefix = "" if entry.part == "forward" else message("contents.there-is-no-loss-to")
        content = Content(sentence=prefix + reason)
    elif versus is not None and entry.build_comparison is not None:
        content = entry.build_comparison(trace, versus, selection)
    else:
        content = entry.build(trace, selection)
    if trace.edits and entry.walks:
        note = message("contents.an-edit-changed-numbers-that")
        content = replace(content, receipts=(), notes=(*content.notes, note))
    return finish_chapter(name, content)


def finish_chapter(name: str, content: Content) -> Chapter:
    """A content under the heading of its chapter.

    Raises:
        PellucidError: there is no such chapter.
    """
    entry = find_chapter(name)
    return Chapter(
        id=entry.id,
        number=1 + CHAPTERS.index(entry),
        part=entry.part,
        title=entry.title,
        sentence=content.sentence,
        pictures=tuple(picture for picture in content.pictures if picture is not None),
        receipts=tuple(receipt for receipt in content.receipts if receipt is not None),
        notes=tuple(note for note in content.notes if note is not None),
    )
