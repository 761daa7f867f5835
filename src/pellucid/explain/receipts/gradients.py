"""Receipts of the way back: p - y, a row of the head, any weight of a linear layer, lengths."""

from __future__ import annotations

from typing import assert_never

from pellucid.explain import outputs
from pellucid.explain.backward_segments import backward_segment
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.expressions import Expression, evaluate
from pellucid.explain.receipts.builder import (
    TERMS_SHOWN,
    apply,
    at,
    constant,
    number,
    product,
    receipt,
    source_line,
    summed,
    total,
    vector,
)
from pellucid.explain.receipts.outputs import piece, probability_receipt
from pellucid.explain.selection import SelectedWeight, Selection
from pellucid.explain.trace_types import Trace
from pellucid.maths.cross_entropy import cross_entropy_grad
from pellucid.model import LanguageHead, Transformer
from pellucid.model.facts import (
    LinearAttentionFacts,
    LinearFacts,
    LoRAFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    linear_facts,
)
from pellucid.typed import to_list


#: Where torch goes back: the number that each receipt here is held against.
def autograd_line() -> str:
    return source_line(backward_segment, "grads = gradients(")


#: Linear layers of a block: what they are given and what they make, by the name of the weight.
_GIVEN_AND_MADE = {
    "attention.query": ("attention.in", "attention.query"),
    "attention.key": ("attention.in", "attention.key"),
    "attention.value": ("attention.in", "attention.value"),
    "cross_attention.query": ("cross_attention.in", "cross_attention.query"),
    "feed_forward.up": ("feed_forward.in", "feed_forward.up"),
    "feed_forward.gate": ("feed_forward.in", "feed_forward.gate"),
    "feed_forward.down": ("feed_forward.units", "feed_forward"),
}


def error_receipt(trace: Trace, token: int, word: int) -> Receipt:
    """p - y of one word: its share, less 1 if it is the one that came."""
    share = probability_receipt(trace, token, word).expression
    is_next = int(trace.ids[token + 1]) == word
    return receipt(
        trace,
        title=f"p - y of {piece(trace, word)} after token {token}",
        formula=f"exp(z - max) / Σ exp(z - max) - {int(is_next)}",
        expression=apply("sub", share, constant(float(is_next), "y")),
        address=at("error", token, word),
        source=source_line(cross_entropy_grad, "return softmax(logits) * scale - y"),
    )


def zero_sum_receipt(trace: Trace, token: int) -> Receipt:
    """All p - y of a place together: shares sum to 1, and so does what came."""
    return receipt(
        trace,
        title=f"all p - y after token {token} together",
        formula="Σ (p - y)",
        expression=summed(vector(trace, at("error", token), "p - y")),
        address=at("error", token),
        source=source_line(cross_entropy_grad, "return softmax(logits) * scale - y"),
        model=float(trace[at("error", token)].double().sum()),
    )


def mean_receipt(trace: Trace, token: int, word: int) -> Receipt:
    """dL/dlogit: p - y, divided by how many tokens the loss is the mean of."""
    n = constant(len(trace.ids) - 1, "n")
    return receipt(
        trace,
        title=f"gradient of the logit of {piece(trace, word)} after token {token}",
        formula="(p - y) / n",
        expression=apply("div", number(trace, at("error", token, word), "p - y"), n),
        address=at("logits.grad", token, word),
        source=source_line(outputs.next_token_loss, "return F.cross_entropy("),
        least=0.0,
    )


def head_receipt(trace: Trace, word: int, feature: int) -> Receipt:
    """dW[i, j] = sum_t (p - y)[t, i] x[t, j] / n: of the head, or of a tied table as the head."""
    tied = trace.model.head is None
    parameter_name = "token_embedding.weight.grad.head" if tied else "head.weight.grad"
    errors = vector(trace, f"error[:, {word}]", f"(p - y)[:, {word}]")
    read = vector(trace, f"hidden[:-1, {feature}]", f"x[:, {feature}]")
    n = constant(len(errors.values), "n")
    cap = trace.model.soft_cap
    formula = f"Σ (p - y)[t, {word}] x[t, {feature}] / n"
    numerator = product(errors, read)
    if cap is not None:
        formula = f"Σ (p - y)[t, {word}] (1 - (z[t] / cap)²) x[t, {feature}] / n"
        numerator = _capped(trace, word, feature, cap)
    return receipt(
        trace,
        title=f"dW[{word}, {feature}]: the head's row of {piece(trace, word)}"
        + (", as the head" if tied else ""),
        formula=formula,
        expression=apply("div", numerator, n),
        address=at(parameter_name, word, feature),
        source=source_line(LanguageHead.logits, "F.linear(hidden"),
        least=0.0,
    )


def _capped(trace: Trace, word: int, feature: int, cap: float) -> Expression:
    """The same sum behind a cap, whose slope is 1 - (z / cap)^2."""

    def term(place: int) -> Expression:
        z = number(trace, at("logits", place, word), f"z{place}")
        share = apply("div", z, constant(cap, "cap"))
        slope = apply("sub", constant(1.0), apply("mul", share, share))
        error = number(trace, at("error", place, word), "p - y")
        read = number(trace, at("hidden", place, feature), "x")
        return apply("mul", apply("mul", error, slope), read)

    count = len(trace.ids) - 1
    terms_shown = [term(place) for place in range(min(count, TERMS_SHOWN))]
    return total(terms_shown, [evaluate(term(place)) for place in range(TERMS_SHOWN, count)])


def input_receipt(trace: Trace, word: int, feature: int) -> Receipt:
    """dE[i, j] as the input: what came back to each place where the word stands, together."""
    terms: list[Expression] = []
    for side in trace.sides:
        prefix = "" if side == trace.side else "encoder."
        for place in to_list((trace.stack_pass(side).ids[0] == word).nonzero().flatten()):
            terms.append(number(trace, at(f"{prefix}embedding.grad", place, feature), f"d{place}"))
    expression: Expression = apply("sum", *terms) if terms else constant(0.0, "it stands nowhere")
    formula = f"Σ dL/de[t, {feature}] where it stands" if terms else "0: it stands nowhere"
    scale = trace.model.embedding_scale
    if scale != 1.0:
        expression, formula = (
            apply("mul", expression, constant(scale, "√d_model")),
            f"{formula} × √d_model",
        )
    return receipt(
        trace,
        title=f"dE[{word}, {feature}]: the row of {piece(trace, word)}, as the input",
        formula=formula,
        expression=expression,
        address=at("token_embedding.weight.grad.input", word, feature),
        source=source_line(Transformer.embed, "x = self.token_embedding(ids)"),
        least=0.0,
    )


def both_receipt(trace: Trace, word: int, feature: int) -> Receipt:
    """A tied table is reached by two ways, and its gradient is their sum."""
    name = "token_embedding.weight.grad"
    return receipt(
        trace,
        title=f"the row of {piece(trace, word)}, by both ways",
        formula="as the head + as the input",
        expression=apply(
            "add",
            number(trace, at(f"{name}.head", word, feature), "as the head"),
            number(trace, at(f"{name}.input", word, feature), "as the input"),
        ),
        address=at(name, word, feature),
        source=autograd_line(),
        least=0.0,
    )


def weight_gradient_receipt(
    trace: Trace, selection: Selection, weight: SelectedWeight
) -> Receipt | None:
    """dW[i, j] = sum_t delta[t, i] x[t, j]; db[i] = sum_t delta[t, i]. None for other parameters.

    delta is what came back to what the layer made, x what it was given.
    """
    layer, _, kind = weight.name.rpartition(".")
    addresses = _given_and_made(trace, selection, layer, weight.column)
    if addresses is None or kind not in ("weight", "bias"):
        return None
    input_address, output_address = addresses
    delta = vector(trace, f"{output_address}.grad[:, {weight.row}]", f"δ[:, {weight.row}]")
    if weight.column is None:
        formula, expression = f"Σ δ[t, {weight.row}]", summed(delta)
    else:
        x = vector(trace, input_address, f"x[:, {weight.column}]")
        formula = f"Σ δ[t, {weight.row}] x[t, {weight.column}]"
        expression = product(delta, x)
    return receipt(
        trace,
        title=f"gradient of {weight.address()}",
        formula=formula,
        expression=expression,
        address=weight.address(".grad"),
        source=autograd_line(),
        least=0.0,
    )


def _given_and_made(
    trace: Trace, selection: Selection, layer: str, column: int | None
) -> tuple[str, str] | None:
    """The address of the column that a linear layer was given, and of what it made."""
    block_prefix = f"{selection.side}.blocks.{selection.layer}."
    local_name, letter = layer.removeprefix(block_prefix), selection.layer_name
    module = trace.model.get_submodule(layer)
    facts = linear_facts(module)
    match facts:
        case LinearFacts(computed=False) if layer.startswith(block_prefix):
            pass
        case LinearFacts() | LoRAFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)
    if local_name == "attention.output":
        attention = trace.model.get_submodule(f"{block_prefix}attention")
        facts = attention_facts(attention)
        match facts:
            case SoftmaxAttentionFacts(d_value=width):
                pass
            case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
                return None
            case _:
                assert_never(facts)
        head, feature = divmod(column or 0, width)
        return f"{letter}.H{head}.out[:, {feature}]", f"{letter}.attention"
    addresses = _GIVEN_AND_MADE.get(local_name)
    if addresses is None or f"{letter}.{addresses[1]}" not in trace.addresses():
        return None
    return f"{letter}.{addresses[0]}[:, {column}]", f"{letter}.{addresses[1]}"
