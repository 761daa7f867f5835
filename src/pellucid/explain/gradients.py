"""The gradient of a sentence's loss, by address: of states, of what is in a layer, of every weight.

    back = trace.backward()
    back["L2.residual.grad"]                              what reaches the stream before layer 2
    back["decoder.blocks.2.attention.query.weight.grad"]  as loss.backward() would leave it in .grad

Comes in: a trace. Goes out: torch's own gradients. It does not know how they are shown.

Of the one way back the gradients of the stream are kept, and the norms of the others. A layer is
gone through again when one of its gradients is asked for, and dropped when another layer is: the
gradients of the two stretches last asked for are alive, whatever the model and however many
sentences are open. The model's own `.grad`, mode and weights are left as they are.
"""

from __future__ import annotations

import re
import weakref
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, ClassVar, cast

import torch
from torch import Tensor

from pellucid.errors import PellucidError
from pellucid.explain import attention_heads
from pellucid.explain.addresses import Address, Shape, parsed, pointed, refuse_unknown, taken
from pellucid.explain.backward_segments import (
    SegmentGradients,
    Stretch,
    Watch,
    apart,
    back,
    leaf,
    trained,
    walk,
)
from pellucid.explain.forward_pass import (
    ONE_AT_A_TIME,
    HeadPlace,
    Side,
    attention_at,
    evaluating,
    scaled,
)
from pellucid.explain.outputs import wide
from pellucid.explain.record_block import BlockRecord, heard
from pellucid.maths.cross_entropy import cross_entropy_grad
from pellucid.model import LinearAttention, NeuralMemory
from pellucid.model.attention import split_heads
from pellucid.typed import gradients, length

if TYPE_CHECKING:
    from pellucid.explain.tracing import Trace

#: Models of more parameters are gone back through when that is asked for, and not before.
LARGE = 50_000_000
_GRAD = re.compile(r"(.+)\.grad(?:\.(head|input))?\Z")
_OF_HEADS = ("q", "k", "q_plain", "k_plain", "v", "out")
_OF_ENDS = ("final_norm", "hidden", "logits")


def is_large(trace: Trace) -> bool:
    """Whether the way back through a trace's model takes more than a moment."""
    return sum(parameter.numel() for parameter in trace.model.parameters()) > LARGE


class Gradients:
    """The way back of one trace: `gradients[address]` is a tensor without the batch."""

    _open: ClassVar[deque[tuple[weakref.ref[Gradients], Stretch, SegmentGradients]]] = deque(
        maxlen=2
    )

    def __init__(self, trace: Trace, watch: Watch = lambda done, total: None) -> None:
        self.trace = trace
        #: the length of each parameter's gradient, and of the parameter, by its name
        self.norms: dict[str, float] = {}
        self.sizes: dict[str, float] = {}
        weights = dict(trace.model.named_parameters())

        def take(name: str, grad: Tensor) -> None:
            self.norms[name] = length(grad)
            self.sizes[name] = length(weights[name])

        with torch.no_grad():
            self._arriving = walk(trace, take, watch)
        self._layers: OrderedDict[tuple[Side, int], dict[str, Tensor]] = OrderedDict()

    @staticmethod
    def may_hold(name: str) -> bool:
        """Whether a name is of a kind that is found here."""
        return name in ("grad_norm", "error") or _GRAD.search(name) is not None

    @property
    def norm(self) -> float:
        """The length of all parameters' gradients together: what clipping looks at."""
        return length(torch.tensor(list(self.norms.values()), dtype=torch.float64))

    def stream(self, side: Side) -> list[Tensor]:
        """What reaches the stream before each block and behind the last: (time, d_model) each."""
        n = self.trace.n_layers(side)
        return [self._arriving[Stretch(side, place - 1)][0] for place in range(n + 1)]

    def __getitem__(self, address: str) -> Tensor:
        """The gradient at an address, which may end with [7, 1].

        Raises:
            PellucidError: there is no such address; says what is near, or why there is nothing.
        """
        name, _ = pointed(address)
        gradient = self.of(name)
        if gradient is None:
            raise refuse_unknown(address, self.addresses())
        return taken(gradient, address)

    def of(self, name: str) -> Tensor | None:
        """The tensor of a name without a place in it; None where there is none.

        Raises:
            PellucidError: it is the gradient of a frozen parameter.
        """
        if name == "grad_norm":
            return torch.tensor(self.norm, dtype=torch.float64)
        if name == "error":
            trace = self.trace
            return cast("Tensor", cross_entropy_grad(wide(trace["logits"][:-1]), trace.ids[1:]))
        match = _GRAD.match(name)
        if match is None:
            return None
        base, path = match[1], match[2] or ""
        if base in dict(self.trace.model.named_parameters()):
            return self._parameter(base, path)
        if path:
            return None
        place = parsed(base)
        return self._whole(base) if place is None else self._within(place)

    def addresses(self) -> dict[str, Shape]:
        """Every address with the shape of what is there; nothing is computed for it."""
        trace = self.trace
        named_shapes: dict[str, Shape] = {"grad_norm": ()}
        for name, shape in trace.addresses().items():
            if name == "logits":
                named_shapes["error"] = (shape[0] - 1, shape[1])
            if self._is_listed(name):
                named_shapes[f"{name}.grad"] = shape
        for name, weight in trace.model.named_parameters():
            if name in self.norms:
                named_shapes[f"{name}.grad"] = tuple(weight.shape)
        if trace.model.head is None and "token_embedding.weight" in self.norms:
            shape = tuple(trace.model.token_embedding.weight.shape)
            named_shapes |= {
                f"token_embedding.weight.grad.{path}": shape for path in ("head", "input")
            }
        return named_shapes

    def _is_listed(self, name: str) -> bool:
        place = parsed(name)
        if place is None:
            return name.removeprefix("encoder.") in (*_OF_ENDS, "embedding")
        if place.head is None:
            return True
        at = HeadPlace(place.side, place.layer, place.head, place.cross)
        layer = attention_at(self.trace.model, at)
        if place.what in ("scores", "weights"):
            return not isinstance(layer, LinearAttention | NeuralMemory)
        return place.what in _OF_HEADS and not isinstance(layer, LinearAttention)

    def _parameter(self, name: str, path: str) -> Tensor | None:
        """The gradient of a parameter: of all stretches that it belongs to, or of one path."""
        if name not in self.norms:
            raise PellucidError(_why_none(self.trace, name))
        places = [
            stretch for stretch in self._arriving_at() if name in trained(self.trace, stretch)
        ]
        if path:
            if len(places) < 2 or name != "token_embedding.weight" or self.trace.model.head:
                return None
            places = [stretch for stretch in places if (stretch.place != -1) == (path == "head")]
        parts = [self._stretch(stretch).parameters.get(name) for stretch in places]
        terms = [part for part in parts if part is not None]
        total = terms[0]
        for part in terms[1:]:
            total = total + part
        return total

    def _arriving_at(self) -> list[Stretch]:
        """All stretches, those that end in the loss included."""
        trace = self.trace
        return [Stretch(trace.side, trace.n_layers(trace.side)), *self._arriving]

    def _stretch(self, stretch: Stretch) -> SegmentGradients:
        with ONE_AT_A_TIME:
            for owner, where, back_pass in self._open:
                if owner() is self and where == stretch:
                    return back_pass
            if len(self._open) == self._open.maxlen:
                self._open.popleft()  # before others are made: both would be alive
            back_pass = back(self.trace, stretch, self._arriving.get(stretch))
            self._open.append((weakref.ref(self), stretch, back_pass))
            return back_pass

    def _whole(self, base: str) -> Tensor | None:
        trace, side = self.trace, self.trace.side
        if base.startswith("encoder.") and len(trace.sides) == 2:
            side, base = "encoder", base.removeprefix("encoder.")
        if base == "embedding":
            return self._stretch(Stretch(side, -1)).entering[0]
        if base not in _OF_ENDS or (side != trace.side and base != "final_norm"):
            return None
        gradient = self._stretch(Stretch(side, trace.n_layers(side))).noted[base]
        return gradient[0] if gradient.ndim == 3 else gradient

    def _within(self, place: Address) -> Tensor | None:
        trace = self.trace
        if place.side not in trace.sides or place.layer > trace.n_layers(place.side):
            return None
        if place.head is None and place.what == "residual":
            return self.stream(place.side)[place.layer]
        if place.layer == trace.n_layers(place.side):
            return None
        layer_gradients = self._layer(place.side, place.layer)
        if place.head is None:
            name = "feed_forward.down.in" if place.what == "feed_forward.units" else place.what
            return layer_gradients.get(name)
        look = trace.layer(place.side, place.layer).looks.get("cross" if place.cross else "")
        if look is None or place.head >= look.n_heads:
            return None
        kind = "cross." if place.cross else ""
        if place.what in ("scores", "weights"):
            if not isinstance(look.layer, NeuralMemory | LinearAttention):
                arriving = _before_scaling(trace, place, layer_gradients[f"{kind}out"][place.head])
                return attention_heads.back(look, place.head, arriving)[place.what == "scores"]
            return None
        part = layer_gradients.get(f"{kind}{place.what}")
        return None if part is None else part[place.head * part.shape[0] // look.n_heads]

    def _layer(self, side: Side, number: int) -> dict[str, Tensor]:
        """The gradients within a layer: of what is heard in it, and of what its heads did."""
        key = (side, number)
        if key not in self._layers:
            while len(self._layers) > 1:
                self._layers.popitem(last=False)
            self._layers[key] = self._compute_layer_gradients(side, number)
        self._layers.move_to_end(key)
        return self._layers[key]

    def _compute_layer_gradients(self, side: Side, number: int) -> dict[str, Tensor]:
        trace = self.trace
        passed, model = trace.passed(side), trace.model
        with ONE_AT_A_TIME, evaluating(model), scaled(model, trace.scales), torch.enable_grad():
            state = leaf(passed.states[number])
            run = heard(passed, number, state, apart(passed.encoded), apart=True)
            output = run.tensors.pop("made")
            inputs = run.tensors | _of_looks(run)
            grads = gradients(output, list(inputs.values()), self._arriving[Stretch(side, number)])
        named_grads = {
            name: grad for name, grad in zip(inputs, grads, strict=True) if grad is not None
        }
        for name, look in run.looks.items():
            kind = f"{name}." if name else ""
            named_grads[f"{kind}out"] = split_heads(named_grads.pop(f"{kind}joined"), look.n_heads)
            if name:  # a query at an encoder is what was projected: nothing turns it
                named_grads[f"{kind}q"] = split_heads(
                    named_grads["cross_attention.query"], look.n_heads
                )
        return {name: grad[0] for name, grad in named_grads.items()}


def _of_looks(run: BlockRecord) -> dict[str, Tensor]:
    named_parts: dict[str, Tensor] = {}
    for name, look in run.looks.items():
        kind = f"{name}." if name else ""
        parts = {part: getattr(look, part) for part in (*_OF_HEADS[:-1], "joined")}
        named_parts |= {f"{kind}{part}": x for part, x in parts.items() if isinstance(x, Tensor)}
    return named_parts


def _before_scaling(trace: Trace, place: Address, arriving: Tensor) -> Tensor:
    """The gradient of what a head found before it was scaled, or its mean put in its place."""
    assert place.head is not None
    at = HeadPlace(place.side, place.layer, place.head, place.cross)
    scale = trace.scales.get(at, 1.0)
    if scale == "mean":
        return arriving.mean(0, keepdim=True).expand_as(arriving)
    return arriving * scale


def _why_none(trace: Trace, name: str) -> str:
    if not dict(trace.model.named_parameters())[name].requires_grad:
        return (
            f"{name} is frozen (requires_grad is off), so nothing comes back to it; to see what "
            "would, call model.requires_grad_(True) first"
        )
    return f"{name} has no gradient: the loss of this sentence does not depend on it"
