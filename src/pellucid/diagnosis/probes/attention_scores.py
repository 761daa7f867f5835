"""The scores of attention, listened to from outside: whatever module computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax, torch.nn.functional.softmax}


class _Listening(TorchFunctionMode):
    def __init__(self, time: int) -> None:
        super().__init__()
        self.time = time
        self.heard: list[Tensor] = []
        self.inside = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        if not self.inside:
            self.inside = True  # softmax within softmax is one
            try:
                self._hear(func, args, keywords)
            finally:
                self.inside = False
        return func(*args, **keywords)

    def _hear(
        self, func: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        if func is F.scaled_dot_product_attention:
            scores = _of_fused(args, keywords)
        elif func in _SOFTMAX:
            scores = cast("Tensor", args[0] if args else keywords["input"])
        else:
            return
        if scores.ndim >= 3 and scores.shape[-2:] == (self.time, self.time):
            self.heard.append(scores.detach().double())


def _of_fused(args: tuple[Any, ...], keywords: dict[str, Any]) -> Tensor:
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    arguments = dict(zip(names, args, strict=False)) | keywords
    q, k = arguments["query"].double(), arguments["key"].double()
    if q.ndim == 4 and k.shape[1] != q.shape[1]:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scale = arguments.get("scale")
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    mask = arguments.get("attn_mask")
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask
    if arguments.get("is_causal"):
        order = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~order, -torch.inf)
    return scores


def scores_of(call: Callable[[], Any], time: int) -> list[Tensor]:
    """The (..., time, time) scores of every attention that `call` computes, in their order.

    What is masked is minus infinity, or very negative where the model says it so.
    """
    with _Listening(time) as listening:
        call()
    return listening.heard


def visible(scores: Tensor) -> Tensor:
    """Which scores are not masked."""
    return torch.isfinite(scores) & (scores > -1e4)
