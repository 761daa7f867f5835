"""The rows of a new run: read, encoded as its objective has them, and parted.

Comes in: a run's config. Goes out: its tokenizer, and a function that fills a run's folder. It does
not know models.

Rows are in memory while they are prepared: examples to tune by are few, beside a text to read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from pellucid import config
from pellucid.errors import TextError
from pellucid.examples import (
    Census,
    ChatForm,
    Columns,
    Example,
    Facts,
    Form,
    Row,
    StoredExamples,
    Template,
    assemble_columns,
    assemble_form,
    assemble_rows,
    assemble_template,
    encoded,
    held_out_of,
    write,
)
from pellucid.runs.data import Ready
from pellucid.runs.folder import existing_folder, is_published
from pellucid.runs.pace import Say
from pellucid.runs.text import tokenizer_of
from pellucid.text import Piped, Tokenizer, train_bytes

T = TypeVar("T")

#: A context that nothing fills, for a first reading without one.
_NO_END = 2**40


def ready_rows(run: config.Run, say: Say, now: Say) -> Ready:
    """The tokenizer of a run's rows, and what puts the encoded examples into its folder.

    A tokenizer that is trained sees the training side alone.

    Raises:
        TextError: the rows cannot be read, or are too few.
    """
    say("reading the rows")
    corpus = run.text.corpus
    assert isinstance(corpus, config.Rows)
    rows = list(_counted(assemble_rows(corpus, Piped()), now, "reading the rows"))
    if not rows:
        raise TextError(f"{', '.join(corpus.paths)}: there are no rows; pass files that have some")
    columns = assemble_columns(corpus, rows[0])
    template = assemble_template(corpus, beside_tokenizer(run.start))
    say("training the tokenizer")
    tokenizer = _tokenizer(run, columns, rows, template)
    form = form_of(run, columns, rows, tokenizer, template)
    say("encoding the rows")
    census = Census()
    with closing(form):
        examples = list(encoded(form, _counted(rows, now, "encoding the rows"), census))
    held_out = held_out_of([each.group for each in examples], run.text.held_out, run.seed)
    facts = Facts(
        tokenizer_sha256=tokenizer.sha256,
        classes=form.classes,
        census={**census.table(), "said": form.said, "lines": census.lines(form.classes)},
    )

    def fill(folder: Path) -> StoredExamples:
        sides = {
            "train": [e for e, out in zip(examples, held_out, strict=True) if not out],
            "held_out": [e for e, out in zip(examples, held_out, strict=True) if out],
        }
        keeps = examples[0].kept is not None
        if template is not None:
            (folder.parent / TEMPLATE).write_text(template.source, encoding="utf-8")
        return write(folder, sides, facts, text_of=_kept if keeps else None)

    return Ready(tokenizer, fill, form.classes)
