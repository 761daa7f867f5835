"""One token after another on a GPU: the model's own step, recorded once and then replayed whole.

A step of one token is some hundred launches of a few microseconds each, and Python is slower than
the GPU at every one of them. A CUDA graph is one launch.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never, cast
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from pellucid.generation.decoding import hooks_of
from pellucid.model import Block, KeysAndValues, KeyValueCache, NoCache, Transformer, View
from pellucid.model.facts import (
    AddedPositionFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    LinearAttentionFacts,
    LoRAFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    linear_facts,
    position_facts,
)
from pellucid.native import is_disabled

_log = logging.getLogger(__name__)

#: Fewest keys that a recorded step looks at; each further recording looks at twice as many.
_LEAST_KEYS = 64

Compute = Callable[[], Tensor]

#: Of each model that lives.
_recorded_steps: WeakKeyDictionary[Transformer, Steps] = WeakKeyDictionary()


def recorded(compute: Compute) -> Compute:
    """What `compute` launches, as one CUDA graph; what it returns is the same memory each time."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):  # libraries choose their kernels and allocate what they work in
            compute()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = compute()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay


def graphed(model: Transformer, record: Callable[[Compute], Compute] = recorded) -> Steps | None:
    """What goes on with texts in this model's place; None where only the model can.

    None for positions that add to the scores, windows, attention without keys, adapters, and an
    encoder; and with `PELLUCID_NATIVE=off`. The same for every text of a model, as long as its
    weights stay where they are.
    """
    if is_disabled():
        return None
    obstacle = _unrecordable(model)
    if obstacle is not None:
        _log.info("the model itself decodes: no recorded step for %s", obstacle)
        return None
    weights = tuple(tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers()))
    steps = _recorded_steps.get(model)
    if steps is None or steps.weights != weights or steps.record is not record:
        steps = _recorded_steps[model] = Steps(model, weights, record)
    return steps


class Steps:
    """A model's recorded steps, and the buffers of keys and values that they read and write.

    The buffers belong to the text that was gone on with last: another one that is still read moves
    out, and in again when it is its turn. What is recorded are the modules as they are then.
    """

    def __init__(
        self, model: Transformer, weights: tuple[int, ...], record: Callable[[Compute], Compute]
    ) -> None:
        self.weights = weights
        self.record = record
        self._model = weakref.ref(model)
        self._hooks = hooks_of(model)
        self._steps: dict[int, Compute] = {}
        self._rooms: list[KeysAndValues] = []
        self._lent: list[weakref.ref[KeyValueCache]] = []
        self._ids = self._place = torch.empty(0)

    def logits(
        self, ids: Int[Tensor, " rows"], caches: Sequence[KeyValueCache]
    ) -> Float[Tensor, "rows vocab"] | None:
        """The logits after `ids`, whose keys and values are put into the caches.

        None, and nothing is done, where somebody watches the model with hooks, where autocast would
        change it, and where the model would refuse.
        """
        length, context = caches[0].length, caches[0].context_length
        watched = any(self._hooks) or torch.is_autocast_enabled(ids.device.type)
        if watched or length >= context or caches[0].room is None:
            return None
        self._hold(caches, ids)
        self._ids.copy_(ids[:, None])
        self._place.fill_(length)
        n_keys = min(max(_LEAST_KEYS, 1 << length.bit_length()), context)
        if n_keys not in self._steps:
            self._steps[n_keys] = self.record(partial(self._step, n_keys))
        logits = self._steps[n_keys]().clone()
        for cache in caches:
            cache.advance(1)
        return logits

    def _hold(self, caches: Sequence[KeyValueCache], ids: Tensor) -> None:
        """Have the caches keep what they hold in the buffers that were recorded."""
        rooms = [room for cache in caches if (room := cache.room) is not None]
        layout = [(part.shape, part.dtype) for room in rooms for part in room]
        if layout != [(part.shape, part.dtype) for buffers in self._rooms for part in buffers]:
            # zeros: what is masked has the weight 0, but 0 times what is not a number is none
            self._rooms = [KeysAndValues(*map(torch.zeros_like, room)) for room in rooms]
            self._ids = torch.zeros_like(ids)[:, None]
            self._place = torch.zeros(1, dtype=torch.int64, device=ids.device)
            self._steps.clear()
            self._lent.clear()
        if all(room is buffers for room, buffers in zip(rooms, self._rooms, strict=True)):
            return
        for lent, buffers in zip(self._lent, self._rooms, strict=False):
            borrower = lent()
            if borrower is not None and borrower.room is buffers:
                borrower.move_to(KeysAndValues(*(part.clone() for part in buffers)))
        for cache, buffers, room in zip(caches, self._rooms, rooms, strict=True):
            for mine, theirs in zip(buffers, room, strict=True):
                mine[:, :, : cache.length] = theirs[:, :, : cache.length]
            cache.move_to(buffers)
        self._lent = [weakref.ref(cache) for cache in caches]

    def _step(self, n_keys: int) -> Float[Tensor, "rows vocab"]:
        model = self._model()
        assert model is not None  # whoever asks holds it
        places = self._place.expand(len(self._ids), 1)
        visible = torch.arange(n_keys, device=places.device) <= self._place
        view = View(
            start=0, causal=False, mask=visible[None, None, None], places=places, forwards=True
        )
        rooms = [_Room(room, self._place, n_keys) for room in self._rooms]
        states = model.stack(model.embed(self._ids), view, rooms)
        return model.logits(model.readable(states))[:, -1].float()


class _Room(NoCache):
    """One layer's buffers, written at a place that is known on the GPU alone."""

    def __init__(self, room: KeysAndValues, place: Tensor, n_keys: int) -> None:
        self._room = room
        self._place = place
        self._n_keys = n_keys

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_value"],
    ) -> KeysAndValues:
        """The first keys and values, those just given among them."""
        for part, new in zip(self._room, (keys, values), strict=True):
            part.index_copy_(2, self._place, new)
        return KeysAndValues(*(part[:, :, : self._n_keys] for part in self._room))


def _unrecordable(model: Transformer) -> str | None:
    """What of a model depends on more than its places and its mask; None if nothing does."""
    stack = model.decoder
    if stack is None or model.encoder is not None:
        return "an encoder"
    if any(isinstance(linear_facts(module), LoRAFacts) for module in model.modules()):
        return "adapters, which are turned on and off"
    layers = [cast("Block", block).attention for block in stack.blocks]
    obstacles = [_unrecordable_positions(stack.positions), *map(_unrecordable_attention, layers)]
    return next(filter(None, obstacles), None)


def _unrecordable_positions(positions: nn.Module) -> str | None:
    facts = position_facts(positions)
    match facts:
        case NoPositionFacts() | AddedPositionFacts() | RotaryFacts():
            return None
        case DistanceBiasFacts() | DistanceVectorFacts() | UnknownFacts():
            return type(positions).__name__
        case _:
            assert_never(facts)


def _unrecordable_attention(attention: nn.Module) -> str | None:
    facts = attention_facts(attention)
    match facts:
        case SoftmaxAttentionFacts(keys_from="same_text"):
            return None if facts.window is None else "a window"
        case (
            SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts()
        ):
            return type(attention).__name__
        case _:
            assert_never(facts)
