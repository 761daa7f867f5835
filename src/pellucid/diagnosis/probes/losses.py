"""Probes of the loss: whether it is the cross-entropy, and whether it starts where it should."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.diagnosis.batches import Examples, cross_entropy, targets_for
from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.model_outputs import loss_in
from pellucid.diagnosis.probes.embedding_and_head import find_ends
from pellucid.diagnosis.probes.labels import expected_shift

#: The loss that is reported: a number, or a function of (logits, labels) or (model, ids, labels).
Reported = float | Callable[..., Any]

#: How far apart logits are spread to see mistakes.
_LOUD = 2.0


def true_targets(adapter: ModelAdapter, data: Examples) -> Tensor:
    """What each place is to predict: the labels moved into place, or the next token."""
    if data.labels is None:
        return targets_for(data.ids, 1 if adapter.causal else 0)
    if expected_shift(adapter) == 0 and adapter.causal and not adapter.has_encoder_and_decoder:
        return targets_for(data.labels, 1)
    return data.labels


def reported_loss(
    adapter: ModelAdapter, data: Examples, logits: Tensor, loss: Reported | None
) -> float | None:
    """The loss as whoever trains would see it; None where nobody computes one."""
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
        padding=_padding(adapter, data),
        source=data.source,
        source_padding=data.source_padding,
    )


def probe_loss(
    adapter: ModelAdapter, data: Examples, loss: Reported | None = None
) -> list[Finding]:
    """Whether the reported loss is the mean cross-entropy of the supervised places.

    Where it is not, the usual mistakes are computed too, and the one that gives it is named.
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
    whole = logits.dtype in (torch.float32, torch.float64)
    allowed = limit("LOS005", "share" if whole else "half")
    if not math.isfinite(reported) or not math.isfinite(recomputed):
        return []  # of what is not finite, another probe
    if abs(reported - recomputed) <= allowed * max(recomputed, 0.1):
        return []
    code, cause = _explained(reported, recomputed, logits, targets, data, allowed)
    sign = evidence(code, "reported loss / recomputed cross-entropy", reported / recomputed)
    return [
        build_finding(
            code,
            f"The reported loss is {reported:.4g}; the cross-entropy of the same logits, in "
            f"float32, is {recomputed:.4g}.",
            sign,
            where="loss",
            cause=cause,
            confidence=0.95 if code != "LOS005" else 0.5,
        )
    ]


def _louder(adapter: ModelAdapter, data: Examples, logits: Tensor) -> Tensor:
    """Logits of the copy with its head turned up, where they are nearly equal.

    At the start every loss is near ln V, right or wrong; mistakes show where predictions differ.
    """
    ends, loud = find_ends(adapter), float(logits.float().std(dim=-1).mean())
    if ends is None or loud >= _LOUD or loud == 0:
        return logits
    ends[1].data.mul_(_LOUD / loud)
    return _logits(adapter, data)


def _explained(
    reported: float,
    recomputed: float,
    logits: Tensor,
    targets: Tensor,
    data: Examples,
    allowed: float,
) -> tuple[str, str]:
    """Which mistake gives the reported value."""
    n = int((targets != IGNORED).sum())
    rows, places = data.ids.shape
    twice = cross_entropy(torch.softmax(logits.float(), dim=-1), targets)
    counted = recomputed * n / targets.numel()
    guesses = [
        ("LOS009", -recomputed, "the sign is turned: training would make the text less probable"),
        ("LOS006", recomputed * n, f"a sum over the {n} supervised tokens, where a mean is meant"),
        ("LOS006", recomputed * n / rows, "a sum over each row's tokens, then a mean over rows"),
        (
            "LOS006",
            recomputed * n / places,
            "a mean over places, and a sum over the rows of the batch",
        ),
        ("LOS008", twice, "softmax is applied before a cross-entropy that applies it itself"),
        ("LOS010", counted, "the sum is divided by all places, the ignored ones among them"),
    ]
    guesses += [
        (_SHIFTED[s], cross_entropy(logits, targets_for(data.ids, s)), _MOVED[s]) for s in _SHIFTED
    ]
    fits = [(abs(reported - value), code, why) for code, value, why in guesses]
    off, code, why = min(fits)
    if off <= allowed * max(abs(reported), 0.1):
        return code, why
    parts = (
        round(max(reported / recomputed, recomputed / reported))
        if recomputed > 0 and reported > 0
        else 0
    )
    if (
        2 <= parts <= 256
        and abs(max(reported / recomputed, recomputed / reported) / parts - 1) <= allowed
    ):
        return "LOS007", f"{parts} micro-batches are added up without being divided, or the reverse"
    return "LOS005", (
        "not known: neither a sum, nor a shift, nor a second softmax, nor counted padding gives "
        "this value; label smoothing, a z-loss or another auxiliary loss would change it too"
    )


_SHIFTED = {0: "LOS001", 2: "LOS002"}
_MOVED = {
    0: "logits are compared with the tokens they stand at, not with the next ones",
    2: "labels are moved twice: once where they are made, once in the model or the loss",
}


def probe_initial_loss(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether an untrained model starts at ln V + Var(z) / 2, and near ln V.

    What is trained is below; so a low loss is no finding unless `declare(pretrained=False)`.
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
    loss_of_others = cross_entropy(_but_its_own(logits, data.ids), targets)
    if min(loss, loss_of_others) > chance + limit("INI001", "nats"):
        return [
            build_finding(
                "INI001",
                f"The first loss is {loss:.3f}, {loss - chance:.2f} nats above ln {adapter.vocab} "
                f"= {chance:.3f}, which guessing would cost.",
                evidence("INI001", "first loss - ln V", loss - chance),
                where="logits",
                confidence=0.9,
            )
        ]
    fresh = adapter.declared.pretrained is False and adapter.causal
    if fresh and loss < predicted - limit("INI002", "nats"):
        return [
            build_finding(
                "INI002",
                f"The first loss of an untrained model is {loss:.3f}, where {predicted:.3f} is "
                "predicted: it knows what it cannot know.",
                evidence("INI002", "first loss - predicted", loss - predicted),
                where="logits",
                confidence=0.8,
            )
        ]
    return []


def _but_its_own(logits: Tensor, ids: Tensor) -> Tensor:
    """Logits in which the token that stands there is like the average one.

    A tied head says it loudly before training: the state still is that token's embedding. It is
    unlearnt in a few updates, and is no fault of the first weights.
    """
    if logits.shape[:2] != ids.shape:
        return logits
    return logits.scatter(-1, ids[..., None], logits.mean(dim=-1, keepdim=True))


def _has_outputs(adapter: ModelAdapter, data: Examples) -> bool:
    """Whether there are logits for the data: of two stacks only where the source is there too."""
    two = adapter.has_encoder_and_decoder
    return adapter.has_logits and (not two or data.source is not None)


def _padding(adapter: ModelAdapter, data: Examples) -> Tensor | None:
    return data.padding if adapter.takes_padding else None
