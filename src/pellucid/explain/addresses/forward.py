"""The forward tensor of each address: the model's own numbers, without the batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pellucid.explain import attention_heads, experts, optimiser_step
from pellucid.explain.addresses.block_parts import GATES
from pellucid.explain.addresses.exists import entry_part_exists
from pellucid.explain.addresses.row import Forward
from pellucid.explain.addresses.shapes import axis_sizes, expert_sizes, experts_facts
from pellucid.explain.addresses.site import Site
from pellucid.explain.addresses.syntax import find_weight
from pellucid.explain.trace_types import Trace
from pellucid.model.disentangled import Disentangled


def of_trace(read: Callable[[Trace], Tensor | None]) -> Forward:
    """The same reading, for an address that a trace has once."""
    return lambda trace, site: read(trace)


def read_token_embedding(trace: Trace, site: Site) -> Tensor:
    """(time, d_embedding): each token's row of the table."""
    return trace.model.token_embedding(trace.stack_pass(site.side).ids)[0]


def read_embedding(trace: Trace, site: Site) -> Tensor:
    """(time, d_embedding): the same scaled, with the vector of its kind of text."""
    return trace.model.embed(trace.stack_pass(site.side).ids)[0]


def read_positions(trace: Trace, site: Site) -> Tensor | None:
    """(time, d_positions): what positions add to the embedding."""
    stack_pass = trace.stack_pass(site.side)
    scheme = stack_pass.added_positions
    if scheme is None:
        return None
    time, width = axis_sizes(trace, site, ("time", "d_positions"))
    zeros = trace.model.token_embedding.weight.new_zeros(1, time, width)
    return scheme.embed(zeros, stack_pass.attention_view)[0]


def read_ids(trace: Trace, site: Site) -> Tensor:
    """(time,): the ids of a stack's tokens."""
    return trace.stack_pass(site.side).ids[0]


def read_entry(trace: Trace, site: Site) -> Tensor | None:
    """(time, features): the input or output of a part before the first block."""
    if not entry_part_exists(trace, site):
        return None
    return trace.stack_pass(site.side).entry[site.part][0]


def read_distances(trace: Trace, site: Site) -> Tensor | None:
    """(rows, d_model): the vectors of all rows of distances, normalised."""
    scheme = trace.stack_pass(site.side).positions(site.layer)
    if not isinstance(scheme, Disentangled):
        return None
    return scheme.dropout(scheme.norm(scheme.table.weight))


def read_parameter_length(trace: Trace, site: Site) -> Tensor | None:
    """(): the length of a parameter's gradient."""
    length = trace.backward().norms.get(site.part)
    return None if length is None else torch.tensor(length, dtype=torch.float64)


def read_residual(trace: Trace, site: Site) -> Tensor:
    """(time, d_model): the residual stream before a block, or after the last."""
    return trace.stack_pass(site.side).states[site.layer][0]


def read_final_norm(trace: Trace, site: Site) -> Tensor:
    """(time, d_model): the stream after the final norm."""
    return trace.stack_pass(site.side).final[0]


def read_layer_part(trace: Trace, site: Site) -> Tensor | None:
    """(time, features): the input or output of a part of a layer."""
    record, name = trace.layer(site.side, site.layer), recorded_name(site.part)
    tensor, expert = record.tensors.get(name), experts.expert_number(name)
    if tensor is not None and name in GATES:
        return tensor[0].mT
    if record.routing is not None and expert is not None:
        if tensor is None:  # no token uses the expert
            return trace.stack_pass(site.side).final.new_zeros(expert_sizes(trace, site))
        return experts.spread(tensor, record.routing, expert)
    return tensor if tensor is None or tensor.ndim == 2 else tensor[0]


def recorded_name(part: str) -> str:
    """The name of a part in a record: units are the input of the last matrix."""
    return f"{part.removesuffix('.units')}.down.in" if part.endswith(".units") else part


def read_routing(trace: Trace, site: Site) -> Tensor | None:
    """(time, experts): the scores or weights of all experts; or (time, active), those chosen."""
    routing = trace.layer(site.side, site.layer).routing
    if routing is None:
        return None
    match site.part.rpartition(".")[2]:
        case "scores":
            return routing.scores
        case "weights":
            return routing.weights_of_all
        case _:
            return routing.experts


def read_written(trace: Trace, site: Site) -> Tensor | None:
    """(time, d_model): what an expert adds to the layer's output."""
    part = site.part.removesuffix(".written")
    output = read_layer_part(trace, site._replace(part=part))
    routing, expert = trace.layer(site.side, site.layer).routing, experts.expert_number(part)
    if output is None or routing is None or expert is None:
        return None
    facts = experts_facts(trace, site)
    if facts is not None and facts.weights_on == "input":
        return output
    return (output * routing.weights_of_all[:, [expert]]).to(output.dtype)


def read_head_part(trace: Trace, site: Site) -> Tensor | None:
    """A tensor of one head."""
    attentions = trace.layer(site.side, site.layer).attentions
    attention = attentions.get("cross" if site.cross else "")
    return None if attention is None else attention_heads.read_part(attention, site.part, site.head)


def read_loss_gradient(trace: Trace) -> Tensor:
    """(): 1: every gradient is a gradient of this loss."""
    return torch.ones((), dtype=trace["loss"].dtype)


def read_grad_norm(trace: Trace) -> Tensor:
    """(): the norm of all gradients together."""
    return torch.tensor(trace.backward().norm, dtype=torch.float64)


def read_weight(trace: Trace, site: Site) -> Tensor | None:
    """A weight or a buffer of the model."""
    return find_weight(trace.model, site.part)


def read_tied_path(trace: Trace, site: Site) -> Tensor | None:
    """(vocabulary, d_embedding): the gradient of a tied table along one of its two paths."""
    return trace.backward().parameter(site.part, site.address.rpartition(".")[2])


def read_update(trace: Trace, site: Site) -> Tensor | None:
    """What one optimiser step makes of a weight: `.next`, `.m`, `.v` or `.direction`."""
    return optimiser_step.read_update(trace, site.part, site.address.rpartition(".")[2])


def read_after_update(trace: Trace, site: Site) -> Tensor:
    """The number at another address, after one optimiser step of all weights."""
    return optimiser_step.after_update(trace)[site.part]


def read_companion(trace: Trace, site: Site) -> Tensor | None:
    """The number at another address, of the other answer of a preference."""
    return None if trace.companion is None else trace.companion[site.part]
