"""Probes of labels: what each place is asked to predict, and how many places are asked."""

from __future__ import annotations

from typing import Any

from pellucid.batches import IGNORED
from pellucid.diagnosis.batches import Examples, alignment
from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import ModelAdapter

_CODES = {0: "LOS001", 2: "LOS002"}
_SHIFT_TEXTS = {
    0: "Each label is the token it stands at: the model is asked to repeat what it sees.",
    1: "Each label is the next token, but this model moves labels by one itself: together, each "
    "place is asked for the token after the next.",
    2: "Each label is the token after the next one.",
}


def expected_shift(adapter: ModelAdapter) -> int:
    """How far labels are to stand from ids when they are handed over."""
    if adapter.declared.shift is not None:
        return adapter.declared.shift
    return 0 if adapter.family == "hugging face" else 1


def probe_labels(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether labels stand 0, 1 or 2 places from the inputs, against where they have to."""
    labels = data.labels
    if labels is None or not adapter.causal:
        return []
    if adapter.has_encoder_and_decoder and data.source is None:
        return []
    if not bool((labels != IGNORED).any()):
        return []  # of this, another probe
    matches, agree = alignment(data.ids, labels), limit("LOS001", "agree")
    best, expected = max(matches, key=lambda s: matches[s]), expected_shift(adapter)
    if matches[expected] >= agree or bool((data.ids == data.ids[0, 0]).all()):
        return []
    signs = [evidence("LOS001", f"labels = ids {s} places on", matches[s]) for s in matches]
    if matches[best] < limit("LOS003", "share"):
        return [
            build_finding(
                "LOS003",
                f"At best {matches[best]:.0%} of the labels are a token of the same row, 0 to 2 "
                "places on: labels are not the inputs, moved.",
                *signs,
                where="labels",
                confidence=0.8,
            )
        ]
    code = _CODES.get(best, "LOS002" if expected == 0 else "LOS001")
    return [build_finding(code, _SHIFT_TEXTS[best], *signs, where="labels")]


def probe_supervised(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Which share of the places is asked for anything at all."""
    if data.labels is None or not adapter.causal:
        return []
    supervised = (data.labels != IGNORED).double()
    share = float(
        supervised.mean() if data.padding is None else supervised[data.padding.bool()].mean()
    )
    if share == 0:
        return [
            build_finding(
                "LOS011",
                "No place of the batch has a label: the loss is 0 / 0.",
                evidence("LOS011", "supervised share", share),
                where="labels",
            )
        ]
    if share >= limit("LOS004", "share"):
        return []
    return [
        build_finding(
            "LOS004",
            f"Only {share:.1%} of the places of the batch are asked for anything.",
            evidence("LOS004", "supervised share", share),
            where="labels",
        )
    ]


def probe_ends(data: Examples, tokenizer: Any) -> list[Finding]:
    """Whether padding is supervised, and whether the end of a text ever is."""
    if data.labels is None:
        return []
    pad, eos = (_special(tokenizer, name) for name in ("pad", "eos"))
    findings: list[Finding] = []
    if data.padding is not None:
        wrong = int(((data.labels != IGNORED) & ~data.padding.bool()).sum())
    else:
        wrong = 0 if pad is None or pad == eos else int((data.labels == pad).sum())
    if wrong:
        findings.append(
            build_finding(
                "DAT006",
                f"{wrong} labels ask for padding.",
                evidence("DAT006", "labels that are padding", wrong),
                where="labels",
            )
        )
    ends = 0 if eos is None else int((data.ids == eos).sum())
    if ends and not int((data.labels == eos).sum()):
        findings.append(
            build_finding(
                "DAT005",
                f"The end of text (id {eos}) stands {ends} times in the batch, and no label asks "
                "for it" + (": it is the padding token too." if pad == eos else "."),
                evidence("DAT005", "labels that are the end of text", 0),
                where="labels",
            )
        )
    return findings


def _special(tokenizer: Any, role: str) -> int | None:
    """The id of a special token: of a Hugging Face tokenizer, or of ours."""
    token_id = getattr(tokenizer, f"{role}_token_id", None)
    if isinstance(token_id, int):
        return token_id
    ours = getattr(tokenizer, {"pad": "pad_id", "eos": "end_id"}[role], None)
    return ours if isinstance(ours, int) else None
