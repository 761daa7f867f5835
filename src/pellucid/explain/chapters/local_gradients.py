"""Local rules: how a gradient passes one softmax, one weighted sum, one score and one norm."""

from __future__ import annotations

from typing import cast

from torch import Tensor

from pellucid.explain.chapter_types import Bars, Chapter, Matrix, Picture, Place, Receipt
from pellucid.explain.chapters.backward import nothing
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
    chosen = select_place(trace, place)
    why = no_loss(trace)
    if why is not None:
        return nothing("rules", why)
    no_rules_reason = why_no_rules(trace, chosen)
    pictures: tuple[Picture, ...] = ()
    local_rules: list[Receipt | None] = []
    if no_rules_reason is None:
        pictures = (_jacobian(trace, chosen), _scores(trace, chosen))
        local_rules = [
            sum_rule(trace, chosen),
            softmax_rule(trace, chosen),
            query_rule(trace, chosen),
        ]
    block = trace.stack_pass(chosen.side).stack.blocks[chosen.layer]
    kind = "cross_attention_norm" if chosen.cross else "attention_norm"
    norm = norm_rule(trace, chosen, entry_norm(block, kind))
    return Chapter(
        id="rules",
        number=17,
        part="backward",
        title="Local rules",
        sentence="Each step passes on what comes back to it by a rule of its own."
        + (
            f" A softmax gives a score of {chosen.query(trace)} its share of what arrives beyond "
            "the mean: what all keys would gain alike is no reason to look elsewhere."
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


def _largest(trace: Trace, chosen: Selection) -> list[int]:
    """The keys that the query looks at most, in the order of the text."""
    weights = trace[f"{chosen.head_name}.weights"][chosen.token]
    return sorted(to_list(weights.argsort(descending=True, stable=True)[:_KEYS]))


def _jacobian(trace: Trace, chosen: Selection) -> Matrix:
    name = chosen.head_name
    scores, mask = trace[f"{name}.scores"][chosen.token], trace[f"{name}.mask"][chosen.token]
    keys = [key for key in _largest(trace, chosen) if bool(mask[key])]
    whole = scores.double().masked_fill(~mask, -float("inf"))
    jacobian = cast("Tensor", softmax_jacobian(whole))[keys][:, keys]
    scoring = chosen.attention(trace).scoring
    if scoring is not None and scoring.sinks is not None:
        # a sink takes a part of each share
        w = trace[f"{name}.weights"][chosen.token].double()[keys]
        jacobian = w.diag() - w[:, None] * w
    pieces = trace.pieces("encoder" if chosen.cross else chosen.side)
    labels = tuple(pieces[key] for key in keys)
    cut = "" if len(keys) == int(mask.sum()) else f"the {len(keys)} largest of {int(mask.sum())}"
    return Matrix(
        title=f"dw/ds of {chosen.query(trace)} in {name}: w (1 if the same, else 0, less w)",
        rows=labels,
        columns=labels,
        values=tuple(tuple(row) for row in to_list(jacobian)),
        scale="diverging",
        address="",
        pooled=cut,
    )


def _scores(trace: Trace, chosen: Selection) -> Bars:
    name = chosen.head_name
    upstream = trace[f"{name}.scores.grad"][chosen.token].double()
    keys = _largest(trace, chosen)
    pieces = trace.pieces("encoder" if chosen.cross else chosen.side)
    return Bars(
        title=f"dL/ds: below 0, more of that key would lower the loss ({name})",
        names=tuple(f"{pieces[key]!r} ({key})" for key in keys),
        values=tuple(to_list(upstream[keys])),
        unit="dL/ds",
        rest=float(upstream.sum() - upstream[keys].sum()) if len(upstream) > len(keys) else None,
    )
