"""The addresses within a layer: of the stream, of its parts and of its heads."""

from __future__ import annotations

from functools import partial

from pellucid.explain.addresses import backward, exists, forward
from pellucid.explain.addresses.adapters import ADAPTABLE, SOURCE_ADAPTABLE
from pellucid.explain.addresses.block_parts import (
    GATES,
    LATENT_NORMS,
    NORMS,
    PROJECTIONS,
    SOURCE_PROJECTIONS,
    SUBLAYERS,
)
from pellucid.explain.addresses.head_table import HEAD_ADDRESSES
from pellucid.explain.addresses.row import Address
from pellucid.explain.equations import adapters, distances, experts, feed_forward, memory, stream
from pellucid.explain.equations.linear import projection

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
    "source_projection": SOURCE_PROJECTIONS,
    "gate": GATES,
    "latent_norm": LATENT_NORMS,
    "adaptable": ADAPTABLE,
    "source_adaptable": SOURCE_ADAPTABLE,
    "sum": ("after_attention", "after_cross_attention"),
}

_OF_DISTANCES = "the gradient is not kept: see the parameters of the positions"

_layer_row = partial(
    Address,
    forward=forward.read_layer_part,
    backward=backward.layer_part_gradient,
    exists=exists.has_part,
)
_expert_row = partial(
    Address,
    forward=forward.read_routing,
    backward=backward.layer_part_gradient,
    exists=exists.has_experts,
)

LAYER_ADDRESSES: tuple[Address, ...] = (
    Address(
        pattern="{layer}.residual",
        axes=("time", "d_model"),
        doc="the residual stream before a block; after the last of n blocks it is `Ln.residual`",
        forward=forward.read_residual,
        backward=backward.residual_gradient,
        receipt=stream.residual,
    ),
    _layer_row(
        pattern="{layer}.{norm}",
        axes=("time", "d_model"),
        doc="the output of a norm; a sandwich has a norm `.before` and `.after` its sublayer",
        receipt=stream.norm,
    ),
    _layer_row(
        pattern="{layer}.{norm}.in",
        axes=("time", "d_model"),
        doc="the input of a norm; its gradient is what the norm passes back, without the bypass",
        receipt=stream.norm_input,
    ),
    _layer_row(
        pattern="{layer}.{sublayer}",
        axes=("time", "d_model"),
        doc="the output of a sublayer",
        receipt=stream.sublayer,
    ),
    _layer_row(
        pattern="{layer}.{sublayer}.in",
        axes=("time", "d_model"),
        doc="the input of a sublayer",
        receipt=stream.sublayer_input,
    ),
    _layer_row(
        pattern="{layer}.{matrix}",
        axes=("time", "d_ff"),
        doc="the units of a feed-forward before the activation, and their gates; 0 for a token "
        "that does not use the expert",
        receipt=feed_forward.matrix,
    ),
    _layer_row(
        pattern="{layer}.{matrix}.in",
        axes=("time", "d_model"),
        doc="the input of that matrix",
        receipt=feed_forward.part_input,
    ),
    _layer_row(
        pattern="{layer}.{feed_forward}.units",
        axes=("time", "d_ff"),
        doc="the units after the activation",
        receipt=feed_forward.units,
        exists=exists.has_units,
    ),
    _layer_row(
        pattern="{layer}.{branch}",
        axes=("time", "d_model"),
        doc="the output of an expert, or of the layer that all tokens share",
        receipt=feed_forward.matrix,
    ),
    _layer_row(
        pattern="{layer}.{branch}.in",
        axes=("time", "d_model"),
        doc="the input of it",
        receipt=feed_forward.part_input,
    ),
    _layer_row(
        pattern="{layer}.feed_forward.router",
        axes=("time", "experts"),
        doc="the router's logit of each expert",
        receipt=experts.router,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.scores",
        axes=("time", "experts"),
        doc="the softmax or the sigmoid of the logits",
        backward="the gradient is not kept: see `{layer}.feed_forward.router`",
        receipt=experts.router_score,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.chosen",
        axes=("time", "active"),
        doc="the experts that each token uses, the best first",
        backward="a choice has no gradient",
        receipt=experts.choice,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.weights",
        axes=("time", "experts"),
        doc="the weight of each expert in the output; 0 if the token does not use it",
        receipt=experts.expert_weight,
    ),
    _expert_row(
        pattern="{layer}.feed_forward.experts.{expert}.written",
        axes=("time", "d_model"),
        doc="what an expert adds to the layer's output: its weight times its output",
        forward=forward.read_written,
        backward="it is added, so its gradient is the one of `{layer}.feed_forward`",
        receipt=experts.written_by_expert,
    ),
    _layer_row(
        pattern="{layer}.feed_forward.shared_gate",
        axes=("time", "one"),
        doc="the logit of the share of the layer that all tokens use",
        receipt=experts.router,
    ),
    _layer_row(
        pattern="{layer}.{projection}",
        axes=("time", "heads x d_head"),
        doc="queries, keys, values, gates and latents as they are projected, all heads side by "
        "side",
        receipt=projection,
    ),
    _layer_row(
        pattern="{layer}.{source_projection}",
        axes=("source", "heads x d_head"),
        doc="keys and values of the encoder's states, all heads side by side",
        receipt=projection,
    ),
    _layer_row(
        pattern="{layer}.{gate}",
        axes=("time", "heads"),
        doc="the logits of the gates of a layer with a memory",
        receipt=memory.gate_logits,
    ),
    _layer_row(
        pattern="{layer}.distances",
        axes=("row", "d_model"),
        doc="the vectors of all rows of distances, normalised",
        forward=forward.read_distances,
        backward=_OF_DISTANCES,
        receipt=distances.distances,
        exists=exists.has_distances,
    ),
    _layer_row(
        pattern="{layer}.{latent_norm}",
        axes=("time", "latent"),
        doc="the latents of latent attention after their norm: keys and values, or queries, are "
        "products of them",
        receipt=stream.norm,
    ),
    _layer_row(
        pattern="{layer}.{latent_norm}.in",
        axes=("time", "latent"),
        doc="the latents before their norm",
        receipt=stream.latent_norm_input,
    ),
    _layer_row(
        pattern="{layer}.{sum}",
        axes=("time", "d_model"),
        doc="the residual stream between two sublayers",
        receipt=stream.sum_within_layer,
        exists=exists.has_sum,
    ),
    *(
        _layer_row(
            pattern=f"{{layer}}.{{{family}}}.{part}",
            axes=(time, width),
            doc=doc,
            receipt=adapters.adapter_part,
            exists=exists.has_adapter,
        )
        for family, time in (("adaptable", "time"), ("source_adaptable", "source"))
        for part, width, doc in (
            ("base", "adapted", "a layer with LoRA without its update: W x + b"),
            ("lora_down", "rank", "the first product of the update: down x"),
            ("lora_up", "adapted", "the second: up (down x), before the scale"),
        )
    ),
    *HEAD_ADDRESSES,
)
