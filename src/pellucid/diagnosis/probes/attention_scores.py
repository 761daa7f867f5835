"""Record the scores of attention from outside, whichever module computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

_SOFTMAX = {torch.softmax, F.softmax, Tensor.softmax, torch.nn.functional.softmax}


class _ScoreRecorder(TorchFunctionMode):
    def __init__(self, time: int) -> None:
        super().__init__()
        self.time = time
        self.scores: list[Tensor] = []
        self.is_nested = False

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        if not self.is_nested:
            self.is_nested = True  # a softmax may call another softmax
            try:
                self._record(func, args, keywords)
            finally:
                self.is_nested = False
        return func(*args, **keywords)

    def _record(
        self, func: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        if func is F.scaled_dot_product_attention:
            scores = _of_fused(args, keywords)
        elif func in _SOFTMAX:
            scores = cast("Tensor", args[0] if args else keywords["input"])
        else:
            return
        if scores.ndim >= 3 and scores.shape[-2:] == (self.time, self.time):
            self.scores.append(scores.detach().double())


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
    """The (..., time, time) scores of every attention that `call` computes, in order.

    Masked scores are minus infinity, or the very negative number that the model uses.
    """
    with _ScoreRecorder(time) as recorder:
        call()
    return recorder.scores


def visible(scores: Tensor) -> Tensor:
    """True for the scores that are not masked."""
    return torch.isfinite(scores) & (scores > -1e4)
