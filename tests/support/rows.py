"""Rows for tests: in memory, and encoded as one would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pellucid.config.corpora import Rows
from pellucid.data import (
    Example,
    Piped,
    Row,
    RowCounts,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
    encode_rows,
)
from pellucid.tokenizers import Tokenizer, train_bytes

TOKENIZER = train_bytes()


def row(number: int = 1, **values: object) -> Row:
    return Row("data.jsonl", number, f"data.jsonl, row {number}", values)


def rows(*values: Mapping[str, Any]) -> list[Row]:
    return [row(number, **value) for number, value in enumerate(values, 1)]


def examples_of(
    kind: Rows,
    given: Sequence[Row] | None = None,
    *,
    tokenizer: Tokenizer = TOKENIZER,
    context_length: int = 512,
    folder: Path | None = None,
    classes: Sequence[str] | None = None,
) -> tuple[list[Example], RowCounts, list[str]]:
    """All rows of a config (or the given ones), encoded, with the census and the choices."""
    row_list = list(assemble_rows(kind, Piped())) if given is None else list(given)
    form = assemble_form(
        assemble_columns(kind, row_list[0]),
        row_list,
        tokenizer,
        context_length=context_length,
        template=assemble_template(kind, folder),
        classes=classes,
    )
    census = RowCounts()
    return list(encode_rows(form, row_list, census)), census, form.choices
