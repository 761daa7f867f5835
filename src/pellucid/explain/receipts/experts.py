"""Receipts of a mixture of experts: a logit, a score and a weight of the router, and the sum."""

from __future__ import annotations

from typing import NamedTuple

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.experts import experts_facts
from pellucid.explain.expressions import Expression, Number, constant
from pellucid.explain.receipts.builder import ReceiptBuilder, Source, cell, softmax_share, total
from pellucid.explain.receipts.linear import linear_receipt
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model import Experts
from pellucid.model.experts.routing import RouterRule, Routing
from pellucid.model.facts import ExpertsFacts
from pellucid.typed import to_list

_SCORES: Source = (RouterRule.forward, "logits.softmax(-1)")
_WEIGHTS: Source = (RouterRule.forward, "weights = scores.gather(1, experts)")
_SUM: Source = (Experts, "outputs[places].view(n_tokens, n_active, -1).sum(1)")


class _Place(NamedTuple):
    """A mixture of experts of a trace: its address, its facts and its routing."""

    address: str
    facts: ExpertsFacts
    routing: Routing

    def choice(self, token: int) -> list[int]:
        return to_list(self.routing.experts[token])


def _place(trace: Trace, selection: Selection) -> _Place:
    block = trace.stack_pass(selection.side).stack.blocks[selection.layer]
    routing = trace.layer(selection.side, selection.layer).routing
    facts = experts_facts(block)
    assert facts is not None  # an address of experts exists only where there are some
    assert routing is not None
    return _Place(f"{selection.layer_name}.feed_forward", facts, routing)


def router_receipt(trace: Trace, selection: Selection, expert: int) -> Receipt:
    """The logit of an expert: its row of the router, times the token."""
    return _linear(trace, selection, "router", expert, f"logit of expert {expert}")


def shared_gate_receipt(trace: Trace, selection: Selection) -> Receipt:
    """The logit of the shared layer's share."""
    return _linear(trace, selection, "shared_gate", 0, "logit of the shared layer's share")


def _linear(trace: Trace, selection: Selection, part: str, row: int, title: str) -> Receipt:
    address = f"{selection.layer_name}.feed_forward"
    return linear_receipt(
        trace,
        layer=f"{selection.side}.blocks.{selection.layer}.feed_forward.{part}",
        input_address=f"{address}.in",
        output_address=f"{address}.{part}",
        token=selection.token,
        feature=row,
        title=title,
        line=f"self.{part}(tokens",
    )


def score_of_expert_receipt(trace: Trace, selection: Selection, expert: int) -> Receipt:
    """The share of an expert in the softmax of all, or the sigmoid of its logit."""
    build, place, token = ReceiptBuilder(trace), _place(trace, selection), selection.token
    logits = trace[f"{place.address}.router"][token]

    def term(number: int) -> Number:
        return build.number(f"x{number}", f"{place.address}.router", token, number)

    expression: Expression
    if place.facts.rule.scores == "softmax":
        expression, formula = (
            softmax_share(term(expert), logits, term),
            "exp(x - max) / Σ exp(x - max)",
        )
    else:
        expression, formula = 1.0 / (1.0 + (-term(expert)).exp()), "1 / (1 + exp(-x))"
    return build.receipt(
        cell(f"{place.address}.scores", token, expert),
        title=f"score of expert {expert} for {selection.query(trace)}",
        formula=formula,
        expression=expression,
        source=_SCORES,
    )


def expert_weight_receipt(trace: Trace, selection: Selection, expert: int) -> Receipt:
    """The weight of an expert: its score, over the sum of the chosen ones, times the scale."""
    build, place, token = ReceiptBuilder(trace), _place(trace, selection), selection.token
    rule, choice = place.facts.rule, place.choice(token)

    def score(number: int) -> Number:
        return build.number(f"s{number}", f"{place.address}.scores", token, number)

    expression: Expression = constant(0.0, "not chosen")
    formula = "0: the token does not use this expert"
    if expert in choice:
        expression, formula = score(expert), "s"
        if rule.normalised:
            expression /= total([score(number) for number in choice])
            formula = "s / Σ s of the chosen experts"
        if rule.scale != 1.0:
            expression *= constant(rule.scale, "scale")
            formula += " × scale"
    return build.receipt(
        cell(f"{place.address}.weights", token, expert),
        title=f"weight of expert {expert} for {selection.query(trace)}",
        formula=formula,
        expression=expression,
        source=_WEIGHTS,
    )


def written_receipt(trace: Trace, selection: Selection, expert: int) -> Receipt:
    """One feature of what an expert adds to the layer's output."""
    build, place = ReceiptBuilder(trace), _place(trace, selection)
    expression, formula = _write_term(build, place, selection, expert)
    return build.receipt(
        cell(f"{place.address}.experts.{expert}.written", selection.token, selection.feature),
        title=f"feature {selection.feature} of what expert {expert} writes",
        formula=formula,
        expression=expression,
        source=_SUM,
    )


def _write_term(
    build: ReceiptBuilder, place: _Place, selection: Selection, expert: int
) -> tuple[Expression, str]:
    token, feature = selection.token, selection.feature
    output = build.number(f"y{expert}", f"{place.address}.experts.{expert}", token, feature)
    if place.facts.weights_on == "input":
        return output + constant(0.0, "nothing else"), f"y{expert}: its input is weighted"
    weight = build.number(f"w{expert}", f"{place.address}.weights", token, expert)
    return weight * output, f"w{expert} y{expert}"


def mixture_receipt(trace: Trace, selection: Selection) -> Receipt:
    """One feature of the layer's output: what the chosen experts and the shared layer write."""
    build, place = ReceiptBuilder(trace), _place(trace, selection)
    token, feature = selection.token, selection.feature
    terms = [_write_term(build, place, selection, i)[0] for i in place.choice(token)]
    formula = "Σ w y of the chosen experts"
    if place.facts.weights_on == "input":
        formula = "Σ y of the chosen experts"
    if place.facts.shared is not None:
        shared: Expression = build.number("shared", f"{place.address}.shared", token, feature)
        formula += " + shared"
        if place.facts.shared_gate is not None:
            logit = build.number("g", f"{place.address}.shared_gate", token, 0)
            shared /= 1.0 + (-logit).exp()
            formula += " × 1 / (1 + exp(-g))"
        terms.append(shared)
    return build.receipt(
        cell(place.address, token, feature),
        title=f"feature {feature} of the layer's output",
        formula=formula,
        expression=total(terms),
        source=_SUM,
    )


def uses_expert(trace: Trace, selection: Selection, expert: int) -> bool:
    """Whether the selected token uses an expert."""
    return expert in _place(trace, selection).choice(selection.token)
