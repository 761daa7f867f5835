"""Probes of how far a model sees, and whether it knows where a token stands."""

from __future__ import annotations

from typing import assert_never, cast

import torch
from torch import Tensor

from pellucid.diagnosis.finding import Finding, build_finding, evidence, limit
from pellucid.diagnosis.model_adapter import HALF, ModelAdapter
from pellucid.diagnosis.probes.attention_scores import scores_of, visible
from pellucid.diagnosis.probes.leakage import moved, tolerance
from pellucid.model import Block, Transformer
from pellucid.model.facts import (
    AddedPositionFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    LinearAttentionFacts,
    NeuralMemoryFacts,
    NoPositionFacts,
    RotaryFacts,
    SoftmaxAttentionFacts,
    UnknownFacts,
    attention_facts,
    position_facts,
)


def probe_receptive_field(adapter: ModelAdapter) -> list[Finding]:
    """Whether every token within the window has an influence on the last output."""
    reach = _declared_reach(adapter)
    if reach is None or adapter.length < 3:
        return []
    ids = adapter.random_ids(1)
    time = ids.shape[1]
    diagonal = torch.eye(time, dtype=torch.bool, device=ids.device)
    variants = torch.where(diagonal, adapter.changed_ids(ids), ids)
    with adapter.awake():
        original, changed = (
            adapter.outputs(ids.expand(time, -1).contiguous()),
            adapter.outputs(variants),
        )
    influence = moved(original, changed)[:, -1]
    first = max(0, time - reach)
    # rounding in float64 is a thousand times smaller than the limit
    none = limit("ATT005", "influence") if original.dtype == torch.float64 else 0.0
    blind = [k for k in range(first, time) if float(influence[k]) <= none]
    if not blind:
        return []
    return [
        build_finding(
            "ATT005",
            f"{len(blind)} of the {time - first} tokens that the last output should see have no "
            f"influence on it at all: those at positions {_ranges(blind)}.",
            evidence("ATT005", "tokens without influence", len(blind)),
            cause=_of_blindness(blind, time),
        )
    ]


def _of_blindness(blind: list[int], time: int) -> str:
    if len(blind) == time - 1:
        return (
            "no token sees any other: attention is not connected, its output is multiplied by "
            "zero, or time and batch are confused (batch_first)"
        )
    return (
        "heads are cut out of time and not out of features: reshaping (batch, time, heads, "
        "d_head) to (batch, heads, time, d_head) needs transpose(1, 2), not view; or a window "
        "that was not declared: declare(window=...)"
    )


def _ranges(places: list[int]) -> str:
    whole = places == list(range(places[0], places[-1] + 1))
    return f"{places[0]} to {places[-1]}" if whole else ", ".join(map(str, places))


def _declared_reach(adapter: ModelAdapter) -> int | None:
    """How many tokens back the last output is meant to see, itself among them; None: unknown."""
    if adapter.declared.window is not None:
        return adapter.declared.window
    if adapter.family == "pellucid":
        return _stated_reach(cast("Transformer", adapter.model), adapter.length)
    around = getattr(adapter.settings, "attention_window", None)
    if isinstance(around, list) and not adapter.has_encoder_and_decoder:  # half before, half after
        return _through([width // 2 + 1 for width in cast("list[int]", around)], adapter.length)
    window = getattr(adapter.settings, "sliding_window", None)
    depth = getattr(adapter.settings, "num_hidden_layers", 1)
    if isinstance(window, int) and not getattr(adapter.settings, "layer_types", None):
        return _through([window] * depth, adapter.length)
    kinds = getattr(adapter.settings, "layer_types", None)
    if isinstance(window, int) and isinstance(kinds, list | tuple):
        far = [window if kind == "sliding_attention" else None for kind in cast("list[str]", kinds)]
        return _through(far, adapter.length)
    return adapter.length


def _stated_reach(model: Transformer, length: int) -> int | None:
    windows: list[int | None] = []
    for block in model.stack.blocks:
        facts = attention_facts(cast("Block", block).attention)
        match facts:
            case SoftmaxAttentionFacts():
                windows.append(facts.window)
            case LinearAttentionFacts():
                windows.append(None)
            case NeuralMemoryFacts():
                return None  # what its memory keeps of a chunk is learned
            case UnknownFacts():
                return None
            case _:
                assert_never(facts)
    return _through(windows, length)


def _through(windows: list[int | None], length: int) -> int:
    if not windows or any(window is None for window in windows):
        return length
    return 1 + sum(cast("int", window) - 1 for window in windows)


def probe_positions(adapter: ModelAdapter) -> list[Finding]:
    """Whether the order of tokens is told to the model at all.

    The same token is written everywhere: whatever differs between places, in a state or in a score,
    can come from the position alone. What shows no scores is asked whether two tokens may change
    places.
    """
    if adapter.declared.no_positions or adapter.length < 4:
        return []
    if adapter.family == "pellucid" and _has_none_by_design(cast("Transformer", adapter.model)):
        return []
    same = torch.full((1, adapter.length), adapter.vocab // 2, device=adapter.device)
    with adapter.awake():
        if _differs_by_place(adapter.outputs(same)[0]):
            return []
        scores = scores_of(lambda: adapter.outputs(same), adapter.length)
        if any(_spread(score) > limit("POS001", "change") for score in scores):
            return []
        swapped = 0.0 if scores else _of_swapping(adapter)
    if swapped > limit("POS001", "change"):
        return []
    return [
        build_finding(
            "POS001",
            "With one token written at every place, no state and no score of attention differs "
            "between places: the model cannot tell where a token stands.",
            evidence("POS001", "largest difference between places", swapped),
        )
    ]


def _has_none_by_design(model: Transformer) -> bool:
    facts = position_facts(model.stack.positions)
    match facts:
        case NoPositionFacts():
            return True
        case AddedPositionFacts() | RotaryFacts() | DistanceBiasFacts() | DistanceVectorFacts():
            return False
        case UnknownFacts():
            return False
        case _:
            assert_never(facts)


def _differs_by_place(output: Tensor) -> bool:
    exact = output.dtype == torch.float64
    allowed = limit("POS001", "change") if exact else tolerance(output)
    return float(moved(output[None, :1].expand(1, len(output), -1), output[None]).max()) > allowed


def _spread(scores: Tensor) -> float:
    """The largest difference between two visible scores of one head, relative to their size."""
    is_visible = visible(scores)
    high = scores.masked_fill(~is_visible, -torch.inf).flatten(-2).amax(dim=-1)
    low = scores.masked_fill(~is_visible, torch.inf).flatten(-2).amin(dim=-1)
    size = scores.masked_fill(~is_visible, 0.0).abs().max().clamp_min(1e-30)
    return float(((high - low) / size).nan_to_num(0.0, 0.0, 0.0).max())


def _of_swapping(adapter: ModelAdapter) -> float:
    ids = adapter.random_ids(1)
    swapped = ids.clone()
    swapped[0, 0], swapped[0, 1] = ids[0, 1], ids[0, 0]
    pair = torch.cat((ids, swapped))
    output = adapter.outputs(pair)
    return float(moved(output[:1], output[1:])[0, -1])


def probe_rotary(adapter: ModelAdapter) -> list[Finding]:
    """Whether scores depend on the distance alone, where positions are rotary.

    With one token everywhere, the score of query i and key j must be that of i + 1 and j + 1.
    """
    if not _is_rotary(adapter) or adapter.length < 4:
        return []
    same = torch.full((1, adapter.length), adapter.vocab // 2, device=adapter.device)
    with adapter.awake():
        moves = _differs_by_place(adapter.outputs(same)[0])
        scores = scores_of(lambda: adapter.outputs(same), adapter.length)
    if moves:  # only what enters the first layer is known to be alike
        scores = scores[:1] if _softmax_first(adapter) else []
    worst = max(map(_shift, scores), default=0.0)
    rounded = any(b.dtype in HALF for b in adapter.model.buffers())
    if worst <= limit("POS002", "half" if rounded else "change"):
        return []
    return [
        build_finding(
            "POS002",
            "With one token written at every place, the score of two tokens changes when both "
            "are moved by the same distance.",
            evidence("POS002", "largest relative change of a score", worst),
        )
    ]


def _softmax_first(adapter: ModelAdapter) -> bool:
    if adapter.family != "pellucid":
        settings = cast("object", adapter.settings)
        named = [getattr(settings, name, None) for name in ("layer_types", "layers_block_type")]
        kinds = next((cast("list[str]", kinds) for kinds in named if kinds), ["attention"])
        # a recurrent or convolutional layer: what leaves it differs by place
        return "attention" in kinds[0] and kinds[0] != "linear_attention"
    first = cast("Block", cast("Transformer", adapter.model).stack.blocks[0])
    facts = attention_facts(first.attention)
    match facts:
        case SoftmaxAttentionFacts():
            return True
        case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
            return False
        case _:
            assert_never(facts)


def _shift(scores: Tensor) -> float:
    near, far = scores[..., :-1, :-1], scores[..., 1:, 1:]
    is_visible = visible(near) & visible(far)
    size = scores.masked_fill(~visible(scores), 0.0).abs().max().clamp_min(1e-30)
    return float((near - far).abs().masked_fill(~is_visible, 0.0).max() / size)


def _is_rotary(adapter: ModelAdapter) -> bool:
    if adapter.declared.rotary is not None:
        return adapter.declared.rotary
    if adapter.family == "pellucid":
        positions = cast("Transformer", adapter.model).stack.positions
        return isinstance(position_facts(positions), RotaryFacts)
    if getattr(adapter.settings, "alibi", False):
        return False
    setting_names = ("rope_theta", "rope_parameters", "rotary_pct", "rotary_emb_base")
    return any(getattr(adapter.settings, name, None) for name in setting_names)
