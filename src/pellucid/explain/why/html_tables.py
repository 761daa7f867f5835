"""Tables that a notebook shows: a receipt with its operands, and the parts behind a word."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.why.attribution import Attribution

#: Most rows of a table; another one says how many there are.
_MOST_ROWS = 64


def html_table(caption: str, titles: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    """A table of texts; of many rows the first ones.

    Args:
        caption: above the table.
        titles: of the columns.
        rows: what each row has in each column.
    """
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    lines = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows[:_MOST_ROWS]]
    if len(rows) > _MOST_ROWS:
        lines.append(f'<td colspan="{len(titles)}">{len(rows) - _MOST_ROWS} more</td>')
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def receipt_table(receipt: Receipt) -> str:
    """A receipt as a table: its number twice, its formula, and the operands."""
    verdict = "they agree" if receipt.agrees else f"they differ by more than {receipt.allowed:.3g}"
    rows: list[tuple[object, ...]] = [
        ("the model's number", f"{receipt.model:.8g}", receipt.address),
        ("computed again", f"{receipt.recomputed:.8g}", verdict),
        ("formula", receipt.formula, receipt.source),
        *(("operand", f"{item.value:.8g}", item.address) for item in receipt.operands),
    ]
    return html_table(receipt.title, ("", "value", "where"), rows)


def attribution_table(attribution: Attribution) -> str:
    """Why a word: the parts of the model, the largest first, whatever its sign."""
    word, other = attribution.rivals.names
    caption = (
        f"{word!r} rather than {other!r}: a logit difference of "
        f"{attribution.rivals.difference:+.4g}, of which the parts give {attribution.total:+.4g}"
    )
    rows = [(part.name, part.kind, f"{part.share:+.4g}") for part in attribution.largest]
    return html_table(caption, ("part", "kind", "share"), rows)
