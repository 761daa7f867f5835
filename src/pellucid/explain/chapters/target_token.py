"""Which word of the vocabulary a place is about: the one that came, or else the likeliest."""

from __future__ import annotations

import torch
from torch import Tensor

from pellucid.explain.outputs import widen
from pellucid.explain.trace_types import Trace


def target_word(trace: Trace, token: int) -> tuple[int, str]:
    """The token that came after `token`; the likeliest, behind the last and in an encoder."""
    if trace.predicts and token + 1 < len(trace.ids):
        return int(trace.ids[token + 1]), "which came next"
    return int(trace.logits_at(token).argmax()), "the likeliest"


def mask_or(trace: Trace, token: int) -> int:
    """The place itself; the first mask, where a place was left open and there is one."""
    masks = trace.sentence.masks
    return masks[0] if masks and token == len(trace.ids) - 1 else token


def probabilities_at(trace: Trace, token: int) -> Tensor:
    """The probabilities at one place, in float64: (vocab)."""
    return torch.softmax(widen(trace.logits_at(token)).double(), dim=-1)
