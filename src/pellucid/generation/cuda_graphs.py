"""Generate token by token on a GPU: record the model's step once, then replay it.

A step of one token has some hundred kernel launches of a few microseconds each, and Python takes
longer than the GPU for each of them. A CUDA graph is one launch.
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
    ClampedFeedForwardFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    ExpertsFacts,
    FeedForwardFacts,
    LatentAttentionFacts,
    LinearAttentionFacts,
    LinearFacts,
    LoRAFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    feed_forward_facts,
    linear_facts,
    position_facts,
)
from pellucid.native import is_disabled

_log = logging.getLogger(__name__)

#: The number of keys of the first recorded step; each further recording has twice as many.
_LEAST_KEYS = 64

Compute = Callable[[], Tensor]

#: The recorded steps of each model.
_recorded_steps: WeakKeyDictionary[Transformer, Steps] = WeakKeyDictionary()


def recorded(compute: Compute) -> Compute:
    """The launches of `compute` as one CUDA graph; it returns the same memory each time."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):  # libraries choose their kernels and allocate their workspaces
            compute()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = compute()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay


def graphed(model: Transformer, record: Callable[[Compute], Compute] = recorded) -> Steps | None:
    """Recorded steps that compute this model's logits; None if only the model can.

    None for positions that add to the scores, windows, attention without keys, adapters, and an
    encoder; and with `PELLUCID_NATIVE=off`. All texts share them, as long as the weights stay in
    the same memory.
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

    The buffers belong to the text that was continued last. The caches of another text move to
    buffers of their own, and back when that text continues.
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
        """The logits after `ids`; their keys and values go into the caches.

        It does nothing and returns None if the model has hooks, autocast is on, or the model would
        refuse the ids.
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
        """Move the content of the caches to the recorded buffers."""
        rooms = [room for cache in caches if (room := cache.room) is not None]
        layout = [(part.shape, part.dtype) for room in rooms for part in room]
        if layout != [(part.shape, part.dtype) for buffers in self._rooms for part in buffers]:
            # zeros: masked values have the weight 0, but 0 times NaN is NaN
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
            for buffer, part in zip(buffers, room, strict=True):
                buffer[:, :, : cache.length] = part[:, :, : cache.length]
            cache.move_to(buffers)
        self._lent = [weakref.ref(cache) for cache in caches]

    def _step(self, n_keys: int) -> Float[Tensor, "rows vocab"]:
        model = self._model()
        assert model is not None  # the caller has a reference
        places = self._place.expand(len(self._ids), 1)
        visible = torch.arange(n_keys, device=places.device) <= self._place
        view = View(
            start=0, causal=False, mask=visible[None, None, None], places=places, forwards=True
        )
        rooms = [_Room(room, self._place, n_keys) for room in self._rooms]
        states = model.stack(model.embed(self._ids), view, rooms)
        return model.logits(model.readable(states))[:, -1].float()


class _Room(NoCache):
    """One layer's buffers, written at a place that only the GPU knows."""

    def __init__(self, room: KeysAndValues, place: Tensor, n_keys: int) -> None:
        self._room = room
        self._place = place
        self._n_keys = n_keys

    def extend(
        self,
        keys: Float[Tensor, "batch heads time d_head"],
        values: Float[Tensor, "batch heads time d_value"],
    ) -> KeysAndValues:
        """The first keys and values, including the new ones."""
        for part, new in zip(self._room, (keys, values), strict=True):
            part.index_copy_(2, self._place, new)
        return KeysAndValues(*(part[:, :, : self._n_keys] for part in self._room))


def _unrecordable(model: Transformer) -> str | None:
    """The first part of a model whose step depends on more than positions and mask, or None."""
    stack = model.decoder
    if stack is None or model.encoder is not None:
        return "an encoder"
    if any(_is_adapted(module) for module in model.modules()):
        return "adapters, which can be switched on and off"
    layers = [cast("Block", block).attention for block in stack.blocks]
    schemes = [stack.positions.for_layer(index) for index in range(len(stack.blocks))]
    obstacles = [*map(_unrecordable_positions, schemes), *map(_unrecordable_attention, layers)]
    obstacles += map(_unrecordable_feed_forward, stack.blocks)
    return next(filter(None, obstacles), None)


def _unrecordable_feed_forward(block: nn.Module) -> str | None:
    facts = feed_forward_facts(cast("Block", block).feed_forward)
    match facts:
        case ExpertsFacts():
            return "experts, whose products have sizes that the host has to know"
        case FeedForwardFacts() | ClampedFeedForwardFacts() | UnknownFacts():
            return None
        case _:
            assert_never(facts)


def _is_adapted(layer: nn.Module) -> bool:
    facts = linear_facts(layer)
    match facts:
        case LoRAFacts():
            return True
        case LinearFacts() | UnknownFacts():
            return False
        case _:
            assert_never(facts)


def _unrecordable_positions(positions: nn.Module) -> str | None:
    facts = position_facts(positions)
    match facts:
        case NoPositionFacts() | AddedPositionFacts() | RotaryFacts(switch=None):
            return None
        case (
            RotaryFacts()
            | DistanceBiasFacts()
            | DistanceVectorFacts()
            | DisentangledFacts()
            | UnknownFacts()
        ):
            return type(positions).__name__
        case _:
            assert_never(facts)


def _unrecordable_attention(attention: nn.Module) -> str | None:
    facts = attention_facts(attention)
    match facts:
        case SoftmaxAttentionFacts(keys_from="same_text"):
            return None if facts.window is None else "a window"
        case LatentAttentionFacts():
            return None
        case (
            SoftmaxAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts()
        ):
            return type(attention).__name__
        case _:
            assert_never(facts)
