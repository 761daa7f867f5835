"""Fixes of what a loop feeds to its model: masks, positions and labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from pellucid.batches import IGNORED
from pellucid.diagnosis.fixes.loop.change import LoopChange, LoopFix
from pellucid.diagnosis.loop import Loop

_LABELS = ("labels", "y", "targets")
_IDS = ("input_ids", "ids", "x", "inputs")
_MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask", "padding_mask")
Relabel = Callable[[Tensor, Tensor | None], Tensor]


def _pad_id(loop: Loop) -> int | None:
    if loop.pad_id is not None:
        return loop.pad_id
    stated = getattr(getattr(loop.model, "config", None), "pad_token_id", None)
    return stated if isinstance(stated, int) else None


def _drop_positions(loop: Loop, steps: int) -> LoopChange | None:
    def arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in kwargs.items() if name != "position_ids"}

    return LoopChange(
        code="leave position_ids out: the model counts positions itself", arguments=arguments
    )


def _padding_mask(loop: Loop, steps: int) -> LoopChange | None:
    """1 for tokens and 0 for padding, from the ids."""
    pad = _pad_id(loop)
    if pad is None:
        return None

    def arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
        ids = kwargs.get("input_ids")
        if not isinstance(ids, Tensor):
            return kwargs
        mask = (ids != pad).long()
        mask[:, 0] = 1  # a row of nothing but padding would have nothing to look at
        return kwargs | {"attention_mask": mask}

    return LoopChange(code=f"attention_mask=(input_ids != {pad}).long()", arguments=arguments)


def _turned_mask(loop: Loop, steps: int) -> LoopChange | None:
    """Each mask of (batch, time) the other way round."""

    def arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
        masks = {name: kwargs[name] for name in _MASKS if isinstance(kwargs.get(name), Tensor)}
        turned = {n: m.logical_not().to(m.dtype) for n, m in masks.items() if m.ndim == 2}
        return kwargs | turned

    return LoopChange(
        code="attention_mask = 1 - attention_mask  # 1 for tokens, 0 for padding",
        arguments=arguments,
    )


class _CausalMode(TorchFunctionMode):
    """Adds the causal mask to torch's attention over one sequence."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        arguments: dict[str, Any] = dict(kwargs or {})
        if func is not F.scaled_dot_product_attention:
            return func(*args, **arguments)
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        arguments = dict(zip(names, args, strict=False)) | arguments
        query, key, mask = arguments["query"], arguments["key"], arguments.get("attn_mask")
        if query.shape[-2] != key.shape[-2]:
            return func(**arguments)
        if mask is None:
            return func(**arguments | {"is_causal": True})
        past = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
        past = past.tril()
        masked = mask & past if mask.dtype == torch.bool else mask.masked_fill(~past, -torch.inf)
        return func(**arguments | {"attn_mask": masked})


def _causal_mask(loop: Loop, steps: int) -> LoopChange | None:
    return LoopChange(
        code="F.scaled_dot_product_attention(..., is_causal=True) in each attention",
        forward=_CausalMode,
        moves_targets=True,
    )


def _relabelled(batch: Any, relabel: Relabel) -> Any:
    """A batch with other labels; as it was if pellucid does not find them."""
    if isinstance(batch, Mapping):
        table = cast("Mapping[str, Any]", batch)
        label = next((name for name in _LABELS if isinstance(table.get(name), Tensor)), None)
        ids = next((table[name] for name in _IDS if isinstance(table.get(name), Tensor)), None)
        return table if label is None else {**table, label: relabel(table[label], ids)}
    if isinstance(batch, tuple | list):
        parts = cast("Sequence[Any]", batch)
        if len(parts) == 2 and all(isinstance(part, Tensor) for part in parts):
            return (parts[0], relabel(parts[1], parts[0]))
        return parts
    return batch


def _labels(code: str, relabel: Callable[[Loop], Relabel | None]) -> LoopFix:
    """Other labels: in the batches of the loop, or in the calls of a loop that trains itself."""

    def fix(loop: Loop, steps: int) -> LoopChange | None:
        change = relabel(loop)
        if change is None:
            return None

        def alter(batch: Any) -> Any:
            return _relabelled(batch, change)

        hook: dict[str, Any] = {"batch" if loop.train is None else "arguments": alter}
        return LoopChange(code=code, moves_targets=True, **hook)

    return fix


def _ignore_padding(loop: Loop) -> Relabel | None:
    pad = _pad_id(loop)
    return None if pad is None else lambda labels, ids: labels.masked_fill(labels == pad, IGNORED)


CALL_FIXES: Mapping[str, LoopFix] = {
    "drop_positions": _drop_positions,
    "padding_mask": _padding_mask,
    "turned_mask": _turned_mask,
    "causal_mask": _causal_mask,
    "shift_labels": _labels(
        "labels = F.pad(labels[:, 1:], (0, 1), value=-100)  # each token's target is the next one",
        lambda loop: lambda labels, ids: F.pad(labels[:, 1:], (0, 1), value=IGNORED),
    ),
    "labels_back": _labels(
        "labels = input_ids  # your model moves them itself",
        lambda loop: lambda labels, ids: F.pad(labels[:, :-1], (1, 0), value=IGNORED),
    ),
    "ignore_padding": _labels("labels[labels == pad_id] = -100", _ignore_padding),
}
