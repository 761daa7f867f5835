"""Where attention's queries and keys are had from: hooks in pellucid's models, calls in others.

In a pellucid model the named submodules `query_norm` and `key_norm` give them, and what follows is
repeated as the layer does it. In any other model the pass itself is listened to: every call of
torch's fused attention, and every softmax over a square of scores. So rotated queries, norms of
queries and keys, masks and scales are those that the model used. A kernel of somebody else's is not
heard.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, assert_never, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from pellucid.model import Positions
from pellucid.model.attention import split_heads
from pellucid.model.facts import (
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    tensor_at,
)
from pellucid.model.views import View, distances
from pellucid.training import Guard
from pellucid.typed import named_modules
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.attention import (
    AttentionStats,
    ScoreRule,
    by_rows,
    fused_call,
    normalised,
    of_scores,
)
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.taps.hooks import Hooks

_SOFTMAXES = ("softmax", "_softmax")
#: What is switched off if queries and keys cannot be had.
_PART = "attention.*"


class AttentionTaps:
    """Every layer's attention, one layer at a time."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self.missing: dict[str, str] = {}

    @contextmanager
    def on(self, tape: AsyncMetrics) -> Generator[None]:
        """Within it every pass is measured."""
        looks_by_place: list[tuple[str, AttentionStats]] = []

        def note(place: str, looks: AttentionStats) -> None:
            looks_by_place.append((place, looks))

        with Hooks(tape.guard) as hooks, ExitStack() as stack:
            if self._anatomy.is_ours:
                _hook(self._anatomy.model, hooks, note)
            else:
                stack.enter_context(_listened_to(self._anatomy, hooks, note, tape.guard))
            yield
        if not looks_by_place and _PART not in tape.guard.off:
            self.missing["attention.max_logit"] = (
                "no softmax attention was seen: neither torch's fused call nor a softmax of scores"
            )
        if looks_by_place:
            _put_signs(tape, looks_by_place)


def _put_signs(tape: AsyncMetrics, looks_by_place: list[tuple[str, AttentionStats]]) -> None:
    heads = [(place, looks.largest.shape[1]) for place, looks in looks_by_place]
    places = tuple(f"{place}.head.{head}" for place, n_heads in heads for head in range(n_heads))
    all_looks = [looks for _, looks in looks_by_place]
    signs: dict[str, Callable[[AttentionStats], Tensor]] = {
        "attention.max_logit": lambda looks: looks.largest.amax((0, 2)),
        "attention.entropy": lambda looks: normalised(looks, looks.entropy).mean(0),
        "attention.renyi2": lambda looks: normalised(looks, looks.renyi2).mean(0),
    }
    for sign, number in signs.items():
        tape.put(
            sign,
            lambda number=number: torch.cat([number(looks).double() for looks in all_looks]),
            places,
        )


Note = Callable[[str, AttentionStats], None]


def _hook(model: nn.Module, hooks: Hooks, note: Note) -> None:
    """pellucid's own layers: queries and keys after their norms, and the rest as the layer does."""
    for name, module in named_modules(model).items():
        facts = attention_facts(module)
        match facts:
            case SoftmaxAttentionFacts(keys_from="same_text"):
                _tap(module, facts, name, hooks, note)
            case SoftmaxAttentionFacts():
                _tap_across(module, facts, name, hooks, note)
            case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
                pass  # it has no softmax over all of its scores
            case _:
                assert_never(facts)


def _keeping(projections: dict[str, Tensor], role: str) -> Any:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
        projections[role] = output

    return hook


def _tap(
    layer: nn.Module, facts: SoftmaxAttentionFacts, name: str, hooks: Hooks, note: Note
) -> None:
    projections: dict[str, Tensor] = {}
    sources = (facts.query_norm or facts.query), (facts.key_norm or facts.key)

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(projections) < 2:  # a layer whose forward was replaced: its scores are not known
            return
        positions, view = cast("Positions", inputs[1]), cast("View", inputs[2])
        q, k = projections.pop("query"), projections.pop("key")
        if facts.norms_over_all_heads or facts.query_norm is None:
            q, k = split_heads(q, facts.n_heads), split_heads(k, facts.n_kv_heads)
        q, k = positions.rotate(q, view), positions.rotate(k, view)
        near = view.in_window(facts.window, q.shape[2], q.device)
        mask = near.mask
        if near.causal:
            mask = distances(near.start, q.shape[2], q.device) <= 0
        bias = positions.bias(q, view, facts.scale)
        note(name, by_rows(q, k, _scored(layer, facts, mask, bias)))

    for role, source in zip(("query", "key"), sources, strict=True):
        hooks.after(layer.get_submodule(source), _PART, _keeping(projections, role))
    hooks.after(layer, _PART, hook)


def _scored(
    layer: nn.Module, facts: SoftmaxAttentionFacts, mask: Tensor | None, bias: Tensor | None
) -> ScoreRule:
    """What a pellucid layer does to its scores."""
    sinks = None if facts.sinks is None else tensor_at(layer, facts.sinks)
    return ScoreRule(facts.scale, mask=mask, bias=bias, soft_cap=facts.soft_cap, sinks=sinks)


def _tap_across(
    layer: nn.Module, facts: SoftmaxAttentionFacts, name: str, hooks: Hooks, note: Note
) -> None:
    projections: dict[str, Tensor] = {}

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(projections) < 2:
            return
        padding = inputs[1].padding
        mask = None if padding is None else padding[:, None, None, :]
        q = split_heads(projections.pop("query"), facts.n_heads)
        k = split_heads(projections.pop("key"), facts.n_kv_heads)
        note(name, by_rows(q, k, _scored(layer, facts, mask, None)))

    hooks.after(layer.get_submodule(facts.query), _PART, _keeping(projections, "query"))
    hooks.after(layer.get_submodule(facts.key), _PART, _keeping(projections, "key"))
    hooks.after(layer, _PART, hook)


@contextmanager
def _listened_to(anatomy: Anatomy, hooks: Hooks, note: Note, guard: Guard) -> Generator[None]:
    """Anybody's model: the block that runs is known by hooks, its attention by its calls."""
    running: list[str] = []
    for name, block in anatomy.blocks.items():
        hooks.before(block, _PART, partial(_enter, running, name))
        hooks.after(block, _PART, lambda *_: running.pop())
    with _Listening(running, note, guard):
        yield


def _enter(running: list[str], name: str, *_: object) -> None:
    running.append(name)


class _Listening(TorchFunctionMode):
    """Hears torch's calls within a block: fused attention, and softmax over a square."""

    def __init__(self, running: list[str], note: Note, guard: Guard) -> None:
        super().__init__()
        self._guard = guard
        self._running = running
        self._note = note
        self._calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._running:
            self._guard(_PART, self._hear, func, args, kwargs)
        return func(*args, **kwargs)

    def _hear(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        looks: AttentionStats | None = None
        if func is F.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            arguments = dict(zip(names, args, strict=False)) | kwargs
            looks = fused_call(
                arguments["query"],
                arguments["key"],
                arguments.get("attn_mask"),
                bool(arguments.get("is_causal", False)),
                arguments.get("scale"),
            )
        elif getattr(func, "__name__", "") in _SOFTMAXES and args and isinstance(args[0], Tensor):
            scores = args[0]
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim in (-1, scores.ndim - 1) and _square(scores):
                looks = of_scores(scores.reshape(-1, *scores.shape[-3:]))
        if looks is not None:
            place = self._running[-1]
            count = self._calls[place] = self._calls.get(place, 0) + 1
            self._note(f"{place}.attention" + (f".{count}" if count > 1 else ""), looks)


def _square(scores: Tensor) -> bool:
    """Whether these can be scores of attention: (batch, heads, queries, keys), or without batch."""
    if scores.ndim == 4:
        return scores.shape[-1] > 1
    return scores.ndim == 3 and scores.shape[-1] == scores.shape[-2] > 1
