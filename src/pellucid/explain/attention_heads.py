"""Scores, mask and weights of one head: the model's own functions on the input of the head.

Softmax attention: `scores` are cap(scale q k^T) + bias as the model adds it, before the mask;
`weights` are after mask and softmax, without the share of a sink. Linear attention forms neither:
its `weights` are the share of each key in the sum that it divides by, and there are no scores.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain.attention_record import AttentionRecord
from pellucid.explain.part_facts import where_positions_act
from pellucid.model.disentangled import DisentangledInLayer
from pellucid.model.facts import NeuralMemoryFacts
from pellucid.model.linear_attention import EPS
from pellucid.model.precision import wide as widen
from pellucid.model.scores import Scoring, scores_of, visible, weights_of

NO_SCORES = message("attention_heads.linear-attention-has-no-scores")


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
        case "q" | "q_plain" | "q_turned" | "k" | "k_plain" | "k_turned" | "v" | "out":
            tensor = attention.head_tensors().get(part)
            acts = where_positions_act(attention.positions)
            if tensor is None or (part.endswith("plain") and acts != "queries and keys"):
                return None
            return tensor[0, head * tensor.shape[1] // attention.n_heads]
        case "memory" | "memory_read":
            tensor = attention.head_tensors().get(part)
            return None if tensor is None else tensor[0, head]
        case "memory_state" | "memory_momentum":
            return memory_steps(attention, head)[part == "memory_momentum"]
        case "distance_keys" | "distance_queries":
            return _of_distances(attention, part, head)
        case "gate":
            return None if attention.gate is None else attention.gate[0, head]
        case "output_gate":
            return None if attention.output_gate is None else attention.output_gate[0, head]
        case _:
            return None


@torch.no_grad()
def scores(attention: AttentionRecord, head: int) -> Tensor:
    """(queries, keys), after scaling, cap and bias, before the mask."""
    return _raw_scores(attention, head, _scoring(attention, head))[0, 0]


@torch.no_grad()
def bias(attention: AttentionRecord, head: int) -> Tensor | None:
    """(queries, keys), the bias that the positions add to the scores; None if they add none."""
    head_bias = _bias(attention, head, _scoring(attention, head))
    return None if head_bias is None else head_bias.expand(1, 1, *_square(attention))[0, 0]


@torch.no_grad()
def mask(attention: AttentionRecord) -> Tensor:
    """(queries, keys), True if the query sees the key; windows included."""
    visible_keys = _build_mask(attention)
    all_keys = torch.ones(_square(attention), dtype=torch.bool, device=attention.q.device)
    if visible_keys is None:
        return all_keys
    return all_keys & visible_keys.expand(1, 1, *_square(attention))[0, 0]


@torch.no_grad()
def weights(attention: AttentionRecord, head: int) -> Tensor:
    """(queries, keys), the share of a query's attention that each key gets."""
    if attention.scoring is None:
        return _shares(attention, head)
    scoring = _scoring(attention, head)
    raw_scores = _raw_scores(attention, head, scoring)
    return weights_of(raw_scores, scoring, _build_mask(attention))[0, 0]


@torch.no_grad()
def memory_steps(attention: AttentionRecord, head: int) -> tuple[Tensor, Tensor]:
    """(time, d_value, d_key) twice: the memory after each token, and its momentum.

    The model computes a chunk at once; this goes token by token, from the numbers that its
    projections and gates gave.

    Source:
        Behrouz, Zhong and Mirrokni 2025, "Titans: Learning to Memorize at Test Time", eq. 9-14.
    """
    facts, parts = attention.facts, attention.memory_parts
    assert isinstance(facts, NeuralMemoryFacts)
    span = slice(head * facts.d_head, (head + 1) * facts.d_head)
    k = F.normalize(widen(parts["attention.memory_key"][0, :, span]), dim=-1)
    v = widen(parts["attention.memory_value"][0, :, span])
    rate, persistence, forgetting = (
        torch.sigmoid(widen(parts[f"attention.{name}"][0, head]))
        for name in ("learning_rate", "persistence", "forgetting")
    )
    state = widen(cast("Any", attention.layer).memory.weight[span].detach())
    before, momentum = state, torch.zeros_like(state)
    states: list[Tensor] = []
    momenta: list[Tensor] = []
    for token in range(len(k)):
        if token % facts.chunk == 0:
            before = state
        slope = 2 * torch.outer(before @ k[token] - v[token], k[token])
        momentum = persistence[token] * momentum - rate[token] * slope
        state = (1 - forgetting[token]) * state + momentum
        states.append(state)
        momenta.append(momentum)
    return torch.stack(states), torch.stack(momenta)


def _of_distances(attention: AttentionRecord, part: str, head: int) -> Tensor | None:
    """(rows, d_head): a head's keys or queries of the rows of distances."""
    scheme = attention.positions
    if not isinstance(scheme, DisentangledInLayer):
        return None
    tensor = scheme.keys if part == "distance_keys" else scheme.queries
    return None if tensor is None else tensor[head * len(tensor) // attention.n_heads].detach()


def square_gradients(
    attention: AttentionRecord, head: int, upstream: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of a head's weights and of its scores, each (queries, keys).

    A fused kernel forms no weights. This forms them with the functions of explicit attention, and
    torch goes back through them.

    Args:
        attention: the record of the layer.
        head: the head.
        upstream: (queries, d_value), the gradient of the head's output.
    """
    scoring = _scoring(attention, head)
    v = _group(attention, attention.v, head).detach()
    with torch.no_grad():
        raw_scores = _raw_scores(attention, head, scoring)
    with torch.enable_grad():
        raw_scores = raw_scores.requires_grad_()
        weights = weights_of(raw_scores, scoring, _build_mask(attention))
        mixed = weights.to(v.dtype) @ v
        mixed = attention.positions.add_values(mixed, weights, attention.view)
        if attention.output_gate is not None:
            mixed = mixed * attention.output_gate[:, head : head + 1].detach()
        of_weights, of_scores = torch.autograd.grad(
            mixed, [weights, raw_scores], upstream[None, None].to(mixed.dtype)
        )
    return of_weights[0, 0], of_scores[0, 0]


def _group(attention: AttentionRecord, tensor: Tensor, head: int) -> Tensor:
    """(1, 1, time, features): the queries of a head, or the keys or values of its group."""
    group = head * tensor.shape[1] // attention.n_heads
    return tensor[:, group : group + 1]


def _raw_scores(attention: AttentionRecord, head: int, scoring: Scoring) -> Tensor:
    q, k = (_group(attention, tensor, head) for tensor in (attention.q, attention.k))
    return scores_of(q, k, scoring, _bias(attention, head, scoring))


def _square(attention: AttentionRecord) -> tuple[int, int]:
    return attention.q.shape[2], attention.k.shape[2]


def _scoring(attention: AttentionRecord, head: int) -> Scoring:
    scoring = attention.scoring
    if scoring is None:
        raise PellucidError(NO_SCORES)
    sinks = scoring.sinks
    return scoring if sinks is None else scoring._replace(sinks=sinks[head : head + 1])


def _bias(attention: AttentionRecord, head: int, scoring: Scoring) -> Tensor | None:
    biases = attention.positions.bias(attention.q, attention.k, attention.view, scoring.scale)
    if biases is None:
        return None
    return biases.expand(1, attention.n_heads, *_square(attention))[:, head : head + 1]


def _build_mask(attention: AttentionRecord) -> Tensor | None:
    return visible(
        attention.view.in_window(attention.window, attention.q.shape[2], attention.q.device),
        attention.q,
    )


def _shares(attention: AttentionRecord, head: int) -> Tensor:
    """(R phi(q) . R phi(k)) / (sum phi(q) . phi(k) + eps), from the layer's two sums."""
    assert attention.q_plain is not None
    assert attention.k_plain is not None
    visible_keys = mask(attention)
    products = attention.q[0, head] @ attention.k[0, head].mT * visible_keys
    plain_products = attention.q_plain[0, head] @ attention.k_plain[0, head].mT * visible_keys
    return products / (plain_products.sum(-1, keepdim=True) + EPS)
