"""One example of a batch, as it will be trained.

Comes in: a batch of any kind, and how its ids are read. Goes out: an `Example`. It does not know
which objective it is for, nor how it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import assert_never

from torch import Tensor

from pellucid.batches import IGNORED, LabelBatch, PairBatch, PreferenceBatch, TokenBatch
from pellucid.tokenizers import Tokenizer
from pellucid.training import Example

#: What has examples that can be shown.
Shown = TokenBatch | PairBatch | LabelBatch | PreferenceBatch
Decode = Callable[[Sequence[int]], str]

_Row = tuple[str, str | None, str]
_Part = tuple[str, list[_Row], int]

#: Neighbours that are shown of a row with several documents.
_MAX_DOCUMENTS = 2


def example_of(
    batch: Shown,
    decode: Decode,
    *,
    causal: bool = True,
    classes: Sequence[str] = (),
    row: int = 0,
) -> Example:
    """One row of a batch: for each token its text, what is learnt there, and what it sees.

    Of a row with several documents the first two are shown, with the boundary between them.

    Args:
        decode: ids to text.
        causal: whether a token sees those before it alone, where it is not a source that is read.
        classes: their names, for a batch with labels; their numbers where there are none.
    """
    parts, note = _parts(batch, decode, causal, classes, row)
    begins: list[tuple[int, str]] = []
    rows: list[_Row] = []
    for name, part, _ in parts:
        if name:
            begins.append((len(rows), name))
        rows += part
    fillers = sum(left_out for _, _, left_out in parts)
    if fillers:
        places = "place of padding, which is" if fillers == 1 else "places of padding, which are"
        note += f"{'; ' if note else ''}{fillers} {places} neither seen nor learnt"
    return Example(
        title=f"row {row + 1} of the first update",
        rows=tuple(rows),
        begins=tuple(begins),
        note=note,
    )


def spelled(tokenizer: Tokenizer) -> Decode:
    """How ids are shown: special tokens by their name, which have no text.

    What stands between them is read together: a character may be spread over several tokens.
    """

    def decode(ids: Sequence[int]) -> str:
        text = ""
        for special, group in groupby(ids, key=lambda token_id: not tokenizer.decode([token_id])):
            part = list(group)
            text += "".join(map(tokenizer.token, part)) if special else tokenizer.decode(part)
        return text

    return decode


def _parts(
    batch: Shown, decode: Decode, causal: bool, classes: Sequence[str], row: int
) -> tuple[list[_Part], str]:
    match batch:
        case TokenBatch():
            return _documents(batch, decode, causal, row)
        case PairBatch():
            source = _part(decode, batch.source[row], batch.source_padding[row], causal=False)
            targets = batch.targets[row]
            written = _part(
                decode,
                batch.ids[row],
                targets != IGNORED,
                targets,
                first=len(source[0]),
                besides=" and the source",
            )
            return [("the source", *source), ("what is written", *written)], ""
        case LabelBatch():
            part = _part(decode, batch.ids[row], batch.padding[row], causal=causal)
            return [("", *part)], f"of the whole is learnt: {_label(batch.labels[row], classes)}"
        case PreferenceBatch():
            chosen = _whole(batch.chosen, decode, causal, row)
            rejected = _whole(batch.rejected, decode, causal, row, first=len(chosen[0]))
            return [("the chosen answer", *chosen), ("the rejected answer", *rejected)], ""
        case _:
            assert_never(batch)


def _label(label: Tensor, classes: Sequence[str]) -> str:
    """The class, or all that hold."""
    numbers = [int(label)] if label.ndim == 0 else _ints(label.nonzero()[:, 0])
    names = [repr(classes[number]) if classes else f"class {number}" for number in numbers]
    return ", ".join(names) or "no class"


def _documents(
    batch: TokenBatch, decode: Decode, causal: bool, row: int
) -> tuple[list[_Part], str]:
    """A row whole, or the first two of the documents that lie in it."""
    if batch.documents is None:
        return [("", *_whole(batch, decode, causal, row))], ""
    numbers = _ints(batch.documents[row])
    starts = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]
    parts: list[_Part] = []
    further = first = fillers = 0
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        rows, left_out = _whole(batch, decode, causal, row, slice(start, end), first=first)
        fillers += left_out
        if rows and len(parts) < _MAX_DOCUMENTS:
            parts.append((f"example {len(parts) + 1} of this row", rows, 0))
            first += len(rows)
        elif rows:  # what only fills up the row has a number of its own, and is none
            further += 1
    note = f"{further} more in this row" if further else ""
    return [*parts, ("", [], fillers)], note


def _whole(
    batch: TokenBatch,
    decode: Decode,
    causal: bool,
    row: int,
    span: slice = slice(None),
    *,
    first: int = 0,
) -> tuple[list[_Row], int]:
    padding = None if batch.padding is None else batch.padding[row, span]
    ids, targets = batch.ids[row, span], batch.targets[row, span]
    return _part(decode, ids, padding, targets, causal=causal, first=first)


def _part(
    decode: Decode,
    ids: Tensor,
    real: Tensor | None,
    targets: Tensor | None = None,
    *,
    causal: bool = True,
    first: int = 0,
    besides: str = "",
) -> tuple[list[_Row], int]:
    """The real tokens among `ids`, and how many only fill up the row.

    What a token sees is told by the places of the table, in which the part begins at `first`.
    """
    tokens = _ints(ids)
    target_ids = [IGNORED] * len(tokens) if targets is None else _ints(targets)
    places = [i for i in range(len(tokens)) if real is None or bool(real[i])]
    rows: list[_Row] = []
    for n, i in enumerate(places):
        target = None if target_ids[i] == IGNORED else decode([target_ids[i]])
        last = first + (n if causal else len(places) - 1)
        rows.append((decode([tokens[i]]), target, _format_visible(first, last, causal) + besides))
    return rows, len(tokens) - len(places)


def _format_visible(first: int, last: int, causal: bool) -> str:
    if first == last:
        return "itself"
    return f"{first} to {last}" if causal else f"{first} to {last}, both ways"


def _ints(ids: Tensor) -> list[int]:
    return [int(number) for number in ids]
