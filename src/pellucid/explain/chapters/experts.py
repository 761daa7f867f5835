"""A mixture of experts: which experts each token uses, with what weight, and what they write."""

from __future__ import annotations

from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Bars, Content, Table
from pellucid.explain.chapters.pictures import MAX_CELLS, largest, window
from pellucid.explain.receipts.builder import cell
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.facts import ExpertsFacts
from pellucid.typed import length, to_list

#: Experts in the table, besides those that the token uses.
_OTHERS = 8


def build_experts(trace: Trace, selection: Selection, facts: ExpertsFacts) -> Content:
    """The experts of the token by weight, and the experts of the tokens around it."""
    address, token = f"{selection.layer_name}.feed_forward", selection.token
    choice: list[int] = to_list(trace[f"{address}.chosen"][token])
    return Content(
        sentence=f"A router gives {selection.query(trace)} to {len(choice)} of {facts.n_experts} "
        f"experts, each a feed-forward layer of its own: {_list(choice)}. Their outputs are "
        f"weighted and added.{_describe_shared(facts)}",
        pictures=(
            _weights(trace, address, selection, choice),
            _table(trace, address, token, choice, facts.n_experts),
            _of_all_tokens(trace, address, selection),
        ),
        receipts=[
            receipt_or_none(trace, f"{address}.{part}", token, place)
            for part, place in (
                ("router", choice[0]),
                ("scores", choice[0]),
                ("weights", choice[0]),
                (f"experts.{choice[0]}", selection.feature),
                (f"experts.{choice[0]}.written", selection.feature),
            )
        ]
        + [receipt_or_none(trace, address, token, selection.feature)],
        notes=(_note(trace, address, facts),),
    )


def _weights(trace: Trace, address: str, selection: Selection, choice: list[int]) -> Bars:
    weights = trace[cell(f"{address}.weights", selection.token)]
    return Bars(
        title=f"the experts of {selection.query(trace)} in layer {selection.layer}, by weight",
        names=tuple(f"expert {number}" for number in choice),
        values=tuple(float(weights[number]) for number in choice),
        unit="weight",
    )


def _table(trace: Trace, address: str, token: int, choice: list[int], n_experts: int) -> Table:
    logits, scores, weights = (
        trace[cell(f"{address}.{part}", token)] for part in ("router", "scores", "weights")
    )
    others = [number for number in largest(scores.double(), n_experts) if number not in choice][
        :_OTHERS
    ]
    rows = [
        (
            number,
            float(logits[number]),
            float(scores[number]),
            float(weights[number]),
            length(trace[cell(f"{address}.experts.{number}.written", token)]),
        )
        for number in (*choice, *others)
    ]
    return Table(
        title="from the router's logit to what an expert writes",
        columns=("expert", "logit", "score", "weight", "length written"),
        rows=tuple(rows),
    )


def _of_all_tokens(trace: Trace, address: str, selection: Selection) -> Table:
    pieces = trace.pieces(selection.side)
    choice, weights = trace[f"{address}.chosen"], trace[f"{address}.weights"]
    places = window(selection.token, len(pieces), MAX_CELLS)
    rows = [
        (
            f"{pieces[place]!r} ({place})",
            ", ".join(
                f"{number} ({float(weights[place, number]):.2f})"
                for number in to_list(choice[place])
            ),
        )
        for place in places
    ]
    cut = "" if len(places) == len(pieces) else f": {len(places)} of {len(pieces)} tokens"
    return Table(
        title=f"the experts of each token, with their weights{cut}",
        columns=("token", "experts"),
        rows=tuple(rows),
    )


def _describe_shared(facts: ExpertsFacts) -> str:
    if facts.shared is None:
        return ""
    gate = "" if facts.shared_gate is None else ", scaled by a gate"
    return f" Every token uses one more layer, the shared one{gate}."


def _note(trace: Trace, address: str, facts: ExpertsFacts) -> str:
    used = len(set(to_list(trace[f"{address}.chosen"].flatten())))
    note = f"the tokens of this text use {used} of {facts.n_experts} experts"
    if facts.rule.grouped:
        note += "; a token can choose experts of its best groups only"
    if facts.choice_bias is not None:
        note += "; the choice adds a bias to each score, which is not part of a weight"
    return note


def _list(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return f"{', '.join(first)} and {last}" if first else last
