"""The rows of a new run: read, encoded as its objective needs them, and divided.

Rows are read anew for each pass over them, so they need not fit into memory. A process that is
killed while it encodes is continued by the next one with the same `--out`.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pellucid import config
from pellucid.config import encode
from pellucid.data import (
    Columns,
    Facts,
    Form,
    Labelled,
    Piped,
    PreparedData,
    Row,
    RowCounts,
    Template,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
    choose_by_digest,
    fingerprint,
    group_digest,
    prepare_examples,
)
from pellucid.data.checksums import HashCache
from pellucid.data.skipped_rows import encode_rows
from pellucid.errors import ConfigError, TextError
from pellucid.json_text import json_text
from pellucid.runs.prepare_text import Ready, tokenizer_of
from pellucid.saved_runs.folder import RunFolder, home_of
from pellucid.saved_runs.progress import Notify
from pellucid.tokenizers import Tokenizer, train_bytes

T = TypeVar("T")
Indices = npt.NDArray[np.int64]

#: A window that no row fills, to divide rows before there is a tokenizer.
_NO_END = 2**40
#: Seconds from one line to the next.
_INTERVAL_SECONDS = 5.0


def ready_rows(run: config.Run, notify: Notify, notify_progress: Notify) -> Ready:
    """The tokenizer of a run's rows, and a function that puts the encoded examples into its folder.

    A tokenizer is trained on the training side only.

    Args:
        run: the config.
        notify: takes a line for each step that begins.
        notify_progress: takes a line every few seconds.

    Raises:
        TextError: the rows cannot be read, or are too few.
        ConfigError: the labels are of another kind than the objective's.
    """
    notify("reading the rows")
    corpus = rows_of(run)
    piped = Piped()
    rows = _Rows(corpus, piped)
    columns = assemble_columns(corpus, rows.first())
    # the folder of the tokenizer may have a template
    home = None if run.start is None else home_of(Path(run.start))
    template = assemble_template(corpus, home)
    tokenizer = _tokenizer(run, columns, rows, template, notify)
    form = _form(
        run, columns, _count_rows(rows, notify_progress, "reading the rows"), tokenizer, template
    )

    def fill(folder: Path) -> PreparedData:
        notify("encoding the rows")
        if template is not None:
            RunFolder(folder.parent).template.write_text(template.source, encoding="utf-8")
        return prepare_examples(
            folder,
            form,
            _count_rows(rows, notify_progress, "encoding the rows"),
            key=_key(run, tokenizer, template, form),
            seed=run.seed,
            divide=partial(_divided, share=run.text.held_out),
            facts=lambda counts: _facts(form, tokenizer, counts),
        )

    return Ready(tokenizer, fill, _class_names(form))


class _Rows:
    """All rows that a config names, read anew each time."""

    def __init__(self, corpus: config.Rows, piped: Piped) -> None:
        self._corpus, self._piped = corpus, piped

    def __iter__(self) -> Iterator[Row]:
        return assemble_rows(self._corpus, self._piped)

    def first(self) -> Row:
        """The first row.

        Raises:
            TextError: it cannot be read, or there is none.
        """
        for row in self:
            return row
        paths = ", ".join(self._corpus.paths)
        raise TextError(f"{paths}: there are no rows; pass files that have some")


def rows_of(run: config.Run) -> config.Rows:
    """The rows that a run learns from."""
    assert isinstance(run.text.corpus, config.Rows)
    return run.text.corpus


def encode_examples(
    run: config.Run,
    corpus: config.Rows,
    tokenizer: Tokenizer,
    template: Template | None,
    folder: Path,
) -> PreparedData:
    """All rows of a corpus, encoded as a run has them: the same examples on both sides.

    Args:
        run: says which window an example has to fit into, and which classes there are.
        corpus: the rows.
        tokenizer: of the run.
        template: for chats.
        folder: where the examples go.

    Raises:
        TextError: a row that you have to correct, or no example is left.
        ConfigError: the labels are of another kind than the objective's.
    """
    rows = _Rows(corpus, Piped())
    columns = assemble_columns(corpus, rows.first())
    form = _form(run, columns, rows, tokenizer, template)
    return prepare_examples(
        folder,
        form,
        rows,
        key=None,
        seed=run.seed,
        divide=lambda digests: (np.arange(len(digests)), np.arange(len(digests))),
        facts=lambda counts: _facts(form, tokenizer, counts),
    )


def _facts(form: Form, tokenizer: Tokenizer, counts: RowCounts) -> Facts:
    classes = _class_names(form)
    table = {**counts.table(), "said": form.choices, "lines": counts.lines(classes)}
    return Facts(tokenizer_sha256=tokenizer.sha256, classes=classes, census=table)


def _class_names(form: Form) -> tuple[str, ...] | None:
    return form.classes.names if isinstance(form, Labelled) else None


def _divided(digests: npt.NDArray[np.uint8], share: float) -> tuple[Indices, Indices]:
    held_out = choose_by_digest(digests, share)
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _key(
    run: config.Run, tokenizer: Tokenizer, template: Template | None, form: Form
) -> str | None:
    """A hash of all that the examples depend on; None if only reading can tell."""
    content = fingerprint(run.text, HashCache(None))
    if content is None:
        return None
    parts = [content, tokenizer.sha256, template, form.choices, run.seed]
    choices = encode(run.model), encode(run.objective)
    return hashlib.sha256(json_text([parts, choices]).encode()).hexdigest()


def _tokenizer(
    run: config.Run,
    columns: Columns,
    rows: Iterable[Row],
    template: Template | None,
    notify: Notify,
) -> Tokenizer:
    """The run's tokenizer, trained on the rows of the training side if it needs training."""
    if isinstance(run.text.tokenizer, config.FromFile | config.Bytes):
        return tokenizer_of(run.text, ())
    notify("training the tokenizer")
    # the side of a row does not depend on its tokens, so bytes are enough to find it
    form = _form(run, columns, rows, train_bytes(), template, _NO_END)
    digests = bytearray()
    places: array[int] = array("q")
    counts = RowCounts()
    for example in encode_rows(form, rows, counts):
        digests += group_digest(example.group, run.seed)
        places.append(counts.rows - 1)
    sides = np.frombuffer(digests, dtype=np.uint8).reshape(-1, 32)
    held_out = {places[int(index)] for index in _divided(sides, run.text.held_out)[1].tolist()}
    texts = (
        text
        for place, row in enumerate(rows)
        if place not in held_out
        for text in columns.texts(row)
    )
    return tokenizer_of(run.text, texts)


def _form(
    run: config.Run,
    columns: Columns,
    rows: Iterable[Row],
    tokenizer: Tokenizer,
    template: Template | None,
    context_length: int | None = None,
) -> Form:
    """The form of the run's examples; by default they must fit into its context."""
    head, objective = run.model.head, run.objective
    context_length = context_length or run.model.context_length
    if isinstance(objective, config.PolicyGradient):  # an answer must fit after its prompt
        context_length -= objective.max_new_tokens
    form = assemble_form(
        columns,
        rows,
        tokenizer,
        context_length=context_length,
        template=template,
        classes=head.classes if isinstance(head, config.ClassificationHead) else None,
    )
    if isinstance(form, Labelled):
        _check_labels(objective, form)
    return form


def _check_labels(objective: config.Objective, form: Labelled) -> None:
    assert isinstance(objective, config.Classification)
    if form.classes.multi and not objective.multi_label:
        raise ConfigError(
            "the labels are lists, or have a separator, so a text may have several classes: pass "
            "--set objective.multi_label=true"
        )
    if objective.multi_label and not form.classes.multi:
        raise ConfigError(
            "objective.multi_label is true, and each row has one label: pass --set "
            "objective.multi_label=false, or name the separator, such as --columns separator=;"
        )


def _count_rows(rows: Iterable[T], notify_progress: Notify, phase: str) -> Iterator[T]:
    last_line = time.monotonic()
    for count, row in enumerate(rows, start=1):
        if time.monotonic() - last_line >= _INTERVAL_SECONDS:
            last_line = time.monotonic()
            notify_progress(f"{phase}: {count:,}")
        yield row
