"""`check`: every probe that makes sense for a model, its data and its optimiser, in seconds.

Comes in: a module, perhaps data, an optimiser, a tokenizer, a loss. Goes out: findings, the worst
first. It does not know how any of it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from pellucid.diagnosis.data import Examples, examples
from pellucid.diagnosis.declared import Declared
from pellucid.diagnosis.finding import Finding, without
from pellucid.diagnosis.labels import probe_ends, probe_labels, probe_supervised
from pellucid.diagnosis.learning import probe_gradients, probe_moves, probe_overfit
from pellucid.diagnosis.losses import Reported, probe_initial_loss, probe_loss
from pellucid.diagnosis.numerics import probe_chance, probe_dtypes, probe_finite
from pellucid.diagnosis.reach import probe_positions, probe_receptive_field, probe_rotary
from pellucid.diagnosis.rows import probe_duplicates, probe_ids, probe_tokenizer
from pellucid.diagnosis.sight import (
    probe_batch,
    probe_causality,
    probe_documents,
    probe_padding,
)
from pellucid.diagnosis.subject import Subject
from pellucid.diagnosis.weights import (
    probe_import,
    probe_numbers,
    probe_ties,
    probe_weights,
)

#: On how much of a batch the model is run.
_ROWS, _TOKENS = 4, 512

_OF_THE_CODE = (
    probe_causality,
    probe_batch,
    probe_padding,
    probe_documents,
    probe_receptive_field,
    probe_positions,
    probe_rotary,
)


def check(
    model: nn.Module,
    ids: Tensor | Sequence[Tensor] | None = None,
    labels: Tensor | None = None,
    *,
    optimizer: Any | None = None,
    tokenizer: Any | None = None,
    loss: Reported | None = None,
    declared: Declared | None = None,
    ignore: Iterable[str] = (),
) -> list[Finding]:
    """What is wrong with a model, its data and its optimiser, the worst first; nothing is changed.

    `ids` are (batch, time), or several batches as they come; `labels` are those of the first, as
    the loss is handed them. `loss` is the value that is reported for them, or the function of
    (logits, labels) or of (model, ids, labels) that gives it. Without data, ids are made up.

    Raises:
        PellucidError: the model does not map ids to logits, or the data has another form.
        ConfigError: `ignore` names a code that there is not.
    """
    ignored = tuple(ignore)
    without([], ignored)
    return check_examples(
        model,
        None if ids is None else examples(ids, labels),
        optimizer=optimizer,
        tokenizer=tokenizer,
        loss=loss,
        declared=declared,
        ignore=ignored,
    )


def check_examples(
    model: nn.Module,
    data: Examples | None,
    *,
    optimizer: Any | None = None,
    tokenizer: Any | None = None,
    loss: Reported | None = None,
    declared: Declared | None = None,
    ignore: Iterable[str] = (),
) -> list[Finding]:
    """As `check`, of data that are `Examples` already: with padding, or with what is looked at."""
    findings = probe_numbers(model)
    subject = Subject(model, declared)
    data = None if data is None else data.on(subject.device)
    if tokenizer is not None:
        findings += probe_tokenizer(tokenizer, subject.vocab, data)
    outside = [] if data is None else probe_ids(data, subject.vocab)
    if outside:
        data = None
    findings += outside + probe_finite(subject, None if data is None else _small(subject, data).ids)
    if not any(each.code in ("WGT001", "NUM004") for each in findings):
        findings += _of_the_model(subject, data, optimizer)
        findings += [] if data is None else _of_the_data(subject, data, tokenizer, loss)
    return without(_once(findings), ignore)


def _of_the_model(subject: Subject, data: Examples | None, optimizer: Any) -> list[Finding]:
    ids = None if data is None else _small(subject, data).ids
    findings = [each for probe in _OF_THE_CODE for each in probe(subject)]
    findings += probe_ties(subject) + probe_weights(subject) + probe_dtypes(subject, optimizer)
    findings += probe_chance(subject) + probe_gradients(subject, ids)
    if optimizer is not None:
        findings += probe_moves(subject, optimizer, ids)
    return findings + probe_overfit(subject, ids)


def _of_the_data(
    subject: Subject, data: Examples, tokenizer: Any, loss: Reported | None
) -> list[Finding]:
    findings = probe_duplicates(data) + probe_labels(subject, data)
    findings += probe_supervised(subject, data) + probe_ends(data, tokenizer)
    # a loss that was reported as a number is the whole batch's
    run_on = data if isinstance(loss, int | float) else _small(subject, data)
    findings += probe_loss(subject, run_on, loss)
    return (
        findings
        + probe_initial_loss(subject, _small(subject, data))
        + probe_import(subject, _small(subject, data))
    )


def _small(subject: Subject, data: Examples) -> Examples:
    """The first rows of the first batch, no longer than the model takes."""
    cut = (slice(0, _ROWS), slice(0, min(_TOKENS, subject.context or _TOKENS)))
    rest = (data.labels, data.padding, data.source, data.source_padding)
    return Examples((data.ids[cut],), *(None if each is None else each[cut] for each in rest))


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """What two probes found alike is one finding: the first."""
    first: dict[tuple[str, str], Finding] = {}
    for each in findings:
        first.setdefault((each.code, each.where), each)
    return list(first.values())
