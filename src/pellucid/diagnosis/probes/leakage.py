"""Probes of leaks: from the future, other rows, padding, other documents.

A probe changes some tokens and compares the outputs that must stay the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import HALF, ModelAdapter


def relative_change(before: Tensor, after: Tensor) -> Tensor:
    """The change of outputs at each (row, time), relative to the size of the outputs."""
    before, after = before.double(), after.double()
    centred = before - before.mean(dim=-1, keepdim=True)
    size = centred.square().mean().sqrt().clamp_min(1e-30)
    return (after - before).abs().amax(dim=-1) / size


def tolerance(output: Tensor, code: str = "ATT001") -> float:
    """The largest relative change that may be rounding in outputs of this type."""
    return limit(code, "half" if output.dtype in HALF else "change")


def probe_causality(adapter: ModelAdapter) -> list[Finding]:
    """Whether an output depends on a token after it: change the tokens after each position."""
    if not adapter.causal or adapter.length < 2:
        return []
    time = adapter.length
    ids = adapter.random_ids(1)
    is_future = torch.arange(time) > torch.arange(-1, time - 1)[:, None]
    is_future = is_future.to(ids.device)  # row 0 changes all tokens, row t those after t - 1
    variants = torch.where(is_future, adapter.changed_ids(ids), ids)
    with adapter.awake():  # two calls of one shape use the same kernels
        original = adapter.outputs(ids.expand(time, -1).contiguous())
        influence = relative_change(original, adapter.outputs(variants.contiguous()))
    influence = influence.masked_fill(is_future, 0.0)
    worst = float(influence.max())
    if not worst > tolerance(original):
        return []
    row, position = divmod(int(influence.argmax()), time)
    rows, positions = torch.arange(time)[:, None], torch.arange(time)
    is_distant = (positions < rows - 1).to(influence.device)
    is_off_by_one = float(influence.masked_fill(~is_distant, 0.0).max()) <= tolerance(original)
    cause = "off by one" if is_off_by_one else "missing"
    return [describe("ATT001", worst=worst, position=position, row=row, cause=cause)]


def probe_batch(adapter: ModelAdapter) -> list[Finding]:
    """Whether a row's output depends on its neighbours in the batch."""
    ids = adapter.random_ids(3)
    variants = ids.clone()
    variants[1:] = adapter.changed_ids(ids[1:])
    with adapter.awake():
        original, variant = adapter.outputs(ids), adapter.outputs(variants)
    worst = float(relative_change(original, variant)[0].max())
    return [describe("ATT002", worst=worst)] if worst > tolerance(original, "ATT002") else []


def probe_padding(adapter: ModelAdapter) -> list[Finding]:
    """Whether the ids under padding change the outputs of real tokens."""
    if not adapter.takes_padding or adapter.length < 4:
        return []
    n, pads_source = adapter.length // 3, adapter.has_encoder_and_decoder
    pads_left = adapter.causal and not pads_source
    real = torch.ones(2, adapter.length, dtype=torch.bool, device=adapter.device)
    real[0, slice(0, n) if pads_left else slice(-n, None)] = False
    ids = adapter.random_ids(2)
    variants = torch.where(real, ids, adapter.changed_ids(ids))
    is_compared = torch.ones_like(real) if pads_source else real
    padded_outputs = _with_padding(adapter, (ids, variants), real)
    if padded_outputs is None:
        return []
    original, variant = padded_outputs
    is_finite = torch.isfinite(original)
    if not bool(is_finite[is_compared].all()):
        return [describe("ATT006", share=float((~is_finite).double().mean()))]
    # the outputs of padding itself may be anything, NaN too
    change = relative_change(torch.nan_to_num(original), torch.nan_to_num(variant))
    worst = float(change[is_compared].max())
    return [describe("ATT003", worst=worst)] if worst > tolerance(original, "ATT003") else []


def _with_padding(
    adapter: ModelAdapter, batches: tuple[Tensor, Tensor], real: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Outputs for two batches of ids; None if the model expects another form of mask.

    They are float64 only if they are finite: a mask that suits one type may overflow in another.
    """

    def run(ids: Tensor) -> Tensor:
        if adapter.has_encoder_and_decoder:
            decoder_ids = adapter.random_ids(ids.shape[0], seed=5)
            return adapter.outputs(decoder_ids, source=ids, source_padding=real)
        return adapter.outputs(ids, padding=real)

    outputs: tuple[Tensor, Tensor] | None = None
    for wide in (True, False):
        with adapter.awake(wide=wide):
            try:
                outputs = run(batches[0]), run(batches[1])
            except (TypeError, RuntimeError):
                return outputs
        if bool(torch.isfinite(outputs[0][real]).all()):
            break
    return outputs


def probe_documents(adapter: ModelAdapter) -> list[Finding]:
    """Whether a document in a packed row changes the outputs of the next document."""
    if not adapter.takes_documents or adapter.length < 4:
        return []
    ids = adapter.random_ids(1)
    cut = adapter.length // 2
    second = (torch.arange(adapter.length, device=ids.device) >= cut)[None]
    documents = second.long()
    with adapter.awake():
        original = adapter.outputs(ids, documents=documents)
        variants = torch.where(second, ids, adapter.changed_ids(ids))
        variant = adapter.outputs(variants, documents=documents)
    worst = float(relative_change(original, variant)[second].max())
    return [describe("ATT004", worst=worst)] if worst > tolerance(original, "ATT004") else []
