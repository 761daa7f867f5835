"""Probes of the loss: whether it is the cross-entropy, and whether it starts near ln V."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.diagnosis.batches import Examples, cross_entropy, targets_for
from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.model_outputs import loss_in
from pellucid.diagnosis.probes.labels import expected_shift, true_targets
from pellucid.diagnosis.probes.weights import find_embedding_and_head

#: The reported loss: a number, or a function of (logits, labels) or (model, ids, labels).
Reported = float | Callable[..., Any]

#: Logits with this standard deviation differ enough to show mistakes.
_LOUD = 2.0


def reported_loss(
    adapter: ModelAdapter, data: Examples, logits: Tensor, loss: Reported | None
) -> float | None:
    """The loss that the training would report; None if it is unknown.

    Args:
        adapter: the model.
        data: the batch.
        logits: (batch, time, vocab) of the batch.
        loss: the loss, or the function that computes it.
    """
    if isinstance(loss, int | float):
        return float(loss)
    labels = data.labels
    if loss is not None:
        if labels is None:
            labels = targets_for(data.ids, 1) if expected_shift(adapter) else data.ids
        count = len(inspect.signature(loss).parameters)
        reported = loss(logits, labels) if count == 2 else loss(adapter.model, data.ids, labels)
        value = reported if isinstance(reported, Tensor) else getattr(reported, "total", reported)
        return float(value)
    if adapter.family != "hugging face" or adapter.has_encoder_and_decoder or not adapter.causal:
        return None
    labels = data.ids if labels is None else labels
    mask = torch.ones_like(data.ids) if data.padding is None else data.padding.to(data.ids.dtype)
    reported = loss_in(adapter.model(data.ids, attention_mask=mask, labels=labels))
    return None if reported is None else float(reported)


def _logits(adapter: ModelAdapter, data: Examples) -> Tensor:
    return adapter.outputs(
        data.ids,
        padding=data.padding if adapter.takes_padding else None,
        source=data.source,
        source_padding=data.source_padding,
    )


def probe_loss(
    adapter: ModelAdapter, data: Examples, loss: Reported | None = None
) -> list[Finding]:
    """Whether the reported loss is the mean cross-entropy of the supervised positions.

    If not, pellucid also computes the usual mistakes, and names the one with the same value.

    Args:
        adapter: the model.
        data: the batch.
        loss: the reported loss, or the function that computes it.
    """
    if not _has_outputs(adapter, data):
        return []
    with adapter.as_is(), torch.no_grad():
        logits = _logits(adapter, data)
        if not isinstance(loss, int | float):
            logits = _louder(adapter, data, logits)
        reported = reported_loss(adapter, data, logits, loss)
    targets = true_targets(adapter, data)
    if reported is None or not bool((targets != IGNORED).any()):
        return []
    recomputed = cross_entropy(logits, targets)
    is_full = logits.dtype in (torch.float32, torch.float64)
    allowed = limit("LOS005", "share" if is_full else "half")
    if not math.isfinite(reported) or not math.isfinite(recomputed):
        return []  # another probe reports this
    if abs(reported - recomputed) <= allowed * max(recomputed, 0.1):
        return []
    mistakes = _mistakes(recomputed, logits, targets, data)
    error, code, cause = min((abs(reported - value), *names) for names, value in mistakes.items())
    micro_batches = 0
    if error > allowed * max(abs(reported), 0.1):
        code, cause = "LOS005", "unknown"
        if recomputed > 0 and reported > 0:
            ratio = max(reported / recomputed, recomputed / reported)
            micro_batches = round(ratio)
            if 2 <= micro_batches <= 256 and abs(ratio / micro_batches - 1) <= allowed:
                code, cause = "LOS007", "micro-batches"
    return [
        describe(
            "LOS005",
            code=code,
            reported=reported,
            recomputed=recomputed,
            ratio=reported / recomputed,
            n=int((targets != IGNORED).sum()),
            micro_batches=micro_batches,
            cause=cause,
            confidence=0.95 if code != "LOS005" else 0.5,
        )
    ]


def _louder(adapter: ModelAdapter, data: Examples, logits: Tensor) -> Tensor:
    """The logits; if they are nearly equal, the logits of a copy with a scaled head.

    At the start every loss is near ln V, right or wrong. Mistakes show if predictions differ.
    """
    ends, spread = find_embedding_and_head(adapter), float(logits.float().std(dim=-1).mean())
    if ends is None or spread >= _LOUD or spread == 0:
        return logits
    ends[1].data.mul_(_LOUD / spread)
    return _logits(adapter, data)


def _mistakes(
    recomputed: float, logits: Tensor, targets: Tensor, data: Examples
) -> dict[tuple[str, str], float]:
    """The loss that each usual mistake gives, by its code and its name in `findings.toml`."""
    n = int((targets != IGNORED).sum())
    rows, positions = data.ids.shape
    return {
        ("LOS009", "sign"): -recomputed,
        ("LOS006", "sum"): recomputed * n,
        ("LOS006", "sum over tokens"): recomputed * n / rows,
        ("LOS006", "sum over rows"): recomputed * n / positions,
        ("LOS008", "softmax"): cross_entropy(torch.softmax(logits.float(), dim=-1), targets),
        ("LOS010", "ignored"): recomputed * n / targets.numel(),
        ("LOS001", "no shift"): cross_entropy(logits, targets_for(data.ids, 0)),
        ("LOS002", "two shifts"): cross_entropy(logits, targets_for(data.ids, 2)),
    }


def probe_initial_loss(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether an untrained model starts at ln V + Var(z) / 2, and near ln V.

    A trained model starts lower, so a low loss is a finding only with `declare(pretrained=False)`.
    """
    if not _has_outputs(adapter, data) or adapter.declared.pretrained:
        return []
    with adapter.as_is(), torch.no_grad():
        logits = _logits(adapter, data).float()
    targets = true_targets(adapter, data)
    if not bool((targets != IGNORED).any()) or not bool(torch.isfinite(logits).all()):
        return []
    loss, chance = cross_entropy(logits, targets), math.log(adapter.vocab)
    predicted = chance + float(logits.double().var(dim=-1).mean()) / 2
    loss_of_others = cross_entropy(_without_input_token(logits, data.ids), targets)
    excess, vocab = loss - chance, adapter.vocab
    if min(loss, loss_of_others) > chance + limit("INI001", "nats"):
        return [describe("INI001", loss=loss, above=excess, vocab=vocab, chance=chance)]
    fresh = adapter.declared.pretrained is False and adapter.causal
    if fresh and loss < predicted - limit("INI002", "nats"):
        return [describe("INI002", loss=loss, predicted=predicted, below=loss - predicted)]
    return []


def _without_input_token(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits with the average logit for the input token of each position.

    Before training, a tied head predicts the input token, because the state is still its embedding.
    The model unlearns this in a few updates, so it is no fault of the first weights.
    """
    if logits.shape[:2] != ids.shape:
        return logits
    return logits.scatter(-1, ids[..., None], logits.mean(dim=-1, keepdim=True))


def _has_outputs(adapter: ModelAdapter, data: Examples) -> bool:
    """Whether there are logits for the data; an encoder-decoder also needs a source."""
    needs_source = adapter.has_encoder_and_decoder
    return adapter.has_logits and (not needs_source or data.source is not None)
