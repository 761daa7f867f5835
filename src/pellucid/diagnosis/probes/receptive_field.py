"""Probes of the receptive field, and of positions."""

from __future__ import annotations

from typing import assert_never, cast

import torch
from torch import Tensor, nn

from pellucid.diagnosis.finding import Finding, describe, limit
from pellucid.diagnosis.model_adapter import HALF, ModelAdapter
from pellucid.diagnosis.probes.attention_scores import scores_of, visible
from pellucid.diagnosis.probes.leakage import relative_change, tolerance
from pellucid.model import Block, Transformer
from pellucid.model.facts import (
    AddedPositionFacts,
    DisentangledFacts,
    DistanceBiasFacts,
    DistanceVectorFacts,
    LatentAttentionFacts,
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
    """Whether every token in the window influences the last output."""
    reach = _declared_reach(adapter)
    if reach is None or adapter.length < 3:
        return []
    ids = adapter.random_ids(1)
    time = ids.shape[1]
    diagonal = torch.eye(time, dtype=torch.bool, device=ids.device)
    variants = torch.where(diagonal, adapter.changed_ids(ids), ids)
    with adapter.awake():
        original = adapter.outputs(ids.expand(time, -1).contiguous())
        influence = relative_change(original, adapter.outputs(variants))[:, -1]
    first = max(0, time - reach)
    # rounding in float64 is a thousand times smaller than the limit
    least = limit("ATT005", "influence") if original.dtype == torch.float64 else 0.0
    blind = [k for k in range(first, time) if float(influence[k]) <= least]
    if not blind:
        return []
    is_range = blind == list(range(blind[0], blind[-1] + 1))
    return [
        describe(
            "ATT005",
            n=len(blind),
            total=time - first,
            positions=f"{blind[0]} to {blind[-1]}" if is_range else ", ".join(map(str, blind)),
            cause="not connected" if len(blind) == time - 1 else "reshaped",
        )
    ]


def _declared_reach(adapter: ModelAdapter) -> int | None:
    """How many tokens the last output should see, itself included; None: unknown."""
    if adapter.declared.window is not None:
        return adapter.declared.window
    if adapter.transformer is not None:
        return _stated_reach(adapter.transformer, adapter.length)
    settings = adapter.settings
    widths = getattr(settings, "attention_window", None)
    if isinstance(widths, list) and not adapter.has_encoder_and_decoder:  # half before, half after
        return _total_reach([width // 2 + 1 for width in cast("list[int]", widths)], adapter.length)
    window, kinds = (
        getattr(settings, "sliding_window", None),
        getattr(settings, "layer_types", None),
    )
    if not isinstance(window, int):
        return adapter.length
    if not kinds:
        depth = getattr(settings, "num_hidden_layers", 1)
        return _total_reach([window] * depth, adapter.length)
    if not isinstance(kinds, list | tuple):
        return adapter.length
    is_sliding = [kind == "sliding_attention" for kind in cast("list[str]", kinds)]
    return _total_reach([window if sliding else None for sliding in is_sliding], adapter.length)


def _stated_reach(model: Transformer, length: int) -> int | None:
    windows: list[int | None] = []
    for block in model.stack.blocks:
        facts = attention_facts(cast("Block", block).attention)
        match facts:
            case SoftmaxAttentionFacts():
                windows.append(facts.window)
            case LatentAttentionFacts() | LinearAttentionFacts():
                windows.append(None)
            case NeuralMemoryFacts():
                return None  # its memory learns what to keep of a chunk
            case UnknownFacts():
                return None
            case _:
                assert_never(facts)
    return _total_reach(windows, length)


def _total_reach(windows: list[int | None], length: int) -> int:
    """The reach through all layers; a window of None sees all tokens."""
    if not windows or any(window is None for window in windows):
        return length
    return 1 + sum(cast("int", window) - 1 for window in windows)


def probe_positions(adapter: ModelAdapter) -> list[Finding]:
    """Whether the model knows the order of tokens.

    With the same token at every position, only positions can make states or scores differ. If the
    model shows no scores, the probe swaps two tokens.
    """
    if adapter.declared.no_positions or adapter.length < 4:
        return []
    if adapter.transformer is not None and _has_none_by_design(adapter.transformer):
        return []
    ids = torch.full((1, adapter.length), adapter.vocab // 2, device=adapter.device)
    with adapter.awake():
        if _differs_by_position(adapter.outputs(ids)[0]):
            return []
        scores = scores_of(lambda: adapter.outputs(ids), adapter.length)
        if any(_spread(score) > limit("POS001", "change") for score in scores):
            return []
        change = 0.0 if scores else _change_of_swap(adapter)
    return [] if change > limit("POS001", "change") else [describe("POS001", change=change)]


def _has_none_by_design(model: Transformer) -> bool:
    stack = model.stack
    return all(map(_orders_nothing, map(stack.positions.for_layer, range(len(stack.blocks)))))


def _orders_nothing(positions: nn.Module) -> bool:
    facts = position_facts(positions)
    match facts:
        case NoPositionFacts():
            return True
        case AddedPositionFacts() | RotaryFacts() | DistanceBiasFacts() | DistanceVectorFacts():
            return False
        case DisentangledFacts() | UnknownFacts():
            return False
        case _:
            assert_never(facts)


def _differs_by_position(output: Tensor) -> bool:
    exact = output.dtype == torch.float64
    allowed = limit("POS001", "change") if exact else tolerance(output)
    first = output[None, :1].expand(1, len(output), -1)
    return float(relative_change(first, output[None]).max()) > allowed


def _spread(scores: Tensor) -> float:
    """The largest difference between two visible scores of one head, relative to their size."""
    is_visible = visible(scores)
    high = scores.masked_fill(~is_visible, -torch.inf).flatten(-2).amax(dim=-1)
    low = scores.masked_fill(~is_visible, torch.inf).flatten(-2).amin(dim=-1)
    size = scores.masked_fill(~is_visible, 0.0).abs().max().clamp_min(1e-30)
    return float(((high - low) / size).nan_to_num(0.0, 0.0, 0.0).max())


def _change_of_swap(adapter: ModelAdapter) -> float:
    ids = adapter.random_ids(1)
    swapped = ids.clone()
    swapped[0, 0], swapped[0, 1] = ids[0, 1], ids[0, 0]
    output = adapter.outputs(torch.cat((ids, swapped)))
    return float(relative_change(output[:1], output[1:])[0, -1])


def probe_rotary(adapter: ModelAdapter) -> list[Finding]:
    """Whether rotary scores depend on the distance alone.

    With one token everywhere, the score of query i and key j must equal that between i + 1 and
    j + 1.
    """
    if not _is_rotary(adapter) or adapter.length < 4:
        return []
    ids = torch.full((1, adapter.length), adapter.vocab // 2, device=adapter.device)
    with adapter.awake():
        differs = _differs_by_position(adapter.outputs(ids)[0])
        scores = scores_of(lambda: adapter.outputs(ids), adapter.length)
    if differs:  # only the input of the first layer is known to be equal
        scores = scores[:1] if _begins_with_softmax(adapter) else []
    worst = max(map(_change_of_shift, scores), default=0.0)
    rounded = any(b.dtype in HALF for b in adapter.model.buffers())
    if worst <= limit("POS002", "half" if rounded else "change"):
        return []
    return [describe("POS002", worst=worst)]


def _begins_with_softmax(adapter: ModelAdapter) -> bool:
    if adapter.transformer is None:
        settings = cast("object", adapter.settings)
        lists = [getattr(settings, name, None) for name in ("layer_types", "layers_block_type")]
        kinds = next((cast("list[str]", kinds) for kinds in lists if kinds), ["attention"])
        # the outputs of a recurrent or convolutional layer differ by position
        return "attention" in kinds[0] and kinds[0] != "linear_attention"
    facts = attention_facts(cast("Block", adapter.transformer.stack.blocks[0]).attention)
    match facts:
        case SoftmaxAttentionFacts() | LatentAttentionFacts():
            return True
        case LinearAttentionFacts() | NeuralMemoryFacts() | UnknownFacts():
            return False
        case _:
            assert_never(facts)


def _change_of_shift(scores: Tensor) -> float:
    first, shifted = scores[..., :-1, :-1], scores[..., 1:, 1:]
    is_visible = visible(first) & visible(shifted)
    size = scores.masked_fill(~visible(scores), 0.0).abs().max().clamp_min(1e-30)
    return float((first - shifted).abs().masked_fill(~is_visible, 0.0).max() / size)


def _norms_rotated(block: Block) -> bool:
    """Whether gains scale queries and keys after their rotation, so that places matter."""
    facts = attention_facts(block.attention)
    match facts:
        case SoftmaxAttentionFacts(norms_after_rotation=after):
            return after
        case LatentAttentionFacts() | LinearAttentionFacts() | NeuralMemoryFacts():
            return False
        case UnknownFacts():
            return False
        case _:
            assert_never(facts)


def _is_rotary(adapter: ModelAdapter) -> bool:
    if adapter.declared.rotary is not None:
        return adapter.declared.rotary
    if adapter.transformer is not None:
        stack = adapter.transformer.stack
        rotates = isinstance(position_facts(stack.positions.for_layer(0)), RotaryFacts)
        return rotates and not any(_norms_rotated(cast("Block", block)) for block in stack.blocks)
    if getattr(adapter.settings, "alibi", False):
        return False
    setting_names = ("rope_theta", "rope_parameters", "rotary_pct", "rotary_emb_base")
    return any(getattr(adapter.settings, name, None) for name in setting_names)
