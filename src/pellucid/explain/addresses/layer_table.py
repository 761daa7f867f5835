"""The addresses within a layer: of the stream, of its parts and of its heads."""

from __future__ import annotations

from functools import partial

from pellucid.explain.addresses import backward, forward, receipts, shapes
from pellucid.explain.addresses.row import Address
from pellucid.explain.receipts import out_receipt, score_receipt, weight_receipt
from pellucid.explain.record_block import LATENT_NORMS, NORMS, PROJECTIONS, SUBLAYERS

#: Feed-forward layers with units: a dense one, and the layers within a mixture of experts.
HOLDERS = ("feed_forward", "feed_forward.shared", "feed_forward.experts.{expert}")
#: Parts of a layer that one row describes together, by the name of their family.
FAMILIES: dict[str, tuple[str, ...]] = {
    "norm": NORMS,
    "sublayer": SUBLAYERS,
    "matrix": tuple(f"{holder}.{name}" for holder in HOLDERS for name in ("up", "gate")),
    "feed_forward": HOLDERS,
    "branch": HOLDERS[1:],
    "projection": PROJECTIONS,
    "latent_norm": LATENT_NORMS,
    "sum": ("after_attention", "after_cross_attention"),
}

_INPUT_HAS_NO_RECEIPT = "it is the same as the output of the part before it"

_layer_row = partial(
    Address,
    forward=forward.read_layer_part,
    backward=backward.layer_part_gradient,
    exists=shapes.has_part,
)
_expert_row = partial(
    Address,
    forward=forward.read_routing,
    backward=backward.layer_part_gradient,
    exists=shapes.has_experts,
)
_head_row = partial(
    Address,
    forward=forward.read_head_part,
    backward=backward.head_part_gradient,
    has_gradient=shapes.has_scores,
)

LAYER_ADDRESSES: tuple[Address, ...] = (
    Address(
        pattern="{layer}.residual",
        axes=("time", "d_model"),
        doc="the residual stream before a block; after the last of n blocks it is `Ln.residual`",
        forward=forward.read_residual,
        backward=backward.residual_gradient,
        receipt=receipts.residual,
    ),
    _layer_row(
        pattern="{layer}.{norm}",
        axes=("time", "d_model"),
        doc="the output of a norm; a sandwich has a norm `.before` and `.after` its sublayer",
        receipt=receipts.norm,
    ),
    _layer_row(
        pattern="{layer}.{norm}.in",
        axes=("time", "d_model"),
        doc="the input of a norm; its gradient is what the norm passes back, without the bypass",
        receipt=_INPUT_HAS_NO_RECEIPT,
    ),
    _layer_row(
        pattern="{layer}.{sublayer}",
        axes=("time", "d_model"),
        doc="the output of a sublayer",
        receipt=receipts.sublayer,
    ),
    _layer_row(
        pattern="{layer}.{sublayer}.in",
        axes=("time", "d_model"),
        doc="the input of a sublayer",
        receipt=_INPUT_HAS_NO_RECEIPT,
    ),
    _layer_row(
        pattern="{layer}.{matrix}",
        axes=("time", "d_ff"),
        doc="the units of a feed-forward before the activation, and their gates; 0 for a token "
        "that does not use the expert",
        receipt=receipts.feed_forward_matrix,
    ),
    _layer_row(
        pattern="{layer}.{matrix}.in",
        axes=("time", "d_model"),
        doc="the input of that matrix",
        receipt=_INPUT_HAS_NO_RECEIPT,
    ),
    _layer_row(
        pattern="{layer}.{feed_forward}.units",
        axes=("time", "d_ff"),
        doc="the units after the activation",
        receipt=receipts.units,
        exists=shapes.has_units,
    ),
    _layer_row(
        pattern="{layer}.{branch}",
        axes=("time", "d_model"),
        doc="the output of an expert, or of the layer that all tokens share",
        receipt=receipts.feed_forward_matrix,
    ),
    _layer_row(
        pattern="{layer}.{branch}.in",
        axes=("time", "d_model"),
        doc="the input of it",
        receipt=_INPUT_HAS_NO_RECEIPT,
    ),
    _layer_row(
        pattern="{layer}.feed_forward.router",
        axes=("time", "experts"),
        doc="the router's logit of each expert",
        receipt=receipts.router_logit,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.scores",
        axes=("time", "experts"),
        doc="the softmax or the sigmoid of the logits",
        backward="the gradient is not kept: see `{layer}.feed_forward.router`",
        receipt=receipts.router_score,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.chosen",
        axes=("time", "active"),
        doc="the experts that each token uses, the best first",
        backward="a choice has no gradient",
        receipt="it is a choice: the largest of `{layer}.feed_forward.scores`, after groups and "
        "the bias of the choice",
    ),
    _expert_row(
        pattern="{layer}.feed_forward.weights",
        axes=("time", "experts"),
        doc="the weight of each expert in the output; 0 if the token does not use it",
        receipt=receipts.expert_weight,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.experts.{expert}.written",
        axes=("time", "d_model"),
        doc="what an expert adds to the layer's output: its weight times its output",
        forward=forward.read_written,
        backward="it is added, so its gradient is the one of `{layer}.feed_forward`",
        receipt=receipts.expert_output,
    ),
    _layer_row(
        pattern="{layer}.feed_forward.shared_gate",
        axes=("time", "one"),
        doc="the logit of the share of the layer that all tokens use",
        receipt=receipts.shared_gate_logit,
    ),
    _layer_row(
        pattern="{layer}.{projection}",
        axes=("time", "heads x d_head"),
        doc="queries, keys, values, gates and latents as they are projected, all heads side by "
        "side",
        receipt=receipts.projection,
    ),
    _layer_row(
        pattern="{layer}.{latent_norm}",
        axes=("time", "latent"),
        doc="the latents of latent attention after their norm: keys and values, or queries, are "
        "products of them",
        receipt=receipts.norm,
    ),
    _layer_row(
        pattern="{layer}.{latent_norm}.in",
        axes=("time", "latent"),
        doc="the latents before their norm",
        receipt=_INPUT_HAS_NO_RECEIPT,
    ),
    _layer_row(
        pattern="{layer}.{sum}",
        axes=("time", "d_model"),
        doc="the residual stream between two sublayers",
        receipt=receipts.sum_within_layer,
        exists=shapes.has_sum,
    ),
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.{part}",
            axes=("query" if part == "q" else "key", "d_head"),
            doc=f"the {name} of a head as the scores use it, after norms and rotation",
            receipt=receipts.rotated,
        )
        for part, name in (("q", "query"), ("k", "key"))
    ),
    *(
        _head_row(
            pattern=f"{{layer}}.{{head}}.{part}_plain",
            axes=("query" if part == "q" else "key", "d_head"),
            doc=f"the {name} before rotation",
            receipt=f"it is a part of `{{layer}}.attention.{name}`, normalised or clipped in some "
            "models",
            exists=shapes.rotates,
        )
        for part, name in (("q", "query"), ("k", "key"))
    ),
    _head_row(
        pattern="{layer}.{head}.v",
        axes=("key", "d_value"),
        doc="the value of a head",
        receipt="it is a part of `{layer}.attention.value`",
    ),
    _head_row(
        pattern="{layer}.{head}.scores",
        axes=("query", "key"),
        doc="cap(scale q k) + bias as the model adds it, **before** the mask",
        backward=backward.square_gradient,
        receipt=receipts.by_selection(score_receipt),
        exists=shapes.has_scores,
        has_gradient=shapes.has_softmax_gradient,
    ),
    _head_row(
        pattern="{layer}.{head}.bias",
        axes=("query", "key"),
        doc="what positions add to the scores (ALiBi, buckets, relative vectors)",
        backward="it is added, so its gradient is the one of `{layer}.{head}.scores`",
        receipt=receipts.position_bias,
        exists=shapes.has_bias,
    ),
    _head_row(
        pattern="{layer}.{head}.mask",
        axes=("query", "key"),
        doc="true where the query sees the key; windows included",
        backward="a mask is true or false, and has no gradient",
        receipt="it is a rule about places, and no sum",
    ),
    _head_row(
        pattern="{layer}.{head}.weights",
        axes=("query", "key"),
        doc="after mask and softmax, without the share of a sink",
        backward=backward.square_gradient,
        receipt=receipts.by_selection(weight_receipt),
        has_gradient=shapes.has_softmax_gradient,
    ),
    _head_row(
        pattern="{layer}.{head}.out",
        axes=("query", "d_value"),
        doc="the head's output, before the output projection",
        receipt=receipts.by_selection(out_receipt),
    ),
    _head_row(
        pattern="{layer}.{head}.memory",
        axes=("query", "d_value"),
        doc="what a layer with a memory reads from it",
        backward="the gradient is not kept: a memory has no softmax whose rule could be shown",
        receipt="a memory is the result of all tokens before it",
        exists=shapes.has_memory,
    ),
    _head_row(
        pattern="{layer}.{head}.gate",
        axes=("query",),
        doc="the share of the memory in the head's output",
        backward="the gradient is not kept: see `{layer}.{head}.out`",
        receipt="the input of its sigmoid is not kept",
        exists=shapes.has_memory,
    ),
    _head_row(
        pattern="{layer}.{head}.output_gate",
        axes=("query", "d_value"),
        doc="the factor of the head's output, between 0 and 1",
        backward="the gradient is not kept: see `{layer}.attention.output_gate`",
        receipt=receipts.output_gate,
        exists=shapes.has_output_gate,
    ),
)
