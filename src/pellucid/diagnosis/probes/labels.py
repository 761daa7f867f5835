"""Probes of labels: the targets of each position, and the share of supervised positions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pellucid.batches import IGNORED
from pellucid.diagnosis.batches import Examples, alignment, targets_for
from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import ModelAdapter


def expected_shift(adapter: ModelAdapter) -> int:
    """How far the given labels should be shifted against the ids: 0 if the model shifts them."""
    if adapter.declared.shift is not None:
        return adapter.declared.shift
    return 0 if adapter.family == "hugging face" else 1


def true_targets(adapter: ModelAdapter, data: Examples) -> Tensor:
    """The target of each position: the shifted labels, or by default the next token."""
    if data.labels is None:
        return targets_for(data.ids, 1 if adapter.causal else 0)
    if expected_shift(adapter) == 0 and adapter.causal and not adapter.has_encoder_and_decoder:
        return targets_for(data.labels, 1)
    return data.labels


def probe_labels(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether the labels are the ids shifted by 0, 1 or 2, and whether that is the right shift."""
    labels = data.labels
    if labels is None or not adapter.causal:
        return []
    if adapter.has_encoder_and_decoder and data.source is None:
        return []
    if not bool((labels != IGNORED).any()):
        return []  # another probe reports this
    matches, agree = alignment(data.ids, labels), limit("LOS001", "agree")
    best, expected = max(matches, key=lambda s: matches[s]), expected_shift(adapter)
    if matches[expected] >= agree or bool((data.ids == data.ids[0, 0]).all()):
        return []
    shares: dict[str, Any] = {f"shift_{shift}": share for shift, share in matches.items()}
    if matches[best] < limit("LOS003", "share"):
        return [describe("LOS003", best=matches[best], **shares)]
    if best == 1:  # two shifts if the model expects labels that are not shifted
        return [describe("LOS002/both", code="LOS002" if expected == 0 else "LOS001", **shares)]
    return [describe("LOS001" if best == 0 else "LOS002", **shares)]


def probe_supervised(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether a sufficient share of the positions has a label."""
    if data.labels is None or not adapter.causal:
        return []
    supervised = (data.labels != IGNORED).double()
    share = float(
        supervised.mean() if data.padding is None else supervised[data.padding.bool()].mean()
    )
    if share >= limit("LOS004", "share"):
        return []
    return [describe("LOS004" if share else "LOS011", share=share)]


def probe_ends(data: Examples, tokenizer: Any) -> list[Finding]:
    """Whether padding is supervised, and whether the end of a text ever is."""
    if data.labels is None:
        return []
    pad, eos = (special_id(tokenizer, name) for name in ("pad", "eos"))
    findings: list[Finding] = []
    if data.padding is not None:
        wrong = int(((data.labels != IGNORED) & ~data.padding.bool()).sum())
    else:
        wrong = 0 if pad is None or pad == eos else int((data.labels == pad).sum())
    if wrong:
        findings.append(describe("DAT006", wrong=wrong))
    ends = 0 if eos is None else int((data.ids == eos).sum())
    if ends and not int((data.labels == eos).sum()):
        reason = ": it is the padding token too" if pad == eos else ""
        findings.append(describe("DAT005", eos=eos, ends=ends, reason=reason, labels=0))
    return findings


def special_id(tokenizer: Any, role: str) -> int | None:
    """The id of a special token: of a Hugging Face tokenizer, or of ours."""
    token_id = getattr(tokenizer, f"{role}_token_id", None)
    if isinstance(token_id, int):
        return token_id
    token_id = getattr(tokenizer, {"pad": "pad_id", "eos": "end_id"}[role], None)
    return token_id if isinstance(token_id, int) else None
