"""`check`: every probe that applies to a model, its data and its optimiser, in seconds."""

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

#: The model runs on at most so much of a batch.
_ROWS, _TOKENS = 4, 512

_PROBES_OF_CODE = (
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
    """Find the faults of a model, its data and its optimiser, the worst first; change nothing.

    A probe that raises becomes a finding (SEE001), and the others still run.

    Args:
        model: a module that maps ids to logits.
        ids: (batch, time), or several batches in the order of the loader; by default random ids.
            For an encoder-decoder they are the encoder's.
        labels: (batch, time) of the first batch, in the form that the loss takes. For an
            encoder-decoder they are the decoder's, of another length.
        optimizer: the optimiser, if you want to test it too.
        tokenizer: the tokenizer, if you want to test it too.
        loss: the reported loss of the first batch, or a function of (logits, labels) or of
            (model, ids, labels) that gives it.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        PellucidError: the model does not map ids to logits, or the data has another form.
        ConfigError: `ignore` names an unknown code.
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
    """Run `check` on data that are `Examples` already, with padding or an encoder's source.

    Args:
        model: a module that maps ids to logits.
        data: the data; None for random ids.
        optimizer: the optimiser, if you want to test it too.
        tokenizer: the tokenizer, if you want to test it too.
        loss: as for `check`.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.
    """
    run, run_first = ProbeRunner(), ProbeRunner(severity="warn", passed_errors=(PellucidError,))
    findings = run(probe_numbers, model) or []
    adapter = run_first(_outputs, model, declared)
    if adapter is not None:
        data = None if data is None else data.to_device(adapter.device)
        findings += _check_adapter(run, adapter, data, optimizer, tokenizer, loss)
    elif data is not None:
        findings += run(probe_duplicates, data) or []
    first: dict[tuple[str, str], Finding] = {}  # of equal findings of two probes the first counts
    for finding in (*findings, *run_first.unseen, *run.unseen):
        first.setdefault((finding.code, finding.where), finding)
    return drop_ignored(first.values(), ignore)


def _outputs(model: nn.Module, declared: Expectations | None) -> ModelAdapter:
    """The adapter, which runs the model; a finding calls this step "outputs"."""
    return ModelAdapter(model, declared)


def _check_adapter(
    run: ProbeRunner,
    adapter: ModelAdapter,
    data: Examples | None,
    optimizer: Any | None,
    tokenizer: Any | None,
    loss: Reported | None,
) -> list[Finding]:
    findings: list[Finding] = []
    if tokenizer is not None:
        findings += run(probe_tokenizer, tokenizer, adapter.vocab, data) or []
    unknown_ids = [] if data is None else run(probe_ids, data, adapter.vocab) or []
    if unknown_ids:
        data = None
    ids = None if data is None else _cut(adapter, data).ids
    findings += unknown_ids + (run(probe_finite, adapter, ids) or [])
    if any(finding.code in ("WGT001", "NUM004") for finding in findings):
        return findings
    for probe in (*_PROBES_OF_CODE, probe_ties, probe_weights):
        findings += run(probe, adapter) or []
    findings += run(probe_dtypes, adapter, optimizer) or []
    findings += run(probe_chance, adapter) or []
    findings += run(probe_gradients, adapter, ids) or []
    if optimizer is not None:
        findings += run(probe_moves, adapter, optimizer, ids) or []
    findings += run(probe_overfit, adapter, ids) or []
    return findings + ([] if data is None else _check_data(run, adapter, data, tokenizer, loss))


def _check_data(
    run: ProbeRunner, adapter: ModelAdapter, data: Examples, tokenizer: Any, loss: Reported | None
) -> list[Finding]:
    cut = _cut(adapter, data)
    # a loss that was reported as a number belongs to the whole batch
    loss_data = data if isinstance(loss, int | float) else cut
    return [
        *(run(probe_duplicates, data) or []),
        *(run(probe_labels, adapter, data) or []),
        *(run(probe_supervised, adapter, data) or []),
        *(run(probe_ends, data, tokenizer) or []),
        *(run(probe_loss, adapter, loss_data, loss) or []),
        *(run(probe_initial_loss, adapter, cut) or []),
        *(run(probe_import, adapter, cut) or []),
    ]


def _cut(adapter: ModelAdapter, data: Examples) -> Examples:
    """The first rows of the first batch, no longer than the model's context."""
    corner = (slice(0, _ROWS), slice(0, min(_TOKENS, adapter.context or _TOKENS)))
    parts = (data.labels, data.padding, data.source, data.source_padding)
    return Examples(
        (data.ids[corner],), *(None if part is None else part[corner] for part in parts)
    )
