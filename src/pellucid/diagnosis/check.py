"""`check`: every probe that applies to a model, its data and its optimiser, in seconds."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from torch import Tensor, nn

from pellucid.diagnosis.batches import Examples, examples
from pellucid.diagnosis.check_call import check_call
from pellucid.diagnosis.expectations import Expectations
from pellucid.diagnosis.finding import Finding, drop_ignored
from pellucid.diagnosis.model_adapter import ModelAdapter, NoTokenLogits, has_encoder_and_decoder
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
from pellucid.diagnosis.probes.special_tokens import probe_text
from pellucid.diagnosis.probes.token_ids import probe_ids, probe_tokenizer
from pellucid.diagnosis.probes.weights import (
    probe_import,
    probe_numbers,
    probe_ties,
    probe_weights,
)
from pellucid.diagnosis.rank_state import compare_ranks, own_model
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
    ids: Tensor | Sequence[Tensor] | Mapping[str, Any] | None = None,
    labels: Tensor | None = None,
    *,
    optimizer: Any | None = None,
    tokenizer: Any | None = None,
    loss: Reported | None = None,
    held_out: Tensor | None = None,
    declared: Expectations | None = None,
    ignore: Iterable[str] = (),
) -> list[Finding]:
    """Find the faults of a model, its data and its optimiser, the worst first; change nothing.

    A probe that raises becomes a finding (SEE001), and the others still run.

    Args:
        model: a module that maps ids to logits; with a batch of arguments, any module.
        ids: (batch, time), or several batches in the order of the loader; by default random ids.
            For an encoder-decoder they are the encoder's. Or a dict of the arguments of your
            loop's own call, which is repeated with them and with others: see `check_call`.
        labels: (batch, time) of the first batch, in the form that the loss takes. For an
            encoder-decoder they are the decoder's, of another length; for a classifier or a
            regressor one for each row.
        optimizer: the optimiser, if you want to test it too.
        tokenizer: the tokenizer, if you want to test it too.
        loss: the reported loss of the first batch, or a function of (logits, labels) or of
            (model, ids, labels) that gives it; with a dict of arguments a function of (model,
            batch).
        held_out: (rows, time) ids of texts that training must not hold, to look for them in `ids`.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.

    Raises:
        PellucidError: the model does not map ids to logits, or the data has another form.
        ConfigError: `ignore` names an unknown code; or weights are sharded, and not all ranks call
            this.
    """
    ignored = tuple(ignore)
    drop_ignored([], ignored)
    run = ProbeRunner()
    of_ranks = run(compare_ranks, model, optimizer, ids) or []
    model, optimizer = own_model(model, optimizer)
    findings = _check_one(
        model, ids, labels, optimizer, tokenizer, loss, held_out, declared, ignored
    )
    return drop_ignored((*of_ranks, *findings), ignored)


def _check_one(
    model: nn.Module,
    ids: Tensor | Sequence[Tensor] | Mapping[str, Any] | None,
    labels: Tensor | None,
    optimizer: Any | None,
    tokenizer: Any | None,
    loss: Reported | None,
    held_out: Tensor | None,
    declared: Expectations | None,
    ignored: tuple[str, ...],
) -> list[Finding]:
    """The findings of this process's own model."""
    data = None
    is_call = isinstance(ids, Mapping) and any(isinstance(v, Tensor) for v in ids.values())
    if not is_call and not _is_of_rows(labels):
        two_texts = has_encoder_and_decoder(model)
        tensors = cast("Tensor | Sequence[Tensor] | None", ids)
        data = None if tensors is None else examples(tensors, labels, two_texts=two_texts)
        try:
            return check_examples(
                model,
                data,
                optimizer=optimizer,
                tokenizer=tokenizer,
                loss=loss,
                held_out=held_out,
                declared=declared,
                ignore=ignored,
            )
        except NoTokenLogits:
            if data is None:
                raise
    return check_call(
        model,
        ids if isinstance(ids, Mapping) else _as_batch(model, ids, labels),
        optimizer=optimizer,
        tokenizer=tokenizer,
        loss=loss,
        held_out=held_out,
        declared=declared,
        ignore=ignored,
    )


def _is_of_rows(labels: Any) -> bool:
    """Whether labels are classes or numbers of whole rows."""
    return isinstance(labels, Tensor) and (labels.ndim == 1 or labels.is_floating_point())


def _as_batch(model: nn.Module, ids: Any, labels: Tensor | None) -> dict[str, Any]:
    """The arguments of a call with these ids, by the names that the model gives them."""
    names = list(inspect.signature(model.forward).parameters)
    first = ids if isinstance(ids, Tensor) else next(iter(ids))
    batch = {"input_ids" if "input_ids" in names else names[0]: first}
    name = next((n for n in ("labels", "targets") if n in names), None)
    return batch if labels is None or name is None else batch | {name: labels}


def check_examples(
    model: nn.Module,
    data: Examples | None,
    *,
    optimizer: Any | None = None,
    tokenizer: Any | None = None,
    loss: Reported | None = None,
    held_out: Tensor | None = None,
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
        held_out: as for `check`.
        declared: what you intend, so that it is not reported.
        ignore: codes to leave out.
    """
    run, run_first = ProbeRunner(), ProbeRunner(severity="warn", passed_errors=(PellucidError,))
    findings = run(probe_numbers, model) or []
    adapter = run_first(_outputs, model, declared)
    if adapter is not None:
        data = None if data is None else data.to_device(adapter.device)
        findings += _check_adapter(run, adapter, data, optimizer, tokenizer, loss)
    if data is not None:
        findings += run(probe_text, data, tokenizer, held_out) or []
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
