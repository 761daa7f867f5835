"""The backward pass, in segments: each runs again from the state that the forward pass kept.

A segment is one block, the part before the first block, or the part after the last. `walk_backward`
goes through all of them from the loss to the ids, and passes each parameter's gradient on when it
is complete. If several segments share a parameter (a tied embedding, a table of positions), that is
after the last of them. So only the gradients of one block and of shared parameters are alive.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from pellucid.explain import outputs
from pellucid.explain.addresses.block_parts import HEAD_PARTS, find_part
from pellucid.explain.forward_pass import ONE_AT_A_TIME, StackPass, evaluating, scaled
from pellucid.explain.losses.compute import loss_value
from pellucid.explain.losses.types import ClassLoss, ExampleLoss
from pellucid.explain.trace_types import Progress, Segment, SegmentGradients, Trace
from pellucid.model import Encoded, NoCache, Transformer
from pellucid.typed import gradients

#: The backward pass of a larger model runs when you ask for it, and not before.
LARGE = 50_000_000
#: Called with a parameter's name and its gradient.
Take = Callable[[str, Tensor], None]


def is_large(trace: Trace) -> bool:
    """Whether the backward pass takes more than a moment."""
    return sum(parameter.numel() for parameter in trace.model.parameters()) > LARGE


class _Rerun(NamedTuple):
    """A segment that ran again: its output, and the tensors whose gradients are computed."""

    output: Tensor
    entering: Tensor
    states: dict[str, Tensor]
    encoded: Tensor | None = None


def texts_of(trace: Trace) -> list[Trace]:
    """The texts in the loss of a trace, its own first."""
    return [trace] if trace.companion is None else [trace, trace.companion]


def list_segments(trace: Trace) -> list[Segment]:
    """All segments, from the loss to the ids."""
    return [
        Segment(side, place)
        for side in reversed(trace.sides)
        for place in range(trace.n_layers(side), -2, -1)
    ]


def trainable_parameters(trace: Trace, segment: Segment) -> dict[str, nn.Parameter]:
    """The parameters of a segment that are not frozen, by their names in the model."""
    model, stack = trace.model, trace.stack_pass(segment.side).stack
    parts: list[nn.Module | None]
    loose: list[Tensor | None] = []
    if segment.place == -1:
        parts = [
            model.token_embedding,
            model.segment_embedding,
            stack.positions,
            stack.embedding_positions,
            stack.input_norm,
            stack.input_projection,
        ]
    elif segment.place < len(stack.blocks):
        parts = [stack.blocks[segment.place], stack.positions.for_layer(segment.place)]
    elif segment.side == trace.side:
        if isinstance(trace.loss, ClassLoss):
            parts = [stack.final_norm, model.pooler, model.classifier_transform, model.classifier]
        else:
            reads = model.token_embedding if model.head is None else model.head
            parts = [stack.final_norm, model.head_transform, reads]
            loose = [model.head_bias]
    else:
        parts = [stack.final_norm]
    parameter_ids = {id(p) for part in parts if part is not None for p in part.parameters()}
    parameter_ids |= {id(p) for p in loose if p is not None}
    return {n: p for n, p in model.named_parameters() if id(p) in parameter_ids and p.requires_grad}


def backward_segment(trace: Trace, segment: Segment, upstream: Tensor | None) -> SegmentGradients:
    """The gradients of one segment; parameters count this segment alone.

    Args:
        trace: whose states it starts from.
        segment: which one.
        upstream: (1, time, d_model), the gradient of its output; None for the end, which is the
            loss itself.
    """
    model, stack_pass = trace.model, trace.stack_pass(segment.side)
    parameters = trainable_parameters(trace, segment)
    with (
        ONE_AT_A_TIME,
        evaluating(model),
        scaled(model, trace.scales, trace.edits),
        torch.enable_grad(),
    ):
        if segment.place == -1:
            rerun = _embedded(trace, stack_pass)
        elif segment.place < len(stack_pass.stack.blocks):
            rerun = _block(stack_pass, segment.place)
        else:
            loss = outputs.require_loss(trace) if segment.side == trace.side else None
            rerun = _end(trace, stack_pass, loss)
        states = list(rerun.states.values())
        encoded = [] if rerun.encoded is None else [rerun.encoded]
        grads = gradients(
            rerun.output,
            [rerun.entering, *states, *encoded, *parameters.values()],
            None if upstream is None else upstream.to(rerun.output.dtype),
        )
    state_grads, remaining_grads = grads[1 : 1 + len(states)], grads[1 + len(states) :]
    return SegmentGradients(
        entering=cast("Tensor", grads[0]),
        parameters={
            name: grad
            for name, grad in zip(parameters, remaining_grads[len(encoded) :], strict=True)
            if grad is not None
        },
        states=cast("dict[str, Tensor]", dict(zip(rerun.states, state_grads, strict=True))),
        encoded=remaining_grads[0] if encoded else None,
    )


def walk_backward(
    traces: Sequence[Trace], take: Take, progress: Progress
) -> list[dict[Segment, Tensor]]:
    """Run all segments, from the loss to the ids, and return the gradients of their outputs.

    Args:
        traces: the texts in one loss, each with the same segments.
        take: called with every parameter's gradient, which is the sum over the texts.
        progress: called with the number of segments that are done.

    Raises:
        PellucidError: the model has no loss; says why.
    """
    trace = traces[0]
    outputs.require_loss(trace)
    order = list_segments(trace)
    pending = Counter(name for segment in order for name in trainable_parameters(trace, segment))
    parts: dict[str, Tensor] = {}
    upstreams: list[dict[Segment, Tensor]] = [{} for _ in traces]
    for n_done, segment in enumerate(order):
        progress(n_done, len(order))
        for text, upstream in zip(traces, upstreams, strict=True):
            segment_gradients = backward_segment(text, segment, upstream.get(segment))
            if segment.place >= 0:
                upstream[Segment(segment.side, segment.place - 1)] = segment_gradients.entering
            if segment_gradients.encoded is not None:
                end = Segment("encoder", trace.n_layers("encoder"))
                encoded = segment_gradients.encoded
                upstream[end] = upstream[end] + encoded if end in upstream else encoded
            for name, grad in segment_gradients.parameters.items():
                parts[name] = grad if name not in parts else parts[name] + grad
            del segment_gradients
        for name in trainable_parameters(trace, segment):
            pending[name] -= 1
            if not pending[name] and name in parts:
                take(name, parts.pop(name))
    progress(len(order), len(order))
    return upstreams


def make_leaf(x: Tensor) -> Tensor:
    """The same numbers as a leaf of a new graph."""
    return x.detach().requires_grad_()


def detach_encoded(encoded: Encoded | None) -> Encoded | None:
    """The output of an encoder, as a leaf of a new graph."""
    return None if encoded is None else encoded._replace(states=make_leaf(encoded.states))


def _embedded(trace: Trace, stack_pass: StackPass) -> _Rerun:
    embedded = trace.model.embed(stack_pass.ids)
    embedded = embedded if embedded.requires_grad else make_leaf(embedded)
    output = stack_pass.stack.enter(embedded.view_as(embedded), stack_pass.attention_view)
    return _Rerun(output, embedded, {})


def _block(stack_pass: StackPass, number: int) -> _Rerun:
    state, encoded = make_leaf(stack_pass.states[number]), detach_encoded(stack_pass.encoded)
    block = stack_pass.stack.blocks[number]
    positions, view = stack_pass.positions(number), stack_pass.attention_view
    output = block(state, positions, view, NoCache(), encoded)
    return _Rerun(output, state, {}, None if encoded is None else encoded.states)


def _end(trace: Trace, stack_pass: StackPass, loss: ExampleLoss | None) -> _Rerun:
    state = make_leaf(stack_pass.states[-1])
    final = stack_pass.stack.final_norm(state.view_as(state))
    if loss is None:
        return _Rerun(final, state, {"final_norm": final})
    states = {"final_norm": final}
    with _recording_head(trace.model, states):
        if isinstance(loss, ClassLoss):
            states["class_logits"] = logits = trace.model.output_head(final)[0]
            return _Rerun(loss_value(loss, logits), state, states)
        states["hidden"] = hidden = trace.model.readable(final[0])
    states["logits"] = logits = trace.model.logits(hidden)
    return _Rerun(loss_value(loss, logits, outputs.read_companion(trace)), state, states)


@contextmanager
def _recording_head(model: Transformer, states: dict[str, Tensor]) -> Generator[None]:
    """Within it, what the parts of a head give is kept, and what the matrix of classes reads."""

    def keep(name: str) -> Callable[..., None]:
        def record(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            states[name] = inputs[0] if name == "class_state" else output

        return record

    parts = {name: find_part(model, name) for name in HEAD_PARTS} | {
        "class_state": model.classifier
    }
    with ExitStack() as hooks:
        for name, part in parts.items():
            if part is not None:
                hooks.enter_context(part.register_forward_hook(keep(name)))
        yield
