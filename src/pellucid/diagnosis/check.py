"""`check`: every probe that makes sense for a model, its data and its optimiser, in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from pellucid.diagnosis.batches import Examples, examples
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding, drop_ignored
from pellucid.diagnosis.model_adapter import ModelAdapter, has_encoder_and_decoder
from pellucid.diagnosis.not_examined import ProbeRunner
from pellucid.diagnosis.probes.labels import probe_ends, probe_labels, probe_supervised
from pellucid.diagnosis.probes.leakage import (
    probe_batch,
    probe_causality,
    probe_documents,
    probe_padding,
)
from pellucid.diagnosis.probes.learning import probe_gradients, probe_moves, probe_overfit
from pellucid.diagnosis.probes.losses import Reported, probe_initial_loss, probe_loss
from pellucid.diagnosis.probes.numerics import probe_chance, probe_dtypes, probe_finite
from pellucid.diagnosis.probes.receptive_field import (
    probe_positions,
    probe_receptive_field,
    probe_rotary,
)
from pellucid.diagnosis.probes.token_ids import probe_duplicates, probe_ids, probe_tokenizer
from pellucid.diagnosis.probes.weights import (
    probe_import,
    probe_numbers,
    probe_ties,
    probe_weights,
)
from pellucid.errors import PellucidError

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
    declared: Expectations | None = None,
    ignore: Iterable[str] = (),
) -> list[Finding]:
    """The faults of a model, its data and its optimiser, the worst first; nothing is changed.

    A probe that raises becomes a finding (SEE001), and the others still run.

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time), or several batches in the order of the loader; by default random ids.
            For an encoder-decoder they are the encoder's.
        labels: (batch, time) of the first batch, in the form that the loss takes. For an
            encoder-decoder they are the decoder's, of another length.
        optimizer: the optimiser, if it is to be tested too.
        tokenizer: the tokenizer, if it is to be tested too.
        loss: the reported loss of the first batch, or a function of (logits, labels) or of
            (model, ids, labels) that gives it.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        PellucidError: the model does not map ids to logits, or the data has another form.
        ConfigError: `ignore` names a code that there is not.
    """
    ignored = tuple(ignore)
    drop_ignored([], ignored)
    return check_examples(
        model,
        None if ids is None else examples(ids, labels, two_texts=has_encoder_and_decoder(model)),
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
    declared: Expectations | None = None,
    ignore: Iterable[str] = (),
) -> list[Finding]:
    """As `check`, of data that are `Examples` already: with padding, or with what is looked at."""
    ask, first = ProbeRunner(), ProbeRunner(severity="warn", through=(PellucidError,))
    findings = ask(probe_numbers, model) or []
    adapter = first(_outputs, model, declared)
    if adapter is not None:
        findings += _asked_of(
            ask, adapter, data, optimizer=optimizer, tokenizer=tokenizer, loss=loss
        )
    elif data is not None:
        findings += ask(probe_duplicates, data) or []
    return drop_ignored(_once([*findings, *first.unseen, *ask.unseen]), ignore)


def _outputs(model: nn.Module, declared: Expectations | None) -> ModelAdapter:
    return ModelAdapter(model, declared)


def _asked_of(
    ask: ProbeRunner,
    adapter: ModelAdapter,
    data: Examples | None,
    *,
    optimizer: Any | None,
    tokenizer: Any | None,
    loss: Reported | None,
) -> list[Finding]:
    data = None if data is None else data.on(adapter.device)
    findings: list[Finding] = []
    if tokenizer is not None:
        findings += ask(probe_tokenizer, tokenizer, adapter.vocab, data) or []
    outside = [] if data is None else ask(probe_ids, data, adapter.vocab) or []
    if outside:
        data = None
    ids = None if data is None else _small(adapter, data).ids
    findings += outside + (ask(probe_finite, adapter, ids) or [])
    if any(finding.code in ("WGT001", "NUM004") for finding in findings):
        return findings
    findings += _of_the_model(ask, adapter, ids, optimizer)
    return findings + ([] if data is None else _of_the_data(ask, adapter, data, tokenizer, loss))


def _of_the_model(
    ask: ProbeRunner, adapter: ModelAdapter, ids: Tensor | None, optimizer: Any
) -> list[Finding]:
    findings: list[Finding] = []
    for probe in (*_OF_THE_CODE, probe_ties, probe_weights):
        findings += ask(probe, adapter) or []
    findings += ask(probe_dtypes, adapter, optimizer) or []
    findings += ask(probe_chance, adapter) or []
    findings += ask(probe_gradients, adapter, ids) or []
    if optimizer is not None:
        findings += ask(probe_moves, adapter, optimizer, ids) or []
    return findings + (ask(probe_overfit, adapter, ids) or [])


def _of_the_data(
    ask: ProbeRunner, adapter: ModelAdapter, data: Examples, tokenizer: Any, loss: Reported | None
) -> list[Finding]:
    small = _small(adapter, data)
    # a loss that was reported as a number is the whole batch's
    run_on = data if isinstance(loss, int | float) else small
    findings = ask(probe_duplicates, data) or []
    findings += ask(probe_labels, adapter, data) or []
    findings += ask(probe_supervised, adapter, data) or []
    findings += ask(probe_ends, data, tokenizer) or []
    findings += ask(probe_loss, adapter, run_on, loss) or []
    findings += ask(probe_initial_loss, adapter, small) or []
    return findings + (ask(probe_import, adapter, small) or [])


def _small(adapter: ModelAdapter, data: Examples) -> Examples:
    """The first rows of the first batch, no longer than the model takes."""
    cut = (slice(0, _ROWS), slice(0, min(_TOKENS, adapter.context or _TOKENS)))
    parts = (data.labels, data.padding, data.source, data.source_padding)
    return Examples((data.ids[cut],), *(None if part is None else part[cut] for part in parts))


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """What two probes found alike is one finding: the first."""
    first: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        first.setdefault((finding.code, finding.where), finding)
    return list(first.values())
