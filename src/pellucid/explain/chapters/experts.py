"""A mixture of experts: which experts each token uses, with what weight, and what they write."""

from __future__ import annotations

from pellucid.catalogue import message, messages
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
        sentence=message(
            "experts.a-router-gives-to-of",
            query=selection.query(trace),
            n_choice=len(choice),
            n_experts=facts.n_experts,
            list=_list(choice),
            shared=_describe_shared(facts),
        ),
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
        title=message(
            "experts.the-experts-of-in-layer", query=selection.query(trace), layer=selection.layer
        ),
        names=tuple(message("experts.expert", number=number) for number in choice),
        values=tuple(float(weights[number]) for number in choice),
        unit=message("word.weight"),
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
        title=message("experts.from-the-router-logit-to"),
        columns=messages(
            "word.expert", "word.logit", "word.score", "word.weight", "experts.length-written"
        ),
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
    cut = (
        ""
        if len(places) == len(pieces)
        else message(
            "experts.of-tokens", n_places=len(places), tokens=message("count-tokens", n=len(pieces))
        )
    )
    return Table(
        title=message("experts.the-experts-of-each-token", cut=cut),
        columns=messages("word.token", "word.experts"),
        rows=tuple(rows),
    )


def _describe_shared(facts: ExpertsFacts) -> str:
    if facts.shared is None:
        return ""
    gate = "" if facts.shared_gate is None else message("experts.scaled-by-a-gate")
    return message("experts.every-token-uses-one-more", gate=gate)


def _note(trace: Trace, address: str, facts: ExpertsFacts) -> str:
    used = len(set(to_list(trace[f"{address}.chosen"].flatten())))
    note = message("experts.the-tokens-of-this-text", used=used, n_experts=facts.n_experts)
    if facts.rule.grouped:
        note += message("experts.a-token-can-choose-experts")
    if facts.choice_bias is not None:
        note += message("experts.the-choice-adds-a-bias")
    return note


def _list(numbers: list[int]) -> str:
    *first, last = map(str, numbers)
    return message("list.and", first=", ".join(first), last=last) if first else last
