"""Tables of classification: the metrics of each class, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from pellucid.display.terminal_text import fitted, one_line

_WIDTH = 80
_MOST_NAME, _MOST_COUNT = 24, 10
#: Most mistakes that are listed if the matrix is too wide.
_MOST_MISTAKES = 15

#: Name, precision, recall, F1, texts.
Row = tuple[str, float, float, float, int]


def class_table(rows: Sequence[Row], width: int = _WIDTH) -> list[str]:
    """A line for each class: precision, recall, F1, and its number of texts."""
    names = [one_line(name) for name, *_ in rows]
    label = _name_width(names, min(_MOST_NAME, max(5, width - 38)))
    lines = [f"{fitted('class', label)}  precision  recall      F1    texts"]
    for name, (_, precision, recall, f1, texts) in zip(names, rows, strict=True):
        lines.append(
            f"{fitted(name, label)}  {precision:9.4f}  {recall:6.4f}  {f1:6.4f}  {texts:7,}"
        )
    return lines


def confusion_table(
    classes: Sequence[str], counts: Sequence[Sequence[int]], width: int = _WIDTH
) -> list[str]:
    """A row for each true class, a column for each predicted one; right answers in [brackets].

    If that is wider than `width`, the commonest mistakes are listed instead.

    Args:
        classes: Names of the classes.
        counts: How many texts of each true class got each class.
        width: Columns of the terminal.
    """
    names = [one_line(name) for name in classes]
    longest = max((len(f"[{count:,}]") for row in counts for count in row), default=1)
    label = _name_width([*names, "is \\ said"], _MOST_NAME)
    room = (width - label) // max(1, len(names)) - 2
    if room < max(longest, min(4, _name_width(names, _MOST_COUNT))):
        return _mistakes(names, counts, width)
    column = min(room, max(longest, _name_width(names, _MOST_COUNT)))
    head = "".join(f"  {_align_right(name, column)}" for name in names)
    lines = [fitted("is \\ said", label) + head]
    for i, (name, row) in enumerate(zip(names, counts, strict=True)):
        cells = [f"[{count:,}]" if i == j else f"{count:,}" for j, count in enumerate(row)]
        lines.append(fitted(name, label) + "".join(f"  {cell:>{column}}" for cell in cells))
    return lines


def _mistakes(names: Sequence[str], counts: Sequence[Sequence[int]], width: int) -> list[str]:
    """Pairs of a true and a predicted class, the commonest first."""
    mistakes = sorted(
        (
            (-count, i, j)
            for i, row in enumerate(counts)
            for j, count in enumerate(row)
            if count and i != j
        )
    )
    n_wrong, n_all = -sum(count for count, _, _ in mistakes), sum(map(sum, counts))
    lines = [f"{n_wrong:,} of {n_all:,} are wrong; the commonest mistakes:"]
    label = min(_MOST_NAME, (width - 24) // 2)
    for count, i, j in mistakes[:_MOST_MISTAKES]:
        lines.append(f"{-count:8,}  {fitted(names[i], label)} said to be  {names[j]}")
    if len(mistakes) > _MOST_MISTAKES:
        remainder = -sum(count for count, _, _ in mistakes[_MOST_MISTAKES:])
        lines.append(f"{remainder:8,}  in {len(mistakes) - _MOST_MISTAKES:,} other ways")
    return [fitted(line, width).rstrip() for line in lines]


def _name_width(names: Sequence[str], max_width: int) -> int:
    return min(max_width, max([5, *map(cell_len, names)]))


def _align_right(text: str, columns: int) -> str:
    """Aligned right in its column, as numbers are."""
    shortened = fitted(text, columns).rstrip()
    return " " * (columns - cell_len(shortened)) + shortened
