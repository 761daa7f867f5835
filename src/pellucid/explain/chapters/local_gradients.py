"""Local rules: how a gradient passes one softmax, one weighted sum, one score and one norm."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from pellucid.explain.chapter_types import Bars, Chapter, Matrix, Picture, Place, Receipt
from pellucid.explain.chapters.backward import chapter_without_loss
from pellucid.explain.chapters.loss import no_loss
from pellucid.explain.part_facts import entry_norm
from pellucid.explain.receipts.local_gradients import (
    norm_rule,
    query_rule,
    softmax_rule,
    sum_rule,
    why_no_rules,
)
from pellucid.explain.selection import Selection, select_place
from pellucid.explain.trace_types import Trace
from pellucid.maths.softmax import softmax_jacobian
from pellucid.typed import to_list

_KEYS = 16


def build(trace: Trace, place: Place) -> Chapter:
    """The Jacobian of the chosen query's softmax, and each step's rule with its numbers."""
    selection = select_place(trace, place)
    reason = no_loss(trace)
    if reason is not None:
        return chapter_without_loss(reason)
    no_rules_reason = why_no_rules(trace, selection)
    pictures: tuple[Picture, ...] = ()
    local_rules: list[Receipt | None] = []
    if no_rules_reason is None:
        pictures = (_jacobian(trace, selection), _scores(trace, selection))
        local_rules = [
            sum_rule(trace, selection),
            softmax_rule(trace, selection),
            query_rule(trace, selection),
        ]
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    kind = "cross_attention_norm" if selection.cross else "attention_norm"
    norm = norm_rule(trace, selection, entry_norm(block, kind))
    return Chapter(
        sentence="Each step passes its gradient on by a rule of its own."
        + (
            f" A softmax gives each score of {selection.query(trace)} its weight times the amount "
            "by which its gradient exceeds the weighted mean: a gain that all keys share is no "
            "reason to look elsewhere."
            if no_rules_reason is None
            else ""
        ),
        pictures=pictures,
        receipts=tuple(rule for rule in (*local_rules, norm) if rule is not None),
        notes=(
            *((no_rules_reason,) if no_rules_reason is not None else ()),
            "the norm of this layer is of another kind: its rule is not shown"
            if norm is None
            else "but for its eps, a norm passes nothing on along the features themselves, nor "
            "along their mean if it takes that out: it would undo it",
        ),
    )


def _largest(trace: Trace, selection: Selection) -> list[int]:
    """The keys that the query looks at most, in the order of the text."""
    weights = trace[f"{selection.head_name}.weights"][selection.token]
    return sorted(to_list(weights.argsort(descending=True, stable=True)[:_KEYS]))


def _jacobian(trace: Trace, selection: Selection) -> Matrix:
    name = selection.head_name
    scores, mask = trace[f"{name}.scores"][selection.token], trace[f"{name}.mask"][selection.token]
    keys = [key for key in _largest(trace, selection) if bool(mask[key])]
    masked_scores = scores.double().masked_fill(~mask, -float("inf"))
    jacobian = cast("Tensor", softmax_jacobian(masked_scores))[keys][:, keys]
    scoring = selection.attention(trace).scoring
    if scoring is not None and scoring.sinks is not None:
        # a sink takes a part of each share
        w = trace[f"{name}.weights"][selection.token].double()[keys]
        jacobian = w.diag() - w[:, None] * w
    pieces = trace.pieces("encoder" if selection.cross else selection.side)
    labels = tuple(pieces[key] for key in keys)
    cut = "" if len(keys) == int(mask.sum()) else f"the {len(keys)} largest of {int(mask.sum())}"
    return Matrix(
        title=f"dw/ds of {selection.query(trace)} in {name}: w (1 if the same, else 0, less w)",
        rows=labels,
        columns=labels,
        values=tuple(tuple(row) for row in to_list(jacobian)),
        scale="diverging",
        address="",
        pooled=cut,
    )


def _scores(trace: Trace, selection: Selection) -> Bars:
    name = selection.head_name
    upstream = trace[f"{name}.scores.grad"][selection.token].double()
    keys = _largest(trace, selection)
    pieces = trace.pieces("encoder" if selection.cross else selection.side)
    return Bars(
        title=f"dL/ds: below 0, more of that key would lower the loss ({name})",
        names=tuple(f"{pieces[key]!r} ({key})" for key in keys),
        values=tuple(to_list(upstream[keys])),
        unit="dL/ds",
        rest=float(upstream.sum() - upstream[keys].sum()) if len(upstream) > len(keys) else None,
    )
