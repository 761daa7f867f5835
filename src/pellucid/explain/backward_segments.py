"""The way back from the loss, in stretches: each is run again from the state that was kept.

Comes in: a trace, a stretch, the gradient that reaches its end. Goes out: the gradients of what
entered it and of its parameters. It keeps nothing.

A stretch is one block; or what stands before the first, or behind the last. `walk` goes through
all of them from the loss to the ids, and hands each parameter's gradient on as soon as it is whole:
one that several stretches share (a tied embedding, a table of positions) after the last of them. So
the gradients of one block are alive at a time, and those of what is shared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from pellucid.explain.forward_pass import ONE_AT_A_TIME, Side, StackPass, evaluating, scaled
from pellucid.explain.outputs import loss_of
from pellucid.model import Encoded, NoCache
from pellucid.typed import gradients

if TYPE_CHECKING:
    from pellucid.explain.tracing import Trace

#: Told how many stretches are behind, and how many there are.
Watch = Callable[[int, int], None]
#: Handed a parameter's name and its gradient.
Take = Callable[[str, Tensor], None]


class Stretch(NamedTuple):
    """-1 is the embedding, 0 to n - 1 a block, n what stands behind the last block."""

    side: Side
    place: int


class SegmentGradients(NamedTuple):
    """What came back through a stretch: gradients, (1, time, d_model) of states.

    `noted` are those of the named states of an end, `encoded` that of what an encoder made.
    """

    entering: Tensor
    parameters: dict[str, Tensor]
    noted: dict[str, Tensor]
    encoded: Tensor | None = None


class _Again(NamedTuple):
    """A stretch that was run again: its end, and what gradients are wanted of."""

    made: Tensor
    entered: Tensor
    noted: dict[str, Tensor]
    encoded: Tensor | None = None


def stretches(trace: Trace) -> list[Stretch]:
    """All there are, from the loss to the ids."""
    return [
        Stretch(side, place)
        for side in reversed(trace.sides)
        for place in range(trace.n_layers(side), -2, -1)
    ]


def trained(trace: Trace, stretch: Stretch) -> dict[str, nn.Parameter]:
    """The parameters of a stretch that are not frozen, by the names that the model has for them."""
    model, stack = trace.model, trace.passed(stretch.side).stack
    parts: list[nn.Module | None]
    loose: list[nn.Parameter | None] = []
    if stretch.place == -1:
        parts = [
            model.token_embedding,
            model.segment_embedding,
            stack.positions,
            stack.input_norm,
        ]
    elif stretch.place < len(stack.blocks):
        parts = [stack.blocks[stretch.place], stack.positions]
    elif stretch.side == trace.side:
        reads = model.token_embedding if model.head is None else model.head
        parts = [stack.final_norm, model.head_transform, reads]
        loose = [model.head_bias]
    else:
        parts = [stack.final_norm]
    parameter_ids = {id(p) for part in parts if part is not None for p in part.parameters()}
    parameter_ids |= {id(p) for p in loose if p is not None}
    return {n: p for n, p in model.named_parameters() if id(p) in parameter_ids and p.requires_grad}


def back(trace: Trace, stretch: Stretch, arriving: Tensor | None) -> SegmentGradients:
    """Back through one stretch; `arriving` is the gradient of its end, None where that is the loss.

    The gradient of a parameter is of this stretch alone.
    """
    model, passed = trace.model, trace.passed(stretch.side)
    parameters = trained(trace, stretch)
    with ONE_AT_A_TIME, evaluating(model), scaled(model, trace.scales), torch.enable_grad():
        if stretch.place == -1:
            again = _embedded(trace, passed)
        elif stretch.place < len(passed.stack.blocks):
            again = _block(passed, stretch.place)
        else:
            again = _end(trace, passed, priced=stretch.side == trace.side)
        noted = list(again.noted.values())
        encoded = [] if again.encoded is None else [again.encoded]
        grads = gradients(
            again.made,
            [again.entered, *noted, *encoded, *parameters.values()],
            None if arriving is None else arriving.to(again.made.dtype),
        )
    of_noted, remaining_grads = grads[1 : 1 + len(noted)], grads[1 + len(noted) :]
    return SegmentGradients(
        entering=cast("Tensor", grads[0]),
        parameters={
            name: grad
            for name, grad in zip(parameters, remaining_grads[len(encoded) :], strict=True)
            if grad is not None
        },
        noted=cast("dict[str, Tensor]", dict(zip(again.noted, of_noted, strict=True))),
        encoded=remaining_grads[0] if encoded else None,
    )


def walk(trace: Trace, take: Take, watch: Watch) -> dict[Stretch, Tensor]:
    """From the loss to the ids: `take` gets every gradient; what reached the end of each stretch.

    Raises:
        PellucidError: the model has no loss; says why.
    """
    _ = trace["loss"]  # for its refusal
    order = stretches(trace)
    pending = Counter(name for stretch in order for name in trained(trace, stretch))
    parts: dict[str, Tensor] = {}
    arriving: dict[Stretch, Tensor] = {}
    for done, stretch in enumerate(order):
        watch(done, len(order))
        back_pass = back(trace, stretch, arriving.get(stretch))
        if stretch.place >= 0:
            arriving[Stretch(stretch.side, stretch.place - 1)] = back_pass.entering
        if back_pass.encoded is not None:
            end = Stretch("encoder", trace.n_layers("encoder"))
            arriving[end] = (
                back_pass.encoded if end not in arriving else arriving[end] + back_pass.encoded
            )
        for name in trained(trace, stretch):
            pending[name] -= 1
            grad = back_pass.parameters.pop(name, None)
            if grad is not None:
                parts[name] = grad if name not in parts else parts[name] + grad
            del grad
            if not pending[name] and name in parts:
                take(name, parts.pop(name))
        del back_pass
    watch(len(order), len(order))
    return arriving


def leaf(x: Tensor) -> Tensor:
    """The same numbers, from which gradients are counted."""
    return x.detach().requires_grad_()


def apart(encoded: Encoded | None) -> Encoded | None:
    """What an encoder made, as a leaf."""
    return None if encoded is None else encoded._replace(states=leaf(encoded.states))


def _embedded(trace: Trace, passed: StackPass) -> _Again:
    embedded = trace.model.embed(passed.ids)
    embedded = embedded if embedded.requires_grad else leaf(embedded)
    stack = passed.stack
    output = stack.input_norm(stack.positions.embed(embedded.view_as(embedded), passed.seen))
    return _Again(output, embedded, {})


def _block(passed: StackPass, number: int) -> _Again:
    state, encoded = leaf(passed.states[number]), apart(passed.encoded)
    block = passed.stack.blocks[number]
    output = block(state, passed.positions, passed.seen, NoCache(), encoded)
    return _Again(output, state, {}, None if encoded is None else encoded.states)


def _end(trace: Trace, passed: StackPass, *, priced: bool) -> _Again:
    state = leaf(passed.states[-1])
    final = passed.stack.final_norm(state.view_as(state))
    if not priced:
        return _Again(final, state, {"final_norm": final})
    hidden = trace.model.readable(final[0])
    logits = trace.model.logits(hidden)
    noted = {"final_norm": final, "hidden": hidden, "logits": logits}
    return _Again(loss_of(logits, trace.ids), state, noted)
