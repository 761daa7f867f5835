"""The rows of a new run: read, encoded as its objective has them, and parted.

Comes in: a run's config. Goes out: its tokenizer, and a function that fills a run's folder. It does
not know models.

Rows are in memory while they are prepared: examples to tune by are few, beside a text to read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pellucid import config
from pellucid.data import (
    Census,
    Columns,
    Example,
    Facts,
    Form,
    Labelled,
    Piped,
    Row,
    StoredExamples,
    Template,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
    held_out_of,
    write,
)
from pellucid.data.prepared import Ready
from pellucid.data.skipped_rows import encode_rows
from pellucid.errors import ConfigError, TextError
from pellucid.runs.prepare_text import tokenizer_of
from pellucid.saved_runs.folder import RunFolder, home_of
from pellucid.saved_runs.progress import Say
from pellucid.tokenizers import Tokenizer, train_bytes

T = TypeVar("T")
Held = npt.NDArray[np.bool_]

#: A window that nothing fills, where rows are only parted.
_NO_END = 2**40
#: Seconds from one line to the next.
_INTERVAL_SECONDS = 5.0


def ready_rows(run: config.Run, say: Say, now: Say) -> Ready:
    """The tokenizer of a run's rows, and what puts the encoded examples into its folder.

    A tokenizer that is trained sees the training side alone.

    Raises:
        TextError: the rows cannot be read, or are too few.
        ConfigError: the labels are of another kind than the objective's.
    """
    say("reading the rows")
    corpus = rows_of(run)
    rows = read_rows(corpus, now)
    columns = assemble_columns(corpus, rows[0])
    # a template may lie beside the tokenizer
    home = None if run.start is None else home_of(Path(run.start))
    template = assemble_template(corpus, home)
    tokenizer = _tokenizer(run, columns, rows, template, say)
    say("encoding the rows")
    examples, facts = encode_examples(run, columns, rows, tokenizer, template, now)
    held_out = _parted(examples, run)

    def fill(folder: Path) -> StoredExamples:
        if template is not None:
            RunFolder(folder.parent).template.write_text(template.source, encoding="utf-8")
        sides = {"train": _side(examples, ~held_out), "held_out": _side(examples, held_out)}
        return stored(folder, sides, facts)

    return Ready(tokenizer, fill, facts.classes)


def read_rows(corpus: config.Rows, now: Say) -> list[Row]:
    """All rows that a config names.

    Raises:
        TextError: they cannot be read, or there are none.
    """
    rows = list(_counted(assemble_rows(corpus, Piped()), now, "reading the rows"))
    if not rows:
        raise TextError(f"{', '.join(corpus.paths)}: there are no rows; pass files that have some")
    return rows


def rows_of(run: config.Run) -> config.Rows:
    """The rows that a run learns from."""
    assert isinstance(run.text.corpus, config.Rows)
    return run.text.corpus


def encode_examples(
    run: config.Run,
    columns: Columns,
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    template: Template | None,
    now: Say,
) -> tuple[list[Example], Facts]:
    """Rows as examples, and what became of them.

    Raises:
        TextError: a row that somebody has to mend, or no example is left.
        ConfigError: the labels are of another kind than the objective's.
    """
    form = _form(run, columns, rows, tokenizer, template, run.model.context_length)
    classes = form.classes.names if isinstance(form, Labelled) else None
    if isinstance(form, Labelled):
        _check_labels(run.objective, form)
    census = Census()
    examples = list(encode_rows(form, _counted(rows, now, "encoding the rows"), census))
    census_table = {**census.table(), "said": form.said, "lines": census.lines(classes)}
    return examples, Facts(tokenizer_sha256=tokenizer.sha256, classes=classes, census=census_table)


def stored(folder: Path, sides: dict[str, list[Example]], facts: Facts) -> StoredExamples:
    """The sides written to a folder; with whole rows where somebody asks for them later."""
    keeps = any(example.kept is not None for side in sides.values() for example in side)
    return write(folder, sides, facts, text_of=_text_to_keep if keeps else None)


def _text_to_keep(example: Example) -> str:
    assert example.kept is not None
    return example.kept


def _side(examples: Sequence[Example], chosen: Held) -> list[Example]:
    return [example for example, is_chosen in zip(examples, chosen, strict=True) if is_chosen]


def _parted(examples: Sequence[Example], run: config.Run) -> Held:
    return held_out_of([example.group for example in examples], run.text.held_out, run.seed)


def _tokenizer(
    run: config.Run,
    columns: Columns,
    rows: Sequence[Row],
    template: Template | None,
    say: Say,
) -> Tokenizer:
    """The run's tokenizer; one that is trained sees the rows of the training side alone."""
    if isinstance(run.text.tokenizer, config.FromFile | config.Bytes):
        return tokenizer_of(run.text, ())
    say("training the tokenizer")
    # which side a row is on does not depend on its tokens, so that bytes will do to find it
    form = _form(run, columns, rows, train_bytes(), template, _NO_END)
    examples = list(encode_rows(form, rows, Census()))
    held_out = {e.row for e in _side(examples, _parted(examples, run))}
    texts = (text for row in rows if row.number not in held_out for text in columns.texts(row))
    return tokenizer_of(run.text, texts)


def _form(
    run: config.Run,
    columns: Columns,
    rows: Sequence[Row],
    tokenizer: Tokenizer,
    template: Template | None,
    context_length: int,
) -> Form:
    head, objective = run.model.head, run.objective
    classes = head.classes if isinstance(head, config.ClassificationHead) else None
    if isinstance(objective, config.PolicyGradient):  # an answer has to fit behind its prompt
        context_length -= objective.max_new_tokens
    return assemble_form(
        columns,
        rows,
        tokenizer,
        context_length=context_length,
        template=template,
        classes=classes,
    )


def _check_labels(objective: config.Objective, form: Labelled) -> None:
    assert isinstance(objective, config.Classification)
    if form.classes.multi and not objective.multi_label:
        raise ConfigError(
            "the labels are lists, or are parted by a separator, so that a text may have several "
            "classes: say so with --set objective.multi_label=true"
        )
    if objective.multi_label and not form.classes.multi:
        raise ConfigError(
            "objective.multi_label is true, and each row has one label: pass --set "
            "objective.multi_label=false, or say what parts them, such as --columns separator=;"
        )


def _counted(rows: Iterable[T], say_progress: Say, phase: str) -> Iterator[T]:
    last_said = time.monotonic()
    for count, row in enumerate(rows, start=1):
        if time.monotonic() - last_said >= _INTERVAL_SECONDS:
            last_said = time.monotonic()
            say_progress(f"{phase}: {count:,}")
        yield row
