"""One example of a batch, as it will be trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import assert_never

from torch import Tensor

from pellucid.batches import IGNORED, LabelBatch, PairBatch, PreferenceBatch, TokenBatch
from pellucid.tokenizers import Tokenizer
from pellucid.training import Example

#: Batches that `view_example` can show.
ViewableBatch = TokenBatch | PairBatch | LabelBatch | PreferenceBatch
Decode = Callable[[Sequence[int]], str]

_Row = tuple[str, str | None, str]
_Part = tuple[str, list[_Row], int]

#: How many documents of a packed row are shown.
_MAX_DOCUMENTS = 2


def view_example(
    batch: ViewableBatch,
    decode: Decode,
    *,
    causal: bool = True,
    classes: Sequence[str] = (),
    row: int = 0,
) -> Example:
    """One row of a batch: the text of each token, its target, and the tokens that it sees.

    A row with several documents is shown as far as the second, with the boundary between them.

    Args:
        batch: the batch.
        decode: makes text of token ids.
        causal: whether a token sees only itself and the tokens before it; a source never is.
        classes: the names of the classes, for a batch with labels; by default their numbers.
        row: the number of the row.
    """
    parts, note = _parts(batch, decode, causal, classes, row)
    part_starts: list[tuple[int, str]] = []
    rows: list[_Row] = []
    for name, part, _ in parts:
        if name:
            part_starts.append((len(rows), name))
        rows += part
    n_padding = sum(count for _, _, count in parts)
    if n_padding:
        places = "place of padding, which is" if n_padding == 1 else "places of padding, which are"
        note += f"{'; ' if note else ''}{n_padding} {places} neither seen nor learnt"
    return Example(
        title=f"row {row + 1} of the first update",
        rows=tuple(rows),
        begins=tuple(part_starts),
        note=note,
    )


def readable_decoder(tokenizer: Tokenizer) -> Decode:
    """A function from token ids to text that shows special tokens by their names.

    It decodes the tokens between them together: a character may take several tokens.
    """

    def decode(ids: Sequence[int]) -> str:
        text = ""
        for special, group in groupby(ids, key=lambda token_id: not tokenizer.decode([token_id])):
            part = list(group)
            text += "".join(map(tokenizer.token, part)) if special else tokenizer.decode(part)
        return text

    return decode


def _parts(
    batch: ViewableBatch, decode: Decode, causal: bool, classes: Sequence[str], row: int
) -> tuple[list[_Part], str]:
    match batch:
        case TokenBatch():
            return _documents(batch, decode, causal, row)
        case PairBatch():
            source = _part(decode, batch.source[row], batch.source_padding[row], causal=False)
            targets = batch.targets[row]
            target = _part(
                decode,
                batch.ids[row],
                targets != IGNORED,
                targets,
                first=len(source[0]),
                suffix=" and the source",
            )
            return [("the source", *source), ("what is written", *target)], ""
        case LabelBatch():
            part = _part(decode, batch.ids[row], batch.padding[row], causal=causal)
            return [("", *part)], f"of the whole is learnt: {_label(batch.labels[row], classes)}"
        case PreferenceBatch():
            chosen = _token_rows(batch.chosen, decode, causal, row)
            rejected = _token_rows(batch.rejected, decode, causal, row, first=len(chosen[0]))
            return [("the chosen answer", *chosen), ("the rejected answer", *rejected)], ""
        case _:
            assert_never(batch)


def _label(label: Tensor, classes: Sequence[str]) -> str:
    """The name of the class, or of each class that the text has."""
    numbers = [int(label)] if label.ndim == 0 else _ints(label.nonzero()[:, 0])
    names = [repr(classes[number]) if classes else f"class {number}" for number in numbers]
    return ", ".join(names) or "no class"


def _documents(
    batch: TokenBatch, decode: Decode, causal: bool, row: int
) -> tuple[list[_Part], str]:
    """All of a row, or the first two of its documents."""
    if batch.documents is None:
        return [("", *_token_rows(batch, decode, causal, row))], ""
    numbers = _ints(batch.documents[row])
    starts = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]
    parts: list[_Part] = []
    further = first = n_padding = 0
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        rows, count = _token_rows(batch, decode, causal, row, slice(start, end), first=first)
        n_padding += count
        if rows and len(parts) < _MAX_DOCUMENTS:
            parts.append((f"example {len(parts) + 1} of this row", rows, 0))
            first += len(rows)
        elif rows:  # padding has a document number too, but no rows
            further += 1
    note = f"{further} more in this row" if further else ""
    return [*parts, ("", [], n_padding)], note


def _token_rows(
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
    suffix: str = "",
) -> tuple[list[_Row], int]:
    """The rows of all tokens but padding, and the number of places with padding.

    Each row names the rows of the table that its token sees; the part begins at row `first`.
    """
    tokens = _ints(ids)
    target_ids = [IGNORED] * len(tokens) if targets is None else _ints(targets)
    places = [i for i in range(len(tokens)) if real is None or bool(real[i])]
    rows: list[_Row] = []
    for n, i in enumerate(places):
        target = None if target_ids[i] == IGNORED else decode([target_ids[i]])
        last = first + (n if causal else len(places) - 1)
        rows.append((decode([tokens[i]]), target, _format_visible(first, last, causal) + suffix))
    return rows, len(tokens) - len(places)


def _format_visible(first: int, last: int, causal: bool) -> str:
    if first == last:
        return "itself"
    return f"{first} to {last}" if causal else f"{first} to {last}, both ways"


def _ints(ids: Tensor) -> list[int]:
    return [int(number) for number in ids]
