"""Probes of who can see whom: the future, the neighbours, padding, other documents.

A probe changes some tokens and compares the outputs that must not move.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import HALF, ModelAdapter


def moved(before: Tensor, after: Tensor) -> Tensor:
    """How far outputs moved at each (row, time), relative to the size of the outputs."""
    before, after = before.double(), after.double()
    centred = before - before.mean(dim=-1, keepdim=True)
    size = centred.square().mean().sqrt().clamp_min(1e-30)
    return (after - before).abs().amax(dim=-1) / size


def tolerance(output: Tensor, code: str = "ATT001") -> float:
    """The largest change, relative to the size of outputs of this type, taken for rounding."""
    return limit(code, "half" if output.dtype in HALF else "change")


def probe_causality(adapter: ModelAdapter) -> list[Finding]:
    """Whether an output depends on a token after it: later tokens are changed, place by place."""
    if not adapter.causal or adapter.length < 2:
        return []
    time = adapter.length
    ids = adapter.random_ids(1)
    later = torch.arange(time) > torch.arange(-1, time - 1)[:, None]
    later = later.to(ids.device)  # row 0 changes all, row t those after t - 1
    variants = torch.where(later, adapter.changed_ids(ids), ids)
    with adapter.awake():
        original, changed = _paired(adapter, ids.expand(time, -1), variants)
    influence = moved(original, changed).masked_fill(later, 0.0)
    worst = float(influence.max())
    if not worst > tolerance(original):
        return []
    row, place = divmod(int(influence.argmax()), time)
    return [
        build_finding(
            "ATT001",
            f"The output at position {place} changes when only tokens after it, from position "
            f"{row} on, are changed.",
            evidence("ATT001", "largest relative change", worst),
            cause=_of_leak(influence, tolerance(original)),
        )
    ]


def _of_leak(influence: Tensor, allowed: float) -> str:
    """Whether the mask is missing, or off by one."""
    time = influence.shape[1]
    rows, places = torch.arange(time)[:, None], torch.arange(time)
    far = (places < rows - 1).to(influence.device)
    if float(influence.masked_fill(~far, 0.0).max()) <= allowed:
        return (
            "each token sees exactly one token too many: the causal mask is off by one "
            "(tril with diagonal=1, or queries shifted against keys)"
        )
    return (
        "no causal mask at all, a mask that is applied after the softmax or with its sense "
        "reversed, or a statistic that is taken over time; a model that is to see both ways is "
        "told so with declare(causal=False)"
    )


def probe_batch(adapter: ModelAdapter) -> list[Finding]:
    """Whether a row's output depends on its neighbours in the batch."""
    ids = adapter.random_ids(3)
    variants = ids.clone()
    variants[1:] = adapter.changed_ids(ids[1:])
    with adapter.awake():
        original, changed = adapter.outputs(ids), adapter.outputs(variants)
    worst = float(moved(original, changed)[0].max())
    if not worst > tolerance(original, "ATT002"):
        return []
    return [
        build_finding(
            "ATT002",
            "The first row's output changes when only the other rows of the batch are changed.",
            evidence("ATT002", "largest relative change", worst),
            cause="batch and time are confused (a module with batch_first=False that is handed "
            "batch first, a reshape across rows), or a statistic is taken over the batch",
        )
    ]


def probe_padding(adapter: ModelAdapter) -> list[Finding]:
    """Whether what stands under padding changes the outputs of real tokens."""
    if not adapter.takes_padding or adapter.length < 4:
        return []
    n, across = adapter.length // 3, adapter.has_encoder_and_decoder
    pads_left = adapter.causal and not across
    real = torch.ones(2, adapter.length, dtype=torch.bool, device=adapter.device)
    real[0, slice(0, n) if pads_left else slice(-n, None)] = False
    ids = adapter.random_ids(2)
    variants = torch.where(real, ids, adapter.changed_ids(ids))
    judged = torch.ones_like(real) if across else real
    padded_outputs = _with_padding(adapter, (ids, variants), real)
    if padded_outputs is None:
        return []
    original, changed = padded_outputs
    if not bool(torch.isfinite(original[judged]).all()):
        return [
            build_finding(
                "ATT006",
                "With padding in the batch, outputs of real tokens are not finite.",
                evidence("ATT006", "outputs that are not finite", _share_not_finite(original)),
            )
        ]
    worst = float(moved(*(_without_nan(tensor) for tensor in (original, changed)))[judged].max())
    if not worst > tolerance(original, "ATT003"):
        return []
    return [
        build_finding(
            "ATT003",
            "Outputs of real tokens change when only the ids under padding are changed.",
            evidence("ATT003", "largest relative change", worst),
        )
    ]


def _with_padding(
    adapter: ModelAdapter, batches: tuple[Tensor, Tensor], real: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Outputs for two batches of ids; None where the mask is to have another form.

    In float64 only if they are finite there: a mask that is made for one width and used in another
    can make infinities of its own.
    """
    outputs: tuple[Tensor, Tensor] | None = None
    for wide in (True, False):
        with adapter.awake(wide=wide):
            try:
                original, changed = (_padded(adapter, batch, real) for batch in batches)
            except (TypeError, RuntimeError):
                return outputs
        outputs = original, changed
        if bool(torch.isfinite(original[real]).all()):
            break
    return outputs


def _padded(adapter: ModelAdapter, ids: Tensor, real: Tensor) -> Tensor:
    if adapter.has_encoder_and_decoder:
        read = adapter.random_ids(ids.shape[0], seed=5)
        return adapter.outputs(read, source=ids, source_padding=real)
    return adapter.outputs(ids, padding=real)


def _share_not_finite(output: Tensor) -> float:
    return float((~torch.isfinite(output)).double().mean())


def _without_nan(output: Tensor) -> Tensor:
    """Outputs of padding itself, which nobody reads, may be anything."""
    return torch.nan_to_num(output)


def probe_documents(adapter: ModelAdapter) -> list[Finding]:
    """Whether one of two documents packed into a row changes the outputs of the other."""
    if not adapter.takes_documents or adapter.length < 4:
        return []
    ids = adapter.random_ids(1)
    cut = adapter.length // 2
    second = (torch.arange(adapter.length, device=ids.device) >= cut)[None]
    documents = second.long()
    with adapter.awake():
        original = adapter.outputs(ids, documents=documents)
        first_changed = torch.where(second, ids, adapter.changed_ids(ids))
        changed = adapter.outputs(first_changed, documents=documents)
    worst = float(moved(original, changed)[second].max())
    if not worst > tolerance(original, "ATT004"):
        return []
    return [
        build_finding(
            "ATT004",
            "Outputs of the second document in a packed row change when only the first is changed.",
            evidence("ATT004", "largest relative change", worst),
        )
    ]


def _paired(adapter: ModelAdapter, ids: Tensor, variants: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs of both; in two calls of one shape, so that the kernels are the same."""
    return adapter.outputs(ids.contiguous()), adapter.outputs(variants.contiguous())
