"""Probes of the weights as they are: ties, copies, zeros, numbers that are none, a wrong import."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from itertools import pairwise

import torch
from torch import Tensor, nn

from pellucid.diagnosis.batches import Examples, cross_entropy
from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import ModelAdapter
from pellucid.diagnosis.probes.embedding_and_head import find_ends
from pellucid.diagnosis.probes.losses import true_targets


def probe_ties(adapter: ModelAdapter) -> list[Finding]:
    """Whether the embedding and the head are one tensor exactly where they are said to be."""
    ends = find_ends(adapter)
    if ends is None:
        return []
    embedding, head = ends
    is_shared = embedding is head or embedding.data_ptr() == head.data_ptr()
    alike = is_shared or (embedding.shape == head.shape and torch.equal(embedding, head))
    should_tie = _said_tied(adapter)
    if should_tie is None:
        should_tie = alike
    if should_tie and not is_shared:
        return [
            build_finding(
                "TIE001",
                "The head's matrix and the token embedding are to be one, and are two tensors"
                + (" of equal values: the first update parts them." if alike else "."),
                evidence("TIE001", "tensors", 2),
                where="head",
            )
        ]
    if is_shared and not should_tie:
        return [
            build_finding(
                "TIE002",
                "The head's matrix and the token embedding are one tensor, and are said to be two.",
                evidence("TIE002", "tensors", 1),
                where="head",
            )
        ]
    return []


def _said_tied(adapter: ModelAdapter) -> bool | None:
    if adapter.declared.tied is not None:
        return adapter.declared.tied
    tied = getattr(adapter.settings, "tie_word_embeddings", None)
    return tied if isinstance(tied, bool) else None


#: The half of an adapter that begins at zero: ours, and peft's.
_ADAPTER = re.compile(r"(^|\.)lora_(up|B)\b")


def probe_numbers(model: nn.Module) -> list[Finding]:
    """Whether every weight is a number: to be asked before the model is run."""
    broken = [
        name
        for name, weight in model.named_parameters()
        if weight.is_floating_point() and not bool(torch.isfinite(weight.detach()).all())
    ]
    if not broken:
        return []
    sign = evidence("WGT001", "parameters with NaN or infinity", len(broken))
    where = ", ".join(broken[:4])
    return [
        build_finding(
            "WGT001", f"{len(broken)} parameters hold NaN or infinity.", sign, where=where
        )
    ]


def probe_weights(adapter: ModelAdapter) -> list[Finding]:
    """Whether matrices that were drawn differ, and, of pretrained ones, whether none is zero."""
    named = [(n, p.detach()) for n, p in adapter.model.named_parameters() if p.is_floating_point()]
    findings = _copied(named)
    if adapter.declared.pretrained:
        zero = [
            name
            for name, weight in named
            if weight.ndim > 1 and not bool(weight.any()) and not _ADAPTER.search(name)
        ]
        if zero:
            sign = evidence("WGT002", "matrices of zeros", len(zero))
            text = f"{len(zero)} matrices of a pretrained model are all zero."
            findings.append(build_finding("WGT002", text, sign, where=", ".join(zero[:4])))
        findings += _bare_rows(adapter)
    return findings


def _copied(named: list[tuple[str, Tensor]]) -> list[Finding]:
    """Matrices that were drawn, and are equal: their layers would learn the same."""
    alike: dict[tuple[object, ...], list[tuple[str, Tensor]]] = defaultdict(list)
    for name, weight in named:
        if _is_drawn(weight):
            key = (weight.shape, float(weight.flatten()[:256].double().sum()))
            alike[key].append((name, weight))
    pairs = [
        (first[0], second[0])
        for group in alike.values()
        for first, second in pairwise(group)
        if first[1].data_ptr() != second[1].data_ptr() and torch.equal(first[1], second[1])
    ]
    ties = [p for p in pairs if "embed" in p[0] + p[1] or "head" in p[0] + p[1]]
    pairs = [p for p in pairs if p not in ties]
    if not pairs:
        return []
    return [
        build_finding(
            "INI003",
            f"{len(pairs)} pairs of matrices are equal, number for number, and are not shared.",
            evidence("INI003", "pairs", len(pairs)),
            where="; ".join(f"{a} = {b}" for a, b in pairs[:2]),
        )
    ]


def _is_drawn(weight: Tensor) -> bool:
    """Whether no two neighbouring rows are alike: else it is a constant, or a ramp for each row."""
    if weight.ndim < 2 or not weight.numel():
        return False
    rows = weight.flatten(0, -2)
    return len(rows) > 1 and bool((rows[1:] != rows[:-1]).any(dim=1).all())


def _bare_rows(adapter: ModelAdapter) -> list[Finding]:
    ends = find_ends(adapter)
    if ends is None:
        return []
    rows = ends[0].detach()[: adapter.vocab]
    bare, n = int((~(rows != 0).any(dim=1)).sum()), len(rows)
    if bare <= max(limit("WGT003", "rows"), limit("WGT003", "share") * n):
        return []
    sign = evidence("WGT003", "share of rows that are zero", bare / n)
    return [
        build_finding(
            "WGT003", f"{bare} of {n} token embeddings are zero.", sign, where="token embedding"
        )
    ]


def probe_import(adapter: ModelAdapter, data: Examples) -> list[Finding]:
    """Whether pretrained weights know the text; if not, whether transposing some makes them.

    A square matrix can be read in either direction without an error. Those of one role (the
    queries of every layer) are transposed together, role by role, and the loss is taken again.
    """
    if not adapter.declared.pretrained or not adapter.has_logits or not adapter.causal:
        return []
    if adapter.has_encoder_and_decoder:
        return []  # what it knows depends on what it looks at
    targets = true_targets(adapter, data)
    with adapter.as_is(), torch.no_grad():
        loss = cross_entropy(adapter.outputs(data.ids), targets)
        chance = math.log(adapter.vocab)
        better = _best_transposed(adapter, data, targets)
    knows_nothing = loss > chance - limit("WGT004", "nats")
    # to break what was sound may help a model that is sure of what is wrong: it must know something
    knows_then = better is not None and better[1] < chance - limit("WGT004", "nats")
    if better is not None and knows_then and better[1] < loss * limit("WGT005", "share"):
        role, lower = better
        sign = evidence("WGT005", "loss transposed, of the loss as it is", lower / loss)
        return [
            build_finding(
                "WGT005",
                f"The loss falls from {loss:.2f} to {lower:.2f} when `{role}` is transposed in "
                "every layer.",
                sign,
                where=role,
                confidence=0.9,
            )
        ]
    if not knows_nothing:
        return []
    return [
        build_finding(
            "WGT004",
            f"The loss of pretrained weights on the text is {loss:.2f}, and guessing costs ln "
            f"{adapter.vocab} = {chance:.2f}.",
            evidence("WGT004", "ln V - loss", chance - loss),
            confidence=0.8,
        )
    ]


def _best_transposed(
    adapter: ModelAdapter, data: Examples, targets: Tensor
) -> tuple[str, float] | None:
    roles: dict[str, list[nn.Parameter]] = defaultdict(list)
    for name, weight in adapter.model.named_parameters():
        if weight.ndim == 2 and weight.shape[0] == weight.shape[1]:
            roles[".".join(part for part in name.split(".") if not part.isdigit())].append(weight)
    tried: list[tuple[float, str]] = []
    for role, weights in roles.items():
        for weight in weights:
            weight.data = weight.data.mT.contiguous()
        tried.append((cross_entropy(adapter.outputs(data.ids), targets), role))
        for weight in weights:
            weight.data = weight.data.mT.contiguous()
    if not tried:
        return None
    lower, role = min(tried)
    return role, lower
