"""Probes of the weights: ties, copies, zeros, NaN and infinity, a wrong import."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from pellucid.diagnosis.batches import Examples, cross_entropy
from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.probes.labels import true_targets
from pellucid.typed import named_modules

#: The half of an adapter that begins at zero, in pellucid and in peft.
_ADAPTER = re.compile(r"(^|\.)lora_(up|B)\b")


def find_embedding_and_head(adapter: ModelAdapter) -> tuple[Tensor, Tensor] | None:
    """The token embedding, and the matrix of the head."""
    if not adapter.has_logits:
        return None
    if adapter.transformer is not None:
        return adapter.transformer.token_embedding.weight, adapter.transformer.head_weight
    modules = named_modules(adapter.model).values()
    # a table of positions may come first, and may have more rows than there are tokens
    tables = _with_vocab_rows([m for m in modules if isinstance(m, nn.Embedding)], adapter.vocab)
    heads = _with_vocab_rows([m for m in modules if isinstance(m, nn.Linear)], adapter.vocab)
    heads = [head for head in heads if tables and head.shape[1] == tables[0].shape[1]]
    return (tables[0], heads[-1]) if heads else None


def _with_vocab_rows(modules: Sequence[nn.Embedding | nn.Linear], vocab: int) -> list[Tensor]:
    """The weights with one row for each token, or else those with more rows."""
    weights = [module.weight for module in modules]
    exact = [weight for weight in weights if weight.shape[0] == vocab]
    return exact or [weight for weight in weights if weight.shape[0] > vocab]


def probe_ties(adapter: ModelAdapter) -> list[Finding]:
    """Whether the embedding and the head are one tensor exactly if they should be."""
    ends = find_embedding_and_head(adapter)
    if ends is None:
        return []
    embedding, head = ends
    is_shared = embedding is head or embedding.data_ptr() == head.data_ptr()
    is_equal = is_shared or (embedding.shape == head.shape and torch.equal(embedding, head))
    should_tie = adapter.declared.tied
    if should_tie is None:
        should_tie = getattr(adapter.settings, "tie_word_embeddings", None)
    if not isinstance(should_tie, bool):
        should_tie = is_equal
    if should_tie == is_shared:
        return []
    if is_shared:
        return [describe("TIE002", n=1)]
    equal = ", and have equal values until the first update" if is_equal else ""
    return [describe("TIE001", n=2, equal=equal)]


def probe_numbers(model: nn.Module) -> list[Finding]:
    """Whether every weight is finite; run this before the model runs."""
    broken = [
        name
        for name, weight in model.named_parameters()
        if weight.is_floating_point() and not bool(torch.isfinite(weight.detach()).all())
    ]
    return [describe("WGT001", n=len(broken), place=", ".join(broken[:4]))] if broken else []


def probe_weights(adapter: ModelAdapter) -> list[Finding]:
    """Whether random matrices differ, and whether no pretrained matrix is zero."""
    parameters = adapter.model.named_parameters()
    weights = {name: p.detach() for name, p in parameters if p.is_floating_point()}
    findings = _find_copies(weights)
    if not adapter.declared.pretrained:
        return findings
    zero = [
        name
        for name, weight in weights.items()
        if weight.ndim > 1 and not bool(weight.any()) and not _ADAPTER.search(name)
    ]
    if zero:
        findings.append(describe("WGT002", n=len(zero), place=", ".join(zero[:4])))
    ends = find_embedding_and_head(adapter)
    rows = torch.empty(0, 1) if ends is None else ends[0].detach()[: adapter.vocab]
    n_zero, n = int((~(rows != 0).any(dim=1)).sum()), len(rows)
    if n_zero > max(limit("WGT003", "rows"), limit("WGT003", "share") * n):
        findings.append(describe("WGT003", n=n_zero, total=n, share=n_zero / n))
    return findings


def _find_copies(weights: Mapping[str, Tensor]) -> list[Finding]:
    """Random matrices that are equal: their layers would learn the same."""
    groups: dict[tuple[object, ...], list[tuple[str, Tensor]]] = defaultdict(list)
    for name, weight in weights.items():
        if _is_random(weight):
            key = (weight.shape, float(weight.flatten()[:256].double().sum()))
            groups[key].append((name, weight))
    pairs = [
        (first, second)
        for group in groups.values()
        for (first, weight), (second, other) in pairwise(group)
        if weight.data_ptr() != other.data_ptr() and torch.equal(weight, other)
    ]
    pairs = [pair for pair in pairs if not re.search("embed|head", "".join(pair))]
    place = "; ".join(" = ".join(pair) for pair in pairs[:2])
    return [describe("INI003", n=len(pairs), place=place)] if pairs else []


def _is_random(weight: Tensor) -> bool:
    """Whether all neighbouring rows differ: a constant, or a ramp in each row, is not random."""
    if weight.ndim < 2 or not weight.numel():
        return False
    rows = weight.flatten(0, -2)
    return len(rows) > 1 and bool((rows[1:] != rows[:-1]).any(dim=1).all())


def probe_import(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether pretrained weights know the text; if not, whether they do after a transposition.

    A square matrix that is stored transposed gives no error. So the probe transposes the matrices
    of one role (such as the queries of every layer) together, role by role, and computes the loss.
    """
    if not adapter.declared.pretrained or not adapter.has_logits or not adapter.causal:
        return []
    if adapter.has_encoder_and_decoder:
        return []  # its knowledge depends on the source
    targets, chance = true_targets(adapter, data), math.log(adapter.vocab)
    with adapter.as_is(), torch.no_grad():
        loss = cross_entropy(adapter.outputs(data.ids), targets)
        lower, role = _best_transposition(adapter, data, targets)
    highest = chance - limit("WGT004", "nats")
    # a transposition may also help a model that is sure of wrong tokens: it has to beat guessing
    if lower < highest and lower < loss * limit("WGT005", "share"):
        return [describe("WGT005", loss=loss, lower=lower, role=role, share=lower / loss)]
    if not loss > highest:  # NaN too: another probe reports it
        return []
    return [describe("WGT004", loss=loss, vocab=adapter.vocab, chance=chance, below=chance - loss)]


def _best_transposition(
    adapter: ModelAdapter, data: Examples, targets: Tensor
) -> tuple[float, str]:
    """The lowest loss with one role transposed, and the role; infinity if there is none."""
    roles: dict[str, list[nn.Parameter]] = defaultdict(list)
    for name, weight in adapter.model.named_parameters():
        if weight.ndim == 2 and weight.shape[0] == weight.shape[1]:
            roles[".".join(part for part in name.split(".") if not part.isdigit())].append(weight)
    losses: list[tuple[float, str]] = []
    for role, weights in roles.items():
        for weight in weights:
            weight.data = weight.data.mT.contiguous()
        losses.append((cross_entropy(adapter.outputs(data.ids), targets), role))
        for weight in weights:
            weight.data = weight.data.mT.contiguous()
    return min(losses, default=(math.inf, ""))
