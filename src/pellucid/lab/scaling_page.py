"""A ladder as one HTML file: its law, how good its predictions were, and the best sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from pellucid.disk import write_output
from pellucid.lab.page import number_columns, sectioned_page, table_rows
from pellucid.lab.scaling import Scaling
from pellucid.lab.scaling_chart import scaling_chart
from pellucid.lab.scaling_tables import (
    BEST_HEAD,
    CHECK_HEAD,
    CONSTANT_HEAD,
    RUN_HEAD,
    best_rows,
    check_rows,
    check_sentence,
    constant_rows,
    run_rows,
)
from pellucid.report.sections import column, table


def write_scaling_page(scaling: Scaling) -> Path:
    """Write `scaling.html` into the folder of a ladder; returns its path.

    Args:
        scaling: the ladder.

    Raises:
        PellucidError: there is another file of this name, which pellucid did not write.
    """
    file = scaling.out / "scaling.html"
    write_output(file, scaling_page(scaling))
    return file


def scaling_page(scaling: Scaling) -> str:
    """The whole page, which fetches nothing and runs no script."""
    notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in scaling.notes)
    sections = [
        ("law", "The law", notes + _table("the constants", CONSTANT_HEAD, constant_rows(scaling))),
        ("picture", "Picture", scaling_chart(scaling)),
        (
            "check",
            "Predicted, and then measured",
            f"<p>{escape(check_sentence(scaling))}</p>"
            + _table("the next size", CHECK_HEAD, check_rows(scaling)),
        ),
        (
            "best",
            "The best size for a time on this machine",
            _table("by the law and the measured speeds", BEST_HEAD, best_rows(scaling))
            + "".join(
                f"<p>In {best.minutes:g} min: {escape(limit)}.</p>"
                for best in scaling.best
                for limit in best.limits
            ),
        ),
        ("runs", "Every run", _table("the ladder", RUN_HEAD, run_rows(scaling))),
    ]
    return sectioned_page(
        "scaling: a ladder of pellucid",
        "How the loss falls with size and tokens",
        f"L = E + A / N^a + B / D^b, for {scaling.measure.title}: N weights, D tokens.",
        sections,
        scaling.out,
    )


def _table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rows = list(rows)
    if not rows:
        return "<p>There is none: the notes above say why.</p>"
    first, *others = head
    return table(caption, column(first) + number_columns(*others), table_rows(rows))
