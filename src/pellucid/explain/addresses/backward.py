"""The gradient of each address, from the segments and layers that the backward pass keeps."""

from __future__ import annotations

from torch import Tensor

from pellucid.explain import attention_heads
from pellucid.explain.addresses.exists import has_softmax_gradient
from pellucid.explain.addresses.forward import recorded_name
from pellucid.explain.addresses.site import Site
from pellucid.explain.losses.types import ClassLoss
from pellucid.explain.trace_types import Gradients, Segment


def embedding_gradient(gradients: Gradients, site: Site) -> Tensor:
    """(time, d_embedding): what reaches the embedding."""
    return gradients.segment(Segment(site.side, -1)).entering[0]


def end_gradient(gradients: Gradients, site: Site) -> Tensor | None:
    """What reaches the final norm's output, the head's input or the logits."""
    segment = Segment(site.side, gradients.trace.n_layers(site.side))
    gradient = gradients.segment(segment).states.get(site.part)
    if gradient is None:
        return None
    # the vectors of a classifier have a batch too
    has_batch = gradient.ndim == 3 or (
        gradient.ndim == 2 and isinstance(gradients.trace.loss, ClassLoss)
    )
    return gradient[0] if has_batch else gradient


def residual_gradient(gradients: Gradients, site: Site) -> Tensor:
    """(time, d_model): what reaches the residual stream before a block, or after the last."""
    return gradients.stream(site.side)[site.layer]


def layer_part_gradient(gradients: Gradients, site: Site) -> Tensor | None:
    """(time, features): what reaches the input or output of a part of a layer."""
    return gradients.layer(site.side, site.layer).get(recorded_name(site.part))


def head_part_gradient(gradients: Gradients, site: Site) -> Tensor | None:
    """What reaches a query, key, value or output of one head; grouped keys share theirs."""
    prefix = "cross." if site.cross else ""
    part = gradients.layer(site.side, site.layer).get(f"{prefix}{site.part}")
    if part is None:
        return None
    n_heads = gradients.trace.attention(site.side, site.layer, cross=site.cross).n_heads
    return part[site.head * part.shape[0] // n_heads]


def square_gradient(gradients: Gradients, site: Site) -> Tensor | None:
    """(query, key): what reaches the weights or scores of a head, formed again by softmax."""
    if not has_softmax_gradient(gradients.trace, site):
        return None
    prefix = "cross." if site.cross else ""
    out_gradient = gradients.layer(site.side, site.layer)[f"{prefix}out"][site.head]
    attention = gradients.trace.attention(site.side, site.layer, cross=site.cross)
    weights, scores = attention_heads.square_gradients(
        attention, site.head, _before_scaling(gradients, site, out_gradient)
    )
    return weights if site.part == "weights" else scores


def parameter_gradient(gradients: Gradients, site: Site) -> Tensor | None:
    """What loss.backward() leaves in .grad of a parameter."""
    return gradients.parameter(site.part)


def _before_scaling(gradients: Gradients, site: Site, upstream: Tensor) -> Tensor:
    """The gradient of a head's output before an ablation scaled it, or put its mean in place."""
    scale = gradients.trace.scales.get(site.as_head(), 1.0)
    if scale == "mean":
        return upstream.mean(0, keepdim=True).expand_as(upstream)
    return upstream * scale
