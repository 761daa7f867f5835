"""Scores, mask and weights of one head: the model's own functions, on what the head read.

Softmax attention: `scores` are cap(scale q k^T) + bias as the model adds it, before the mask;
`weights` are after mask and softmax, without the share of a sink. Linear attention forms neither:
its `weights` are the share of each key in the sum that it divides by, and there are no scores.
"""

from __future__ import annotations

from typing import assert_never

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.part_facts import where_positions_act
from pellucid.model.facts import LinearAttentionFacts, NeuralMemoryFacts, SoftmaxAttentionFacts
from pellucid.model.linear_attention import EPS
from pellucid.model.scores import Scoring, scores_of, visible, weights_of

NO_SCORES = (
    "linear attention has no scores and no softmax: it keeps a running sum of products of "
    "features; look at q and k, which are features here, at weights, which are shares of that "
    "sum, or at out"
)


def read_part(attention: AttentionRecord, part: str, head: int) -> Tensor | None:
    """A tensor of one head by its name in an address; None if this attention has no such part."""
    match part:
        case "scores":
            return scores(attention, head)
        case "bias":
            return bias(attention, head)
        case "weights":
            return weights(attention, head)
        case "mask":
            return mask(attention)
        case "q" | "q_plain" | "k" | "k_plain" | "v" | "out" | "memory":
            tensor = attention.head_tensors().get(part)
            if tensor is None or (part.endswith("plain") and not _turns(attention)):
                return None
            return tensor[0, head * tensor.shape[1] // attention.n_heads]
        case "gate":
            return None if attention.gate is None else attention.gate[0, head]
        case _:
            return None


@torch.no_grad()
def scores(attention: AttentionRecord, head: int) -> Tensor:
    """(queries, keys), after scaling, cap and bias, before the mask."""
    scoring = _scoring(attention, head)
    raw_scores = scores_of(
        _q(attention, head), group_keys(attention, head), scoring, _bias(attention, head, scoring)
    )
    return raw_scores[0, 0]


def bias(attention: AttentionRecord, head: int) -> Tensor | None:
    """(queries, keys), what the positions add to the scores; None where they add nothing."""
    with torch.no_grad():
        head_bias = _bias(attention, head, _scoring(attention, head))
        return None if head_bias is None else head_bias.expand(1, 1, *_square(attention))[0, 0]


@torch.no_grad()
def mask(attention: AttentionRecord) -> Tensor:
    """(queries, keys), True where a key is seen; windows counted."""
    visible_keys = _build_mask(attention)
    all_keys = torch.ones(_square(attention), dtype=torch.bool, device=attention.q.device)
    return (
        all_keys
        if visible_keys is None
        else all_keys & visible_keys.expand(1, 1, *_square(attention))[0, 0]
    )


@torch.no_grad()
def weights(attention: AttentionRecord, head: int) -> Tensor:
    """(queries, keys), what share of its attention a query gives to each key."""
    match attention.facts:
        case LinearAttentionFacts():
            return _shares(attention, head)
        case SoftmaxAttentionFacts() | NeuralMemoryFacts():
            scoring = _scoring(attention, head)
        case _:
            assert_never(attention.facts)
    raw_scores = scores_of(
        _q(attention, head), group_keys(attention, head), scoring, _bias(attention, head, scoring)
    )
    return weights_of(raw_scores, scoring, _build_mask(attention))[0, 0]


def square_gradients(
    attention: AttentionRecord, head: int, upstream: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of a head's weights and of its scores, each (queries, keys).

    `upstream`: (queries, d_value), of what the head found. A fused kernel forms no weights; they
    are formed here by the functions that explicit attention is made of, and torch goes back
    through them.
    """
    scoring = _scoring(attention, head)
    with torch.enable_grad():
        q, k, v = (
            x.detach()
            for x in (
                _q(attention, head),
                group_keys(attention, head),
                group_values(attention, head),
            )
        )
        bias = _bias(attention, head, scoring)
        raw_scores = scores_of(q, k, scoring, None if bias is None else bias.detach())
        raw_scores = raw_scores.detach().requires_grad_()
        weights = weights_of(raw_scores, scoring, _build_mask(attention))
        mixed = weights.to(v.dtype) @ v
        mixed = attention.positions.add_values(mixed, weights, attention.view)
        of_weights, of_scores = torch.autograd.grad(
            mixed, [weights, raw_scores], upstream[None, None].to(mixed.dtype)
        )
    return of_weights[0, 0], of_scores[0, 0]


def group_keys(attention: AttentionRecord, head: int) -> Tensor:
    """(1, 1, time, d_head): the keys of the group that a head belongs to."""
    group = head * attention.k.shape[1] // attention.n_heads
    return attention.k[:, group : group + 1]


def group_values(attention: AttentionRecord, head: int) -> Tensor:
    """(1, 1, time, d_value): the values of the group that a head belongs to."""
    group = head * attention.v.shape[1] // attention.n_heads
    return attention.v[:, group : group + 1]


def _q(attention: AttentionRecord, head: int) -> Tensor:
    return attention.q[:, head : head + 1]


def _square(attention: AttentionRecord) -> tuple[int, int]:
    return attention.q.shape[2], attention.k.shape[2]


def _scoring(attention: AttentionRecord, head: int) -> Scoring:
    scoring = attention.scoring
    if scoring is None:
        raise PellucidError(NO_SCORES)
    sinks = scoring.sinks
    return scoring if sinks is None else scoring._replace(sinks=sinks[head : head + 1])


def _bias(attention: AttentionRecord, head: int, scoring: Scoring) -> Tensor | None:
    biases = attention.positions.bias(attention.q, attention.view, scoring.scale)
    if biases is None:
        return None
    return biases.expand(1, attention.n_heads, *_square(attention))[:, head : head + 1]


def _build_mask(attention: AttentionRecord) -> Tensor | None:
    return visible(
        attention.view.in_window(attention.window, attention.q.shape[2], attention.q.device),
        attention.q,
    )


def _shares(attention: AttentionRecord, head: int) -> Tensor:
    """(R phi(q) . R phi(k)) / (sum phi(q) . phi(k) + eps), the layer's two sums taken apart."""
    assert attention.q_plain is not None
    assert attention.k_plain is not None
    visible_keys = mask(attention)
    products = attention.q[0, head] @ attention.k[0, head].mT * visible_keys
    total = (attention.q_plain[0, head] @ attention.k_plain[0, head].mT * visible_keys).sum(
        -1, keepdim=True
    )
    return products / (total + EPS)


def _turns(attention: AttentionRecord) -> bool:
    return where_positions_act(attention.positions) == "queries and keys"
