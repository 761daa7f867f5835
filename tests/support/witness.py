"""What torch itself was asked during a model's own forward pass: it knows nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


@dataclass
class Witness(TorchFunctionMode):
    """The weights of every attention, in the order of the pass: (heads, queries, keys)."""

    weights: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            self.weights.append(_fused(*args[:3], **kwargs))
        elif func is torch.softmax and args[0].ndim == 4:
            self.weights.append(result[0])
        return result


def _fused(q: Tensor, k: Tensor, v: Tensor, **said: Any) -> Tensor:
    groups = q.shape[1] // k.shape[1]
    scores = q.double() @ k.double().repeat_interleave(groups, dim=1).mT * said["scale"]
    if said["attn_mask"] is not None:
        scores = scores + said["attn_mask"].double()
    if said["is_causal"]:
        order = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~order, -torch.inf)
    return scores.softmax(-1)[0]
