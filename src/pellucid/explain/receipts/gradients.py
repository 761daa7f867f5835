"""Receipts of the backward pass: a row of the head, a weight of any linear layer."""

from __future__ import annotations

from typing import assert_never

from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, constant, evaluate
from pellucid.explain.losses.compute import n_terms
from pellucid.explain.losses.types import TokensLoss
from pellucid.explain.outputs import token_rows
from pellucid.explain.part_facts import projection_input
from pellucid.explain.receipts.builder import TERMS_SHOWN, ReceiptBuilder, cell, row, total
from pellucid.explain.receipts.outputs import piece
from pellucid.explain.receipts.sums import embedding_scale_name
from pellucid.explain.selection import SelectedWeight, Selection
from pellucid.explain.trace_types import Trace
from pellucid.model import LanguageHead, Transformer
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    LinearFacts,
    LoRAFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    linear_facts,
    position_facts,
)
from pellucid.typed import to_list

_TABLE = "token_embedding.weight.grad"
#: Addresses of the input and the output of a block's linear layers; `_input_and_output` has those
#: of the projections of attention.
_INPUT_AND_OUTPUT = {
    "cross_attention.query": ("cross_attention.in", "cross_attention.query"),
}


def head_receipt(trace: Trace, word: int, feature: int) -> Receipt:
    """dW[i, j] = sum_t error[t, i] x[t, j] / n of the head, or of a tied table as the head.

    The sum is over the places that count; in a preference, over both answers.
    """
    build, tied, loss = ReceiptBuilder(trace), trace.model.head is None, token_rows(trace)
    errors = build.vector(f"error[:, {word}]", f"error[:, {word}]")
    states = row(trace["hidden"][loss.places, feature], f"x[:, {feature}]")
    cap, slope, numerator = trace.model.soft_cap, "", errors @ states
    if cap is not None:
        slope, numerator = "(1 - (z[t] / cap)²) ", _sum_capped(build, loss, word, feature, cap)
    formula = f"Σ error[t, {word}] {slope}x[t, {feature}] / n"
    expression: Expression = numerator / constant(n_terms(loss), "n")
    if trace.companion is not None:
        share = _head_share(trace.companion, word, feature, cap)
        formula, expression = _with_companion(formula, expression, share)
    return build.gradient(
        cell(f"{_TABLE}.head" if tied else "head.weight.grad", word, feature),
        title=f"dW[{word}, {feature}]: the head's row of {piece(trace, word)}"
        + (", as the head" if tied else ""),
        formula=formula,
        expression=expression,
        source=(LanguageHead.logits, "F.linear(hidden"),
    )


def _with_companion(formula: str, expression: Expression, share: float) -> tuple[str, Expression]:
    """A sum over one answer of a preference, with the share of the other answer."""
    name = "the same of the other answer"
    return f"{formula} + {name}", expression + constant(share, name)


def _head_share(trace: Trace, word: int, feature: int, cap: float | None) -> float:
    """What one answer of a preference adds to the gradient of the head."""
    loss = token_rows(trace)
    errors, states = trace["error"][:, word].double(), trace["hidden"][loss.places, feature]
    if cap is not None:
        errors = errors * (1 - (trace["logits"][loss.places, word].double() / cap) ** 2)
    return float((errors * states.double()).sum()) / n_terms(loss)


def _sum_capped(
    build: ReceiptBuilder, loss: TokensLoss, word: int, feature: int, cap: float
) -> Expression:
    """The same sum behind a cap, whose slope is 1 - (z / cap)^2."""

    def term(place_row: int, place: int) -> Expression:
        share = build.number(f"z{place}", "logits", place, word) / constant(cap, "cap")
        error = build.number("error", "error", place_row, word)
        return error * (1.0 - share * share) * build.number("x", "hidden", place, feature)

    terms = [term(n, place) for n, place in enumerate(to_list(loss.places))]
    return total(terms[:TERMS_SHOWN], [evaluate(term) for term in terms[TERMS_SHOWN:]])


def input_receipt(trace: Trace, word: int, feature: int) -> Receipt:
    """dE[i, j] as the input: the gradients at all places of the word, together."""
    build = ReceiptBuilder(trace)
    terms: list[Expression] = []
    for side in trace.sides:
        address = f"{'' if side == trace.side else 'encoder.'}embedding.grad"
        for place in to_list((trace.stack_pass(side).ids[0] == word).nonzero().flatten()):
            terms.append(build.number(f"d{place}", address, place, feature))
    expression, formula = total(terms), f"Σ dL/de[t, {feature}] over the places of the word"
    if not terms:
        expression, formula = constant(0.0, "not in the text"), "0: it is not in the text"
    if trace.companion is not None:
        share = _input_share(trace.companion, word, feature)
        formula, expression = _with_companion(formula, expression, share)
    if trace.model.embedding_scale != 1.0:
        name = embedding_scale_name(trace.model)
        expression *= constant(trace.model.embedding_scale, name)
        formula += f" × {name}"
    return build.gradient(
        cell(f"{_TABLE}.input", word, feature),
        title=f"dE[{word}, {feature}]: the row of {piece(trace, word)}, as the input",
        formula=formula,
        expression=expression,
        source=(Transformer.embed, "x = self.token_embedding(ids)"),
    )


def _input_share(trace: Trace, word: int, feature: int) -> float:
    """What one answer of a preference adds to the gradient of an embedding's row."""
    return float(trace["embedding.grad"][trace.ids == word, feature].double().sum())


def both_receipt(trace: Trace, word: int, feature: int) -> Receipt:
    """The gradient of a tied table is the sum along its two paths."""
    build = ReceiptBuilder(trace)
    return build.gradient(
        cell(_TABLE, word, feature),
        title=f"the row of {piece(trace, word)}, along both paths",
        formula="as the head + as the input",
        expression=build.number("as the head", f"{_TABLE}.head", word, feature)
        + build.number("as the input", f"{_TABLE}.input", word, feature),
    )


def weight_gradient_receipt(
    trace: Trace, selection: Selection, weight: SelectedWeight
) -> Receipt | None:
    """dW[i, j] = sum_t delta[t, i] x[t, j]; db[i] = sum_t delta[t, i]. None for other parameters.

    delta is the gradient of the layer's output, x the layer's input.
    """
    layer, _, kind = weight.name.rpartition(".")
    addresses = _input_and_output(trace, selection, layer, weight.column)
    if addresses is None or kind not in ("weight", "bias"):
        return None
    build, (input_address, output_address) = ReceiptBuilder(trace), addresses
    delta = build.vector(f"δ[:, {weight.row}]", f"{output_address}.grad[:, {weight.row}]")
    formula, expression = f"Σ δ[t, {weight.row}]", delta.sum()
    if weight.column is not None:
        formula += f" x[t, {weight.column}]"
        expression = delta @ build.vector(f"x[:, {weight.column}]", input_address)
    if trace.companion is not None:
        terms = trace.companion[f"{output_address}.grad[:, {weight.row}]"].double()
        if weight.column is not None:
            terms = terms * trace.companion[input_address].double()
        formula, expression = _with_companion(formula, expression, float(terms.sum()))
    return build.gradient(
        weight.address(".grad"),
        title=f"gradient of {weight.address()}",
        formula=formula,
        expression=expression,
    )


def _in_feed_forward(layer: str) -> tuple[str, str] | None:
    """The same for a matrix of a feed-forward, of an expert of it, or of a router."""
    holder, _, name = layer.rpartition(".")
    if not holder.startswith("feed_forward"):
        return None
    return (f"{holder}.units", holder) if name == "down" else (f"{holder}.in", layer)


def _input_and_output(
    trace: Trace, selection: Selection, layer: str, column: int | None
) -> tuple[str, str] | None:
    """The address of the column of a linear layer's input, and the address of its output."""
    block_prefix = f"{selection.side}.blocks.{selection.layer}."
    local_name, letter = layer.removeprefix(block_prefix), selection.layer_name
    facts = linear_facts(trace.model.get_submodule(layer))
    match facts:
        case LinearFacts(computed=False) if layer.startswith(block_prefix):
            pass
        case LinearFacts() | LoRAFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)
    if local_name == "attention.output":
        facts = attention_facts(trace.model.get_submodule(f"{block_prefix}attention"))
        match facts:
            case SoftmaxAttentionFacts(d_value=width) | LatentAttentionFacts(d_value=width):
                head, feature = divmod(column or 0, width)
                return f"{letter}.H{head}.out[:, {feature}]", f"{letter}.attention"
            case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
                return None
            case _:
                assert_never(facts)
    if local_name in _projections_of_distances(trace, selection):
        return None  # its gradient is a sum over the distances too
    addresses = _INPUT_AND_OUTPUT.get(local_name) or _in_feed_forward(local_name)
    kind, _, name = local_name.partition(".")
    if kind == "attention":
        reads = projection_input(trace.model.get_submodule(f"{block_prefix}attention"), name)
        addresses = (f"attention.{reads}", local_name)
    if addresses is None or f"{letter}.{addresses[1]}" not in trace.addresses():
        return None
    return f"{letter}.{addresses[0]}[:, {column}]", f"{letter}.{addresses[1]}"


def _projections_of_distances(trace: Trace, selection: Selection) -> tuple[str, ...]:
    """The projections of content that make queries or keys of distances too."""
    facts = position_facts(trace.stack_pass(selection.side).positions(selection.layer))
    match facts:
        case DisentangledFacts(own_projections=False):
            queries = ("attention.query",) * facts.position_to_content
            return queries + ("attention.key",) * facts.content_to_position
        case (
            NoPositionFacts()
            | AddedPositionFacts()
            | RotaryFacts()
            | DistanceBiasFacts()
            | DistanceVectorFacts()
            | DisentangledFacts()
            | UnknownFacts()
        ):
            return ()
        case _:
            assert_never(facts)
