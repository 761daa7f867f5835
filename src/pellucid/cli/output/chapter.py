"""A chapter on one screen: a sentence, pictures, receipts, and the next chapter."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from pellucid.cli.output.film import draw_film
from pellucid.cli.output.pictures import ASCII, BLOCKS, WIDTH, Ink, draw_picture
from pellucid.display.terminal_text import folded, visible
from pellucid.explain.chapter_types import Chapter, Film, Frames, Matrix, Picture, Receipt
from pellucid.explain.chapters import CHAPTERS, find_chapter
from pellucid.explain.receipt_text import format_receipt
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace

#: Maps that one screen holds.
_MAPS = 3


def lines_of(chapter: Chapter, trace: Trace, selection: Selection) -> Iterator[str]:
    """The whole screen."""
    ink = ink_for(sys.stdout.encoding)
    yield from _folded(
        f"{chapter.number} · {chapter.title}   {_place(chapter, trace, selection)}", 0
    )
    yield ""
    yield from _folded(chapter.sentence, 2)
    maps = [picture for picture in chapter.pictures if isinstance(picture, Matrix)]
    for picture in chapter.pictures:
        if picture in maps[_MAPS:]:
            continue
        yield ""
        cell = _selected_cell(picture, chapter, selection)
        if isinstance(picture, Film | Frames):
            yield from draw_film(picture, ink, *cell)
        else:
            yield from draw_picture(picture, ink, *cell)
    if len(maps) > _MAPS:
        yield ""
        remainder = f"{len(maps) - _MAPS} small maps more are in --json; one at a time:"
        yield from _folded(f"{remainder} --chapter softmax --head N", 2)
    for receipt in chapter.receipts:
        yield ""
        yield from receipt_lines(receipt)
    if chapter.notes:
        yield ""
    for note in chapter.notes:
        yield from _folded(f"note: {note}", 2)
    yield ""
    yield _next(chapter)


def receipt_lines(receipt: Receipt) -> Iterator[str]:
    """Formula, operands, result, difference, address, and the line of code that computes it."""
    difference = abs(receipt.recomputed - receipt.model)
    mark = "✓" if receipt.agrees else f"≠ differs ({receipt.dtype})"
    yield from _folded(f"{mark} {receipt.title}", 2)
    line = format_receipt(receipt)
    yield from _folded(f"{receipt.formula} = {line.operands} = {line.result}", 6, 4)
    comparison = f"{difference:.0e} apart" if difference else "the same"
    allowed = f"{receipt.allowed:.0e} allowed in {receipt.dtype}"
    yield from _folded(f"the model has {line.model}: {comparison}, {allowed}", 6, 4)
    name, bracket, index = receipt.address.partition("[")
    yield from _folded(f'trace["{name}"]{bracket}{index}   {receipt.source}', 6, 4)


def contents() -> Iterator[str]:
    """The chapters, a line each."""
    width = max(len(entry.id) for entry in CHAPTERS)
    for place, entry in enumerate(CHAPTERS, start=1):
        yield f"  {place:>2}  {entry.id:<{width}}  {entry.summary}"


def ink_for(encoding: str | None) -> Ink:
    """Block characters if the output can encode them, else ASCII."""
    try:
        (BLOCKS.shades + BLOCKS.steps).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def _place(chapter: Chapter, trace: Trace, selection: Selection) -> str:
    part_texts = {
        "layer": f"layer {selection.layer}",
        "head": f"head {selection.head}" + (" to the encoder" if selection.cross else ""),
        "token": f"token {selection.query(trace)}",
        "other": f"looking at {selection.key(trace)}",
        "feature": f"feature {selection.feature}",
    }
    axes = find_chapter(chapter.id).axes
    parts = [part for part in part_texts if part in axes]
    stack = f"{selection.side} · " if len(trace.sides) == 2 and parts else ""
    return stack + " · ".join(part_texts[part] for part in parts)


def _selected_cell(picture: Picture, chapter: Chapter, selection: Selection) -> tuple[int, int]:
    """The row and column of a map that the screen must show."""
    if isinstance(picture, Frames) or (isinstance(picture, Matrix) and picture.address):
        return selection.token, selection.other
    return selection.layer, selection.head if chapter.id == "heads" else selection.token


def _next(chapter: Chapter) -> str:
    names: Sequence[str] = [entry.id for entry in CHAPTERS]
    place = names.index(chapter.id) + 1
    if place == len(names):
        return f"the last chapter; the first: --chapter {names[0]}"
    return f"next: {place + 1} · {CHAPTERS[place].title}   (--chapter {names[place]})"


def _folded(text: str, indent: int, first: int | None = None) -> Iterator[str]:
    """Lines that fit, broken between words; the first may have another indent."""
    first_indent = indent if first is None else first
    lines = folded(visible(text), WIDTH - indent)
    for place, line in enumerate(lines):
        yield " " * (first_indent if place == 0 else indent) + line
