"""Scores, mask and weights of one head: the model's own functions, on what the head read.

Comes in: an attention that was heard. Goes out: a square of queries and keys, for one head. It
knows no layer and keeps nothing.

Softmax attention: `scores` are cap(scale q k^T) + bias as the model adds it, before the mask;
`weights` are after mask and softmax, without the share of a sink. Linear attention forms neither:
its `weights` are the share of each key in the sum that it divides by, and there are no scores.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.record_block import AttentionRecord
from pellucid.model import LinearAttention, Positions
from pellucid.model.linear_attention import EPS
from pellucid.model.scores import Scoring, scores_of, visible, weights_of

NO_SCORES = (
    "linear attention has no scores and no softmax: it keeps a running sum of products of "
    "features; look at q and k, which are features here, at weights, which are shares of that "
    "sum, or at out"
)


def of(look: AttentionRecord, what: str, head: int) -> Tensor | None:
    """What an address calls one head's part; None where there is no such part."""
    match what:
        case "scores":
            return scores(look, head)
        case "bias":
            return bias(look, head)
        case "weights":
            return weights(look, head)
        case "mask":
            return mask(look)
        case "q" | "q_plain" | "k" | "k_plain" | "v" | "out" | "memory":
            part = cast("Tensor | None", getattr(look, what))
            if part is None or (what.endswith("plain") and not _turns(look)):
                return None
            return part[0, head * part.shape[1] // look.n_heads]
        case "gate":
            return None if look.gate is None else look.gate[0, head]
        case _:
            return None


@torch.no_grad()
def scores(look: AttentionRecord, head: int) -> Tensor:
    """(queries, keys), after scaling, cap and bias, before the mask."""
    scoring = _scoring(look, head)
    raw_scores = scores_of(_q(look, head), key_of(look, head), scoring, _bias(look, head, scoring))
    return raw_scores[0, 0]


def bias(look: AttentionRecord, head: int) -> Tensor | None:
    """(queries, keys), what the positions add to the scores; None where they add nothing."""
    with torch.no_grad():
        head_bias = _bias(look, head, _scoring(look, head))
        return None if head_bias is None else head_bias.expand(1, 1, *_square(look))[0, 0]


@torch.no_grad()
def mask(look: AttentionRecord) -> Tensor:
    """(queries, keys), True where a key is seen; windows counted."""
    visible_keys = _build_mask(look)
    all_keys = torch.ones(_square(look), dtype=torch.bool, device=look.q.device)
    return (
        all_keys
        if visible_keys is None
        else all_keys & visible_keys.expand(1, 1, *_square(look))[0, 0]
    )


@torch.no_grad()
def weights(look: AttentionRecord, head: int) -> Tensor:
    """(queries, keys), what share of its attention a query gives to each key."""
    if isinstance(look.layer, LinearAttention):
        return _shares(look, head)
    scoring = _scoring(look, head)
    raw_scores = scores_of(_q(look, head), key_of(look, head), scoring, _bias(look, head, scoring))
    return weights_of(raw_scores, scoring, _build_mask(look))[0, 0]


def back(look: AttentionRecord, head: int, arriving: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of a head's weights and of its scores, each (queries, keys).

    `arriving`: (queries, d_value), of what the head found. A fused kernel forms no weights; they
    are formed here by the functions that explicit attention is made of, and torch goes back
    through them.
    """
    scoring = _scoring(look, head)
    with torch.enable_grad():
        q, k, v = (x.detach() for x in (_q(look, head), key_of(look, head), value_of(look, head)))
        bias = _bias(look, head, scoring)
        raw_scores = scores_of(q, k, scoring, None if bias is None else bias.detach())
        raw_scores = raw_scores.detach().requires_grad_()
        weights = weights_of(raw_scores, scoring, _build_mask(look))
        mixed = weights.to(v.dtype) @ v
        mixed = look.positions.add_values(mixed, weights, look.view)
        of_weights, of_scores = torch.autograd.grad(
            mixed, [weights, raw_scores], arriving[None, None].to(mixed.dtype)
        )
    return of_weights[0, 0], of_scores[0, 0]


def key_of(look: AttentionRecord, head: int) -> Tensor:
    """(1, 1, time, d_head): the keys of the group that a head belongs to."""
    group = head * look.k.shape[1] // look.n_heads
    return look.k[:, group : group + 1]


def value_of(look: AttentionRecord, head: int) -> Tensor:
    """(1, 1, time, d_value): the values of the group that a head belongs to."""
    group = head * look.v.shape[1] // look.n_heads
    return look.v[:, group : group + 1]


def _q(look: AttentionRecord, head: int) -> Tensor:
    return look.q[:, head : head + 1]


def _square(look: AttentionRecord) -> tuple[int, int]:
    return look.q.shape[2], look.k.shape[2]


def _scoring(look: AttentionRecord, head: int) -> Scoring:
    scoring = look.scoring
    if scoring is None:
        raise PellucidError(NO_SCORES)
    sinks = scoring.sinks
    return scoring if sinks is None else scoring._replace(sinks=sinks[head : head + 1])


def _bias(look: AttentionRecord, head: int, scoring: Scoring) -> Tensor | None:
    if type(look.positions).bias is Positions.bias:
        return None
    biases = look.positions.bias(look.q, look.view, scoring.scale)
    if biases is None:
        return None
    return biases.expand(1, look.n_heads, *_square(look))[:, head : head + 1]


def _build_mask(look: AttentionRecord) -> Tensor | None:
    return visible(look.view.within(look.window, look.q.shape[2], look.q.device), look.q)


def _shares(look: AttentionRecord, head: int) -> Tensor:
    """(R phi(q) . R phi(k)) / (sum phi(q) . phi(k) + eps), the layer's two sums taken apart."""
    assert look.q_plain is not None
    assert look.k_plain is not None
    visible_keys = mask(look)
    products = look.q[0, head] @ look.k[0, head].mT * visible_keys
    total = (look.q_plain[0, head] @ look.k_plain[0, head].mT * visible_keys).sum(-1, keepdim=True)
    return products / (total + EPS)


def _turns(look: AttentionRecord) -> bool:
    return type(look.positions).rotate is not Positions.rotate
