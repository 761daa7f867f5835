"""Receipts by a selected place: each is the receipt of one address of the trace.

They are for displays, which select a token, a layer, a head and a feature. The formula of each
address is its equation in `explain.equations`.
"""

from __future__ import annotations

from typing import cast

from torch import nn

from pellucid.catalogue import message
from pellucid.explain.addresses.recompute import receipt_or_none
from pellucid.explain.chapter_types import Receipt
from pellucid.explain.equations.equation import stack_prefix
from pellucid.explain.part_facts import first_rotated, rotation_of
from pellucid.explain.receipts.builder import ReceiptBuilder, cell
from pellucid.explain.residual_sums import Sum
from pellucid.explain.selection import Selection
from pellucid.explain.trace_types import Trace
from pellucid.model.scores import weights_of


def score_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """scale q . k, with its cap and bias if it has them, before the mask."""
    return receipt_or_none(trace, f"{selection.head_name}.scores", selection.token, selection.other)


def bias_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """What distance adds to a score; None if these positions have no formula."""
    address = f"{selection.head_name}.bias"
    return receipt_or_none(trace, address, selection.token, selection.other)


def weight_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """exp(s - max) over its sum over all visible keys; a sink is one more term."""
    return receipt_or_none(
        trace, f"{selection.head_name}.weights", selection.token, selection.other
    )


def out_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """One feature of a head's output: the values, weighted."""
    width = selection.attention(trace).outputs.shape[-1]
    address = f"{selection.head_name}.out"
    return receipt_or_none(trace, address, selection.token, selection.feature % width)


def output_gate_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """The factor of one feature of a head's output: a sigmoid."""
    width = selection.attention(trace).outputs.shape[-1]
    address = f"{selection.head_name}.output_gate"
    return receipt_or_none(trace, address, selection.token, selection.feature % width)


def product_receipt(trace: Trace, selection: Selection) -> Receipt:
    """The weights of a head's keys sum to 1; with a sink, to less."""
    build, address = ReceiptBuilder(trace), f"{selection.head_name}.weights"
    return build.receipt(
        cell(address, selection.token),
        title=message("receipts.the-weights-together"),
        formula="Σ w",
        expression=build.vector("w", address, selection.token).sum(),
        source=(weights_of, "torch.softmax(scores, dim=-1)"),
        model=float(trace[address][selection.token].double().sum()),
    )


def rotation_receipt(trace: Trace, selection: Selection, vector_name: str = "q") -> Receipt | None:
    """One feature of a query or key, rotated with its partner by the angle of its position."""
    attention = selection.attention(trace)
    facts = rotation_of(attention.positions)
    assert facts is not None
    first = first_rotated(attention.layer)
    feature = first + (selection.feature - first) % facts.n_rotated
    token = selection.token if vector_name == "q" else selection.other
    address = f"{selection.head_name}.{vector_name}"
    rotated = f"{address}_turned"
    return receipt_or_none(
        trace, rotated if rotated in trace.addresses() else address, token, feature
    )


def projection_receipt(
    trace: Trace, selection: Selection, kind: str, name: str, *, feature: int
) -> Receipt | None:
    """One number of a projected query, key or value.

    Args:
        trace: the sentence.
        selection: its layer and token.
        kind: "attention" or "cross_attention".
        name: the projection, such as "query" or "output_gate".
        feature: which one of all heads' features, side by side.
    """
    return receipt_or_none(trace, f"{selection.layer_name}.{kind}.{name}", selection.token, feature)


def activation_receipt(
    trace: Trace, selection: Selection, unit: int, holder: str = "feed_forward"
) -> Receipt | None:
    """A unit's activation, times its gate if it has one; None without a known activation.

    Args:
        trace: the sentence.
        selection: its layer and token.
        unit: which one.
        holder: the feed-forward in the layer, such as feed_forward.experts.3.
    """
    address = f"{selection.layer_name}.{holder}.units"
    return receipt_or_none(trace, address, selection.token, unit)


def matrix_receipt(
    trace: Trace,
    selection: Selection,
    part: str,
    *,
    token: int,
    feature: int,
    holder: str = "feed_forward",
) -> Receipt | None:
    """One number of a feed-forward before or after its units.

    Args:
        trace: the sentence.
        selection: its layer.
        part: the matrix: "up", "gate" or "down".
        token: the token.
        feature: the unit of up or gate, the output feature of down.
        holder: the feed-forward in the layer, such as feed_forward.experts.3.
    """
    address = f"{selection.layer_name}.{holder}"
    return receipt_or_none(
        trace, address if part == "down" else f"{address}.{part}", token, feature
    )


def linear_receipt(
    trace: Trace,
    *,
    layer: str,
    input_address: str,
    output_address: str,
    token: int,
    feature: int,
    title: str = "",
    line: str = "",
) -> Receipt | None:
    """W[feature] . x + b: the receipt of a linear layer's output.

    Args:
        trace: the sentence.
        layer: the name of the linear layer in the model.
        input_address: of its input; the equation of the output knows it.
        output_address: of its output, (time, features).
        token: the token.
        feature: of the output.
        title: not used; the equation has its own.
        line: not used; the equation has its own.
    """
    module = cast("nn.Linear", trace.model.get_submodule(layer))
    return receipt_or_none(trace, output_address, token, feature % module.out_features)


def norm_receipt(
    trace: Trace, *, norm: str, input_address: str, output_address: str, token: int, feature: int
) -> Receipt | None:
    """One feature after a norm; None if pellucid does not know the norm.

    Args:
        trace: the sentence.
        norm: the name of the module in the model; the equation of the output knows it.
        input_address: of its input; the equation of the output knows it.
        output_address: of its output, (time, features).
        token: the token.
        feature: the feature.
    """
    return receipt_or_none(trace, output_address, token, feature)


def embedding_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """One feature of a token's embedding: its row, scaled, plus the vector of its segment."""
    width = trace.model.token_embedding.embedding_dim
    address = f"{stack_prefix(trace, selection.side)}embedding"
    return receipt_or_none(trace, address, selection.token, selection.feature % width)


def position_receipt(trace: Trace, selection: Selection) -> Receipt | None:
    """What enters the first block: the embedding with its position, or what follows that."""
    return receipt_or_none(
        trace, f"{selection.layer_name[0]}0.residual", selection.token, selection.feature
    )


def residual_receipt(trace: Trace, selection: Selection, stream_sum: Sum) -> Receipt | None:
    """One feature of the stream after a sublayer: the stream before it, plus its output."""
    return receipt_or_none(trace, stream_sum.after, selection.token, selection.feature)


def logit_receipt(trace: Trace, token: int, word: int) -> Receipt | None:
    """A row of the head times its input, with its bias and cap if it has them."""
    return receipt_or_none(trace, "logits", token, word)


def probability_receipt(trace: Trace, token: int, word: int) -> Receipt | None:
    """exp(z - max) over its sum over the whole vocabulary."""
    return receipt_or_none(trace, "probabilities", token, word)


def surprisal_receipt(trace: Trace, token: int) -> Receipt | None:
    """-log of the probability of the token after `token`, in nats."""
    return receipt_or_none(trace, "surprisal", token)


def loss_receipt(trace: Trace) -> Receipt | None:
    """The mean of all surprisals."""
    return receipt_or_none(trace, "loss")
