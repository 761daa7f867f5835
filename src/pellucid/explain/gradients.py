"""The gradients of a sentence's loss, by address: of states, of parts of layers, of every weight.

    back = trace.backward()
    back["L2.residual.grad"]                              what reaches the stream before layer 2
    back["decoder.blocks.2.attention.query.weight.grad"]  as loss.backward() would leave it in .grad

The backward pass runs when a gradient needs it; the gradient of the logits does not. It keeps the
gradients of the stream, and the norms of all others. A layer runs again
when you read one of its gradients, and is dropped when you read another layer's: the gradients of
the two segments you read last are alive, whatever the model and however many sentences are open.
The model's own `.grad`, mode and weights are left as they are.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from pellucid.catalogue import message
from pellucid.errors import PellucidError
from pellucid.explain import outputs
from pellucid.explain.addresses import lookup
from pellucid.explain.addresses.block_parts import GATES
from pellucid.explain.addresses.syntax import split_index, take_index, unknown_address_error
from pellucid.explain.backward_segments import (
    backward_segment,
    detach_encoded,
    make_leaf,
    texts_of,
    trainable_parameters,
    walk_backward,
)
from pellucid.explain.experts import expert_number, spread, spread_weights
from pellucid.explain.forward_pass import ONE_AT_A_TIME, Side, evaluating, scaled
from pellucid.explain.record_block import BlockRecord, record_block
from pellucid.explain.trace_types import (
    Gradients,
    Progress,
    Segment,
    SegmentGradients,
    Shape,
    Trace,
)
from pellucid.model.attention import split_heads
from pellucid.typed import gradients, length

#: As many numbers of gradients as are kept, 16 MiB; of more, a second pass makes them again.
_MAX_KEPT = 2**22


class _Walk(NamedTuple):
    """One pass from the loss to the ids: lengths of gradients and of weights, by name.

    `upstreams` has the gradients of the outputs of each text's segments, `parameters` those of the
    parameters if they are few.
    """

    norms: dict[str, float]
    sizes: dict[str, float]
    upstreams: list[dict[Segment, Tensor]]
    parameters: dict[str, Tensor] | None


class ModelGradients(Gradients):
    """The gradients of a trace whose model is in memory."""

    _open: ClassVar[
        deque[tuple[weakref.ref[ModelGradients], tuple[int, Segment], SegmentGradients]]
    ] = deque(maxlen=2)

    #: How a notebook shows gradients; `pellucid.web.notebook` sets it.
    face: ClassVar[Callable[[Gradients], str] | None] = None

    def _repr_html_(self) -> str | None:
        return None if ModelGradients.face is None else ModelGradients.face(self)

    def __repr__(self) -> str:
        return f"Gradients of {self.trace!r}: {len(self.norms)} parameters, norm {self.norm:.4g}"

    def __init__(self, trace: Trace) -> None:
        outputs.require_loss(trace)
        self.trace = trace
        self._traces = texts_of(trace)
        self._walked: _Walk | None = None
        self._layers: OrderedDict[tuple[Side, int], dict[str, Tensor]] = OrderedDict()

    @property
    def is_walked(self) -> bool:
        """Whether the pass through all layers is done; the end's own gradients need none."""
        return self._walked is not None

    def walk(self, progress: Progress = lambda n_done, total: None) -> _Walk:
        """The pass through all layers, once; `progress` hears of each segment."""
        if self._walked is None:
            norms, sizes = dict[str, float](), dict[str, float]()
            weights = dict(self.trace.model.named_parameters())
            is_small = sum(weight.numel() for weight in weights.values()) <= _MAX_KEPT
            parameters = dict[str, Tensor]() if is_small else None

            def take(name: str, grad: Tensor) -> None:
                norms[name], sizes[name] = length(grad), length(weights[name])
                if parameters is not None:
                    parameters[name] = grad

            with torch.no_grad():
                upstreams = walk_backward(self._traces, take, progress)
            self._walked = _Walk(norms, sizes, upstreams, parameters)
        return self._walked

    def visit_parameters(
        self, take: Callable[[str, Tensor], None], progress: Progress = lambda n_done, total: None
    ) -> None:
        """Call `take` with each parameter's name and gradient; `norm` is known by then."""
        kept = self.walk(progress).parameters
        if kept is None:
            with torch.no_grad():
                walk_backward(self._traces, take, progress)
        else:
            for name, gradient in kept.items():
                take(name, gradient)

    @property
    def norms(self) -> Mapping[str, float]:
        """The length of each parameter's gradient, by its name."""
        return self.walk().norms

    @property
    def sizes(self) -> Mapping[str, float]:
        """The length of each parameter that has a gradient, by its name."""
        return self.walk().sizes

    @property
    def _upstream(self) -> Mapping[Segment, Tensor]:
        return self.walk().upstreams[0]

    @property
    def norm(self) -> float:
        """The norm of all gradients together, which clipping reads."""
        return length(torch.tensor(list(self.norms.values()), dtype=torch.float64))

    def stream(self, side: Side) -> list[Tensor]:
        """Gradients (time, d_model) of the residual stream before each block and after the last."""
        n = self.trace.n_layers(side)
        return [self._upstream[Segment(side, place - 1)][0] for place in range(n + 1)]

    def __getitem__(self, address: str) -> Tensor:
        """The gradient at an address, which may end with [7, 1].

        Raises:
            PellucidError: there is no such address; says which look alike, or why it is not kept.
        """
        name, _ = split_index(address)
        gradient = self.gradient(name)
        if gradient is None:
            raise unknown_address_error(address, self.addresses())
        return take_index(gradient, address)

    def gradient(self, name: str) -> Tensor | None:
        """The tensor at an address without an index; None if there is no such address.

        Raises:
            PellucidError: the number exists, but pellucid keeps no gradient of it; says why.
        """
        return lookup.read_gradient(self, name)

    def addresses(self) -> dict[str, Shape]:
        """Every address of the backward pass, with its shape; nothing is computed for it."""
        return lookup.list_backward(self)

    def parameter(self, name: str, path: str = "") -> Tensor | None:
        """The gradient of a parameter, summed over all segments that hold it.

        Args:
            name: of the parameter in the model; None comes back for a name it does not have.
            path: "head" or "input" for one of the two paths of a tied embedding.

        Raises:
            PellucidError: the parameter is frozen, or the loss does not depend on it.
        """
        trace = self.trace
        if name not in dict(trace.model.named_parameters()):
            return None
        if name not in self.norms:
            raise PellucidError(_explain_no_gradient(trace, name))
        end = Segment(trace.side, trace.n_layers(trace.side))
        segments = [
            segment
            for segment in (end, *self._upstream)
            if name in trainable_parameters(trace, segment)
        ]
        if path:
            if len(segments) < 2 or name != "token_embedding.weight" or trace.model.head:
                return None
            segments = [
                candidate for candidate in segments if (candidate.place != -1) == (path == "head")
            ]
        parts = [
            self.segment(segment, text).parameters.get(name)
            for text in range(len(self._traces))
            for segment in segments
        ]
        terms = [part for part in parts if part is not None]
        total = terms[0]
        for part in terms[1:]:
            total = total + part
        return total

    def segment(self, segment: Segment, text: int = 0) -> SegmentGradients:
        """The gradients of one segment, run again unless it is one of the last two.

        Args:
            segment: which one.
            text: 0 for the trace's own text, 1 for its companion.
        """
        with ONE_AT_A_TIME:
            for owner, place, segment_gradients in self._open:
                if owner() is self and place == (text, segment):
                    return segment_gradients
            if len(self._open) == self._open.maxlen:
                self._open.popleft()  # before others are made: both would be alive
            owner = self._traces[text]
            is_end = segment == Segment(owner.side, owner.n_layers(owner.side))
            upstream = None if is_end else self.walk().upstreams[text].get(segment)
            segment_gradients = backward_segment(self._traces[text], segment, upstream)
            self._open.append((weakref.ref(self), (text, segment), segment_gradients))
            return segment_gradients

    def layer(self, side: Side, number: int) -> dict[str, Tensor]:
        """The gradients of all tensors of a layer, by name; tensors of heads are (heads, ...)."""
        key = (side, number)
        if key not in self._layers:
            while len(self._layers) > 1:
                self._layers.popitem(last=False)
            self._layers[key] = self._compute_layer_gradients(side, number)
        self._layers.move_to_end(key)
        return self._layers[key]

    def _compute_layer_gradients(self, side: Side, number: int) -> dict[str, Tensor]:
        trace = self.trace
        stack_pass, model = trace.stack_pass(side), trace.model
        with (
            ONE_AT_A_TIME,
            evaluating(model),
            scaled(model, trace.scales, trace.edits),
            torch.enable_grad(),
        ):
            state = make_leaf(stack_pass.states[number])
            encoded = detach_encoded(stack_pass.encoded)
            record = record_block(stack_pass, number, state, encoded, separate_inputs=True)
            output = record.tensors.pop("made")
            inputs = record.tensors | _list_head_tensors(record)
            upstream = self._upstream[Segment(side, number)]
            grads = gradients(output, list(inputs.values()), upstream)
        named_grads = {
            name: grad for name, grad in zip(inputs, grads, strict=True) if grad is not None
        }
        for name, attention in record.attentions.items():
            kind = f"{name}." if name else ""
            joined = named_grads.pop(f"{kind}joined")
            named_grads[f"{kind}out"] = split_heads(joined, attention.n_heads)
            if name:  # a query of cross-attention is the projection itself: nothing turns it
                named_grads[f"{kind}q"] = split_heads(
                    named_grads["cross_attention.query"], attention.n_heads
                )
        return {name: _without_batch(name, grad, record) for name, grad in named_grads.items()}


def _without_batch(name: str, grad: Tensor, record: BlockRecord) -> Tensor:
    routing, expert = record.routing, expert_number(name)
    if name in GATES:
        return grad[0].mT
    if routing is None or grad.ndim > 2:
        return grad[0]
    if name == "feed_forward.weights":
        return spread_weights(grad, routing)
    return grad if expert is None else spread(grad, routing, expert)


def _list_head_tensors(record: BlockRecord) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, attention in record.attentions.items():
        kind = f"{name}." if name else ""
        tensors |= {
            f"{kind}{part}": tensor
            for part, tensor in attention.head_tensors().items()
            if part not in ("out", "memory")  # they come from others, which are listed
        }
    return tensors


def _explain_no_gradient(trace: Trace, name: str) -> str:
    if not dict(trace.model.named_parameters())[name].requires_grad:
        return message("gradients.is-frozen-requires-grad-is", name=name)
    return message("gradients.has-no-gradient-the-loss", name=name)
