"""Queries and keys of attention: from hooks in pellucid's models, from torch's calls in others.

In a pellucid model the submodules that the layer's facts name give them; the code here then repeats
the layer's own steps. In any other model it intercepts every call of torch's fused attention and
every softmax over a square of scores. So rotations, norms, masks and scales are the model's own. It
cannot see into kernels of other libraries.
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
    LatentAttentionFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    tensor_at,
)
from pellucid.model.views import View, distances
from pellucid.parallel.collect import whole_outputs
from pellucid.training import Guard
from pellucid.typed import named_modules
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.attention import (
    AttentionStats,
    ScoreRule,
    by_rows,
    from_scores,
    fused_call,
    normalised,
)
from pellucid.vitals.model_parts import Anatomy
from pellucid.vitals.taps.hooks import Hooks

_SOFTMAXES = ("softmax", "_softmax")
#: The part that the guard switches off if queries and keys cannot be read.
_PART = "attention.*"


class AttentionTaps:
    """Measures the attention of every layer, one layer at a time."""

    def __init__(self, anatomy: Anatomy) -> None:
        self._anatomy = anatomy
        self.missing: dict[str, str] = {}

    @contextmanager
    def measuring(self, metrics: AsyncMetrics) -> Generator[None]:
        """Measure every forward pass within."""
        stats_by_place: list[tuple[str, AttentionStats]] = []

        def note(place: str, stats: AttentionStats) -> None:
            stats_by_place.append((place, stats))

        with Hooks(metrics.guard) as hooks, ExitStack() as stack:
            if self._anatomy.is_ours:
                _hook(self._anatomy.model, hooks, note)
            else:
                stack.enter_context(_intercepting(self._anatomy, hooks, note, metrics.guard))
            yield
        if not stats_by_place and _PART not in metrics.guard.off:
            self.missing["attention.max_logit"] = (
                "no softmax attention ran: neither torch's fused call nor a softmax of scores"
            )
        if stats_by_place:
            _put_signs(metrics, stats_by_place)


def _put_signs(metrics: AsyncMetrics, stats_by_place: list[tuple[str, AttentionStats]]) -> None:
    heads = [(place, stats.largest.shape[1]) for place, stats in stats_by_place]
    places = tuple(f"{place}.head.{head}" for place, n_heads in heads for head in range(n_heads))
    all_stats = [stats for _, stats in stats_by_place]
    signs: dict[str, Callable[[AttentionStats], Tensor]] = {
        "attention.max_logit": lambda stats: stats.largest.amax((0, 2)),
        "attention.entropy": lambda stats: normalised(stats, stats.entropy).mean(0),
        "attention.renyi2": lambda stats: normalised(stats, stats.renyi2).mean(0),
    }
    for sign, number in signs.items():
        metrics.record(
            sign,
            lambda number=number: torch.cat([number(stats).double() for stats in all_stats]),
            places,
        )


Note = Callable[[str, AttentionStats], None]


def _hook(model: nn.Module, hooks: Hooks, note: Note) -> None:
    """Hook pellucid's layers: queries and keys after their norms, then the steps of the layer."""
    for name, module in named_modules(model).items():
        facts = attention_facts(module)
        match facts:
            case SoftmaxAttentionFacts(keys_from="same_text"):
                _tap(module, facts, name, hooks, note)
            case SoftmaxAttentionFacts():
                _tap_cross(module, facts, name, hooks, note)
            case LatentAttentionFacts():
                _tap_latent(module, facts, name, hooks, note)
            case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
                pass  # these have no softmax over all of their scores
            case _:
                assert_never(facts)


def _save_output(projections: dict[str, Tensor], role: str) -> Any:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
        # ranks may share the heads
        projections[role] = whole_outputs(module, output)

    return hook


def _tap(
    layer: nn.Module, facts: SoftmaxAttentionFacts, name: str, hooks: Hooks, note: Note
) -> None:
    projections: dict[str, Tensor] = {}
    sources = (facts.query_norm or facts.query), (facts.key_norm or facts.key)

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(projections) < 2:  # the layer's forward was replaced: its scores are unknown
            return
        positions, view = cast("Positions", inputs[1]), cast("View", inputs[2])
        q, k = projections.pop("query"), projections.pop("key")
        if facts.norms_over_all_heads or facts.norms_after_rotation or facts.query_norm is None:
            q, k = (split_heads(part, part.shape[-1] // facts.d_head) for part in (q, k))
        if not facts.norms_after_rotation:
            if facts.clip is not None:
                q, k = (part.clamp(-facts.clip, facts.clip) for part in (q, k))
            q, k = positions.rotate(q, view), positions.rotate(k, view)
        mask = _visible(view.in_window(facts.window, q.shape[2], q.device), q)
        with _evaluating(positions, layer):  # dropout of distances would draw numbers
            positions = positions.in_layer(cast("Any", layer))
        bias = positions.bias(q, k, view, facts.scale)
        note(name, by_rows(q, k, _scored(layer, facts, mask, bias)))

    for role, source in zip(("query", "key"), sources, strict=True):
        hooks.after(layer.get_submodule(source), _PART, _save_output(projections, role))
    hooks.after(layer, _PART, hook)


@contextmanager
def _evaluating(*parts: nn.Module) -> Generator[None]:
    """Within it the parts are in evaluation mode."""
    training = [module for part in parts for module in part.modules() if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def _visible(view: View, q: Tensor) -> Tensor | None:
    """Which keys are visible; None if all are."""
    return distances(view.start, q.shape[2], q.device) <= 0 if view.causal else view.mask


def _tap_latent(
    layer: nn.Module, facts: LatentAttentionFacts, name: str, hooks: Hooks, note: Note
) -> None:
    projections: dict[str, Tensor] = {}
    plain = facts.d_head - facts.d_rotated

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(projections) < 3:  # it read the latents themselves: it formed no keys
            projections.clear()
            return
        positions, view = cast("Positions", inputs[1]), cast("View", inputs[2])
        q = split_heads(projections.pop("query"), facts.n_heads)
        k = split_heads(projections.pop("key"), facts.n_heads)
        rotated = positions.rotate(split_heads(projections.pop("rotated_key"), 1), view)
        q = torch.cat((q[..., :plain], positions.rotate(q[..., plain:], view)), dim=-1)
        if k.shape[2] != rotated.shape[2]:  # earlier tokens are in a cache
            return
        k = torch.cat((k, rotated.expand(-1, facts.n_heads, -1, -1)), dim=-1)
        bias = positions.bias(q, k, view, facts.scale)
        note(name, by_rows(q, k, ScoreRule(facts.scale, mask=_visible(view, q), bias=bias)))

    for role in (facts.query, facts.key, facts.rotated_key):
        hooks.after(layer.get_submodule(role), _PART, _save_output(projections, role))
    hooks.after(layer, _PART, hook)


def _scored(
    layer: nn.Module, facts: SoftmaxAttentionFacts, mask: Tensor | None, bias: Tensor | None
) -> ScoreRule:
    """How a pellucid layer computes its scores."""
    sinks = None if facts.sinks is None else tensor_at(layer, facts.sinks)
    return ScoreRule(facts.scale, mask=mask, bias=bias, soft_cap=facts.soft_cap, sinks=sinks)


def _tap_cross(
    layer: nn.Module, facts: SoftmaxAttentionFacts, name: str, hooks: Hooks, note: Note
) -> None:
    projections: dict[str, Tensor] = {}

    def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if len(projections) < 2:
            return
        padding = inputs[1].padding
        mask = None if padding is None else padding[:, None, None, :]
        q, k = projections.pop("query"), projections.pop("key")
        q, k = (split_heads(part, part.shape[-1] // facts.d_head) for part in (q, k))
        note(name, by_rows(q, k, _scored(layer, facts, mask, None)))

    hooks.after(layer.get_submodule(facts.query), _PART, _save_output(projections, "query"))
    hooks.after(layer.get_submodule(facts.key), _PART, _save_output(projections, "key"))
    hooks.after(layer, _PART, hook)


@contextmanager
def _intercepting(anatomy: Anatomy, hooks: Hooks, note: Note, guard: Guard) -> Generator[None]:
    """Any other model: hooks tell which block runs, intercepted calls its attention."""
    running: list[str] = []
    for name, block in anatomy.blocks.items():
        hooks.before(block, _PART, partial(_enter, running, name))
        hooks.after(block, _PART, lambda *_: running.pop())
    with _CallInterceptor(running, note, guard):
        yield


def _enter(running: list[str], name: str, *_: object) -> None:
    running.append(name)


class _CallInterceptor(TorchFunctionMode):
    """Intercepts torch's calls within a block: fused attention, and softmax over a square."""

    def __init__(self, running: list[str], note: Note, guard: Guard) -> None:
        super().__init__()
        self._guard = guard
        self._running = running
        self._note = note
        self._calls: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        is_fused = func is F.scaled_dot_product_attention
        if self._running and (is_fused or getattr(func, "__name__", "") in _SOFTMAXES):
            self._guard(_PART, self._measure_call, func, args, kwargs)
        return func(*args, **kwargs)

    def _measure_call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        stats: AttentionStats | None = None
        if func is F.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            arguments = dict(zip(names, args, strict=False)) | kwargs
            stats = fused_call(
                arguments["query"],
                arguments["key"],
                arguments.get("attn_mask"),
                bool(arguments.get("is_causal", False)),
                arguments.get("scale"),
            )
        elif args and isinstance(args[0], Tensor):
            scores = args[0]
            dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
            if dim in (-1, scores.ndim - 1) and _square(scores):
                stats = from_scores(scores.reshape(-1, *scores.shape[-3:]))
        if stats is not None:
            place = self._running[-1]
            count = self._calls[place] = self._calls.get(place, 0) + 1
            self._note(f"{place}.attention" + (f".{count}" if count > 1 else ""), stats)


def _square(scores: Tensor) -> bool:
    """Whether these can be scores of attention: (batch, heads, queries, keys), or without batch."""
    if scores.ndim == 4:
        return scores.shape[-1] > 1
    return scores.ndim == 3 and scores.shape[-1] == scores.shape[-2] > 1
