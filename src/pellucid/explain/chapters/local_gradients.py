"""Local rules: how a gradient passes one softmax, one weighted sum, one score and one norm."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from torch import Tensor

from pellucid.catalogue import message
from pellucid.explain.chapter_types import Bars, Content, Matrix, Picture, Receipt
from pellucid.explain.chapters.pictures import bars, largest
from pellucid.explain.losses.types import ClassLoss
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.receipts.local_gradients import (
    norm_rule,
    query_rule,
    softmax_rule,
    sum_rule,
    why_no_rules,
)
from pellucid.explain.selection import Selection, label
from pellucid.explain.trace_types import Trace
from pellucid.maths.softmax import softmax_jacobian
from pellucid.typed import to_list

_KEYS = 16


def build(trace: Trace, selection: Selection) -> Content:
    """The Jacobian of the selected query's softmax, and each step's rule with its numbers."""
    original, selection = selection, _with_gradient(trace, selection)
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    kind = "cross_attention_norm" if selection.cross else "attention_norm"
    norm = norm_rule(trace, selection, entry_norm(block, kind))
    sentence = message("local_gradients.each-step-passes-its-gradient")
    pictures: list[Picture] = []
    receipts: list[Receipt | None] = []
    reason = why_no_rules(trace, selection)
    if reason is None:
        sentence += message(
            "local_gradients.a-softmax-gives-each-score", query=selection.query(trace)
        )
        pictures += [_jacobian(trace, selection), _scores(trace, selection)]
        receipts += [rule(trace, selection) for rule in (sum_rule, softmax_rule, query_rule)]
    return Content(
        sentence=sentence,
        pictures=pictures,
        receipts=(*receipts, norm),
        notes=(
            reason,
            message(
                "local_gradients.nothing-comes-back-to-token",
                token=original.token,
                token2=selection.token,
            )
            if original.token != selection.token
            else None,
            message("local_gradients.the-norm-of-this-layer")
            if norm is None
            else message("local_gradients.but-for-its-eps-a"),
        ),
    )


def _with_gradient(trace: Trace, selection: Selection) -> Selection:
    """The selection, at a token that the loss reaches: none comes after the last that counts."""
    loss = trace.loss
    if loss is None or isinstance(loss, ClassLoss) or selection.side != trace.side:
        return selection
    last = int(loss.places.max())
    return (
        replace(selection, token=last) if selection.token > last and trace.predicts else selection
    )


def _largest_keys(trace: Trace, selection: Selection) -> list[int]:
    """The keys that the query looks at most, in the order of the text."""
    return sorted(largest(trace[f"{selection.head_name}.weights"][selection.token], _KEYS))


def _jacobian(trace: Trace, selection: Selection) -> Matrix:
    name = selection.head_name
    scores, mask, weights = (
        trace[f"{name}.{part}"][selection.token] for part in ("scores", "mask", "weights")
    )
    keys = [key for key in _largest_keys(trace, selection) if bool(mask[key])]
    masked_scores = scores.double().masked_fill(~mask, -float("inf"))
    jacobian = cast("Tensor", softmax_jacobian(masked_scores))[keys][:, keys]
    scoring = selection.attention(trace).scoring
    if scoring is not None and scoring.sinks is not None:
        # a sink takes a part of each share
        w = weights.double()[keys]
        jacobian = w.diag() - w[:, None] * w
    pieces, count = selection.key_pieces(trace), int(mask.sum())
    labels = tuple(pieces[key] for key in keys)
    return Matrix(
        title=message("local_gradients.dw-ds-of-in-w", query=selection.query(trace), name=name),
        rows=labels,
        columns=labels,
        values=tuple(map(tuple, to_list(jacobian))),
        scale="diverging",
        address="",
        pooled=""
        if len(keys) == count
        else message("local_gradients.the-largest-of", n_keys=len(keys), count=count),
    )


def _scores(trace: Trace, selection: Selection) -> Bars:
    pieces = selection.key_pieces(trace)
    return bars(
        message("local_gradients.dl-ds-below-0-more", head_name=selection.head_name),
        trace[f"{selection.head_name}.scores.grad"][selection.token].double(),
        _largest_keys(trace, selection),
        lambda key: label(pieces, key),
        "dL/ds",
    )
