"""Probes of who can see whom: the future, the neighbours, padding, other documents.

Comes in: a `Subject`. Goes out: findings. It does not know which kind of attention it prods: some
tokens are changed, and what must not move is compared.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.diagnosis.finding import Finding, evidence, found, limit
from pellucid.diagnosis.model_adapter import HALF, Subject


def moved(before: Tensor, after: Tensor) -> Tensor:
    """How far outputs moved at each (row, time), relative to the size of the outputs."""
    before, after = before.double(), after.double()
    centred = before - before.mean(dim=-1, keepdim=True)
    size = centred.square().mean().sqrt().clamp_min(1e-30)
    return (after - before).abs().amax(dim=-1) / size


def tolerance(output: Tensor, code: str = "ATT001") -> float:
    """The largest change, relative to the size of outputs of this type, taken for rounding."""
    return limit(code, "half" if output.dtype in HALF else "change")


def probe_causality(subject: Subject) -> list[Finding]:
    """Whether an output depends on a token after it: later tokens are changed, place by place."""
    if not subject.causal or subject.length < 2:
        return []
    time = subject.length
    ids = subject.random_ids(1)
    later = torch.arange(time) > torch.arange(-1, time - 1)[:, None]
    later = later.to(ids.device)  # row 0 changes all, row t those after t - 1
    variants = torch.where(later, subject.changed_ids(ids), ids)
    with subject.awake():
        original, changed = _paired(subject, ids.expand(time, -1), variants)
    influence = moved(original, changed).masked_fill(later, 0.0)
    worst = float(influence.max())
    if not worst > tolerance(original):
        return []
    row, place = divmod(int(influence.argmax()), time)
    return [
        found(
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


def probe_batch(subject: Subject) -> list[Finding]:
    """Whether a row's output depends on its neighbours in the batch."""
    ids = subject.random_ids(3)
    variants = ids.clone()
    variants[1:] = subject.changed_ids(ids[1:])
    with subject.awake():
        original, changed = subject.outputs(ids), subject.outputs(variants)
    worst = float(moved(original, changed)[0].max())
    if not worst > tolerance(original, "ATT002"):
        return []
    return [
        found(
            "ATT002",
            "The first row's output changes when only the other rows of the batch are changed.",
            evidence("ATT002", "largest relative change", worst),
            cause="batch and time are confused (a module with batch_first=False that is handed "
            "batch first, a reshape across rows), or a statistic is taken over the batch",
        )
    ]


def probe_padding(subject: Subject) -> list[Finding]:
    """Whether what stands under padding changes the outputs of real tokens."""
    if not subject.takes_padding or subject.length < 4:
        return []
    n, across = subject.length // 3, subject.has_encoder_and_decoder
    pads_left = subject.causal and not across
    real = torch.ones(2, subject.length, dtype=torch.bool, device=subject.device)
    real[0, slice(0, n) if pads_left else slice(-n, None)] = False
    ids = subject.random_ids(2)
    variants = torch.where(real, ids, subject.changed_ids(ids))
    judged = torch.ones_like(real) if across else real
    padded_outputs = _with_padding(subject, (ids, variants), real)
    if padded_outputs is None:
        return []
    original, changed = padded_outputs
    if not bool(torch.isfinite(original[judged]).all()):
        return [
            found(
                "ATT006",
                "With padding in the batch, outputs of real tokens are not finite.",
                evidence("ATT006", "outputs that are not finite", _share_not_finite(original)),
            )
        ]
    worst = float(moved(*(_without_nan(tensor) for tensor in (original, changed)))[judged].max())
    if not worst > tolerance(original, "ATT003"):
        return []
    return [
        found(
            "ATT003",
            "Outputs of real tokens change when only the ids under padding are changed.",
            evidence("ATT003", "largest relative change", worst),
        )
    ]


def _with_padding(
    subject: Subject, batches: tuple[Tensor, Tensor], real: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Outputs for two batches of ids; None where the mask is to have another form.

    In float64 only if they are finite there: a mask that is made for one width and used in another
    can make infinities of its own.
    """
    outputs: tuple[Tensor, Tensor] | None = None
    for wide in (True, False):
        with subject.awake(wide=wide):
            try:
                original, changed = (_padded(subject, batch, real) for batch in batches)
            except (TypeError, RuntimeError):
                return outputs
        outputs = original, changed
        if bool(torch.isfinite(original[real]).all()):
            break
    return outputs


def _padded(subject: Subject, ids: Tensor, real: Tensor) -> Tensor:
    if subject.has_encoder_and_decoder:
        read = subject.random_ids(ids.shape[0], seed=5)
        return subject.outputs(read, source=ids, source_padding=real)
    return subject.outputs(ids, padding=real)


def _share_not_finite(output: Tensor) -> float:
    return float((~torch.isfinite(output)).double().mean())


def _without_nan(output: Tensor) -> Tensor:
    """Outputs of padding itself, which nobody reads, may be anything."""
    return torch.nan_to_num(output)


def probe_documents(subject: Subject) -> list[Finding]:
    """Whether one of two documents packed into a row changes the outputs of the other."""
    if not subject.takes_documents or subject.length < 4:
        return []
    ids = subject.random_ids(1)
    cut = subject.length // 2
    second = (torch.arange(subject.length, device=ids.device) >= cut)[None]
    documents = second.long()
    with subject.awake():
        original = subject.outputs(ids, documents=documents)
        first_changed = torch.where(second, ids, subject.changed_ids(ids))
        changed = subject.outputs(first_changed, documents=documents)
    worst = float(moved(original, changed)[second].max())
    if not worst > tolerance(original, "ATT004"):
        return []
    return [
        found(
            "ATT004",
            "Outputs of the second document in a packed row change when only the first is changed.",
            evidence("ATT004", "largest relative change", worst),
        )
    ]


def _paired(subject: Subject, ids: Tensor, variants: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs of both; in two calls of one shape, so that the kernels are the same."""
    return subject.outputs(ids.contiguous()), subject.outputs(variants.contiguous())
